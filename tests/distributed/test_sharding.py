"""One step of FSDP2 on two processes equals one process, for every scheme; ω is the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from lamina import Transformer, UserError, residual
from lamina.model.models import EncoderDecoder
from support.processes import run_in_processes
from support.small_models import SMALL

pytestmark = pytest.mark.distributed
SOURCE, TARGET, LABELS = torch.randint(3, 40, (3, 4, 5), generator=torch.Generator().manual_seed(0))


def new_model(name: str) -> EncoderDecoder:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3)
    model: Any = Transformer.from_preset("iwslt", residual=name, num_layers=2, **SMALL)
    return model


def step(model: EncoderDecoder, rows: slice) -> dict[str, torch.Tensor]:
    """A step on some rows; all processes together have the whole batch."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    model(SOURCE[rows], TARGET[rows], labels=LABELS[rows]).smoothed.mean().backward()
    optimiser.step()
    return {key: whole(value) for key, value in model.state_dict().items()}


def whole(value: torch.Tensor) -> torch.Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def sharded_steps(rank: int, count: int, folder: Path) -> None:
    rows = slice(rank * 4 // count, (rank + 1) * 4 // count)
    mesh = init_device_mesh("cpu", (count,))
    for name in residual.names():
        model = new_model(name)
        model.calibrate(SOURCE[rows], TARGET[rows])
        for stack in model.stacks():
            for layer in stack.layers:
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        after = step(model, rows)
        save_file({key: value.contiguous() for key, value in after.items()}, folder / f"{name}-{rank}.safetensors")


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded")
    run_in_processes(2, sharded_steps, folder)
    return folder


@pytest.mark.parametrize("name", residual.names())
@pytest.mark.usefixtures("float64")
def test_two_processes_equal_one(name: str, sharded: Path) -> None:
    model = new_model(name)
    model.calibrate(SOURCE, TARGET)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    expected = step(model, slice(0, 4))
    assert any(not torch.equal(before[key], expected[key]) for key in before), "the step moved something"
    for rank in range(2):
        actual = load_file(sharded / f"{name}-{rank}.safetensors")
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(
                actual[key], value, atol=1e-7, rtol=1e-7, msg=lambda text, key=key: f"{key}: {text}"
            )


def refuse_after_sharding(rank: int, count: int, folder: Path) -> None:
    model = new_model("admin")
    for layer in model.encoder.layers:
        fully_shard(layer, mesh=init_device_mesh("cpu", (count,)))
    for call in (lambda: model.calibrate(SOURCE, TARGET), model.encoder.fold):
        with pytest.raises(UserError, match="a sharded model cannot be"):
            call()


def test_calibrating_and_folding_a_sharded_model_is_refused(tmp_path: Path) -> None:
    run_in_processes(2, refuse_after_sharding, tmp_path)
