"""A callback that runs the watch in the Trainer of Hugging Face's transformers.

    trainer = Trainer(model=…, callbacks=[LaminaCallback(every=100)])
    trainer.train()             # writes diagnosis/watch.html and watch.json to the output folder

The Trainer calls its callbacks by method name, so this module can be imported without transformers. It reports to
TensorBoard, Weights & Biases and others by callbacks that stand before those of the user, so this one moves itself to
the front of the list: its values are in the log before the others read it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from lamina.diagnosis.options import DiagnoseOptions
from lamina.diagnosis.watching.alarms import Alarm
from lamina.diagnosis.watching.observation import read_observations, write_observations
from lamina.report.diagnosis_report import ReportingWatch
from lamina.run_folder.folder import RunFolder


class LaminaCallback:
    """Watches the model during `trainer.train()`; `watch` can be inspected afterwards.

    The observations are written whenever the Trainer saves, so that a resumed run continues them.
    """

    def __init__(
        self,
        every: int = 100,
        *,
        options: DiagnoseOptions | None = None,
        on_warning: Callable[[Alarm], None] | None = None,
    ) -> None:
        self.every, self.options, self.on_warning = every, options, on_warning
        self.watch: ReportingWatch | None = None

    def on_init_end(self, arguments: Any, state: Any, control: Any, **others: Any) -> None:
        _move_to_front(self)

    def on_train_begin(
        self, arguments: Any, state: Any, control: Any, *, model: nn.Module, optimizer: Optimizer, **others: Any
    ) -> None:
        _move_to_front(self)  # it may have been added after the Trainer was made
        given: dict[str, Any] = {} if self.on_warning is None else {"on_warning": self.on_warning}
        step = state.global_step
        seen = read_observations(_folder(arguments).observations, until=step)
        self.watch = ReportingWatch(
            model, _bare(optimizer), every=self.every, step=step, history=seen, options=self.options, **given
        ).__enter__()

    def on_log(
        self, arguments: Any, state: Any, control: Any, *, logs: dict[str, Any] | None = None, **others: Any
    ) -> None:
        """Add the main values of the last observation to the Trainer's log, for all callbacks; the report has more."""
        if logs is not None and self.watch is not None and self.watch.history:
            logs |= self.watch.history[-1].summary()

    def on_save(self, arguments: Any, state: Any, control: Any, **others: Any) -> None:
        if self.watch is not None and state.is_world_process_zero:
            folder = _folder(arguments)
            folder.diagnosis.mkdir(parents=True, exist_ok=True)
            write_observations(folder.observations, self.watch.history)

    def on_train_end(self, arguments: Any, state: Any, control: Any, **others: Any) -> None:
        if self.watch is None:
            return
        self.watch.close()
        if state.is_world_process_zero:
            report = self.watch.report()
            for form in ("json", "html"):
                report.save(_folder(arguments).watch_report(form))

    def __getattr__(self, name: str) -> Callable[..., None]:
        """All other events of the Trainer are ignored."""
        if name.startswith("on_"):
            return _ignore
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")


def _move_to_front(callback: LaminaCallback) -> None:
    """Make a callback the first of its Trainer's.

    The Trainer hands its callbacks no reference to their list, but the method that calls them has it.
    """
    frame = sys._getframe(2)
    handler = frame.f_locals.get("self")
    callbacks = getattr(handler, "callbacks", None)
    if isinstance(callbacks, list) and callback in callbacks:
        handler.callbacks = [callback, *(each for each in callbacks if each is not callback)]  # type: ignore[union-attr]


def _folder(arguments: Any) -> RunFolder:
    """The Trainer's output folder; the watch's files have the same names as in a run folder."""
    return RunFolder(arguments.output_dir)


def _ignore(*arguments: Any, **keywords: Any) -> None:
    pass


def _bare(optimizer: Optimizer) -> Optimizer:
    """The optimiser inside the wrappers of Accelerate, which takes the step."""
    while not hasattr(optimizer, "_optimizer_step_pre_hooks") and hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer
