"""A run's config: the options of every room it passes through, as one TOML file.

task = "translation"
[data]       store = "data/iwslt"
[model]      preset = "iwslt", residual = "b2t"
[optimiser]  [schedule]  [train]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator

from lamina.data.batches import OrderOptions
from lamina.diagnosis.options import DiagnoseOptions
from lamina.errors import unknown
from lamina.model.options import ModelOptions
from lamina.model.presets import PRESETS
from lamina.options import Affects, Options
from lamina.tasks import TASKS
from lamina.training.callbacks.trackers import Name as TrackerName
from lamina.training.distributed.parallel import Way
from lamina.training.optimisers import OptimiserOptions
from lamina.training.schedule import ScheduleOptions

Count = Annotated[int, Field(ge=1)]
Interval = Annotated[int, Field(ge=0)]


class DataOptions(OrderOptions):
    """Which examples, and how they make batches."""

    store: Annotated[str | None, Affects.NOTHING] = None  # what it holds is compared by hash
    """A folder made by `lamina prepare`. Without one, the task's embedded languages are prepared and used."""


class TrainOptions(Options):
    """How long, how exactly, and what is written down on the way."""

    steps: Annotated[Count, Affects.LENGTH] = 1000
    """Updates of the weights."""
    accumulate: Count = 1
    """Pieces that a process cuts its share of a batch into, to save memory. The update stays the same."""
    clip: Annotated[float, Field(ge=0)] = 0.0
    """The largest norm of the whole gradient; 0 for no limit."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """What matrices are multiplied in. `fp16` scales the loss so that small gradients survive."""
    device: Annotated[str, Affects.ROUNDING] = "auto"
    """`cpu`, `cuda`, or `auto` for a GPU where there is one."""
    parallel: Annotated[Way, Affects.ROUNDING] = "ddp"
    """How several processes share the model: `ddp` gives each a copy, `fsdp` a slice of every weight."""
    threads: Annotated[Interval, Affects.NOTHING] = 0
    """CPU threads; 0 leaves it to torch. Small models are fastest with 1."""
    compile: Annotated[bool, Affects.ROUNDING] = False
    """Compile the layers with torch.compile."""
    log_every: Annotated[Count, Affects.NOTHING] = 50
    """Steps between lines of metrics.jsonl."""
    validate_every: Interval = 500
    """Steps between validations; 0 validates at the end only."""
    evaluate_every: Interval = 0
    """Steps between measurements of the task's metrics on the validation split; 0 measures at the end only, or, where
    `best` is `metric`, at every validation."""
    best: Literal["loss", "metric"] = "loss"
    """Which checkpoint is the best one: that of the lowest negative log-likelihood in validation, or of the best
    metric, such as BLEU."""
    save_every: Annotated[Interval, Affects.NOTHING] = 500
    """Steps between checkpoints; 0 saves at the end only."""
    keep: Annotated[int, Field(ge=2), Affects.NOTHING] = 3
    """How many of the last checkpoints stay, besides the best."""
    patience: Interval = 0
    """Validations, or measurements where `best` is `metric`, none of them better, after which training stops; 0 never
    stops early."""
    track: Annotated[tuple[TrackerName, ...], Affects.NOTHING] = ()
    """Where else to follow the run: `tensorboard`, `wandb` (the extra `track`)."""
    samples: Annotated[Interval, Affects.NOTHING] = 3
    """Outputs of the model written to samples.jsonl at each validation, where the task generates text."""


class RunConfig(Options):
    seed: int = 1
    """Decides initialisation, the order of examples, dropout and noise."""
    task: str = "translation"
    """What is learnt: translation, multilingual-translation, summarisation, language-modelling, …"""
    task_options: dict[str, Any] = {}
    """The task's own options."""
    data: DataOptions = DataOptions()
    """Where the examples come from."""
    model: dict[str, Any] = {}
    """The model's options; `preset` names a paper's size, which the others change."""
    optimiser: OptimiserOptions = OptimiserOptions()
    """The rule of the update."""
    schedule: ScheduleOptions = ScheduleOptions()
    """The learning rate, step by step."""
    train: TrainOptions = TrainOptions()
    """The course of the run."""
    diagnose: Annotated[DiagnoseOptions, Affects.NOTHING] = DiagnoseOptions()
    """What is measured while it trains."""

    @field_validator("task")
    @classmethod
    def _known_task(cls, given: str) -> str:
        if given not in TASKS:
            raise unknown("task", given, TASKS)
        return given

    @field_validator("model")
    @classmethod
    def _known_options(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name in given:
            if name != "preset" and name not in ModelOptions.model_fields:
                raise unknown("option", name, ["preset", *ModelOptions.model_fields])
        return given

    def resolved(self) -> Self:
        """With the preset's values in place of its name, which may mean others one day: this is written down."""
        return self.model_copy(update={"model": dict(self.chosen_model())})

    def chosen_model(self) -> Mapping[str, Any]:
        """The preset's sizes with the config's changes; the task completes them."""
        chosen = dict(self.model)
        name = chosen.pop("preset", None)
        if name is not None and name not in PRESETS:
            raise unknown("preset", name, PRESETS)
        return (PRESETS[name] if name else {}) | chosen
