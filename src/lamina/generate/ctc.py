"""Decoding by the CTC head, rescored by the decoder, for models of speech that were trained with a CTC loss.

    1.  CTC prefix beam search (Hannun et al. 2014) on the encoder's output finds the most probable outputs
    2.  each is scored by the decoder; they are ranked by  λ · ln P_CTC(y) + (1 − λ) · ln P_decoder(y)

An output's alignments to the frames are summed, so that P_CTC is its probability as the CTC loss has it. The decoder
need not learn the alignment itself, which takes more speech than a small corpus has (Zhang et al. 2020, two-pass
decoding).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lamina.data.packed import PackedField, to_tensors
from lamina.errors import UserError
from lamina.generate.decoder import Hypothesis
from lamina.generate.options import GenerateOptions
from lamina.model.models import EncoderDecoder
from lamina.model.sequences import Sequences

BLANK = 0
"""The entry of the blank, which is that of the padding token."""
CANDIDATES = 4
"""How many times as many tokens as hypotheses are considered at each frame."""

Prefix = tuple[int, ...]
"""The tokens of an output, or of its beginning."""


def search_ctc(
    model: EncoderDecoder,
    sources: Sequence[NDArray[np.float32]],
    limits: Sequence[int],
    options: GenerateOptions,
    *,
    bos: int,
    eos: int,
) -> list[list[Hypothesis]]:
    """The hypotheses of each utterance, best first; outputs have at most `limits` tokens, eos included."""
    if model.ctc_head is None:
        raise UserError("method = 'ctc' needs a model that was trained with task_options.ctc_weight above 0")
    packed = PackedField.of(sources)
    device = next(model.parameters()).device
    memory, sequences = model.encode(to_tensors(packed)[0].to(device), packed.lengths)
    frames = np.split(model.ctc_head(memory).double().cpu().numpy(), np.cumsum(sequences.counts)[:-1])
    memories = memory.split(sequences.counts.tolist())  # type: ignore[no-untyped-call]
    found = []
    for own, own_memory, limit in zip(frames, memories, limits, strict=True):
        if not np.isfinite(own).all():
            raise UserError("the model's scores are not finite: it has diverged; use an earlier checkpoint")
        outputs = search_prefixes(own, options.beam, limit - 1)
        by_ctc = np.array(list(outputs.values()))
        by_decoder = _decoder_scores(model, own_memory, list(outputs), bos, eos)
        scores = options.ctc_weight * by_ctc + (1 - options.ctc_weight) * by_decoder
        ranked = sorted(zip(outputs, scores.tolist(), by_decoder.tolist(), strict=True), key=lambda each: -each[1])
        found.append([Hypothesis(list(tokens), score, own) for tokens, score, own in ranked[: options.nbest]])
    return found


def search_prefixes(frames: NDArray[np.float64], beam: int, longest: int) -> dict[Prefix, float]:
    """The most probable outputs and their ln P_CTC, from log-probabilities of shape (frames, vocabulary).

    ends_blank, ends_token: ln of the total probability of the alignments of a prefix up to the present frame that end
    with the blank, and with the prefix's last token.
    """
    ends_blank: dict[Prefix, float] = {(): 0.0}
    ends_token: dict[Prefix, float] = {(): -np.inf}
    for frame in frames:
        tokens = np.argsort(-frame)[: max(2, CANDIDATES * beam)]
        next_blank: dict[Prefix, float] = defaultdict(lambda: -np.inf)
        next_token: dict[Prefix, float] = defaultdict(lambda: -np.inf)
        for prefix, blank in ends_blank.items():
            token = ends_token[prefix]
            total = np.logaddexp(blank, token)
            next_blank[prefix] = np.logaddexp(next_blank[prefix], total + frame[BLANK])
            if prefix:  # the last token goes on
                next_token[prefix] = np.logaddexp(next_token[prefix], token + frame[prefix[-1]])
            for candidate in tokens.tolist() if len(prefix) < longest else ():
                if candidate != BLANK:
                    # The same token again needs a blank in between.
                    before = blank if prefix and candidate == prefix[-1] else total
                    longer = (*prefix, candidate)
                    next_token[longer] = np.logaddexp(next_token[longer], before + frame[candidate])
        prefixes = dict.fromkeys([*next_blank, *next_token])
        totals = {prefix: float(np.logaddexp(next_blank[prefix], next_token[prefix])) for prefix in prefixes}
        possible = [prefix for prefix, total in totals.items() if total > -np.inf]
        kept = sorted(possible, key=lambda prefix: -totals[prefix])[:beam]
        ends_blank = {prefix: float(next_blank[prefix]) for prefix in kept}
        ends_token = {prefix: float(next_token[prefix]) for prefix in kept}
    return {prefix: float(np.logaddexp(ends_blank[prefix], ends_token[prefix])) for prefix in ends_blank}


def _decoder_scores(
    model: EncoderDecoder, memory: Tensor, outputs: Sequence[Prefix], bos: int, eos: int
) -> NDArray[np.float64]:
    """ln P_decoder of each output and eos, given the encoder's output for one utterance."""
    given = PackedField.of([bos, *tokens] for tokens in outputs)
    labels = PackedField.of([*tokens, eos] for tokens in outputs)
    ids, expected = (to_tensors(field)[0].to(memory.device) for field in (given, labels))
    repeated = Sequences(np.full(len(outputs), len(memory)), memory.device)
    sequences = Sequences(given.lengths, memory.device)
    hidden = model.decode(ids, sequences, memory.repeat(len(outputs), 1), repeated)
    nll = model.head.losses(hidden, model.output_table, expected, 0.0).nll.double().cpu().numpy()
    return -np.add.reduceat(nll, np.cumsum(given.lengths) - given.lengths)
