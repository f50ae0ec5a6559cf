"""What a residual scheme is: one object per stack, one small site per sub-layer.

The stack is a single loop; the scheme alone decides what each sub-layer reads and what becomes of its answer:

    state = residual.open(x)
    for each sub-layer f, with its site:
        state = site.write(state, f(site.read(state)))
    return residual.close(state)

A scheme never mixes positions, so padded, packed and token-by-token inputs are the same thing to it.
To add one, see CONTRIBUTING: it is one new file in this folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from torch import Tensor, nn

from lamina.errors import UserError
from lamina.options import Options as SchemeOptions
from lamina.residual.norm import NormOptions

State = TypeVar("State")
Role = Literal["query", "key", "value", "output", "inner", "gate", "outer", "embedding"]
Placement = Literal["post", "pre", "both", "none"]
Fault = Literal["vanishing", "rate", "amplification", "collapse"]

__all__ = ["Fault", "Folded", "Matrix", "Observer", "StackEntry", "Place", "Placement", "Residual", "Role"]
__all__ += ["SchemeOptions", "Shape", "Site", "State"]


@dataclass(frozen=True)
class Shape:
    """The stack a scheme is built for."""

    model_dim: int
    num_layers: int
    num_sublayers: int
    role: Literal["encoder", "decoder", "single"] = "single"
    other_num_layers: int = 0
    """Layers of the other stack of an encoder–decoder."""


@dataclass(frozen=True)
class Place:
    """Where a sub-layer stands in its stack; a layer of one sub-layer is both first and last."""

    index: int
    """The sub-layer's number in the stack, from 0."""
    layer: int
    """Its layer's number, from 0."""
    kind: str
    """`self-attention`, `cross-attention`, `feed-forward`, or the class of a foreign module."""
    first: bool
    last: bool

    def __str__(self) -> str:
        return f"sub-layer {self.index} ({self.kind} of layer {self.layer})"


@dataclass(frozen=True)
class Matrix:
    """A weight matrix that is known by its role. `weight` is (outputs, inputs)."""

    role: Role
    weight: Tensor
    bias: Tensor | None = None
    reads_stream: bool = False
    """Its input is what the site reads: q, k, v (in cross-attention q only), the first feed-forward matrix."""
    writes_branch: bool = False
    """Its output is the branch: the attention's output matrix, the last feed-forward matrix."""


class Site(nn.Module, Generic[State]):
    """What a layer owns for one of its sub-layers: norms, gains, ω."""

    def read(self, state: State) -> Tensor:
        """The sub-layer's input. Never changes the stream."""
        raise NotImplementedError

    def write(self, state: State, branch: Tensor) -> State:
        """The state after the sub-layer's answer (dropout applied)."""
        raise NotImplementedError

    def undecayed(self) -> Iterator[nn.Parameter]:
        """Parameters that the scheme wants kept out of weight decay."""
        return iter(())


class StackEntry(NamedTuple):
    """One sub-layer as the scheme sees it when it sets start values, calibrates or folds."""

    place: Place
    site: Site[Any]
    matrices: Sequence[Matrix]


class Observer(Protocol):
    """Sees every sub-layer of a forward pass just before its write."""

    def __call__(self, site: Any, state: Any, branch: Tensor, /) -> None: ...


class Folded(NamedTuple):
    """The plain scheme that a fold leads to."""

    scheme: str
    options: dict[str, Any]


class Residual(nn.Module, Generic[State]):
    """The base of all schemes. A subclass is found by its file: `post_ln.py` is the scheme `post-ln`."""

    class Options(SchemeOptions):
        """What a user may set, checked by the scheme itself."""

    name: ClassVar[str]
    result_version: ClassVar[int] = 1
    """Raise it when the scheme computes other numbers than before: its finished runs, and those of schemes derived from
    it, are then trained again. Not inherited."""
    aliases: ClassVar[tuple[str, ...]] = ()
    placement: ClassVar[Placement]
    """Where its norms stand: after the sum, before the branch, both, or nowhere."""
    streams: ClassVar[tuple[str, ...]] = ("x",)
    """The names of the parts of the state."""
    grows: ClassVar[bool] = False
    """Whether the state gains a part per layer."""
    folds: ClassVar[bool] = False
    """Whether `fold` can turn it into a plain stack with the same outputs."""
    colour: ClassVar[str | None] = None
    """Its colour in every figure. Without one it shares a colour with others and gets a broken line."""
    fold_changes: ClassVar[Literal["reads_stream", "writes_branch"]] = "reads_stream"
    """The matrices of every sub-layer that a fold must be able to change."""
    base_initialisation: ClassVar[str | None] = None
    """The base initialisation it insists on, whatever the model's `init` says."""
    avoids: ClassVar[frozenset[Fault]] = frozenset()
    """The faults of depth that its paper shows it to be free of, or far less prone to: verdicts suggest it there."""

    options: SchemeOptions

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")
        own = vars(cls)  # what identifies a scheme is not inherited by one built on it
        cls.colour, cls.aliases = own.get("colour"), own.get("aliases", ())
        cls.avoids = own.get("avoids", frozenset())

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__()
        self.shape, self.norm_options, self.options = shape, norm, options

    def new_norm(self, eps_factor: float = 1.0) -> nn.Module:
        return self.norm_options.build(self.shape.model_dim, eps_factor)

    # The forward pass.

    def site(self, place: Place) -> Site[State]:
        """A new site for the sub-layer at `place`; sites are asked for in order."""
        raise NotImplementedError

    def slot(self, place: Place) -> nn.Module | None:
        """What stands before the sub-layer's last matrix, where Lamina's own sub-layers keep a slot."""
        return None

    def open(self, x: Tensor) -> State:
        """The state before the first sub-layer."""
        raise NotImplementedError

    def close(self, state: State) -> Tensor:
        """The stack's output."""
        raise NotImplementedError

    # Before training.

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        """Change the base initialisation. Called once, without gradient."""

    @property
    def wants_calibration(self) -> bool:
        """Whether it looks at a batch before training."""
        return False

    def calibration(self, entries: Sequence[StackEntry], mask: Tensor | None) -> AbstractContextManager[Observer]:
        """Around the one forward pass that it looks at."""
        raise NotImplementedError

    # After training.

    def folded(self) -> Folded:
        """The scheme that `fold_into` fills."""
        from lamina import residual  # the registry imports this module

        able = ", ".join(scheme.name for scheme in residual.schemes() if scheme.folds)
        raise UserError(f"{self.name} cannot be folded into a plain stack; these can: {able}")

    def fold_into(
        self, plain: Residual[Any], entries: Sequence[StackEntry], plain_entries: Sequence[StackEntry]
    ) -> None:
        """Set the norms and matrices of the plain stack so that it gives the same outputs."""
        raise NotImplementedError


class SingleStream(Residual[Tensor]):
    """The schemes whose state is x alone, from the input to the end."""

    def open(self, x: Tensor) -> Tensor:
        return x

    def close(self, state: Tensor) -> Tensor:
        return state
