"""The whole way: a model, a config or a run goes in, verdicts and a page come out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lamina
from lamina.diagnose.examine import describe
from lamina.diagnose.passes import record_pass
from lamina.diagnose.results import Diagnosis
from lamina.diagnose.thresholds import VerdictOptions
from lamina.errors import UserError
from lamina.train.diagnosis import Extent, diagnose_all, subjects_of
from lamina.train.runs import read_config, train
from small_models import Mixer

X = torch.randn(8, 5, 16, generator=torch.Generator().manual_seed(1))
RECORDED = {"gradient-by-layer", "gradient-along-stream", "gradient-at-norms", "stream-norms", "norm-jacobian"}
RECORDED |= {"hidden-change", "cosine-of-layers", "layer-dependency"}
OF_DEPTH = {"gradient-against-depth", "output-change"}
TINY = ["model.num_layers=2", "model.model_dim=16", "model.feed_forward_dim=32", "model.num_heads=2"]
SMALL_EXTENT = Extent(seeds=2, batches=2, tokens=60)


def encoder(num_layers: int = 2) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


def stack(seed: int, num_layers: int = 2) -> lamina.Stack:
    roles = {"*.inner": "inner", "*.outer": "outer"}
    return lamina.Stack([[Mixer(16)] for _ in range(num_layers)], model_dim=16, residual="resi-dual", roles=roles)


def same(one: Diagnosis, other: Diagnosis) -> bool:
    """Where there is nothing in a map stands NaN, which is not equal to itself."""
    return one.model_dump_json() == other.model_dump_json()


# In Python


def test_a_module_is_measured_over_batches(tmp_path: Path) -> None:
    report = lamina.diagnose(encoder(), X, batches=3)
    diagnosis = report.diagnosis
    assert (diagnosis.name, diagnosis.model) == ("TransformerEncoder", "2 TransformerEncoder, width 16")
    assert (diagnosis.spread_over, diagnosis.repeats) == ("batches", 3)
    assert {each.key for each in diagnosis.measures} == RECORDED
    assert {each.key for each in diagnosis.skipped} == OF_DEPTH | {"added-block"}
    assert "needs a config or a factory that takes num_layers" in diagnosis.skipped[-1].reason
    assert report["stream-norms"].measured[0].spread
    assert report.verdicts == diagnosis.verdicts
    assert report.verdicts
    for name in ("why.html", "why.md", "why.json"):
        report.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert same(Diagnosis.read(tmp_path / "why.json"), diagnosis)
    assert str(report).startswith("# Diagnosis: TransformerEncoder")


def test_a_factory_is_measured_over_seeds_and_against_depth() -> None:
    seen: list[tuple[str, int, int | None]] = []
    progress = lambda stage, done, total: seen.append((stage, done, total))  # noqa: E731
    diagnosis = lamina.diagnose(stack, X, seeds=2, name="mine", progress=progress).diagnosis
    assert (diagnosis.spread_over, diagnosis.repeats, diagnosis.schemes) == ("seeds", 2, ("resi-dual",))
    assert diagnosis.model == "2 Stack, width 16, resi-dual"
    assert {each.key for each in diagnosis.measures} == RECORDED | OF_DEPTH | {"added-block", "gradient-by-stream"}
    assert not diagnosis.skipped
    assert [each[1:] for each in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    report = lamina.diagnose(encoder(), X, name="caf\udce9")
    report.save(tmp_path / "why.json")
    assert Diagnosis.read(tmp_path / "why.json").name == "caf?"


def test_verdicts_go_by_the_thresholds_that_were_given() -> None:
    usual, strict = (
        lamina.diagnose(encoder(), X),
        lamina.diagnose(encoder(), X, thresholds=VerdictOptions(vanishing_warning=1e6)),
    )
    thresholds = [
        [each.threshold for each in report.verdicts if each.kind == "vanishing"] for report in (usual, strict)
    ]
    assert thresholds == [[VerdictOptions().vanishing_warning], [1e6]]
    assert [each.severity for each in strict.verdicts if each.kind == "vanishing"] != ["fine"]


def test_a_factory_without_a_depth_says_so() -> None:
    diagnosis = lamina.diagnose(lambda seed: encoder(), X, seeds=2).diagnosis
    assert diagnosis.spread_over == "seeds"
    assert {each.key for each in diagnosis.skipped} >= OF_DEPTH


def test_nothing_of_the_user_s_is_changed() -> None:
    model = encoder()
    model(X).sum().backward()
    weights = [parameter.clone() for parameter in model.parameters()]
    gradients = [parameter.grad for parameter in model.parameters()]
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    lamina.diagnose(model, X)
    assert torch.equal(torch.rand(2), expected)
    assert model.training
    assert all(map(torch.equal, model.parameters(), weights))
    assert all(one.grad is two for one, two in zip(model.parameters(), gradients, strict=True))


@pytest.mark.parametrize("subject", [encoder(), lambda: encoder()])
def test_the_same_numbers_come_again_and_the_random_state_is_kept(subject: Any) -> None:
    state = torch.get_rng_state()
    first, second = (lamina.diagnose(subject, X, seeds=2).diagnosis for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert same(first.model_copy(update={"seconds": 0.0}), second.model_copy(update={"seconds": 0.0}))


def test_the_room_and_the_function_share_a_name() -> None:
    import lamina.diagnose.results

    assert lamina.diagnose.results.Diagnosis is Diagnosis
    assert callable(lamina.diagnose)


def test_a_stack_whose_matrices_have_no_roles() -> None:
    def make(seed: int) -> lamina.Stack:
        return lamina.Stack([[Mixer(16)], [Mixer(16)]], model_dim=16, residual="resi-dual")

    assert {each.key for each in lamina.diagnose(make, X, seeds=2).diagnosis.measures} >= RECORDED


def test_descriptions() -> None:
    sizes = {"num_layers": (2, 3), "model_dim": 16, "num_heads": 2, "vocab_size": 40}
    model = lamina.Transformer.from_preset("iwslt", residual=("b2t", "pre-ln"), **sizes)
    ids = torch.randint(3, 40, (2, 5))
    record, _ = record_pass(model, lambda model: model(ids, ids, labels=ids).smoothed.mean())
    assert describe(model, record) == "2-3 encoder-decoder, width 16, b2t, pre-ln"


# Configs and runs


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small store, a config and a short run."""
    from lamina.data.prepare import prepare
    from lamina.data.sources import chosen_options

    folder = tmp_path_factory.mktemp("diagnosis")
    words = ["train=['translation:200']", "valid=['translation:20']", "test=['translation:20']", "tokenizer.size=400"]
    prepare(chosen_options("embedded-translation", words, {"output": str(folder / "store")}))
    text = f'task = "translation"\n[data]\nstore = "{folder / "store"}"\nmax_tokens = 400\n'
    text += '[model]\npreset = "iwslt"\nnum_layers = 2\nmodel_dim = 16\nfeed_forward_dim = 32\nnum_heads = 2\n'
    (folder / "own.toml").write_text(text + "[train]\nsteps = 4\nsamples = 0\n")
    train(read_config(folder / "own.toml", []), folder / "run", quiet=True)
    return folder


