"""The candidates of an advice: combinations of schemes, depths and learning rates, the most promising first."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any, TypeVar

import torch

from lamina.config import with_value
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.model.options import pair
from lamina.model.transformer import Transformer
from lamina.studies.cells import Depth, Schemes, depth_text, read_depth, read_schemes
from lamina.tasks import build_task
from lamina.training.config import RunConfig

SCHEMES = ("pre-ln", "b2t", "admin", "resi-dual", "post-ln")
"""The schemes that are tried by default, after that of the config."""
Value = TypeVar("Value")
RATE_FACTORS = (3.0, 1.0, 10.0, 1 / 3)
"""The learning rates that are tried by default, as multiples of that of the config."""


@dataclass(frozen=True)
class Candidate:
    """A combination that advice may choose."""

    schemes: Schemes
    depth: Depth
    width: int
    feed_forward: int
    learning_rate: float
    changes: int
    """The number of these three settings in which it differs from the config."""

    @property
    def model(self) -> tuple[Schemes, Depth]:
        """What a diagnosis at initialisation depends on."""
        return self.schemes, self.depth

    @property
    def name(self) -> str:
        """`b2t-6-0.0015`, which a folder can be named after."""
        return f"{'+'.join(self.schemes)}-{depth_text(self.depth)}-{self.rate_text}"

    @property
    def rate_text(self) -> str:
        return f"{self.learning_rate:g}"

    def __str__(self) -> str:
        return f"{'/'.join(self.schemes)}, {depth_text(self.depth)} layers of width {self.width}, {self.rate_text}"

    def settings(self) -> dict[str, Any]:
        """The keys of a config with their values."""
        return {
            "model.residual": self.schemes[0] if len(self.schemes) == 1 else list(self.schemes),
            "model.num_layers": self.depth if isinstance(self.depth, int) else list(self.depth),
            "model.model_dim": self.width,
            "model.feed_forward_dim": self.feed_forward,
            "schedule.learning_rate": self.learning_rate,
        }

    def values(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a config with those of the candidate; options of another scheme are dropped."""
        values = dict(base)
        for key, value in self.settings().items():
            values = with_value(values, key, value, RunConfig)
        return values


def list_candidates(
    config: RunConfig,
    store: Store,
    schemes: Sequence[str] = (),
    depths: Sequence[Depth | str] = (),
    rates: Sequence[float] = (),
) -> list[Candidate]:
    """All combinations, in the order in which they are tried as far as the budget allows.

    Each list begins with the most promising value, and a combination comes the earlier the nearer its values are to
    the beginning. A model that starts from trained weights keeps its scheme and depth.
    """
    fixed = config.start_from is not None
    if fixed and (schemes or depths):
        raise UserError("start_from: trained weights have a scheme and a depth; only learning rates can be compared")
    own = _own_schemes(config)
    names = [read_schemes(each) for each in schemes] or [own, *([] if fixed else map(read_schemes, SCHEMES))]
    chosen = [read_depth(each) for each in depths] or _default_depths(config, fixed)
    learning_rates = [*rates] or _default_rates(config.schedule.learning_rate)
    sizes = _sizes(config, store, chosen)
    combined = itertools.product(_ranked(names), _ranked(chosen), _ranked(learning_rates))
    base = own, config.model.num_layers, config.schedule.learning_rate
    return [
        Candidate(scheme, depth, *sizes[depth], rate, sum(map(ne, (scheme, depth, rate), base)))
        for (_, scheme), (_, depth), (_, rate) in sorted(combined, key=lambda each: sum(rank for rank, _ in each))
    ]


def _ranked(values: Sequence[Value]) -> Iterable[tuple[int, Value]]:
    """Every value once, with its rank."""
    return enumerate(dict.fromkeys(values))


def _default_depths(config: RunConfig, fixed: bool) -> list[Depth]:
    """The config's, half of it and twice it."""
    own = config.model.num_layers
    if fixed:
        return [own]
    if isinstance(own, int):
        return [own, max(1, own // 2), 2 * own]
    encoder, decoder = own
    return [own, (max(1, encoder // 2), max(1, decoder // 2)), (2 * encoder, 2 * decoder)]


def _default_rates(own: float) -> list[float]:
    """Multiples of the config's; two digits are enough for a learning rate."""
    return [own if factor == 1 else float(f"{factor * own:.1e}") for factor in RATE_FACTORS]


def _sizes(config: RunConfig, store: Store, depths: Sequence[Depth]) -> dict[Depth, tuple[int, int]]:
    """Width and feed-forward width of each depth, so that all models have about as many parameters."""
    task = build_task(config.task, store, config.task_options)
    options = task.model_options(config.model)
    share = options.feed_forward_dim / options.model_dim
    unit = 2 * options.num_heads

    def parameters(depth: Depth, width: int) -> int:
        sizes = {"num_layers": depth, "model_dim": width, "feed_forward_dim": round(share * width)}
        with torch.device("meta"):
            return Transformer.build(task.model_options(config.model.model_copy(update=sizes))).num_parameters()

    target = parameters(options.num_layers, options.model_dim)

    def nearest_width(depth: Depth) -> int:
        """A multiple of `unit`, by bisection: more width is more parameters."""
        low, high = 1, 1
        while parameters(depth, high * unit) < target:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if parameters(depth, middle * unit) < target else (low, middle)
        return unit * min((low, high), key=lambda each: abs(parameters(depth, each * unit) - target))

    found: dict[Depth, tuple[int, int]] = {}
    for depth in depths:
        width = options.model_dim if depth == options.num_layers else nearest_width(depth)
        found[depth] = width, options.feed_forward_dim if width == options.model_dim else round(share * width)
    return found


def _own_schemes(config: RunConfig) -> Schemes:
    return tuple(dict.fromkeys(pair(config.model.residual)))
