"""Sentences per second of beam search on a CPU, compared with other libraries on models of the same size.

    python benchmarks/decoding.py [--sentences 200] [--beam 5] [--int8] [--batch-size 1] [--schemes post-ln]
                                  [--rounds 5] [--seconds 200] [--threads 2] [key=value …]

Models have random weights and the size of the preset `iwslt`, with the key=value overrides. Sentences have lengths
like those of a translation corpus. Sorted by length, they form groups; every sentence of a group gets an output of the
group's mean length, because all libraries are made to stop there. So all do the same decoder steps, which is checked by
counting them, with decoder layers of the same number of parameters. Each library gets whole groups, sorted, and decodes
at the batch size at which it is fastest, or at `--batch-size`: with 1, the time is the latency of single sentences.
`--beam 1` is greedy decoding. `--int8` compares Lamina and CTranslate2 with int8 weights. Encoding is part of the time;
text and tokenisers are not, nor is packing the weights, which Lamina does once in a search and CTranslate2 on loading.
Lamina keeps freed memory, as its commands do, and so do all libraries of the process.

In each round every library decodes all sentences once, in random order. Ratios are those of median times, with a
bootstrap interval over rounds. Libraries that are not installed are left out and named; `make bench` installs those
that can be installed.

The goal: every scheme at least 1.5 times as fast as the fastest PyTorch peer, and within 5 % of each other.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from decoding_peers import FIRST_WORD, INT8, NATIVE, PYTORCH, Group, Searcher, Tokens, build_peer
from lamina import Transformer
from lamina.config import read_overrides
from lamina.files.atomic import write_file
from lamina.generate.int8 import quantise
from lamina.generate.options import GenerateOptions
from lamina.generate.packing import can_be_packed, pack
from lamina.generate.search import stream
from lamina.model.options import ModelOptions
from lamina.training.machine.allocator import keep_freed_memory
from pairs import ENOUGH, Estimate, Numbers, estimate, rounds_until

SCHEMES = ("post-ln", "pre-ln", "b2t", "resi-dual")
GROUPS = 5
BOS, EOS = 1, 2
GOAL, SPREAD = 1.5, 0.05


class Lamina:
    def __init__(self, options: ModelOptions, beam: int, int8: bool = False) -> None:
        torch.manual_seed(1)
        model = Transformer.build(options).eval()
        self.model: Any = quantise(model) if int8 else model
        self.packed = pack(self.model) if can_be_packed(self.model) else self.model
        self.beam = beam
        self.decoder_layer = None if int8 else self.model.decoder.layers[0]  # int8 layers have no parameters to count

    def search(self, group: Group, batch_size: int) -> list[Tokens]:
        limit = group.steps - 1  # the end comes on top
        method: Any = "beam" if self.beam > 1 else "greedy"
        options = GenerateOptions(
            method=method, beam=self.beam, min_length=limit, max_length=limit, max_tokens=sys.maxsize
        )
        model = self.packed if can_be_packed(self.model) else self.model  # not while `check` counts its steps
        sources = [[*source, EOS] for source in group.sources]
        found = stream(model, sources, options, bos=BOS, eos=EOS, window=batch_size)
        return [[*nbest[0].tokens, EOS] for nbest in found]


def random_groups(sentences: int, num_words: int) -> list[Group]:
    """Lengths are log-normal, about 26 tokens on average."""
    source = np.random.default_rng(1)
    lengths = np.sort(np.clip(source.lognormal(3.1, 0.6, sentences), 1, 175).astype(int))[::-1]
    return [
        Group(
            [source.integers(FIRST_WORD, num_words - 1, length).tolist() for length in part],
            steps=max(2, round(part.mean())),
        )
        for part in np.array_split(lengths, min(GROUPS, sentences))
    ]


def build_all(
    options: ModelOptions, beam: int, schemes: Sequence[str], wanted: Sequence[str], int8: bool = False
) -> tuple[dict[str, Searcher], dict[str, str]]:
    """The libraries that are installed, and the reasons why others are left out."""
    searchers: dict[str, Searcher] = {
        scheme: Lamina(options.model_copy(update={"residual": scheme}), beam, int8) for scheme in schemes
    }
    missing = {}
    for name in wanted:
        try:
            searchers[name] = build_peer(name, options, beam)
        except Exception as error:  # a peer may fail in any way; that is a result
            missing[name] = f"{type(error).__name__}: {error}"
    return searchers, missing


def check(searchers: dict[str, Searcher], group: Group) -> None:
    """Check that layers, numbers of steps and lengths of outputs are the same; this also warms up all libraries.

    On one thread, where Lamina decodes a group as one batch.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    calls: list[object] = []
    sizes = {}
    for name, searcher in searchers.items():
        calls.clear()
        layer = searcher.decoder_layer
        hook = layer.register_forward_hook(lambda *_: calls.append(None)) if layer is not None else None
        outputs = searcher.search(group, len(group.sources))
        assert [len(output) for output in outputs] == [group.steps] * len(group.sources), f"{name}: lengths differ"
        if layer is not None and hook is not None:
            hook.remove()
            sizes[name] = sum(parameter.numel() for parameter in layer.parameters())
            assert len(calls) == group.steps, f"{name} made {len(calls)} steps instead of {group.steps}"
    torch.set_num_threads(threads)
    assert len(set(sizes.values())) <= 1, f"decoder layers differ in size: {sizes}"


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def best_batch_size(searcher: Searcher, group: Group) -> int:
    """The fastest batch size of a whole group, a half and a quarter, by the better of two tries each."""
    sizes = sorted({-(-len(group.sources) // parts) for parts in (1, 2, 4)})
    return min(sizes, key=lambda size: min(seconds(lambda: searcher.search(group, size)) for _ in range(2)))


def measure(
    searchers: dict[str, Searcher], groups: list[Group], sizes: dict[str, int], rounds: int, until: float = math.inf
) -> Numbers:
    """The seconds that each library takes for all groups, (rounds, searchers)."""
    order, shuffle = list(searchers), random.Random(1).shuffle
    times: list[list[float]] = []
    with suppress(KeyboardInterrupt):
        for _ in rounds_until(rounds, until):
            shuffle(order)
            taken = {
                name: seconds(lambda name=name: [searchers[name].search(group, sizes[name]) for group in groups])
                for name in order
            }
            times.append([taken[name] for name in searchers])
    if not times:
        sys.exit("interrupted before the first round was finished: nothing to report")
    return np.array(times)


def compare(times: Numbers, names: list[str]) -> dict[str, Any]:
    """The speeds relative to the fastest PyTorch peer and to CTranslate2, and the spread of the schemes."""
    schemes = [at for at, name in enumerate(names) if name in SCHEMES]
    found: dict[str, Any] = {
        "spread": estimate(times, lambda medians: medians[..., schemes].max(-1) / medians[..., schemes].min(-1) - 1)
    }
    for reference, members in (("PyTorch", PYTORCH), ("native", NATIVE | INT8)):
        others = [at for at, name in enumerate(names) if name in members]
        if others:
            found[reference] = {name: _speed(times, at, others) for at, name in enumerate(names)}
    return found


def _speed(times: Numbers, at: int, others: list[int]) -> Estimate:
    """The speed relative to the fastest of the others."""
    return estimate(times, lambda medians: medians[..., others].min(-1) / medians[..., at])


def show(names: list[str], sizes: dict[str, int], rates: Numbers, found: dict[str, Any], rounds: int) -> None:
    table = Table("", "batch", "sentences/s", "× fastest PyTorch peer", "× CTranslate2", title="beam search on a CPU")
    for at, name in enumerate(names):
        ratios = [str(found[reference][name]) if reference in found else "–" for reference in ("PyTorch", "native")]
        label = f"lamina {name}" if name in SCHEMES else name
        table.add_row(label, str(sizes[name]), f"{rates[at]:.2f}", *ratios)
    console = Console()
    console.print(table)
    spread: Estimate = found["spread"]
    console.print(f"spread of the schemes: {spread}; at most {SPREAD} is {_verdict(spread.value <= SPREAD)}")
    if "PyTorch" in found:
        slowest = min(found["PyTorch"][name].value for name in names if name in SCHEMES)
        console.print(f"slowest scheme, × fastest PyTorch peer: {slowest:.3f}; {GOAL} is {_verdict(slowest >= GOAL)}")
    if rounds < ENOUGH:
        console.print(f"{rounds} rounds: too few to quote; use --rounds {ENOUGH}")


def _verdict(met: bool) -> str:
    return "met" if met else "not met"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="options of the model that differ from the preset, as key=value")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=math.inf, help="no round begins that would end later")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--int8", action="store_true", help="int8 weights, in Lamina and CTranslate2 alone")
    parser.add_argument("--batch-size", type=int, help="sentences of a batch; by default the fastest size of each")
    parser.add_argument("--schemes", default=",".join(SCHEMES), help="separated by commas")
    parser.add_argument("--peers", help="separated by commas; all by default")
    parser.add_argument("--output", help="a JSON file for all that was measured")
    given = parser.parse_args()

    until = time.monotonic() + given.seconds
    keep_freed_memory()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore")  # peers on a newer torch than they know
    overrides = read_overrides(given.overrides)
    options = ModelOptions.read({"preset": "iwslt"} | overrides, where="the benchmark")
    groups = random_groups(given.sentences, options.vocab_size)
    known = INT8 if given.int8 else PYTORCH | NATIVE
    peers = list(known) if given.peers is None else [name for name in given.peers.split(",") if name]
    searchers, missing = build_all(options, given.beam, given.schemes.split(","), peers, given.int8)
    for name, reason in missing.items():
        print(f"without {name}: {reason}")
    middle = groups[len(groups) // 2]
    check(searchers, middle)
    sizes = {name: given.batch_size or best_batch_size(searcher, middle) for name, searcher in searchers.items()}
    times = measure(searchers, groups, sizes, given.rounds, until)
    names = list(searchers)
    rates = given.sentences / np.median(times, axis=0)
    found = compare(times, names)
    show(names, sizes, rates, found, len(times))
    if given.output:
        settings = {"sentences": given.sentences, "beam": given.beam, "threads": given.threads, "overrides": overrides}
        settings |= {"int8": given.int8}
        result = {
            "settings": settings | {"steps": [group.steps for group in groups], "batch_sizes": sizes},
            "missing": missing,
            "sentences_per_second": dict(zip(names, rates.tolist(), strict=True)),
            **found,
            "seconds": dict(zip(names, times.T.tolist(), strict=True)),
        }
        write_file(given.output, json.dumps(result, indent=1, default=Estimate.to_json).encode())


if __name__ == "__main__":
    main()
