"""Language models, encoders with heads, embeddings."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import lamina
from lamina import UserError, residual
from lamina.model.embedding import AdaptiveTable, Sinusoids
from lamina.model.heads import AdaptiveHead
from lamina.model.sequences import Sequences

SMALL = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "vocab_size": 40, "dropout": 0.0, "num_layers": 2}
TOKENS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0], [11, 12, 13, 14, 0]])
REAL = TOKENS != 0


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
def test_language_model_padded_packed_and_token_by_token(positions: str) -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="decoder", positions=positions, **SMALL).eval()
    padded = model(TOKENS)
    packed = model(TOKENS[REAL], lengths=REAL.sum(1))
    torch.testing.assert_close(padded[REAL], packed, atol=1e-5, rtol=1e-5)
    cache = model.new_cache(3, capacity=5)
    first = model.step(TOKENS[:, :2].flatten(), [2, 2, 2], cache)
    torch.testing.assert_close(first.view(3, 2, -1), padded[:, :2], atol=1e-5, rtol=1e-5)
    second = model.step(TOKENS[:, 2], [1, 1, 1], cache)
    torch.testing.assert_close(second, padded[:, 2], atol=1e-5, rtol=1e-5)


def test_a_causal_model_does_not_look_ahead_and_an_encoder_does() -> None:
    changed = TOKENS.clone()
    changed[0, 3] = 30
    for kind, looks_ahead in (("decoder", False), ("encoder", True)):
        model = lamina.Transformer.from_preset("iwslt", kind=kind, **SMALL).eval()
        same = torch.equal(model(TOKENS)[0, :3], model(changed)[0, :3])
        assert same is not looks_ahead


def test_losses_equal_the_cross_entropy_of_the_scores() -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="decoder", **SMALL).eval()
    labels = torch.where(REAL, TOKENS + 1, 0)
    losses = model(TOKENS, labels=labels, smoothing=0.1)
    scores, targets = model(TOKENS)[REAL], labels[REAL]
    for actual, smoothing in ((losses.smoothed, 0.1), (losses.nll, 0.0)):
        expected = nn.functional.cross_entropy(scores, targets, label_smoothing=smoothing, reduction="none")
        torch.testing.assert_close(actual, expected)


def test_tied_tables_are_one_parameter_and_saved_once() -> None:
    tied = lamina.Transformer.from_preset("iwslt", **SMALL)
    assert list(tied.tables) == ["source"]
    sizes = {}
    for shared in ("all", "decoder", "none"):
        sizes[shared] = lamina.Transformer.from_preset("iwslt", shared_embeddings=shared, **SMALL).num_parameters()
    assert sizes["decoder"] - sizes["all"] == sizes["none"] - sizes["decoder"] == 40 * 16


def test_masked_word_head_looks_only_where_it_is_told() -> None:
    bert = lamina.Transformer.from_preset("bert-base", **SMALL).eval()
    segments = torch.where(torch.arange(5) < 2, 0, 1).expand(3, -1) * REAL
    everything = bert(TOKENS, segments=segments)
    only = torch.tensor([0, 4, 9])
    torch.testing.assert_close(bert(TOKENS, segments=segments, only=only), everything[REAL][only])
    labels = torch.tensor([5, 6, 7])
    expected = nn.functional.cross_entropy(everything[REAL][only], labels, reduction="none")
    torch.testing.assert_close(bert(TOKENS, segments=segments, only=only, labels=labels).smoothed, expected)
    assert not torch.allclose(bert(TOKENS), everything), "segments take part"


def test_class_head_reads_the_first_token_of_each_sequence() -> None:
    model = lamina.Transformer.from_preset("bert-base", head="classes", num_classes=3, **SMALL).eval()
    scores = model(TOKENS)
    assert scores.shape == (3, 3)
    hidden, sequences = model.hidden(TOKENS)
    assert sequences.first.tolist() == [0, 5, 8]
    torch.testing.assert_close(scores, model.head(hidden[[0, 5, 8]]))


def test_sinusoids_are_the_papers() -> None:
    sequences = Sequences([3])
    table = Sinusoids(7)(sequences.positions, sequences.longest, like=torch.zeros(1))
    for position in range(3):
        for channel in range(7):
            angle = position / 10000 ** (2 * (channel // 2) / 7)
            expected = math.cos(angle) if channel % 2 else math.sin(angle)
            assert table[position, channel].item() == pytest.approx(expected, abs=1e-6)


def test_embeddings_start_as_the_spec_says() -> None:
    model = lamina.Transformer.from_preset("iwslt", **(SMALL | {"model_dim": 64, "vocab_size": 2000}))
    table = model.tables["source"].weight
    assert not table[0].any()
    assert table[1:].std().item() == pytest.approx(64**-0.5, rel=0.02)
    ids, sequences = torch.tensor([5]), Sequences([1])
    embedded = model.source_embedding(model.tables["source"], ids, sequences)
    at_zero = torch.tensor([0.0, 1.0]).repeat(32)  # sin 0, cos 0, …
    torch.testing.assert_close(embedded[0], 8 * table[5] + at_zero)


def test_too_long_for_learned_positions() -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="decoder", positions="learned", max_length=4, **SMALL)
    with pytest.raises(UserError, match="5 tokens is longer than the 4 learned positions"):
        model(TOKENS)


def test_an_encoder_cannot_be_decoded_token_by_token() -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="encoder", **SMALL)
    with pytest.raises(UserError, match="only a causal model"):
        model.step(torch.tensor([1]), [1], model.new_cache(1, 3))


@pytest.mark.usefixtures("float64")
def test_adaptive_softmax_equals_torchs_with_the_same_weights() -> None:
    table, head = AdaptiveTable(20, 8, (5, 12), factor=2), AdaptiveHead(8, num_bands=3)
    torchs = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 12], div_value=2.0)
    first, *rest = table.bands
    with torch.no_grad():
        torchs.head.weight[:5] = first.table.weight @ first.projection.weight.T
        torchs.head.weight[5:] = head.band_scores.weight
        for tail, band in zip(torchs.tail, rest, strict=True):
            tail[0].weight.copy_(band.projection.weight.T)
            tail[1].weight.copy_(band.table.weight)
    hidden, targets = torch.randn(30, 8), torch.arange(30) % 20
    torch.testing.assert_close(head(hidden, table), torchs.log_prob(hidden))
    torch.testing.assert_close(head.losses(hidden, table, targets).nll, -torchs(hidden, targets).output)
    torch.testing.assert_close(head(hidden, table).exp().sum(1), torch.ones(30))
    with pytest.raises(UserError, match="label smoothing"):
        head.losses(hidden, table, targets, smoothing=0.1)


@pytest.mark.usefixtures("float64")
def test_adaptive_input_looks_each_word_up_in_its_band() -> None:
    table = AdaptiveTable(20, 8, (5, 12), factor=2)
    assert [band.table.weight.shape for band in table.bands] == [(5, 8), (7, 4), (8, 2)]
    ids = torch.tensor([0, 4, 5, 11, 12, 19])
    for word, row in zip(ids.tolist(), table(ids), strict=True):
        band = table.bands[0 if word < 5 else 1 if word < 12 else 2]
        torch.testing.assert_close(row, band.projection(band.table.weight[word - band.low]))


def test_adaptive_language_model_trains_all_bands() -> None:
    sizes = SMALL | {"vocab_size": 40, "adaptive_cutoffs": (6, 14)}
    model = lamina.Transformer.from_preset("lm", **sizes)
    losses = model(TOKENS, labels=torch.where(REAL, TOKENS + 20, 0) % 40).smoothed
    scores = model(TOKENS)
    assert scores.shape == (3, 5, 40)
    losses.mean().backward()
    assert all(parameter.grad is not None for parameter in model.tables.parameters())


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu", "linear"])
@pytest.mark.parametrize("norm", [{"kind": "rms"}, {"kind": "layer", "bias": False, "eps": 1e-6}])
def test_modern_parts_work_together(activation: str, norm: dict[str, object]) -> None:
    model = lamina.Transformer.from_preset(
        "iwslt",
        kind="decoder",
        activation=activation,
        norm=norm,
        num_kv_heads=1,
        positions="rotary",
        bias=False,
        **SMALL,
    )
    losses = model(TOKENS, labels=TOKENS).smoothed
    losses.sum().backward()
    assert losses.isfinite().all()
    assert not any(key.endswith("bias") for key, _ in model.stack.named_parameters())


@pytest.mark.parametrize("name", residual.names())
def test_same_seed_same_weights(name: str) -> None:
    states = []
    for _ in range(2):
        torch.manual_seed(8)
        states.append(lamina.Transformer.from_preset("iwslt", residual=name, **SMALL).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize("adaptive", [(), (6, 14)])
def test_losses_are_computed_in_single_precision_under_autocast(adaptive: tuple[int, ...]) -> None:
    model = lamina.Transformer.from_preset("lm", **(SMALL | {"vocab_size": 40, "adaptive_cutoffs": adaptive})).eval()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        losses = model(TOKENS, labels=TOKENS).nll
        scores = model(TOKENS)[REAL].float()
    assert losses.dtype == torch.float32
    if not adaptive:
        expected = nn.functional.cross_entropy(scores, TOKENS[REAL], reduction="none")
        torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-5)


def test_mismatches_are_explained() -> None:
    pairs = lamina.Transformer.from_preset("iwslt", **SMALL)
    with pytest.raises(UserError, match="3 source and 2 target sequences"):
        pairs(TOKENS, TOKENS[:2])
    bare = lamina.Transformer.from_preset("iwslt", kind="decoder", head="none", **SMALL)
    with pytest.raises(UserError, match="with a head can be decoded"):
        bare.step(torch.tensor([1]), [1], bare.new_cache(1, 3))
    with pytest.raises(UserError, match="no word losses"):
        bare(TOKENS, labels=TOKENS)
    adaptive = lamina.Transformer.from_preset("lm", **(SMALL | {"vocab_size": 40, "adaptive_cutoffs": (6, 14)}))
    with pytest.raises(UserError, match="outside the vocabulary of 40"):
        adaptive(TOKENS + 39)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "encoder"])
def test_whole_models_run_on_the_meta_device(kind: str) -> None:
    with torch.device("meta"):
        model = lamina.Transformer.from_preset("iwslt", kind=kind, **SMALL)
    tokens = TOKENS.to("meta")
    scores = model(tokens, tokens) if kind == "encoder-decoder" else model(tokens)
    scores.sum().backward()
    assert scores.is_meta
