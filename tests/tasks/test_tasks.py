"""The tasks on the embedded languages: what a batch is, which loss, which metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lamina import UserError
from lamina.data.batches import OrderOptions
from lamina.data.packed import PackedField
from lamina.data.tokenizer import BOS, CLS, EOS, MASK, SEP
from lamina.generate.decoder import Hypothesis
from lamina.model.options import ModelChoices
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import Inputs, Task
from support.small_tasks import SMALL, model_for, store_of, task_of

ORDER = OrderOptions(max_tokens=300)
every_task = pytest.mark.parametrize("name", TASKS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


def first_inputs(task: Task, seed: int | None = None) -> Inputs:
    return task.inputs(task.batches("train", ORDER).batch(0, 0), seed=seed)


def rows(ids: torch.Tensor, lengths: np.ndarray) -> list[list[int]]:
    return [row.tolist() for row in PackedField(ids.numpy(), lengths).sequences()]


@every_task
def test_a_few_steps_bring_the_loss_down(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    model = model_for(task)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    before = task.total_losses(model, "valid")
    batches = task.batches("train", ORDER).forever()
    for _ in range(40):
        losses = task.losses(model.train(), task.inputs(next(batches), seed=1))
        optimiser.zero_grad()
        (losses.smoothed / losses.count).backward()
        optimiser.step()
    after = task.total_losses(model, "valid")
    assert before.count == after.count > 0
    factor = 1.01 if name == "classification" else 0.9  # what these pairs ask for takes longer to learn
    assert after.nll < factor * before.nll


@every_task
def test_losses_add_up_over_any_split_of_the_batch(name: str, folder: Path) -> None:
    """One process or several, one pass or accumulation: the same sums over the same true labels."""
    torch.set_default_dtype(torch.float64)
    try:
        task = task_of(name, folder)
        model = model_for(task)
        whole = task.losses(model, first_inputs(task))
        shares = [
            task.losses(model, task.inputs(task.batches("train", ORDER, rank=rank, processes=3).batch(0, 0)))
            for rank in range(3)
        ]
        assert sum(share.count for share in shares) == whole.count
        torch.testing.assert_close(sum(share.smoothed for share in shares), whole.smoothed, atol=1e-9, rtol=1e-10)
        torch.testing.assert_close(sum(share.nll for share in shares), whole.nll, atol=1e-9, rtol=1e-10)
    finally:
        torch.set_default_dtype(torch.float32)


@every_task
def test_noise_is_the_same_however_many_processes_share_a_batch(name: str, folder: Path) -> None:
    noisy = {} if name in ("masked-language-modelling", "classification") else {"word_dropout": 0.3}
    task = task_of(name, folder, **noisy)

    def tokens(inputs: Inputs) -> list[list[int]]:
        field = "source" if "source" in inputs.tensors else "tokens"
        lengths = inputs.lengths["source_lengths" if field == "source" else "lengths"]
        return rows(inputs.tensors[field], lengths)

    batches = task.batches("train", ORDER)
    one = tokens(task.inputs(batches.batch(2, 1), seed=5))
    two = [
        row
        for rank in range(2)
        for row in tokens(task.inputs(task.batches("train", ORDER, rank=rank, processes=2).batch(2, 1), seed=5))
    ]
    assert sorted(one) == sorted(two)
    if noisy:
        assert one != tokens(task.inputs(batches.batch(2, 1))), "noise is for training only"
        assert one == tokens(task.inputs(batches.batch(2, 1), seed=5))
        assert one != tokens(task.inputs(batches.batch(2, 1), seed=6))


@every_task
def test_evaluation_gives_the_metric_that_decides(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    found = task.evaluate(model_for(task), "valid")
    assert task.metric in found
    assert all(np.isfinite(value) for value in found.values())
    assert {"loss", "nll"} <= set(found)


@every_task
def test_the_task_decides_about_its_model(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    choices = ModelChoices.read({**SMALL, "preset": "theory", "residual": "b2t"}, where="test")
    options = task.model_options(choices)
    assert (options.residual, options.positions, options.model_dim) == ("b2t", "none", SMALL["model_dim"])
    assert options.vocab_size == len(task.store.tokenizer())
    assert (options.kind, options.head) == (task.model_kind, task.head) != ("encoder", "none"), "which the preset has"
    assert options.shared_embeddings == "all"
    assert options.num_segments == (2 if name == "classification" else 0)


def test_translation_has_its_ends_in_place(folder: Path) -> None:
    task = task_of("translation", folder)
    batch = task.batches("train", ORDER).batch(0, 0)
    inputs = task.inputs(batch)
    sources = rows(inputs.tensors["source"], inputs.lengths["source_lengths"])
    targets = rows(inputs.tensors["target"], inputs.lengths["target_lengths"])
    labels = rows(inputs.labels, inputs.lengths["target_lengths"])
    for plain, source in zip(batch["source"].sequences(), sources, strict=True):
        assert source == [*plain, EOS]
    for plain, target, label in zip(batch["target"].sequences(), targets, labels, strict=True):
        assert target == [BOS, *plain]
        assert label == [*plain, EOS]
    assert inputs.count == sum(map(len, labels))
    assert sum(max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)) <= 300


def test_translation_prints_the_signature_of_its_scores(folder: Path) -> None:
    for name in ("translation", "multilingual-translation"):
        assert "tok:13a" in task_of(name, folder).signatures()["bleu"]
        assert "tok:none" in task_of(name, folder, bleu="bleu-tok").signatures()["bleu"]


def test_padding_is_counted_where_it_is(folder: Path) -> None:
    """In attention scores alone: a grid of longest by longest for self-attention, target by source for cross."""
    task = task_of("translation", folder)
    inputs = first_inputs(task)
    source, target = inputs.lengths["source_lengths"], inputs.lengths["target_lengths"]
    assert len(inputs.tensors["source"]) == source.sum()
    computed, real = inputs.attention_cells()
    assert computed == len(source) * (source.max() ** 2 + target.max() ** 2 + source.max() * target.max())
    assert real == sum(s * s + t * t + s * t for s, t in zip(source.tolist(), target.tolist(), strict=True))
    assert 0 <= 1 - real / computed < 0.5, "batches hold sentences of like length"


@pytest.mark.parametrize(("name", "perfect"), [("translation", "bleu"), ("summarisation", "rougeL")])
def test_perfect_outputs_get_a_perfect_score(
    name: str, perfect: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(name, folder)
    answers = {
        (*task.store["valid"].tokens("source", at), EOS): task.store["valid"].tokens("target", at).tolist()
        for at in range(len(task.store["valid"]))
    }

    def oracle(model: object, sources: list[list[int]], *_: Any, **options: Any) -> list[list[Hypothesis]]:
        return [[Hypothesis(answers[tuple(source)], 0.0, 0.0)] for source in sources]

    monkeypatch.setattr("lamina.tasks.sequence_to_sequence.generate", oracle)
    assert task.evaluate(model_for(task), "valid")[perfect] == pytest.approx(100)


def test_multilingual_goes_both_ways_with_a_tag_for_the_target(folder: Path) -> None:
    task = task_of("multilingual-translation", folder)
    tokenizer = task.store.tokenizer()
    assert task.centre == "marn"
    assert [(each.source, each.target) for each in task.directions("train")] == [
        ("marn", "tuvo"),
        ("tuvo", "marn"),
        ("marn", "selu"),
        ("selu", "marn"),
    ]
    forwards, backwards, *_ = task.directions("train")
    joined = task.examples("train")
    assert np.array_equal(joined.tokens("source", 3), forwards.split.tokens("source", 3))
    assert np.array_equal(joined.tokens("source", 200 + 3), backwards.split.tokens("target", 3))
    inputs = first_inputs(task)
    starts = [row[0] for row in rows(inputs.tensors["source"], inputs.lengths["source_lengths"])]
    assert set(starts) <= {tokenizer.tag(language) for language in ("marn", "tuvo", "selu")}
    found = task.evaluate(model_for(task), "valid")
    names = ["marn-tuvo", "tuvo-marn", "marn-selu", "selu-marn"]
    scores = [found[f"bleu {name}"] for name in names]
    assert found["EX"] == pytest.approx((scores[0] + scores[2]) / 2)
    assert found["XE"] == pytest.approx((scores[1] + scores[3]) / 2)
    assert found["bleu"] == pytest.approx(sum(scores) / 4)


def test_temperature_draws_small_pairs_more_often(folder: Path) -> None:
    shares = {}
    for temperature in (1.0, 100.0):
        task = task_of("multilingual-translation", folder, temperature=temperature)
        drawn = np.concatenate(task.plan("train", ORDER).epoch(0)[:])
        shares[temperature] = float((drawn >= 400).mean())
    assert shares[1.0] == pytest.approx(0.2, abs=0.01)
    assert shares[100.0] == pytest.approx(0.5, abs=0.02)


def test_language_model_scores_every_token_once_with_and_without_context(folder: Path) -> None:
    totals = {}
    for context in (0, 40):
        task = task_of("language-modelling", folder, context=context)
        totals[context] = sum(inputs.count for _, inputs in task.every_batch(model_for(task), "valid", 300))
    split = task.store["valid"]
    assert totals[0] == totals[40] == int(split.lengths("text").sum()) + len(split)


def test_language_model_perplexity_by_hand(folder: Path) -> None:
    task = task_of("language-modelling", folder, block_length=10_000)
    model, split = model_for(task).eval(), task.store["valid"]
    stream = [EOS]
    for at in range(len(split)):
        stream += [*split.tokens("text", at).tolist(), EOS]
    with torch.no_grad():
        scores = model(torch.tensor([stream[:-1]]))[0].log_softmax(-1)
    nll = -scores.gather(1, torch.tensor(stream[1:])[:, None]).sum().item()
    found = task.evaluate(model, "valid")
    assert found["nll"] == pytest.approx(nll / (len(stream) - 1), rel=1e-4)
    texts = task.store.tokenizer().decode_batch(split.tokens("text", at) for at in range(len(split)))
    words = sum(len(text.split()) + 1 for text in texts)
    assert found["perplexity per word"] == pytest.approx(np.exp(nll / words), rel=1e-3)


def test_masking_hides_the_right_share_and_is_fixed_for_validation(folder: Path) -> None:
    task = task_of("masked-language-modelling", folder)
    specials = range(len(task.store.tokenizer().specials))
    hidden = words = masks = 0
    for batch in task.batches("train", ORDER).epoch(0):
        inputs = task.inputs(batch, seed=3)
        tokens, only = inputs.tensors["tokens"], inputs.tensors["only"]
        for row in rows(tokens, inputs.lengths["lengths"]):
            assert (row[0], row[-1]) == (CLS, SEP)
        assert not set(inputs.labels.tolist()) & set(specials)
        hidden += inputs.count
        masks += int((tokens[only] == MASK).sum())
        words += int((batch["target"].ids >= len(specials)).sum())
    assert hidden / words == pytest.approx(0.15, abs=0.02)
    assert masks / hidden == pytest.approx(0.8, abs=0.05)

    first, again = (task.inputs(task.batches("valid", ORDER).batch(0, 0)) for _ in range(2))
    assert torch.equal(first.tensors["tokens"], again.tensors["tokens"])


def test_classification_joins_the_two_sentences(folder: Path) -> None:
    task = task_of("classification", folder)
    batch = task.batches("train", ORDER).batch(0, 0)
    inputs = task.inputs(batch)
    segments = rows(inputs.tensors["segments"], inputs.lengths["lengths"])
    whole = rows(inputs.tensors["tokens"], inputs.lengths["lengths"])
    parts = zip(batch["first"].sequences(), batch["second"].sequences(), whole, segments, strict=True)
    for first, second, row, segment in parts:
        assert row == [CLS, *first, SEP, *second, SEP]
        assert segment == [0] * (len(first) + 2) + [1] * (len(second) + 1)
    assert inputs.labels.tolist() == batch["label"].ids.tolist()
    assert set(task.store.labels) == {"no", "yes"}


@pytest.mark.parametrize(
    ("name", "of", "options", "message"),
    [
        (
            "translation",
            "language-modelling",
            {},
            "task 'translation' reads the field 'source', but the store has text",
        ),
        ("classification", "translation", {}, "reads the field 'first'"),
        ("multilingual-translation", "translation", {}, "not named like a pair of languages"),
        ("translation", "translation", {"label_smothing": 0.1}, "did you mean 'label_smoothing'"),
        ("translation", "translation", {"bleu": "blue"}, "unknown value 'blue'; did you mean 'bleu'"),
        ("language-modelling", "language-modelling", {"block_length": 8, "context": 8}, "shorter than block_length"),
        ("multilingual-translation", "multilingual-translation", {"centre": "tuv"}, "did you mean 'tuvo'"),
        ("translatoin", "translation", {}, "unknown task 'translatoin'; did you mean 'translation'"),
    ],
)
def test_mistakes(name: str, of: str, options: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(UserError, match=message):
        build_task(name, store_of(of, folder), options)


@every_task
def test_calibration_takes_the_tasks_first_batch(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    model = model_for(task, residual="admin")
    inputs = first_inputs(task)
    with pytest.raises(UserError, match="ω is not set"):
        task.losses(model, inputs)
    task.calibrate(model, inputs)
    assert task.losses(model, inputs).smoothed.isfinite()


@every_task
def test_the_unigram_bound_is_the_cross_entropy_of_counting(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    labels = {"train": [], "valid": []}
    for split, found in labels.items():
        for part in task.store.sets(split):
            for at in range(len(task.store[part])):
                found += task.store[part].tokens(task.predicted, at).tolist() + ([task.end] if task.end else [])
    vocabulary = len(task.store.tokenizer())
    counts = np.bincount(labels["train"], minlength=vocabulary) + 1
    expected = -np.log(counts / counts.sum())[labels["valid"]].mean()
    assert task.unigram_nll("valid") == pytest.approx(expected)
