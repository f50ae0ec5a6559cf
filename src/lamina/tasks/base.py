"""What a task is: it turns a store into batches, names the model that fits, and says what a good model is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamina.data.batches import Batch, Batches
from lamina.data.examples import Examples
from lamina.data.order import BatchPlan, OrderOptions
from lamina.data.packed import Integers, PackedField, score_cells, to_tensors
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.model.evaluation import evaluation_mode
from lamina.model.options import ModelOptions
from lamina.options import Options as TaskOptions

__all__ = ["MAX_TOKENS", "Inputs", "Losses", "SampleOutput", "Task", "TaskOptions", "tensor_of"]

MAX_TOKENS = 4096  # in a batch of an evaluation


@dataclass(frozen=True, eq=False)
class Inputs:
    """A batch as the model takes it: `model(**inputs.arguments)`."""

    tensors: Mapping[str, Tensor]
    lengths: Mapping[str, Integers] = field(default_factory=dict)
    """Sequence lengths stay on the host: the model plans its attention there."""
    labels: Tensor | None = None
    weights: Tensor | None = None
    """Per label, where not all count: the repeated context of a language model's evaluation."""
    count: int = 0
    """True labels: what the loss of the global batch is averaged over."""

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors.values())).device

    @property
    def arguments(self) -> dict[str, Any]:
        return {**self.tensors, **self.lengths}

    def attention_cells(self) -> tuple[int, int]:
        """How many attention scores are computed per head and layer, and how many of them are between real tokens."""
        own = list(self.lengths.values())
        pairs = [(each, each) for each in own] + ([(own[1], own[0])] if len(own) == 2 else [])  # the last is cross
        computed, real = zip(*(score_cells(queries, keys) for queries, keys in pairs), strict=True)
        return sum(computed), sum(real)

    def to(self, device: torch.device | str) -> Inputs:
        def move(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.to(device, non_blocking=True)

        tensors = {name: tensor.to(device, non_blocking=True) for name, tensor in self.tensors.items()}
        return Inputs(tensors, self.lengths, move(self.labels), move(self.weights), self.count)


@dataclass(frozen=True)
class Losses:
    """Sums over true labels, in nats: they add up over batches, accumulation steps and processes."""

    smoothed: Tensor
    """What training minimises, with its gradient."""
    nll: Tensor
    """Negative log-likelihood, without gradient."""
    count: int


@dataclass(frozen=True)
class SampleOutput:
    """One example, and what a model generates for it."""

    source: str
    reference: str
    output: str


class Task:
    """The base of all tasks. `Options` are the task's own and read from a config's [task]."""

    class Options(TaskOptions):
        """What a user may set."""

    name: ClassVar[str]
    result_version: ClassVar[int] = 1
    """Raise it when the task gives other inputs, losses or metrics than before: its finished runs are then trained
    again."""
    embedded: ClassVar[str]
    """The named set of embedded text that serves it by default."""
    fields: ClassVar[tuple[str, ...]]
    """The fields of the store that it reads."""
    predicted: ClassVar[str]
    """The field whose tokens, or labels, it predicts."""
    end: ClassVar[int | None] = None
    """The token it predicts at the end of each sequence, if it does."""
    metric: ClassVar[str]
    """The number that decides which checkpoint is best."""
    higher_is_better: ClassVar[bool]

    options: Any

    def __init__(self, store: Store, options: TaskOptions) -> None:
        self.store, self.options = store, options
        present = store[store.splits[0]].fields
        for name in self.fields:
            if name not in present:
                raise UserError(
                    f"{store.folder}: task {self.name!r} reads the field {name!r}, but the store has "
                    f"{', '.join(present)}; prepare the data for this task"
                )

    def model_options(self, chosen: Mapping[str, Any]) -> ModelOptions:
        """The model the user chose, completed by what the task and its vocabulary decide."""
        raise NotImplementedError

    def examples(self, split: str, *, training: bool = False) -> Examples:
        """What batches of a split are made from."""
        return self.store[split]

    def sizes(self, examples: Examples) -> Integers:
        """What each example costs in a batch's token budget."""
        raise NotImplementedError

    def plan(self, split: str, order: OrderOptions, seed: int = 0) -> BatchPlan:
        """The batches of all epochs of a split."""
        return BatchPlan(self.sizes(self.examples(split, training=order.shuffle)), order, seed)

    def batches(self, split: str, order: OrderOptions, *, seed: int = 0, rank: int = 0, processes: int = 1) -> Batches:
        examples = self.examples(split, training=order.shuffle)
        return Batches(examples, self.plan(split, order, seed), rank=rank, processes=processes)

    def inputs(self, batch: Batch, *, seed: int | None = None) -> Inputs:
        """The batch as the model takes it. With a seed, for training: noise applies."""
        raise NotImplementedError

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """The losses of the batch's true labels."""
        found = model(**inputs.arguments, labels=inputs.labels, smoothing=self.label_smoothing)
        smoothed, nll = found.smoothed, found.nll
        if inputs.weights is not None:
            smoothed, nll = smoothed * inputs.weights, nll * inputs.weights
        return Losses(smoothed.sum(), nll.detach().sum(), inputs.count)

    @property
    def label_smoothing(self) -> float:
        """The share of the target that is spread over all words."""
        return getattr(self.options, "label_smoothing", 0.0)

    def calibrate(self, model: nn.Module, inputs: Inputs) -> None:
        """Show the model its first batch, for schemes that look at one."""
        arguments = {name: value for name, value in inputs.arguments.items() if name != "only"}
        model.calibrate(**arguments)  # type: ignore[operator]

    def evaluated_sets(self, split: str) -> tuple[str, ...]:
        """What of a split is measured apart: each of its sets, such as the test sets of several years."""
        return self.store.sets(split)

    def signatures(self) -> dict[str, str]:
        """What makes a metric comparable, by its name: version, tokenisation, case."""
        return {}

    def evaluate(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> dict[str, float]:
        """The task's metrics on a split, all examples once."""
        raise NotImplementedError

    def samples(self, model: nn.Module, split: str, count: int) -> list[SampleOutput]:
        """The model's outputs for a few examples; none where the task generates no text."""
        return []

    def every_batch(self, model: nn.Module, split: str, max_tokens: int) -> Iterator[tuple[Batch, Inputs]]:
        """All examples of a split once, by size, without noise, where the model is."""
        device = next(model.parameters()).device
        order = OrderOptions(max_tokens=max_tokens, shuffle=False, oversize="alone")
        for batch in self.batches(split, order).epoch(0):
            yield batch, self.inputs(batch).to(device)

    def unigram_nll(self, split: str) -> float:
        """The mean negative log-likelihood of what is predicted, where only the frequency of each label is known.

        Counts are those of the training split, one added to each.
        """
        size = max(
            len(self.store.labels), *(len(self.store.tokenizer(name)) for name in self.store.manifest.tokenizers)
        )
        train, held_out = self._frequencies("train", size), self._frequencies(split, size)
        probabilities = (train + 1) / (train + 1).sum()
        return float(-(held_out * np.log(probabilities)).sum() / held_out.sum())

    def _frequencies(self, split: str, size: int) -> NDArray[np.float64]:
        found = np.zeros(size)
        for name in self.store.sets(split):
            part = self.store[name]
            if self.end is not None:
                found[self.end] += len(part)
            for first in range(0, len(part), 8192):
                ids, _ = part.gather(self.predicted, np.arange(first, min(first + 8192, len(part))))
                found += np.bincount(ids, minlength=size)
        return found

    @torch.no_grad()
    def total_losses(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> Losses:
        """The losses of a whole split, in evaluation mode."""
        smoothed = nll = torch.zeros((), dtype=torch.float64)
        count = 0
        with evaluation_mode(model):
            for _, inputs in self.every_batch(model, split, max_tokens):
                losses = self.losses(model, inputs)
                smoothed = smoothed + losses.smoothed.double().cpu()
                nll = nll + losses.nll.double().cpu()
                count += losses.count
        return Losses(smoothed, nll, count)


def tensor_of(field: PackedField) -> Tensor:
    return to_tensors(field)[0]
