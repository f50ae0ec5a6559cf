"""Lamina's models in transformers: the same logits, losses and greedy outputs, with padding on either side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from lamina.errors import UserError
from support.varied_runs import texts_of, varied_run

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")

from lamina.interop.auto_models.folder import library_model, library_tokenizers  # noqa: E402
from lamina.interop.auto_models.models import LaminaForMaskedLM, LaminaForSequenceClassification  # noqa: E402

SCHEMES = ("pre-ln", "post-ln", "admin", "resi-dual", "b2t", "hyper-connections", "dlcl")


def both(run: Any) -> tuple[Any, Any]:
    return library_model(run), next(library_tokenizers(run))[1]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_translation(scheme: str, stores: Path) -> None:
    run = varied_run("translation", stores, residual=scheme)
    model, tokenizer = both(run)
    texts = texts_of(run)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    labels = torch.randint(7, 300, (len(texts), 9))
    labels[0, 5:] = -100
    found = model(**batch, labels=labels)
    target = torch.cat([torch.ones(len(texts), 1, dtype=torch.long), labels[:, :-1]], 1).clamp(min=0)
    lengths = batch["attention_mask"].sum(1)
    own = run.model(batch["input_ids"], target, source_lengths=lengths, target_lengths=[9] * len(texts))
    torch.testing.assert_close(found.logits, own, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found.loss, F.cross_entropy(own.flatten(0, 1), labels.flatten()))
    greedy = model.generate(**batch, num_beams=1, max_new_tokens=12)
    expected = run.generate(texts, beam=1, max_length=12)
    assert tokenizer.batch_decode(greedy, skip_special_tokens=True) == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("options", [{"positions": "learned", "max_length": 600}, {"positions": "rotary"}, {}])
def test_language_models(options: dict[str, Any], stores: Path) -> None:
    run = varied_run("language-modelling", stores, residual="resi-dual", num_kv_heads=1, **options)
    model, tokenizer = both(run)
    texts = [text[: 10 + 7 * at] for at, text in enumerate(texts_of(run))]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    assert not batch["attention_mask"][0, 0]  # padding on the left
    found = model(**batch, labels=batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100))
    own = run.model(batch["input_ids"][batch["attention_mask"].bool()], lengths=batch["attention_mask"].sum(1))
    torch.testing.assert_close(found.logits[batch["attention_mask"].bool()], own, atol=1e-6, rtol=1e-6)
    assert found.loss.isfinite()
    greedy = model.generate(**batch, do_sample=False, max_new_tokens=10)[:, batch["input_ids"].shape[1] :]
    expected = run.generate(texts, method="greedy", max_length=10)
    assert tokenizer.batch_decode(greedy, skip_special_tokens=True) == expected


def test_beams_are_those_without_cache(stores: Path) -> None:
    run = varied_run("translation", stores, residual="b2t", shared_embeddings="all")
    model, tokenizer = both(run)
    batch = tokenizer(texts_of(run), return_tensors="pt", padding=True)
    options = {"num_beams": 3, "max_new_tokens": 8}
    assert torch.equal(model.generate(**batch, **options), model.generate(**batch, **options, use_cache=False))


def test_masked_words(stores: Path) -> None:
    run = varied_run("masked-language-modelling", stores, residual="siamese")
    model, tokenizer = both(run)
    assert isinstance(model, LaminaForMaskedLM)
    batch = tokenizer(["one <mask> three", "four"], return_tensors="pt", padding=True)
    assert tokenizer.mask_token_id in batch["input_ids"][0].tolist()
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    found = model(**batch, labels=labels)
    own = run.model(batch["input_ids"], lengths=batch["attention_mask"].sum(1))
    torch.testing.assert_close(found.logits, own, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found.loss, F.cross_entropy(own.flatten(0, 1), labels.flatten()))


def test_classes_and_segments(stores: Path) -> None:
    run = varied_run("classification", stores, residual="deep-norm")
    model, tokenizer = both(run)
    assert isinstance(model, LaminaForSequenceClassification)
    assert list(model.config.id2label.values()) == list(run.task.store.labels)
    firsts = texts_of(run, 4)
    pairs = list(zip(firsts, reversed(firsts), strict=True))
    batch = tokenizer(*zip(*pairs, strict=True), return_tensors="pt", padding=True)
    found = model(**batch, labels=torch.tensor([0, 1, 0, 1])).logits.double().softmax(-1)
    expected = [list(each.probabilities.values()) for each in run.predict(pairs)]  # type: ignore[union-attr]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=1e-6, rtol=1e-6)
    assert batch["token_type_ids"].unique().tolist() == [0, 1]


def test_gradient_checkpointing_leaves_gradients_as_they_are(stores: Path) -> None:
    run = varied_run("translation", stores, residual="resi-dual", dropout=0.0)
    model, tokenizer = both(run)
    batch = tokenizer(texts_of(run), return_tensors="pt", padding=True)
    labels = torch.randint(7, 300, (6, 5))

    def gradient() -> torch.Tensor:
        model.zero_grad()
        model.train()(**batch, labels=labels).loss.backward()
        return model.transformer.tables["source"].weight.grad.clone()

    plain = gradient()
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    torch.testing.assert_close(gradient(), plain)
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing


def test_an_encoder_decoder_needs_a_target(stores: Path) -> None:
    model, tokenizer = both(varied_run("translation", stores, residual="b2t"))
    with pytest.raises(UserError, match="needs decoder_input_ids"):
        model(**tokenizer("word", return_tensors="pt"))
