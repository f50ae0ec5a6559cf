"""Speech recognition: from recordings to a trained model that transcribes an audio file."""

from __future__ import annotations

from pathlib import Path

import jiwer
import numpy as np
import pytest
import soundfile
import torch

from lamina.data.catalogue import SOURCES
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.data.synthetic.speech import spoken_sentences
from lamina.errors import UserError
from lamina.model.options import ModelChoices
from lamina.model.transformer import Transformer
from lamina.tasks import build_task
from lamina.tasks.metrics import error_rates

SMALL = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 1, "front_end_channels": 8}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    sets = {"train": ["speech:24"], "valid": ["speech:6"], "test": {"clean": ["speech/clean:4"]}}
    folder = tmp_path_factory.mktemp("speech") / "store"
    return prepare(source_options(SOURCES["embedded-speech"], ".", str(folder), **sets))


def model_for(task: object, **choices: object) -> Transformer:
    return Transformer.build(task.model_options(ModelChoices.read({**SMALL, **choices}, where="test")))  # type: ignore[attr-defined]


def test_the_store_has_features_and_characters(store: Store) -> None:
    train = store["train"]
    assert train.tokens("audio", 0).shape == (train.lengths("audio")[0], 80)
    sentences = [text for _, text in spoken_sentences("train", 24)]
    assert [store.tokenizer("target").decode(train.tokens("target", at)) for at in range(24)] == sentences
    record = train.record.fields["audio"]
    whole, _ = train.gather("audio", np.arange(24))
    assert np.allclose(record.mean, whole.mean(axis=0), atol=1e-4)
    assert np.allclose(record.deviation, whole.std(axis=0), atol=1e-4)


def test_no_chunks_are_left_beside_a_finished_store(store: Store) -> None:
    assert [path.name for path in store.folder.parent.iterdir()] == ["store"]


@pytest.mark.parametrize("normalisation", ["utterance", "global", "none"])
def test_normalisation_and_masks(store: Store, normalisation: str) -> None:
    masks = {"frequency_width": 20, "time_width": 30}
    task = build_task("speech-recognition", store, {"normalisation": normalisation, "spec_augment": masks})
    batch = task.batches("train", task_order()).batch(0, 0)
    plain, noisy = task.inputs(batch).tensors["source"], task.inputs(batch, seed=3).tensors["source"]
    assert plain.dtype == noisy.dtype == torch.float32
    changed = plain != noisy
    assert changed.any()
    assert (noisy[changed] == 0).all()
    assert torch.equal(noisy, task.inputs(batch, seed=3).tensors["source"])
    if normalisation == "utterance":
        first = plain[: batch["audio"].lengths[0]]
        assert first.mean(0).abs().max() < 1e-4


def task_order():  # type: ignore[no-untyped-def]
    from lamina.data.batches import OrderOptions

    return OrderOptions(max_tokens=1500, oversize="alone")


def test_the_loss_is_a_weighted_sum_of_cross_entropy_and_ctc(store: Store) -> None:
    losses = {}
    for weight in (0.0, 0.25, 1.0):
        task = build_task("speech-recognition", store, {"ctc_weight": weight})
        torch.manual_seed(0)
        model = model_for(task).eval()
        assert (model.ctc_head is not None) == (weight > 0)
        if weight:
            state = model.state_dict()
            kept = losses.setdefault("state", state)
            model.load_state_dict(kept)
        inputs = task.inputs(task.batches("train", task_order()).batch(0, 0))
        losses[weight] = task.losses(model, inputs).smoothed.item()
        if weight == 0.25:
            found = model(**inputs.arguments, labels=inputs.labels, smoothing=task.label_smoothing)
            expected = 0.75 * found.smoothed.sum() + 0.25 * found.ctc.sum()
            assert abs(losses[weight] - expected.item()) < 1e-2


def test_an_audio_file_is_transcribed_as_the_store_is(store: Store, tmp_path: Path) -> None:
    task = build_task("speech-recognition", store, {})
    model = model_for(task).eval()
    hypotheses, references = task.generate(model, "test/clean", 2000)
    sentences = list(spoken_sentences("test", 4, "clean"))
    assert references == [text for _, text in sentences]
    files = []
    for number, (sentence, _) in enumerate(sentences):
        files.append(str(tmp_path / f"{number}.flac"))
        soundfile.write(files[-1], sentence.samples(16_000), 16_000)
    assert [best.text for best, *_ in task.generate_text(model, files)] == hypotheses
    assert [found[0].text for found in task.generate_text(model, [files[1]], window=1)] == hypotheses[1:2]


def test_every_audio_file_that_cannot_be_read_is_named_before_the_first_is_transcribed(
    store: Store, tmp_path: Path
) -> None:
    task = build_task("speech-recognition", store, {})
    model = model_for(task).eval()
    good, empty = tmp_path / "good.wav", tmp_path / "empty.wav"
    (sentence, _), *_ = spoken_sentences("test", 1, "clean")
    soundfile.write(good, sentence.samples(16_000), 16_000)
    empty.touch()
    lines = [str(good), f"{tmp_path}/gone.wav", "", str(empty), str(tmp_path)]
    named = r"3 of 4 audio files .*line 2: .*gone\.wav \(no such file\); line 4: .*\(empty\); line 5: .*\(not a file\)"
    with pytest.raises(UserError, match=named):
        task.generate_text(model, lines, window=100)
    with pytest.raises(UserError, match=named):
        task.score_text(model, lines, ["a"] * 5)
    damaged = tmp_path / "damaged.wav"
    damaged.write_bytes(good.read_bytes()[:-100])
    found = task.generate_text(model, [str(good), str(damaged), str(good)], window=100)
    assert next(found), "what was read before a damaged file is transcribed"
    with pytest.raises(UserError, match=r"damaged\.wav: truncated"):
        next(found)


def test_error_rates_are_those_of_jiwer() -> None:
    given, wanted = ["a b  d", "e"], ["a b c", "e f"]
    rates = error_rates(given, wanted)
    assert rates == {"wer": 100 * jiwer.wer(wanted, ["a b d", "e"]), "cer": 100 * jiwer.cer(wanted, ["a b d", "e"])}
    assert rates["wer"] == pytest.approx(40.0)
    assert error_rates(["Yes, it is"], ["yes it is"], "lower-case, no punctuation")["wer"] == 0
    assert error_rates(["Yes, it is"], ["yes it is"])["wer"] > 0
