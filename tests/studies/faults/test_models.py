"""The models of the fault grid."""

from __future__ import annotations

import torch

from lamina.studies.faults.models import (
    LAYERS,
    LENGTH,
    SENTENCES,
    WORDS,
    PlainDecoder,
    PostNormLayer,
    plain_trial,
    sentences,
)


def test_sentences_follow_a_language() -> None:
    one, other = sentences(0), sentences(1)
    assert one.shape == (SENTENCES, LENGTH + 1)
    assert torch.equal(one, sentences(0))
    assert not torch.equal(one, other)
    assert one.min() > 0, "0 is padding"
    followers: dict[int, set[int]] = {}
    for row in (*one.tolist(), *other.tolist()):
        for word, following in zip(row, row[1:], strict=False):
            followers.setdefault(word, set()).add(following)
    assert max(map(len, followers.values())) <= 4


def test_the_decoder_is_causal_and_learns_the_next_word() -> None:
    trial = plain_trial()
    (tokens,) = trial.batch(0)
    logits = trial.model(tokens)
    assert logits.shape == (SENTENCES, LENGTH, WORDS)
    changed = tokens.clone()
    changed[:, -1] = 1
    assert torch.equal(trial.model(changed)[:, :-1], logits[:, :-1])
    assert len(trial.layers) == LAYERS
    assert PlainDecoder(PostNormLayer, 2)(tokens).shape == logits.shape
