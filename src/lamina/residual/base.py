"""The base class of residual schemes: one object per stack, and one site per sub-layer.

The stack is a single loop; the scheme determines the input of each sub-layer and how its output changes the state:

    state = residual.open(x)
    for each sub-layer f, with its site:
        state = site.write(state, f(site.read(state)))
    return residual.close(state)

A scheme never mixes positions, so padded, packed and incremental inputs are treated alike.
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
Fault = Literal["vanishing", "learning-rate", "amplification", "collapse"]

__all__ = ["Fault", "Folded", "Matrix", "Observer", "StackEntry", "Place", "Placement", "Residual", "Role"]
__all__ += ["SchemeOptions", "Shape", "Site", "State"]


@dataclass(frozen=True)
class Shape:
    """The dimensions of the stack that a scheme is built for."""

    model_dim: int
    num_layers: int
    num_sublayers: int
    role: Literal["encoder", "decoder", "single"] = "single"
    other_num_layers: int = 0
    """The number of layers of the other stack of an encoder–decoder."""


@dataclass(frozen=True)
class Place:
    """The position of a sub-layer in its stack. The only sub-layer of a layer is both first and last."""

    index: int
    """The index of the sub-layer in the stack, from 0."""
    layer: int
    """The index of its layer, from 0."""
    kind: str
    """`self-attention`, `cross-attention`, `feed-forward`, or the class of a module that is not Lamina's."""
    first: bool
    last: bool

    def __str__(self) -> str:
        return f"sub-layer {self.index} ({self.kind} of layer {self.layer})"


@dataclass(frozen=True)
class Matrix:
    """A weight matrix with a role. `weight` is (outputs, inputs)."""

    role: Role
    weight: Tensor
    bias: Tensor | None = None
    reads_stream: bool = False
    """Whether its input is the sub-layer's input: q, k, v (in cross-attention only q), first feed-forward matrix."""
    writes_branch: bool = False
    """Whether its output is the branch: the attention's output matrix, the last feed-forward matrix."""
    held_by: Tensor | None = None
    """The parameter of which `weight` is a part or the transpose; None if `weight` is the parameter."""

    @property
    def parameter(self) -> Tensor:
        return self.weight if self.held_by is None else self.held_by


class Site(nn.Module, Generic[State]):
    """The parameters of a scheme for one sub-layer: norms, gains, ω."""

    def read(self, state: State) -> Tensor:
        """The sub-layer's input. Does not change the state."""
        raise NotImplementedError

    def write(self, state: State, branch: Tensor) -> State:
        """The new state, given the sub-layer's output after dropout."""
        raise NotImplementedError

    def undecayed(self) -> Iterator[nn.Parameter]:
        """The parameters that the scheme excludes from weight decay."""
        return iter(())


class StackEntry(NamedTuple):
    """One sub-layer of a stack, as a scheme needs it for initialisation, calibration and folding."""

    place: Place
    site: Site[Any]
    matrices: Sequence[Matrix]


class Observer(Protocol):
    """Called for every sub-layer of a forward pass, directly before its write."""

    def __call__(self, site: Any, state: Any, branch: Tensor, /) -> None: ...


class Folded(NamedTuple):
    """The plain scheme that another scheme is folded into."""

    scheme: str
    options: dict[str, Any]


class Residual(nn.Module, Generic[State]):
    """The base class of all schemes. A subclass is found by its file: `post_ln.py` is the scheme `post-ln`."""

    class Options(SchemeOptions):
        """The options of the scheme."""

    name: ClassVar[str]
    result_version: ClassVar[int] = 1
    """Increase it when the scheme computes other values than before: its finished runs, and those of schemes derived
    from it, are then trained again. Not inherited."""
    aliases: ClassVar[tuple[str, ...]] = ()
    placement: ClassVar[Placement]
    """The position of its norms: after the sum, before the branch, both, or no norms."""
    streams: ClassVar[tuple[str, ...]] = ("x",)
    """The names of the tensors in the state."""
    grows: ClassVar[bool] = False
    """Whether the state gains a tensor per layer."""
    folds: ClassVar[bool] = False
    """Whether `fold` can turn it into a plain stack with the same outputs."""
    colour: ClassVar[str | None] = None
    """Its colour in all figures. Schemes without one share colours and have a dashed line."""
    fold_changes: ClassVar[Literal["reads_stream", "writes_branch"]] = "reads_stream"
    """The matrices of every sub-layer that folding changes, and whose role must be known."""
    base_initialisation: ClassVar[str | None] = None
    """The base initialisation that it requires, in place of the model's `init`."""
    differs_in_decoder: ClassVar[bool] = False
    """Whether its constants in the decoder of an encoder–decoder differ from those in a single stack."""
    zero_output_table: ClassVar[bool] = False
    """Whether an output table that is not an embedding table is initialised as zero."""
    avoids: ClassVar[frozenset[Fault]] = frozenset()
    """The faults that its paper shows it to avoid or reduce; checks suggest it as a remedy for these."""

    options: SchemeOptions

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")
        own = vars(cls)  # not inherited by schemes that derive from this one
        cls.colour, cls.aliases = own.get("colour"), own.get("aliases", ())
        cls.avoids = own.get("avoids", frozenset())

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__()
        self.shape, self.norm_options, self.options = shape, norm, options

    def new_norm(self, eps_factor: float = 1.0) -> nn.Module:
        """A new norm over the stream."""
        return self.norm_options.build(self.shape.model_dim, eps_factor)

    # The forward pass.

    def site(self, place: Place) -> Site[State]:
        """A new site for the sub-layer at `place`; called in order."""
        raise NotImplementedError

    def slot(self, place: Place, name: str) -> nn.Module | None:
        """A module inside a sub-layer: `slot` before its last matrix, `activation_slot` before its activation.

        Only Lamina's own sub-layers have slots, and only feed-forward sub-layers an activation.
        """
        return None

    def open(self, x: Tensor) -> State:
        """The state before the first sub-layer."""
        raise NotImplementedError

    def close(self, state: State) -> Tensor:
        """The stack's output."""
        raise NotImplementedError

    # Before training.

    @property
    def changes_initialisation(self) -> bool:
        """Whether `initialise` changes weight matrices, so that their roles must be known."""
        return type(self).initialise is not Residual.initialise

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        """Change the base initialisation. Called once, without gradient."""

    @property
    def needs_calibration(self) -> bool:
        """Whether the scheme needs a batch before training."""
        return False

    def calibration(self, entries: Sequence[StackEntry], mask: Tensor | None) -> AbstractContextManager[Observer]:
        """A context for the forward pass of calibration; gives the observer of that pass."""
        raise NotImplementedError

    # After training.

    def folded(self) -> Folded:
        """The scheme and options that `fold_into` needs."""
        from lamina import residual  # the registry imports this module

        able = ", ".join(scheme.name for scheme in residual.schemes() if scheme.folds)
        raise UserError(f"{self.name} cannot be folded into a plain stack; these can: {able}")

    def fold_into(
        self, plain: Residual[Any], entries: Sequence[StackEntry], plain_entries: Sequence[StackEntry]
    ) -> None:
        """Set the norms and matrices of the plain stack so that it gives the same outputs."""
        raise NotImplementedError


class SingleStream(Residual[Tensor]):
    """The base class of schemes whose state is x alone."""

    def open(self, x: Tensor) -> Tensor:
        return x

    def close(self, state: Tensor) -> Tensor:
        return state
