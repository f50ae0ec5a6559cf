"""Models that Lamina knows nothing of, measured: torch's own here, other libraries' under the marker `peers`."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lamina
from lamina.api import diagnose_paths
from lamina.diagnosis.measures import measures_that_need
from lamina.diagnosis.results import Diagnosis
from lamina.runs.diagnose import Extent
from support.foreign_models import DIM, HUGGING_FACE, IDS, SIZES, hugging_face

RECORDED = {"gradient-by-layer", "gradient-along-stream", "gradient-at-norms", "stream-norms", "norm-jacobian"}
RECORDED |= {"hidden-change", "cosine-of-layers", "layer-dependency", "gradient-when-moved", "gradient-coverage"}
RECORDED |= {"module-ranges"}
OF_DEPTH = {"gradient-against-depth", "output-change"}
OF_TRAINING = {each.key for each in measures_that_need("history") if "record" not in each.needs} | {"adam-conditioning"}
OF_OWN_STACKS = {"added-block", "gradient-by-stream"}
JUDGED = {"vanishing", "amplification", "collapse", "overflow"}


def check(diagnosis: Diagnosis, stacks: int, *, norms: str, depth: bool = False, unseen: int = 0) -> None:
    """Check that all measures that apply are present, finite and with a spread, and that every stack is checked."""
    assert {each.key for each in diagnosis.measurements} >= RECORDED | (OF_DEPTH if depth else set())
    unmeasured = OF_OWN_STACKS | OF_TRAINING | (set() if depth else OF_DEPTH)
    assert {each.key for each in diagnosis.not_measured} >= unmeasured
    assert [each for each in diagnosis.not_measured if "the measure raised" in each.reason] == []
    for measure in (each for each in diagnosis.measurements if each.key in RECORDED):
        for line in measure.measured:
            seen = line.y[unseen:] if line.quantity == "input" else line.y
            assert all(map(math.isfinite, seen)), (measure.key, line.identity)
            assert all(y > 0 for y in seen), (measure.key, line.identity)
            assert len(line.spread) == len(line.y), (measure.key, line.identity)
    assert len(diagnosis["cosine-of-layers"].grids) == len(diagnosis["layer-dependency"].grids) == stacks
    predicted = diagnosis["gradient-by-layer"].predicted
    assert [(each.location.matrix, each.quantity) for each in predicted] == [("outer", f"{norms}-LN")] * stacks
    kinds = [each.check for each in diagnosis.findings]
    assert {kind: kinds.count(kind) for kind in JUDGED} == dict.fromkeys(JUDGED, stacks)


def place_of(norm_first: bool) -> str:
    return "pre" if norm_first else "post"


@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_transformer(norm_first: bool) -> None:
    """The first norm reads an input that has no gradient, where it comes first."""
    x = torch.randn(4, 5, DIM)
    model = nn.Transformer(DIM, 2, 3, 3, 32, batch_first=True, norm_first=norm_first)
    report = lamina.diagnose(model, (x, x))
    check(report.diagnosis, stacks=2, norms=place_of(norm_first), unseen=int(norm_first))
    inputs = [each.y for each in report["gradient-at-norms"].select(quantity="input")]
    assert [math.isnan(first) for first, *_ in inputs] == [norm_first] * 2


def test_torch_encoder_against_depth() -> None:
    def make(num_layers: int = 3) -> nn.Module:
        layer = nn.TransformerEncoderLayer(DIM, 2, 32, batch_first=True)
        return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)

    report = lamina.diagnose(make, torch.randn(4, 5, DIM), seeds=2, depths=(3, 2, 5))
    check(report.diagnosis, stacks=1, norms="post", depth=True)
    assert report["output-change"].measured[0].x == (4, 6, 10)


class Dropping(nn.Module):
    """Leaves the last layer out in two of four passes, as layer-drop may."""

    def __init__(self, always: bool | None = None) -> None:
        """always: whether it is left out in every pass or in none."""
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(DIM, 2, 32, batch_first=True) for _ in range(3))
        self.passes, self.always = 0, always

    def forward(self, x: Tensor) -> Tensor:
        self.passes += self.training
        drops = self.passes % 4 < 2 if self.always is None else self.always
        for layer in self.layers[: 3 - drops]:
            x = layer(x)
        return x


@pytest.mark.parametrize("seeds", [0, 2])
def test_layers_that_are_dropped_leave_no_mean_and_say_so(seeds: int) -> None:
    """Neither over the batches of a model, nor over seeds of one batch each."""
    x = torch.randn(4, 5, DIM)
    if seeds:
        diagnosis = lamina.diagnose(lambda seed: Dropping(always=seed == 2), [x], seeds=seeds).diagnosis
    else:
        diagnosis = lamina.diagnose(Dropping(), x).diagnosis
    reasons = {each.key: each.reason for each in diagnosis.not_measured}
    assert "not the same in every pass, as when layers are dropped" in reasons["stream-norms"]
    assert "cosine-of-layers" in reasons
    if not seeds:
        assert "gradient-by-layer" in {each.key for each in diagnosis.measurements}, "where none came it is zero"
    assert lamina.diagnose(Dropping().eval(), torch.randn(4, 5, DIM))["stream-norms"].measured


# Other libraries'


@pytest.mark.peers
@pytest.mark.parametrize("name", HUGGING_FACE)
def test_hugging_face(name: str) -> None:
    model, given = hugging_face(name)
    norms, stacks = "post" if name in ("bert", "marian") else "pre", 2 if name in ("marian", "whisper") else 1
    check(lamina.diagnose(model, given, batches=2).diagnosis, stacks, norms=norms)


@pytest.mark.peers
@pytest.mark.parametrize("norm_first", [False, True])
def test_x_transformers(norm_first: bool) -> None:
    library = pytest.importorskip("x_transformers")

    def make(num_layers: int = 3) -> nn.Module:
        layers = library.Decoder(dim=DIM, depth=num_layers, heads=2, pre_norm=norm_first)
        return library.TransformerWrapper(num_tokens=50, max_seq_len=8, attn_layers=layers)

    diagnosis = lamina.diagnose(make, IDS, seeds=2, depths=(2, 3)).diagnosis
    check(diagnosis, stacks=1, norms=place_of(norm_first), depth=True)


@pytest.mark.peers
def test_x_transformers_with_layer_dropout() -> None:
    library = pytest.importorskip("x_transformers")
    random.seed(0)  # which it asks, not torch's
    layers = library.Decoder(dim=DIM, depth=6, heads=2, layer_dropout=0.2)
    model = library.TransformerWrapper(num_tokens=50, max_seq_len=8, attn_layers=layers)
    diagnosis = lamina.diagnose(model, [IDS] * 4).diagnosis
    assert "layers are dropped at random" in {each.key: each.reason for each in diagnosis.not_measured}["stream-norms"]


@pytest.mark.peers
@pytest.mark.parametrize("weights", [False, True])
def test_a_model_folder(weights: bool, tmp_path: Path) -> None:
    library = pytest.importorskip("transformers")
    config = library.BertConfig(**SIZES, intermediate_size=32, architectures=["BertForMaskedLM"])
    (library.BertForMaskedLM(config) if weights else config).save_pretrained(tmp_path)
    extent = Extent(seeds=2, batches=2, tokens=32, output_depths=(2, 3))
    (diagnosis,) = diagnose_paths([str(tmp_path)], extent)
    check(diagnosis, stacks=1, norms="post", depth=not weights)
    assert diagnosis.spread_over == ("batches" if weights else "seeds")
    assert not (tmp_path / "diagnosis").exists(), "nothing is written into a foreign folder"


@pytest.mark.peers
def test_a_config_made_of_several_has_no_depth_to_change(tmp_path: Path) -> None:
    library: Any = pytest.importorskip("transformers")
    side = library.BertConfig(**SIZES, intermediate_size=32)
    words = {"decoder_start_token_id": 1, "pad_token_id": 0}
    config = library.EncoderDecoderConfig.from_encoder_decoder_configs(side, side, **words)
    config.architectures = ["EncoderDecoderModel"]
    config.save_pretrained(tmp_path)
    (diagnosis,) = diagnose_paths([str(tmp_path)], Extent(seeds=2, batches=2, tokens=32))
    check(diagnosis, stacks=2, norms="post")
    assert any("the depth of EncoderDecoderModel cannot be changed" in note for note in diagnosis.notes)
