"""Beam search against Hugging Face's `generate`, on a random model of the size of the Marian translation models
(with fewer words, for speed).

Both searches keep the best `beam` of the 2·beam best extensions and count an end among the first `beam` of them. The
same settings, theirs on the left:

    length_penalty=a          length_penalty_kind="power", length_penalty=a: |y|^a, |y| with the end in both
    early_stopping=True       stop="full": enough have ended
    early_stopping=False      stop="likely": the best open one, ended now, would not be among them
    early_stopping="never"    stop="certain": it cannot be, however it goes on
    max_new_tokens=n + 1      max_length=n: theirs counts the end
    min_new_tokens=n          min_length=n

At the limit they differ: theirs leaves a hypothesis without its end, or adds an end without its log-probability
(`forced_eos_token_id`); ours adds the end's log-probability. `EndAtLimit` makes theirs do the same.

Models differ in the order of channels only: Marian's positions are all sines, then all cosines, ours alternate. What
follows does not depend on the order, so the test reorders our table. Marian's `final_logits_bias` is zero, as ours has
none, and its decoder starts from the padding id.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lamina.generate.decoder import Hypothesis
from lamina.generate.options import GenerateOptions
from lamina.generate.search import generate
from lamina.model.embedding import Sinusoids
from lamina.model.transformer import Transformer
from support.twins import Twins, assert_close

pytestmark = pytest.mark.peers

WORDS, DIM, EOS, PADDING = 10_000, 512, 0, 9_999
LIMIT, BEAM = 12, 5
STOPS = {"full": True, "likely": False, "certain": "never"}


class Halves(Sinusoids):
    """Sines first, then cosines."""

    def forward(self, *arguments: Any, **keywords: Any) -> Tensor:
        alternating = super().forward(*arguments, **keywords)
        return torch.cat([alternating[..., 0::2], alternating[..., 1::2]], dim=-1)


class EndAtLimit:
    """The last of `LIMIT + 1` tokens is the end, at its own log-probability."""

    def __call__(self, ids: Tensor, log_probabilities: Tensor) -> Tensor:
        if ids.shape[1] <= LIMIT:  # the decoder's start is the first
            return log_probabilities
        only_end = torch.full_like(log_probabilities, -torch.inf)
        only_end[:, EOS] = log_probabilities[:, EOS]
        return only_end


@pytest.fixture(scope="module")
def twins(transformers: Any) -> Twins:
    torch.manual_seed(1)
    sizes = {"d_model": DIM, "encoder_layers": 6, "decoder_layers": 6, "vocab_size": WORDS}
    sizes |= {
        f"{side}_{size}": number
        for side in ("encoder", "decoder")
        for size, number in (("attention_heads", 8), ("ffn_dim", 2048))
    }
    config = transformers.MarianConfig(
        **sizes,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        eos_token_id=EOS,
        pad_token_id=PADDING,
        decoder_start_token_id=PADDING,
        forced_eos_token_id=None,
    )
    theirs = transformers.MarianMTModel(config).double().eval()
    ours = Transformer.from_preset("base", residual="post-ln", vocab_size=WORDS, padding_index=PADDING).double().eval()
    ours.source_embedding.positions = ours.target_embedding.positions = Halves(DIM)
    twins = Twins(ours, theirs)
    twins.module(ours.tables["source"], theirs.model.shared)
    for stack, other in ((ours.encoder, theirs.model.encoder), (ours.decoder, theirs.model.decoder)):
        for layer, marian in zip(stack.layers, other.layers, strict=True):
            pair_layer(twins, layer, marian)
    twins.equalise(noise=0.015)
    sharpen(ours, theirs)
    return twins


def pair_layer(twins: Twins, ours: Any, theirs: Any) -> None:
    names = ["self_attn", "encoder_attn"] if len(ours.sites) == 3 else ["self_attn"]
    *attentions, feed_forward = ours.sublayers
    *norms, last_norm = (site.norm for site in ours.sites)
    for name, attention, norm in zip(names, attentions, norms, strict=True):
        other = getattr(theirs, name)
        twins.attention(attention, other.q_proj, other.k_proj, other.v_proj, other.out_proj)
        twins.module(norm, getattr(theirs, f"{name}_layer_norm"))
    twins.module(feed_forward.inner, theirs.fc1)
    twins.module(feed_forward.outer, theirs.fc2)
    twins.module(last_norm, theirs.final_layer_norm)


@torch.no_grad()
def sharpen(ours: Any, theirs: Any) -> None:
    """Make some words likely, including the end, so that beams differ and hypotheses have many lengths.

    Random signs prevent a shared table from always scoring the last word highest.
    """
    signs = torch.randint(0, 2, (DIM,)) * 2 - 1
    end = theirs.model.shared.weight[EOS]
    for norm in (ours.decoder.layers[-1].sites[-1].norm, theirs.model.decoder.layers[-1].final_layer_norm):
        norm.weight.mul_(5 * signs)
        norm.bias.add_(12 * end / end.dot(end))


@pytest.fixture(scope="module")
def sources() -> list[list[int]]:
    words = torch.Generator().manual_seed(2)
    return [[*torch.randint(1, PADDING, (length,), generator=words).tolist(), EOS] for length in (3, 9, 6)]


def padded(sources: list[list[int]]) -> Tensor:
    rows = [torch.tensor(source) for source in sources]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


def their_beams(
    model: Any, sources: list[list[int]], nbest: int, **options: Any
) -> list[list[tuple[list[int], float]]]:
    ids = padded(sources)
    found = model.generate(
        input_ids=ids,
        attention_mask=(ids != PADDING).long(),
        num_beams=BEAM,
        num_return_sequences=nbest,
        do_sample=False,
        max_new_tokens=LIMIT + 1,
        logits_processor=[EndAtLimit()],
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    outputs = [
        (row[: row.index(EOS)], score)
        for row, score in zip(found.sequences[:, 1:].tolist(), found.sequences_scores.tolist(), strict=True)
    ]
    return [outputs[first : first + nbest] for first in range(0, len(outputs), nbest)]


def our_beams(model: Any, sources: list[list[int]], nbest: int, **options: Any) -> list[list[Hypothesis]]:
    given = GenerateOptions(beam=BEAM, nbest=nbest, max_length=LIMIT, **options)
    return list(generate(model, sources, given, bos=PADDING, eos=EOS))


def assert_same(ours: list[list[Hypothesis]], theirs: list[list[tuple[list[int], float]]]) -> None:
    assert [[each.tokens for each in nbest] for nbest in ours] == [[tokens for tokens, _ in nbest] for nbest in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        # Positions are in single precision in both, rounded differently; with one table, logits agree to 1e-12.
        assert [each.score for each in mine] == pytest.approx([score for _, score in other], rel=1e-4)


@torch.no_grad()
def test_logits(twins: Twins, sources: list[list[int]]) -> None:
    targets = torch.tensor([[PADDING, *source[:2]] for source in sources])
    ids = padded(sources)
    theirs = twins.theirs(input_ids=ids, attention_mask=(ids != PADDING).long(), decoder_input_ids=targets).logits
    lengths = [len(source) for source in sources]
    ours = twins.ours(ids, targets, source_lengths=lengths, target_lengths=[3] * len(sources))
    assert_close(ours, theirs, 1e-5)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.2])
def test_beams(twins: Twins, sources: list[list[int]], stop: str, length_penalty: float) -> None:
    theirs = their_beams(twins.theirs, sources, BEAM, length_penalty=length_penalty, early_stopping=STOPS[stop])
    ours = our_beams(twins.ours, sources, BEAM, length_penalty=length_penalty, stop=stop)
    assert_same(ours, theirs)
    assert len({len(each.tokens) for nbest in ours for each in nbest}) > 2, "lengths must differ for this to test much"


@pytest.mark.parametrize("nbest", [1, 3])
def test_best_of_a_beam(twins: Twins, sources: list[list[int]], nbest: int) -> None:
    theirs = their_beams(twins.theirs, sources, nbest, length_penalty=1.0, early_stopping=True)
    assert_same(our_beams(twins.ours, sources, nbest, length_penalty=1.0, stop="full"), theirs)


def test_least_length_and_repetitions(twins: Twins, sources: list[list[int]]) -> None:
    limits = {"length_penalty": 1.0}
    theirs = their_beams(
        twins.theirs, sources, BEAM, early_stopping=False, min_new_tokens=7, no_repeat_ngram_size=2, **limits
    )
    ours = our_beams(twins.ours, sources, BEAM, stop="likely", min_length=7, no_repeat_ngram=2, **limits)
    assert_same(ours, theirs)
    assert min(len(each.tokens) for nbest in ours for each in nbest) == 7
