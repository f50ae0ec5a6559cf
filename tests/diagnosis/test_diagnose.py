"""The whole way: a model, a config or a run goes in, verdicts and a page come out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lamina
from lamina.api import diagnose_paths
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.sample import Anatomy
from lamina.diagnosis.thresholds import VerdictOptions
from lamina.errors import UserError
from lamina.runs.diagnose import NO_CHECKPOINT, Extent, read_depths, subjects_of
from lamina.runs.runs import read_config, train
from lamina.training.checkpoint import storage as checkpoint
from support.small_models import Mixer

X = torch.randn(8, 5, 16, generator=torch.Generator().manual_seed(1))
RECORDED = {"gradient-by-layer", "gradient-along-stream", "gradient-at-norms", "stream-norms", "norm-jacobian"}
RECORDED |= {"hidden-change", "cosine-of-layers", "layer-dependency", "gradient-when-moved"}
OF_DEPTH = {"gradient-against-depth", "output-change"}
OF_TRAINING = {"adam-conditioning", "matrix-updates"}
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
    assert {each.key for each in diagnosis.skipped} == OF_DEPTH | OF_TRAINING | {"added-block"}
    assert "needs a config or a factory that takes num_layers" in diagnosis.skipped[-1].reason
    for key in OF_TRAINING:
        with pytest.raises(UserError, match=r"needs training: lamina.watch.*diagnose.every"):
            diagnosis[key]
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
    assert {each.key for each in diagnosis.skipped} == OF_TRAINING
    assert [each[1:] for each in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_gradient_against_depth_is_a_mean_over_all_batches() -> None:
    """Two batches whose losses have opposite signs leave nothing."""
    batches = [{"x": X[:4], "sign": sign} for sign in (1.0, -1.0)]

    class Signed(nn.Module):
        def __init__(self, num_layers: int) -> None:
            super().__init__()
            self.body = encoder(num_layers).eval()

        def forward(self, x: torch.Tensor, sign: float) -> dict[str, torch.Tensor]:
            return {"loss": sign * self.body(x).square()[..., 0].mean()}

    def power(given: Any) -> float:
        report = lamina.diagnose(lambda seed, num_layers=2: Signed(num_layers), given, seeds=1)
        return max(report["gradient-against-depth"].measured[0].y)

    assert power(batches) < 1e-3 * power(batches[:1])


def test_depths_can_be_chosen() -> None:
    report = lamina.diagnose(stack, X, seeds=1, depths=(5, 2))
    assert report["output-change"].measured[0].x == (2, 5)
    with pytest.raises(UserError, match=r"at least two numbers of layers, from 1 up, not \(3,\)"):
        lamina.diagnose(stack, X, depths=[3])
    with pytest.raises(UserError, match="from 1 up"):
        lamina.diagnose(stack, X, depths=[0, 3])


def test_a_batch_that_cannot_be_cut_leaves_a_note() -> None:
    cut, whole = (lamina.diagnose(encoder(), given).diagnosis for given in (X, X[:1]))
    assert not any("no spread" in note for note in cut.notes)
    assert any("one batch alone was looked at, so numbers have no spread" in note for note in whole.notes)
    assert all(not each.spread for measure in whole.measures for each in measure.measured)


def test_buffers_are_left_as_they_were() -> None:
    class Averaging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.norm = encoder(), nn.BatchNorm1d(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.body(x).flatten(0, 1))

    class Rebinding(Averaging):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(16))
            self.register_buffer("shared", torch.ones(1, 1).expand(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = 0.9 * self.mean + 0.1 * x.mean((0, 1)).detach()
            return super().forward(x)

    model = Rebinding().train()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert before
    lamina.diagnose(model, X)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())


def test_a_guard_in_the_loss_is_no_end_of_the_diagnosis() -> None:
    """The model is well; it is our moves that the guard does not like."""
    model = encoder().eval()
    usual = model(X).abs().max().item()

    def guarded(output: torch.Tensor) -> torch.Tensor:
        if output.abs().max() > usual + 1e-3:
            raise FloatingPointError("loss exploded")
        return output[..., 0].square().mean()

    report = lamina.diagnose(model, X, guarded, batches=1, rate=1e-3)
    with pytest.raises(UserError, match=r"with all weights moved by .* it raised FloatingPointError: loss exploded"):
        report["gradient-when-moved"]
    assert report["gradient-by-layer"]


def test_the_rate_is_judged_where_it_is_given() -> None:
    silent, told = (lamina.diagnose(encoder(), X, rate=rate) for rate in (None, 1e-3))
    assert "rate" not in {each.kind for each in silent.verdicts}
    (found,) = (each for each in told.verdicts if each.kind == "rate")
    assert found.spread is not None, "over batches"
    assert found.where == "stack"
    for bad in (0.0, -1e-3, float("nan")):
        with pytest.raises(UserError, match="rate is the highest learning rate, above 0, not"):
            lamina.diagnose(encoder(), X, rate=bad)


@pytest.mark.parametrize("number", [0, -1])
def test_no_seeds_and_no_batches(number: int) -> None:
    with pytest.raises(UserError, match=f"seeds is the number of models .* at least 1, not {number}"):
        lamina.diagnose(stack, X, seeds=number)
    with pytest.raises(UserError, match=f"batches is the number of pieces .* at least 1, not {number}"):
        lamina.diagnose(encoder(), X, batches=number)


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
    import lamina.diagnosis.results

    assert lamina.diagnosis.results.Diagnosis is Diagnosis
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
    found = Anatomy.of(model, record)
    assert found.description == "2-3 encoder-decoder, width 16, b2t, pre-ln"
    assert (found.schemes, found.sublayers_per_layer) == (("b2t", "pre-ln"), 2)
    assert found.placements == {"encoder": "post", "decoder": "pre"}


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
    (diagnosis,) = diagnose_paths([str(place / "own.toml"), "model.residual=b2t"], SMALL_EXTENT)
    assert (diagnosis.name, diagnosis.schemes, diagnosis.step) == ("own", ("b2t",), None)
    assert diagnosis.model == "2-2 encoder-decoder, width 16, b2t"
    assert {each.key for each in diagnosis.measures} == RECORDED | OF_DEPTH | {"added-block"}


def test_a_config_has_its_own_thresholds(place: Path) -> None:
    (diagnosis,) = diagnose_paths([str(place / "own.toml"), "diagnose.verdicts.vanishing_warning=1e6"], SMALL_EXTENT)
    assert {1e6} == {each.threshold for each in diagnosis.verdicts if each.kind == "vanishing"} - {0.1}


def test_a_config_is_judged_at_its_highest_rate_if_adam_trains_it(place: Path) -> None:
    def judged(*words: str) -> list[float]:
        (diagnosis,) = diagnose_paths([str(place / "own.toml"), *words], SMALL_EXTENT)
        return sorted(each.value for each in diagnosis.verdicts if each.kind == "rate")

    words = ["model.residual=post-ln", "model.num_layers=6"]
    low, high = judged(*words, "schedule.learning_rate=1e-3"), judged(*words, "schedule.learning_rate=1e-2")
    assert any(map(math.isfinite, low))
    assert high == pytest.approx([value / 10 for value in low])
    assert not judged(*words, "optimiser.name=sgd")


def test_a_run_is_measured_at_its_start_and_at_a_checkpoint(place: Path) -> None:
    start, trained = diagnose_paths([str(place / "run")], SMALL_EXTENT)
    assert (start.step, start.spread_over) == (None, "seeds")
    assert (trained.step, trained.spread_over, trained.repeats) == (4, "batches", 2)
    kept = place / "run" / "diagnosis"
    assert same(Diagnosis.read(kept / "start.json"), start)
    assert same(Diagnosis.read(kept / "step-00000004.json"), trained)
    *_, latest = subjects_of(place / "run", [], Extent(checkpoint="latest", tokens=60))
    assert latest.step == 4


def test_a_trained_run_is_judged_by_its_optimiser_s_state(place: Path) -> None:
    start, trained = diagnose_paths([str(place / "run")], SMALL_EXTENT)
    assert "conditioning" not in {each.kind for each in start.verdicts}
    judged = [each for each in trained.verdicts if each.kind == "conditioning"]
    assert [each.where.split()[0] for each in judged] == ["encoder", "decoder"]
    measure, config = trained["adam-conditioning"], read_config(place / "run", [])
    rate = config.schedule.learning_rate * 4 / config.schedule.warmup
    assert measure.facts["rate"] == pytest.approx(rate)
    assert measure.facts["eps"] == config.optimiser.eps
    state = checkpoint.load(place / "run" / "checkpoints" / "latest").optimiser
    matrices = [each for name, each in state.items() if name.endswith("exp_avg_sq") and each.dim() > 1]
    roots = [(0.98 * each.double() / (1 - 0.98**5)).sqrt() for each in matrices]  # a fifth step without gradient
    each = [rate * 0.1 / (1 - 0.9**5) / (root + config.optimiser.eps) for root in roots]
    assert measure.facts["κ"] == pytest.approx(sum(one.square().sum().item() for one in each) ** 0.5, rel=1e-3)
    assert {each.key for each in trained.skipped} == OF_DEPTH | {"matrix-updates"}


def test_another_optimiser_says_why_it_has_no_condition(place: Path, tmp_path: Path) -> None:
    config = read_config(place / "own.toml", ["optimiser.name=sgd", "schedule.learning_rate=0.01"])
    train(config, tmp_path / "run", quiet=True)
    *_, trained = diagnose_paths([str(tmp_path / "run")], SMALL_EXTENT)
    with pytest.raises(UserError, match="SGD is not Adam"):
        trained["adam-conditioning"]


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
        diagnose_paths([word.format(place=place) for word in words], SMALL_EXTENT)


def test_a_run_that_is_half_written(place: Path, tmp_path: Path) -> None:
    import shutil

    half = tmp_path / "half"
    shutil.copytree(place / "run", half, symlinks=True)
    with pytest.raises(UserError, match="no checkpoint 'step-00000009'; there are: step-00000004"):
        diagnose_paths([str(half)], Extent(checkpoint="step-00000009"))
    weights = half / "checkpoints" / "step-00000004" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"model.safetensors: damaged"):
        diagnose_paths([str(half)], SMALL_EXTENT)
    assert Diagnosis.read(half / "diagnosis" / "start.json").step is None, "the start was looked at all the same"
    shutil.rmtree(half / "checkpoints")
    (start,) = diagnose_paths([str(half)], SMALL_EXTENT)
    assert NO_CHECKPOINT in start.notes
    (half / "status.json").unlink()
    with pytest.raises(UserError, match="neither a run folder"):
        diagnose_paths([str(half)], SMALL_EXTENT)


def test_depths_on_the_command_line() -> None:
    from typer.testing import CliRunner

    from lamina.cli import app

    assert read_depths("2,8, 32") == (2, 8, 32)
    asked = CliRunner().invoke(app, ["diagnose", "missing.toml", "--depths", "2;8"])
    assert isinstance(asked.exception, UserError)
    assert "separated by commas, such as 2,8,32, not '2;8'" in str(asked.exception)


TASK_CONFIGS = ["language-modelling", "masked-language-modelling", "classification"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASK_CONFIGS)
def test_every_kind_of_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smoke: Any = Path(__file__).parents[2] / "configs" / "smoke" / f"{name}.toml"
    monkeypatch.chdir(tmp_path)
    (diagnosis,) = diagnose_paths([str(smoke), *TINY], SMALL_EXTENT)
    assert {each.key for each in diagnosis.measures} >= RECORDED