def test_a_config_is_measured_at_its_start(place: Path) -> None:
    (diagnosis,) = diagnose_all([str(place / "own.toml"), "model.residual=b2t"], SMALL_EXTENT)
    assert (diagnosis.name, diagnosis.schemes, diagnosis.step) == ("own", ("b2t",), None)
    assert diagnosis.model == "2-2 encoder-decoder, width 16, b2t"
    assert {each.key for each in diagnosis.measures} == RECORDED | OF_DEPTH | {"added-block"}


def test_a_config_has_its_own_thresholds(place: Path) -> None:
    (diagnosis,) = diagnose_all([str(place / "own.toml"), "diagnose.verdicts.vanishing_warning=1e6"], SMALL_EXTENT)
    assert {1e6} == {each.threshold for each in diagnosis.verdicts if each.kind == "vanishing"} - {0.1}


def test_a_run_is_measured_at_its_start_and_at_a_checkpoint(place: Path) -> None:
    start, trained = diagnose_all([str(place / "run")], SMALL_EXTENT)
    assert (start.step, start.spread_over) == (None, "seeds")
    assert (trained.step, trained.spread_over, trained.repeats) == (4, "batches", 2)
    kept = place / "run" / "diagnosis"
    assert same(Diagnosis.read(kept / "start.json"), start)
    assert same(Diagnosis.read(kept / "step-00000004.json"), trained)
    latest = subjects_of(place / "run", [], Extent(checkpoint="latest", tokens=60))[1]
    assert latest.step == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say what to diagnose"),
        (["model.dropout=0"], "say what to diagnose"),
        (["{place}/missing.toml"], "missing.toml: no such file"),
        (["{place}/own.toml", "model.residul=b2t"], "did you mean 'residual'"),
        (["{place}/store"], "neither a run folder .* nor a model .* there is dropped.json, manifest.json"),
        (["{place}/run", "model.dropout=0"], "a run is looked at as it was trained"),
    ],
)
def test_mistakes(words: list[str], message: str, place: Path) -> None:
    with pytest.raises(UserError, match=message):
        diagnose_all([word.format(place=place) for word in words], SMALL_EXTENT)


def test_a_run_that_is_half_written(place: Path, tmp_path: Path) -> None:
    import shutil

    half = tmp_path / "half"
    shutil.copytree(place / "run", half, symlinks=True)
    with pytest.raises(UserError, match="no checkpoint 'step-00000009'; there are: step-00000004"):
        diagnose_all([str(half)], Extent(checkpoint="step-00000009"))
    weights = half / "checkpoints" / "step-00000004" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"model.safetensors: damaged"):
        diagnose_all([str(half)], SMALL_EXTENT)
    shutil.rmtree(half / "checkpoints")
    with pytest.raises(UserError, match="no checkpoint 'best'; there are: none"):
        diagnose_all([str(half)], SMALL_EXTENT)
    (half / "status.json").unlink()
    with pytest.raises(UserError, match="neither a run folder"):
        diagnose_all([str(half)], SMALL_EXTENT)


TASK_CONFIGS = ["language-modelling", "masked-language-modelling", "classification"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASK_CONFIGS)
def test_every_kind_of_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smoke: Any = Path(__file__).parents[2] / "configs" / "smoke" / f"{name}.toml"
    monkeypatch.chdir(tmp_path)
    (diagnosis,) = diagnose_all([str(smoke), *TINY], SMALL_EXTENT)
    assert {each.key for each in diagnosis.measures} >= RECORDED
