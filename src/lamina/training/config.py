"""A run's config: the options of every package that takes part, as one TOML file.

task = "translation"
[data]       store = "data/iwslt"
[model]      preset = "iwslt", residual = "b2t"
[optimiser]  [schedule]  [train]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from lamina import residual as schemes
from lamina.config import read_values
from lamina.data.batches import OrderOptions
from lamina.data.store import Store
from lamina.diagnosis.options import DiagnoseOptions
from lamina.model.options import DECIDED, ModelChoices, ModelOptions, pair
from lamina.options import NONE, Affects, Formerly, Names, Options, OptionsOf, mistake, own_options
from lamina.residual.base import Shape
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import Vocabulary
from lamina.training.callbacks.trackers import TrackerName
from lamina.training.distributed.parallel import Strategy
from lamina.training.optimisers import OptimiserOptions
from lamina.training.precision import LossScaleOptions
from lamina.training.schedule import ScheduleOptions

ANY_VOCABULARY = Vocabulary(size=2**31)
"""Placeholder for a vocabulary size that is not known yet; no option exceeds it."""


class DataOptions(OrderOptions):
    """The data, and how it is divided into batches."""

    store: Annotated[str | None, Affects.NOTHING] = None  # what it holds is compared by hash
    """The folder of a store made by `lamina prepare`, relative to the working directory. Without one, the task's
    embedded data is prepared and used."""


IN_EPOCHS = {
    "epochs": "steps",
    "validate_every_epochs": "validate_every",
    "evaluate_every_epochs": "evaluate_every",
    "save_every_epochs": "save_every",
}
"""The keys in epochs, each with the key in steps that it replaces."""


class TrainOptions(Options):
    """The length of training, its numerics, and what is validated, saved and logged."""

    steps: Annotated[Annotated[int, Field(ge=1, lt=2**63)] | None, Affects.LENGTH] = 20_000
    """Length of training: number of updates of the weights. If `epochs` is given, leave it out."""
    epochs: Annotated[PositiveInt | None, Affects.LENGTH] = None
    """Length of training in epochs, in place of `steps`. An epoch is one pass over the training data."""
    accumulate: PositiveInt = 1
    """Number of micro-batches that each process divides its share of a batch into, to save memory; their gradients are
    accumulated, so the update is that of the whole batch."""
    clip_norm: Annotated[float, Field(ge=0), Formerly("clip")] = 0.0
    """Gradient clipping: the largest norm of the gradient of all weights; 0 for no clipping."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Precision of matrix multiplications (autocast); weights stay in fp32. `fp16` uses dynamic loss scaling."""
    loss_scale: LossScaleOptions = LossScaleOptions()
    """The dynamic loss scale of `fp16`."""
    device: Annotated[str, Affects.ROUNDING] = "auto"
    """The device to train on: `cpu`, `cuda`, or `auto` for a GPU if there is one."""
    parallel: Annotated[Strategy, Affects.ROUNDING] = "ddp"
    """Parallel training on several processes: `ddp` replicates the model, `fsdp` (FSDP2) shards every weight."""
    threads: Annotated[NonNegativeInt, Affects.NOTHING] = 0
    """Number of CPU threads; 0 for torch's default. Small models train fastest with 1."""
    compile: Annotated[bool, Affects.ROUNDING] = False
    """Whether layers are compiled with torch.compile."""
    log_every: Annotated[PositiveInt, Affects.NOTHING] = 50
    """Steps between logged lines in metrics.jsonl."""
    validate_every: NonNegativeInt = 500
    """Steps between validations, which measure the loss on the validation split; 0 for only at the end."""
    validate_every_epochs: PositiveInt | None = None
    """Epochs between validations, in place of `validate_every`."""
    evaluate_every: NonNegativeInt = 0
    """Steps between evaluations, which measure the task's metrics, such as BLEU, on the validation split. 0 for only at
    the end, or, if `best` is `metric`, at every validation."""
    evaluate_every_epochs: PositiveInt | None = None
    """Epochs between evaluations, in place of `evaluate_every`."""
    best: Literal["loss", "metric"] = "loss"
    """The criterion of the best checkpoint: the negative log-likelihood on the validation split (`loss`) or the task's
    metric (`metric`)."""
    save_every: Annotated[NonNegativeInt, Affects.NOTHING] = 500
    """Steps between checkpoints; 0 for only at the end."""
    save_every_epochs: Annotated[PositiveInt | None, Affects.NOTHING] = None
    """Epochs between checkpoints, in place of `save_every`."""
    keep_checkpoints: Annotated[int, Field(ge=2), Affects.NOTHING, Formerly("keep")] = 3
    """Number of latest checkpoints that are kept, besides the best one."""
    patience: NonNegativeInt = 0
    """Early stopping: number of validations in a row (of evaluations, if `best` is `metric`) without an improvement
    after which training stops; 0 for no early stopping."""
    track: Annotated[tuple[TrackerName, ...], Affects.NOTHING] = ()
    """Experiment trackers that metrics are also sent to: `tensorboard`, `wandb` (the extra `track`); one name or a
    list."""
    samples: Annotated[NonNegativeInt, Affects.NOTHING] = 3
    """Number of examples whose generated output is written to samples.jsonl at each validation, if the task generates
    text."""

    @classmethod
    def add_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Switch off what is given in epochs where it would be in steps, and refuse what is given in both."""
        for in_epochs, in_steps in IN_EPOCHS.items():
            if values.get(in_epochs) is None:
                continue
            off = None if in_steps == "steps" else 0
            given = values.setdefault(in_steps, off)
            if given != off:
                way = f"leave one of them out, or set {in_steps} to {NONE if off is None else off}"
                raise mistake(f"{in_steps} = {given} is given too; {way}", in_epochs, values[in_epochs])
        return values

    @model_validator(mode="after")
    def _has_a_length(self) -> Self:
        if self.steps is None and self.epochs is None:
            raise ValueError("the length of training is not given; set steps or epochs")
        return self

    @field_validator("track", mode="before")
    @classmethod
    def _one_tracker_is_a_list(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("device")
    @classmethod
    def _known_device(cls, given: str) -> str:
        if not re.fullmatch(r"auto|(cpu|cuda|mps|xpu)(:\d+)?", given):
            raise ValueError("not a device; use auto, cpu, cuda, or cuda:1 for the second GPU")
        return given


SEARCH = "search"
"""The section of a config file that lists values to search; it belongs to `lamina search`, not to a run."""
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class RunConfig(Options):
    seed: Seed = 1
    """Seed of the initialisation, the order of examples, dropout and noise."""
    task: Annotated[str, Names(lambda: TASKS)] = "translation"
    """The task; installed packages may add others."""
    task_options: Annotated[SerializeAsAny[Options], OptionsOf("task")] = Field(Options(), validate_default=True)
    """Options of the task."""
    start_from: Annotated[str | None, Affects.NOTHING] = None  # the weights are compared by hash
    """Trained weights to start from, instead of an initialisation at random: the folder of a run, relative to the
    working directory, or of a BERT that transformers saved. The output layer is new if it is of another kind or size;
    all other weights are loaded. The data must be prepared with the tokenizer of that run or BERT."""
    start_from_checkpoint: Annotated[str, Affects.NOTHING] = "best"
    """The checkpoint of that run: `best`, `latest`, `average` or `step-…`."""
    start_from_differences: Literal["refuse", "accept"] = "refuse"
    """What happens if the model differs from the one to start from. `refuse` lists every difference of options, names
    and shapes; `accept` leaves parameters that are missing there, or of another shape, at their initial values."""
    data: DataOptions = DataOptions()
    """The data and its batches."""
    model: ModelChoices = Field(ModelChoices(), validate_default=True)
    """The model."""
    optimiser: OptimiserOptions = OptimiserOptions()
    """The optimiser."""
    schedule: ScheduleOptions = ScheduleOptions()
    """The learning-rate schedule."""
    train: TrainOptions = TrainOptions()
    """The length of training, its numerics, validation, checkpoints and logs."""
    diagnose: Annotated[DiagnoseOptions, Affects.NOTHING] = DiagnoseOptions()
    """Diagnosis during training."""

    @model_validator(mode="before")
    @classmethod
    def _describes_a_run(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "output" in given:  # which every description of data has
            raise ValueError(
                "describes data, for `lamina prepare`; a config of a run names the prepared store: `lamina init TASK` "
                f"writes one, then `lamina train CONFIG data.store={given['output']}`"
            )
        if isinstance(given, Mapping) and SEARCH in given:
            way = "use lamina search, or remove this section; a file of its own can extend this one"
            raise mistake(f"these are the values of many runs, and one run was asked for; {way}", SEARCH, given[SEARCH])
        return given

    @field_validator("task")
    @classmethod
    def _known_task(cls, given: str) -> str:
        return TASKS[given].name

    @field_validator("task_options", mode="before")
    @classmethod
    def _options_of_the_task(cls, given: Any, checked: ValidationInfo) -> Any:
        task = checked.data.get("task")
        return Options() if task is None else own_options(TASKS[task].Options, given)

    @field_validator("model", mode="before")
    @classmethod
    def _refuse_what_the_task_decides(cls, given: Any, checked: ValidationInfo) -> Any:
        if not isinstance(given, Mapping):
            return given
        task = TASKS[checked.data["task"]] if "task" in checked.data else None
        for name in DECIDED:
            decided = {"kind": task.model_kind, "head": task.head}.get(name) if task else None
            if task and name in given and given[name] != decided:
                what = "the data decides it" if decided is None else f"the task {task.name!r} decides it, {decided!r}"
                raise mistake(f"{what}; leave it out", name, given[name])
        return {name: value for name, value in given.items() if name not in DECIDED}

    @field_validator("model")
    @classmethod
    def _fits_the_task(cls, model: ModelChoices, checked: ValidationInfo) -> ModelChoices:
        """Check what depends on the kind of model before the data is opened; only the vocabulary size is unknown."""
        if "task" in checked.data:
            ModelOptions.model_validate(TASKS[checked.data["task"]].complete_model(model, ANY_VOCABULARY))
        with torch.device("meta"):
            for name, own, layers in zip(
                *map(pair, (model.residual, model.residual_options, model.num_layers)), strict=True
            ):
                schemes.find(name)(Shape(model.model_dim, layers, 2 * layers), model.norm, own)
        return model

    @model_validator(mode="after")
    def _schedule_fits_the_steps(self) -> Self:
        if self.train.steps is not None:  # otherwise the length is known when the data is opened
            self.schedule.check_length(self.train.steps)
        return self

    @classmethod
    def read_stored(cls, file: Path, overrides: Sequence[str] = ()) -> Self:
        """Read the config of a run folder, without the keys that task and data decide, which former versions stored."""
        values = read_values(file, overrides, cls)
        if isinstance(model := values.get("model"), dict):
            values["model"] = {name: value for name, value in model.items() if name not in DECIDED}
        return cls.read(values, where=str(file))

    def resolved(self, store: Store) -> Self:
        """The config with every value written out, as a run folder stores it, so that its meaning never changes.

        No value is left to a preset, to the task or to the schedule.
        """
        options = build_task(self.task, store, self.task_options).model_options(self.model)
        chosen = {name: getattr(options, name) for name in ModelChoices.model_fields}
        model = self.model.model_copy(update=chosen | {"preset": None})
        return self.model_copy(update={"model": model, "schedule": self.schedule.resolved()})
