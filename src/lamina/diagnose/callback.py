"""A watch for the Trainer of Hugging Face's transformers.

    trainer = Trainer(model=…, callbacks=[LaminaCallback(every=100)])
    trainer.train()                    # writes diagnosis/watch.json into the output folder

The Trainer calls its callbacks by method name, so this needs nothing of transformers, and can be imported without it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from lamina.diagnose.history import Departure
from lamina.diagnose.options import DiagnoseOptions
from lamina.diagnose.watch import Watch

FOLDER, FILE = "diagnosis", "watch.json"


class LaminaCallback:
    """Watches the model from the first step of `trainer.train()` to the last; `watch` stays for a look afterwards."""

    def __init__(
        self,
        every: int = 100,
        *,
        options: DiagnoseOptions | None = None,
        on_warning: Callable[[Departure], None] | None = None,
    ) -> None:
        self.every, self.options, self.on_warning = every, options, on_warning
        self.watch: Watch | None = None

    def on_train_begin(
        self, arguments: Any, state: Any, control: Any, *, model: nn.Module, optimizer: Optimizer, **others: Any
    ) -> None:
        given = {} if self.on_warning is None else {"on_warning": self.on_warning}
        self.watch = Watch(
            model, _bare(optimizer), every=self.every, step=state.global_step, options=self.options, **given
        ).__enter__()

    def on_log(
        self, arguments: Any, state: Any, control: Any, *, logs: dict[str, Any] | None = None, **others: Any
    ) -> None:
        """Add what fits into a line of the Trainer's log: the rest is in the diagnosis."""
        if logs is not None and self.watch is not None and self.watch.history:
            last = self.watch.history[-1].values()
            logs |= {name: value for name, value in last.items() if "/" not in name or name.startswith("stream")}

    def on_train_end(self, arguments: Any, state: Any, control: Any, **others: Any) -> None:
        if self.watch is None:
            return
        self.watch.close()
        if state.is_world_process_zero:
            folder = Path(arguments.output_dir) / FOLDER
            folder.mkdir(parents=True, exist_ok=True)
            self.watch.diagnosis().write(folder / FILE)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """All other events of the Trainer are none of its business."""
        if name.startswith("on_"):
            return _ignore
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def _ignore(*arguments: Any, **keywords: Any) -> None:
    pass


def _bare(optimizer: Optimizer) -> Optimizer:
    """Accelerate wraps optimisers; the one inside takes the step."""
    while not hasattr(optimizer, "_optimizer_step_pre_hooks") and hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer
