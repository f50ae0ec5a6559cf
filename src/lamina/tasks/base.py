"""The base class of tasks: a task makes batches from a store, determines the kind of model, and evaluates it.

To add a task, see CONTRIBUTING: it is one new file in this folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lamina.data.batches import Batch, Batches, BatchPlan, OrderOptions
from lamina.data.catalogue import Source
from lamina.data.examples import Examples
from lamina.data.packed import Integers, PackedField, to_tensors
from lamina.data.prepare_options import PrepareOptions
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.data.tokenizer import PAD
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress
from lamina.model.modes import evaluation_mode
from lamina.model.options import Head, Kind, ModelChoices, ModelOptions
from lamina.options import Options as TaskOptions
from lamina.tasks.inputs import Inputs, Losses
from lamina.tasks.metric_tables import MetricTable

__all__ = ["MAX_TOKENS", "Inputs", "Losses", "SampleOutput", "Task", "TaskOptions", "Vocabulary", "tensor_of"]

MAX_TOKENS = 4096  # per batch in evaluation


@dataclass(frozen=True)
class SampleOutput:
    """One example, and what a model generates for it."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Coverage:
    """The number of examples of a split that an evaluation uses, of those in the files it was prepared from."""

    evaluated: int
    total: int
    left_out: Mapping[str, int]
    """The number of examples that were left out, by reason."""


@dataclass(frozen=True)
class Vocabulary:
    """The properties of the data that determine sizes of the model."""

    size: int | tuple[int, int]
    """Number of tokens, or of source and target tokens where each has a vocabulary of its own."""
    joint: bool = True
    """Whether source and target have one vocabulary."""
    num_classes: int = 2
    feature_dim: int = 0
    """Number of features of a frame of speech."""


