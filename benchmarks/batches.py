"""Tokens per second of batches, made with and without reading ahead, compared with those that training consumes.

    python benchmarks/batches.py [--pairs 160000] [--max-tokens 4096] [--seconds 3] [--steps 5]

The examples have lengths like those of a translation corpus and are held in memory. All steps from a store to the
inputs of a model are timed: order, gathering, bos and eos, word dropout, tensors. Tokens of source and target are
counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch

from lamina import Transformer
from lamina.data.batches import Batch, Batches, BatchPlan, OrderOptions, ReadAhead
from lamina.data.examples import example_sizes
from lamina.data.noise import drop_words
from lamina.data.packed import PackedField, append, prepend, score_cells, to_tensors
from support.memory_batches import MemorySplit, batches_from

BOS, EOS, UNKNOWN, VOCABULARY = 1, 2, 3, 10_000


def examples(pairs: int) -> MemorySplit:
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(3.1, 0.6, pairs), 1, 175).astype(np.int64)
    other = np.clip(lengths * random.normal(1, 0.15, pairs), 1, 175).astype(np.int64)
    return MemorySplit(
        {
            name: PackedField(random.integers(4, VOCABULARY, int(each.sum())), each)
            for name, each in (("source", lengths), ("target", other))
        }
    )


def ready(batch: Batch) -> int:
    """Make the model's inputs from one batch; returns its number of tokens."""
    source = drop_words(
        batch["source"], batch.examples, probability=0.1, replacement=UNKNOWN, seed=0, epoch=batch.epoch
    )
    made = [to_tensors(append(source, EOS)), to_tensors(prepend(batch["target"], BOS))]
    to_tensors(append(batch["target"], EOS))
    return sum(len(ids) for ids, _ in made)


def rate(tokens: Iterator[int], seconds: float) -> float:
    total, start = next(tokens), time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        total += next(tokens)
    return total / passed


def training_rate(batches: Batches, steps: int) -> float:
    """The median of the tokens per second in updates of an iwslt-size model, on all threads of this machine."""
    model = Transformer.from_preset("iwslt", vocab_size=VOCABULARY)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    rates = []
    for batch in islice(batches_from(batches), steps + 1):
        start = time.perf_counter()
        source, target = append(batch["source"], EOS), prepend(batch["target"], BOS)
        labels = torch.from_numpy(append(batch["target"], EOS).ids)
        inputs = {"source_lengths": source.lengths, "target_lengths": target.lengths, "labels": labels}
        losses = model(torch.from_numpy(source.ids), torch.from_numpy(target.ids), **inputs, smoothing=0.1)
        losses.smoothed.mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        rates.append((len(source.ids) + len(target.ids)) / (time.perf_counter() - start))
    return float(np.median(rates[1:]))  # the first step warms up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=160_000)
    parser.add_argument("--max-tokens", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--steps", type=int, default=5, help="of training, to compare with")
    given = parser.parse_args()

    split = examples(given.pairs)
    sizes = example_sizes(split, ("source", "target"), added=1)
    start = time.perf_counter()
    plan = BatchPlan(sizes, OrderOptions(max_tokens=given.max_tokens))
    epoch = plan.epoch(0)
    print(f"order of an epoch of {given.pairs:,} pairs, {len(epoch):,} batches: {time.perf_counter() - start:.2f} s")
    cells = [score_cells(sizes[batch], sizes[batch]) for batch in epoch]
    padding = np.mean([1 - real / computed for computed, real in cells])
    print(f"padding inside attention scores: {padding:.1%}; everywhere else: none")

    batches = Batches(split, plan)
    print(f"alone:         {rate(map(ready, batches_from(batches)), given.seconds):12,.0f} tokens/s")
    with ReadAhead(map(ready, batches_from(batches))) as ahead:
        made = rate(ahead, given.seconds)
        print(f"reading ahead: {made:12,.0f} tokens/s")
    consumed = training_rate(batches, given.steps)
    print(f"training:      {consumed:12,.0f} tokens/s; batches come {made / consumed:,.0f} times as fast")


if __name__ == "__main__":
    main()
