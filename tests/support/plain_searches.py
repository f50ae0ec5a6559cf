"""Searches as their definitions say: one sentence, whole passes without a cache, plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from lamina.generate.constraints import penalty
from lamina.generate.decoder import Model
from lamina.generate.options import GenerateOptions
from lamina.model.models import EncoderDecoder

BOS, EOS = 1, 2


Tokens = Sequence[int]


def log_probabilities(model: Model, source: Tokens, outputs: Sequence[Tokens], prefix: Tokens = ()) -> list[Tensor]:
    """The log-probabilities of every next word, for each output (length + 1, vocabulary)."""
    start = [BOS, *prefix] if isinstance(model, EncoderDecoder) else [BOS, *source, *prefix]
    lengths = [len(start) + len(output) for output in outputs]
    ids = torch.tensor([token for output in outputs for token in (*start, *output)])
    with torch.no_grad():
        if isinstance(model, EncoderDecoder):
            sources = torch.tensor([source] * len(outputs)).flatten()
            scores = model(sources, ids, source_lengths=[len(source)] * len(outputs), target_lengths=lengths)
        else:
            scores = model(ids, lengths=lengths)
    assert isinstance(scores, Tensor)
    return [each[len(start) - 1 :] for each in scores.double().log_softmax(-1).split(lengths)]


def totals(model: Model, source: Tokens, outputs: Sequence[Tokens], prefix: Tokens = ()) -> list[float]:
    """The log-probability of each output and its end."""
    found = log_probabilities(model, source, outputs, prefix)
    labels = [torch.tensor([*output, EOS])[:, None] for output in outputs]
    return [float(each.gather(1, label).sum()) for each, label in zip(found, labels, strict=True)]


def greedy(model: Model, source: Tokens, limit: int, prefix: Tokens = ()) -> list[int]:
    output: list[int] = []
    while len(output) < limit:
        best = int(log_probabilities(model, source, [output], prefix)[0][-1].argmax())
        if best == EOS:
            break
        output.append(best)
    return output


def exhaustive(model: Model, source: Tokens, limit: int, options: GenerateOptions) -> list[tuple[float, list[int]]]:
    """All outputs of at most `limit` words with their scores, best first."""
    words = [word for word in range(len(model.tables["source"].weight)) if word != EOS]
    outputs = [list(output) for length in range(limit + 1) for output in product(words, repeat=length)]
    scores = [
        total / penalty(len(output) + 1, options)
        for total, output in zip(totals(model, source, outputs), outputs, strict=True)
    ]
    return sorted(zip(scores, outputs, strict=True), reverse=True)


def beam(model: Model, source: Tokens, limit: int, options: GenerateOptions, prefix: Tokens = ()) -> list[list[int]]:
    """Beam search on lists, that stops when `beam` hypotheses have ended."""
    opened: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for length in range(limit + 1):
        following = log_probabilities(model, source, [output for _, output in opened], prefix)
        extensions = []
        for (so_far, output), words in zip(opened, following, strict=True):
            allowed = [EOS] if length == limit else range(words.shape[1])
            extensions += [(so_far + float(words[-1, word]), [*output, word]) for word in allowed]
        extensions.sort(key=lambda each: each[0], reverse=True)
        best = extensions[: 2 * options.beam]
        for value, output in best[: options.beam]:
            if output[-1] == EOS:
                ended.append((value / penalty(len(output), options), output[:-1]))
        opened = [each for each in best if each[1][-1] != EOS][: options.beam]
        if len(ended) >= options.beam:
            break
    return [output for _, output in sorted(ended, key=lambda each: each[0], reverse=True)]