class Task:
    """The base class of all tasks. A subclass is found by its file: `translation.py` is the task `translation`."""

    class Options(TaskOptions):
        """The options of the task, given in a config's [task_options]."""

    name: ClassVar[str]
    result_version: ClassVar[int] = 1
    """Increase it when the task gives other inputs, losses or metrics than before: its finished runs, and those of
    tasks derived from it, are then trained again. Not inherited."""
    embedded: ClassVar[str | Source]
    """The data used if a config names no store: a data set of the catalogue, or one that the task describes."""
    fields: ClassVar[tuple[str, ...]]
    """The fields of the store that the task reads."""
    predicted: ClassVar[str]
    """The field whose tokens or labels are predicted."""
    end: ClassVar[int | None] = None
    """The token predicted at the end of each sequence; None if there is none."""
    model_kind: ClassVar[Kind]
    """The kind of model that fits."""
    head: ClassVar[Head] = "words"
    """The output layer of that model."""
    num_segments: ClassVar[int] = 0
    """The number of segment embeddings of that model, where the user chooses none."""
    size_unit: ClassVar[str] = "tokens"
    """What the size of an example and of a batch counts."""
    metric: ClassVar[str]
    """The metric that selects the best checkpoint, a key of what `evaluate` returns."""
    directions_per_example: ClassVar[int] = 1
    """The number of times that an evaluation uses an example of the store; 2 if it translates in both directions."""
    higher_is_better: ClassVar[bool]
    """Whether a larger value of the metric is better."""

    options: Any
    progress: Progress = staticmethod(no_progress)
    """Called with the stage and the number of examples while `evaluate` and `evaluated_examples` run."""

    def __init__(self, store: Store, options: TaskOptions) -> None:
        self.store, self.options = store, options
        present = store[store.splits[0]].fields
        for name in self.required_fields():
            if name not in present:
                raise UserError(
                    f"{store.folder}: task {self.name!r} reads the field {name!r}, but the store has "
                    f"{', '.join(present)}; prepare the data for this task"
                )

    def required_fields(self) -> tuple[str, ...]:
        """The fields that the task reads of this store; a task may read one kind of store or another."""
        return self.fields

    @property
    def predicted_fields(self) -> tuple[str, ...]:
        """The fields of this store whose tokens or labels are predicted."""
        return (self.predicted,)

    @classmethod
    def complete_model(cls, choices: ModelChoices, vocabulary: Vocabulary) -> dict[str, Any]:
        """The values of `ModelOptions`: the user's choices, completed by those that the task and its data determine."""
        shared = "all" if vocabulary.joint else "decoder"
        if choices.shared_embeddings == "all" and not vocabulary.joint:
            raise UserError(
                "model.shared_embeddings is 'all', but source and target have vocabularies of their own; use 'decoder' "
                "or 'none', or prepare the data with tokenizer.joint=true"
            )
        return dict(choices) | {
            "kind": cls.model_kind,
            "head": cls.head,
            "num_classes": vocabulary.num_classes,
            "feature_dim": vocabulary.feature_dim,
            "vocab_size": vocabulary.size,
            "padding_index": PAD,
            "shared_embeddings": shared if choices.shared_embeddings == "auto" else choices.shared_embeddings,
            "num_segments": cls.num_segments if choices.num_segments is None else choices.num_segments,
        }

    def model_options(self, choices: ModelChoices) -> ModelOptions:
        """The user's choices, completed by what the task and its data determine."""
        return ModelOptions.read(self.complete_model(choices, self.vocabulary()), where="model")

    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the data, and the classes where the task predicts them."""
        return Vocabulary(len(self.store.tokenizer()))

    @classmethod
    def embedded_options(cls, folder: Path) -> PrepareOptions:
        """The options that prepare the data used if a config names no store, as a folder in `folder`."""
        return source_options(cls.embedded, ".", str(folder / cls.embedded_name()))

    @classmethod
    def embedded_name(cls) -> str:
        """The name of that data, which `lamina prepare` takes."""
        return cls.embedded if isinstance(cls.embedded, str) else f"embedded-{cls.name}"

    def examples(self, split: str, *, training: bool = False) -> Examples:
        """The examples of a split that batches are made from."""
        return self.store[split]

    def sizes(self, examples: Examples) -> Integers:
        """The number of tokens that each example counts for in a batch."""
        raise NotImplementedError

    def plan(self, split: str, order: OrderOptions, seed: int = 0) -> BatchPlan:
        """Which examples form the batches of a split, for every epoch."""
        return BatchPlan(self.sizes(self.examples(split, training=order.shuffle)), order, seed)

    def batches(self, split: str, order: OrderOptions, *, seed: int = 0, rank: int = 0, processes: int = 1) -> Batches:
        """The batches of a split that one of several processes reads."""
        examples = self.examples(split, training=order.shuffle)
        return Batches(examples, self.plan(split, order, seed), rank=rank, processes=processes)

    def inputs(self, batch: Batch, *, seed: int | None = None) -> Inputs:
        """The model's arguments and labels of a batch. A seed is given in training, where noise is added."""
        raise NotImplementedError

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """The losses of a batch."""
        found = model(**inputs.arguments, labels=inputs.labels, smoothing=self.label_smoothing)
        smoothed, nll = found.smoothed, found.nll
        if inputs.weights is not None:
            smoothed, nll = smoothed * inputs.weights, nll * inputs.weights
        return Losses(smoothed.sum(), nll.detach().sum(), inputs.count)

    @property
    def label_smoothing(self) -> float:
        """The probability mass of each label that is spread evenly over the vocabulary."""
        return getattr(self.options, "label_smoothing", 0.0)

    def calibrate(self, model: nn.Module, inputs: Inputs) -> None:
        """Run the model's calibration on a batch, for residual schemes that use one."""
        arguments = {name: value for name, value in inputs.arguments.items() if name != "only"}
        model.calibrate(**arguments)  # type: ignore[operator]

    def evaluated_sets(self, split: str) -> tuple[str, ...]:
        """The sets of a split that are evaluated separately, such as the test sets of several years."""
        return self.store.sets(split)

    def signatures(self) -> dict[str, str]:
        """The signatures of metrics (version, tokenisation, case), by their names."""
        return {}

    def metric_tables(self) -> tuple[MetricTable, ...]:
        """Metrics that are shown as a table rather than one by one, such as BLEU by language."""
        return ()

    def evaluate(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> dict[str, float]:
        """The task's metrics over all examples of a split."""
        raise NotImplementedError

    @torch.no_grad()
    def evaluated_examples(self, model: nn.Module, split: str) -> list[dict[str, Any]]:
        """Text, output and scores of every evaluated example, in the order of the split; called after `evaluate`."""
        found: dict[int, dict[str, Any]] = {}
        with evaluation_mode(model):
            for batch, inputs in self.every_batch(model, split, max_tokens=1):  # each example is a batch of its own
                losses, number = self.losses(model, inputs), int(batch.examples[0])
                scores = {"nll": losses.nll.item() / max(1, losses.count), "tokens": losses.count}
                found[number] = {"example": number + 1, **self.texts(batch), **self.scores(model, inputs), **scores}
        return [found[number] for number in sorted(found)]

    def texts(self, batch: Batch) -> dict[str, str]:
        """The readable fields of a batch of one example, by name."""
        raise NotImplementedError

    def scores(self, model: nn.Module, inputs: Inputs) -> dict[str, Any]:
        """What a task adds to the loss of a batch of one example, such as its predicted label."""
        return {}

    def samples(self, model: nn.Module, split: str, count: int) -> list[SampleOutput]:
        """The model's outputs for a few examples; none where the task generates no text."""
        return []

    def fitting(self, model: nn.Module, split: str) -> Integers:
        """The numbers of the examples that the model has positions for; an evaluation leaves out the others."""
        sizes = self.sizes(self.examples(split))
        options = getattr(model, "options", None)
        if not isinstance(options, ModelOptions) or options.positions != "learned":
            return np.arange(len(sizes))
        kept = np.flatnonzero(sizes <= options.max_length)
        if not len(kept):
            raise UserError(f"{split}: every example is longer than the {options.max_length} positions of the model")
        return kept

    def coverage(self, model: nn.Module, split: str) -> Coverage:
        """The number of examples of a split that are evaluated, and the reasons why others are not."""
        records = [self.store.manifest.splits[name] for name in self.store.sets(split)]
        left_out: Counter[str] = Counter()
        for record in records:
            left_out.update({reason: count * self.directions_per_example for reason, count in record.dropped.items()})
        too_long = len(self.examples(split)) - len(self.fitting(model, split))
        if too_long:
            left_out["longer than the positions of the model"] = too_long
        stored = sum(record.examples for record in records) * self.directions_per_example
        total = stored + left_out.total() - too_long
        return Coverage(total - left_out.total(), total, dict(left_out))

    def every_batch(self, model: nn.Module, split: str, max_tokens: int) -> Iterator[tuple[Batch, Inputs]]:
        """Batches of all examples of a split, sorted by size, without noise, on the model's device."""
        device = next(model.parameters()).device
        order = OrderOptions(max_tokens=max_tokens, shuffle=False, oversize="alone")
        batches, kept = self.batches(split, order), self.fitting(model, split)
        if len(kept) < len(batches.examples):
            batches.plan = BatchPlan(batches.plan.sizes, order, draw=lambda epoch: kept)
        done = 0
        for batch in batches.epoch(0):
            yield batch, self.inputs(batch).to(device)
            done += len(batch)
            self.progress(f"{split}: losses", done, len(kept))

    @property
    def num_labels(self) -> int:
        """The number of different labels that a prediction chooses from, at most."""
        return max(len(self.store.tokenizer(name)) for name in self.store.manifest.tokenizers)

    def unigram_nll(self, split: str) -> float:
        """The mean negative log-likelihood of a split under a unigram model.

        The unigram model has the label frequencies of the training split, one added to each count.
        """
        size = self.num_labels
        train, held_out = self._frequencies("train", size), self._frequencies(split, size)
        probabilities = (train + 1) / (train + 1).sum()
        return float(-(held_out * np.log(probabilities)).sum() / held_out.sum())

    def describe_failure(self, split: str, nll: float, measure: Callable[[], Mapping[str, float]]) -> str:
        """Why a model has failed whose training has ended: its loss is not below a unigram model's; else empty.

        measure: gives the metrics of the split.
        """
        unigram = self.unigram_nll(split)
        return "" if nll < unigram else f"validation loss {nll:.3f} is not below a unigram model's {unigram:.3f}"

    def _frequencies(self, split: str, size: int) -> NDArray[np.float64]:
        found = np.zeros(size)
        for name in self.store.sets(split):
            examples = self.store[name]
            if self.end is not None:
                found[self.end] += len(examples)
            for field, first in product(self.predicted_fields, range(0, len(examples), 8192)):
                ids, _ = examples.gather(field, np.arange(first, min(first + 8192, len(examples))))
                found += np.bincount(ids, minlength=size)
        return found

    @torch.no_grad()
    def total_losses(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> Losses:
        """The losses over all examples of a split, in evaluation mode."""
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
    """The token ids of a field as a tensor."""
    return to_tensors(field)[0]
