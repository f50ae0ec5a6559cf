"""Admin: post-LN whose stream is weighted by a learned vector, initialised from one batch.

    x ← LN(ω⊙x + f(x))                              end: x

Liu et al. 2020, Understanding the Difficulty of Training Transformers, section 4.3 and appendix C.

    x ──┬──► f ──►(+)──► LN ──► x
        └─── ⊙ω ───┘

Initially ω grows along the stack so that branch i contributes about 1/i, as in pre-LN; then it is trained, unless it
is fixed. A trained stack can be folded into post-LN: ω multiplies the norm before it and divides the matrices that read
its output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf, log, sqrt
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.residual.base import (
    Folded,
    Matrix,
    Observer,
    Place,
    Residual,
    SchemeOptions,
    Shape,
    SingleStream,
    Site,
    StackEntry,
)
from lamina.residual.norm import NormOptions
from lamina.residual.post_ln import PostLN, PostLNSite
from lamina.residual.reference import Layers, Parameters


class Admin(SingleStream):
    class Options(SchemeOptions):
        omega: Literal["profile", "paper", "closed-form"] = "profile"
        """Initialisation of ω: `profile` as in the authors' code, `paper` as in the paper, `closed-form` without
        data."""
        omega_decay: bool = False
        """Whether weight decay applies to ω."""
        omega_form: Literal["parameter", "fixed", "rescaled"] = "parameter"
        """`parameter` trains ω; `fixed` keeps its initial value, as admin-torch does with `as_parameter=False`;
        `rescaled` scales the initial weights instead and has no ω (appendix C)."""

    placement = "post"
    colour = "#CC79A7"
    avoids = frozenset({"amplification"})  # figure 4
    folds = True
    options: Options
    calibrated: Tensor

    def __init__(self, shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        super().__init__(shape, norm, options)
        # The closed form is √((n+1)/ln(n+1) − 1) with n sub-layers in the stack.
        known = self.options.omega == "closed-form"
        n = shape.num_sublayers
        self._initial = sqrt((n + 1) / log(n + 1) - 1) if known else 1.0
        self.register_buffer("calibrated", torch.full((1,), known))
        self.is_calibrated = known  # the buffer's value, readable without synchronising with the device
        self._is_profiling = False

    def site(self, place: Place) -> Site[Tensor]:
        return AdminSite(self.new_norm(), torch.full((self.shape.model_dim,), self._initial), self.options)

    def open(self, x: Tensor) -> Tensor:
        if not self.is_calibrated and not self._is_profiling:
            raise _not_set()
        return x

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        # The matrices are new: they are not scaled yet, and an ω that was profiled with others does not fit them.
        for site in _sites(entries):
            if self.options.omega_form == "rescaled":
                site.norm.reset_parameters()  # type: ignore[operator]
            site.omega.fill_(self._initial)
        self.calibrated.fill_(False)
        self.is_calibrated = False
        if self.options.omega == "closed-form":
            self._set_omegas(entries, [self._initial] * len(entries))

    @property
    def changes_initialisation(self) -> bool:
        return False  # `rescaled` changes matrices when ω is known, and asks for their roles then

    @property
    def needs_calibration(self) -> bool:
        return self.options.omega != "closed-form"

    @contextmanager
    def calibration(self, entries: Sequence[StackEntry], mask: Tensor | None) -> Iterator[Observer]:
        if self.is_calibrated and self.options.omega_form == "rescaled":
            raise UserError("admin: these weights are rescaled already; initialise() them again first")
        if self.is_calibrated:
            raise UserError(
                "admin: ω is set already, and calibration would overwrite it, trained or not; initialise() the weights "
                "again first, or build a new stack"
            )
        sites, seen = _sites(entries), []
        before = [site.omega.clone() for site in sites]
        for site in sites:
            site.omega.fill_(1.0)
        spread: Tensor | float = 1.0  # profile: s = 1, then √(Var[ω⊙x] + Var[f])

        def profile(site: AdminSite, x: Tensor, branch: Tensor) -> None:
            nonlocal spread
            site.omega.fill_(spread)
            seen.append(site.omega[0].clone())
            spread = (variance(site.omega * x, mask) + variance(branch, mask)).sqrt()

        def as_printed(site: AdminSite, x: Tensor, branch: Tensor) -> None:
            seen.append(variance(branch, mask))

        self._is_profiling = True
        try:
            yield profile if self.options.omega == "profile" else as_printed
            if self.options.omega == "paper":  # ω_i = √(Σ_{j<i} Var[f_j]), ω_1 = 1
                seen = [torch.ones_like(seen[0]), *torch.stack(seen).cumsum(0).sqrt()[:-1]]
            self._set_omegas(entries, seen)
        except BaseException:
            for site, omega in zip(sites, before, strict=True):
                site.omega.copy_(omega)
            raise
        finally:
            self._is_profiling = False

    @torch.no_grad()
    def _set_omegas(self, entries: Sequence[StackEntry], omegas: Sequence[Tensor | float]) -> None:
        sites = _sites(entries)
        for entry, omega in zip(entries, omegas, strict=True):
            if not (isinstance(omega, Tensor) and omega.is_meta) and not (0 < float(omega) < inf):
                reason = "a branch before it, or the batch itself, is constant or not finite"
                raise UserError(f"admin: ω of {entry.place} came out as {float(omega)}: {reason}")
        for site, omega in zip(sites, omegas, strict=True):
            site.omega.fill_(omega)
        if self.options.omega_form == "rescaled":
            # The first ω has no norm before it and is kept.
            for entry in entries[1:]:
                if not any(matrix.reads_stream for matrix in entry.matrices):
                    raise UserError(f"admin: omega_form='rescaled' divides the matrices of {entry.place}; give roles")
            for before, site, entry in zip(sites[:-1], sites[1:], entries[1:], strict=True):
                absorb(site.omega, before.norm.parameters(), entry)
                site.omega.fill_(1.0)
        self.calibrated.fill_(True)
        self.is_calibrated = True

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self.is_calibrated = not self.calibrated.is_meta and bool(self.calibrated)

    def folded(self) -> Folded:
        if not self.is_calibrated:
            raise _not_set()
        return Folded("post-ln", {"input_scale": True})

    def fold_into(
        self, plain: Residual[Any], entries: Sequence[StackEntry], plain_entries: Sequence[StackEntry]
    ) -> None:
        input_scale = cast(PostLN, plain).input_scale
        assert input_scale is not None
        before: list[nn.Parameter] = [input_scale]
        for site, plain_entry in zip(_sites(entries), plain_entries, strict=True):
            if not site.omega.all():
                raise UserError(f"admin: ω of {plain_entry.place} holds a zero; it cannot be folded")
            norm = cast(PostLNSite, plain_entry.site).norm
            norm.load_state_dict(site.norm.state_dict())
            absorb(site.omega, before, plain_entry)
            before = list(norm.parameters())


def _not_set() -> UserError:
    return UserError(
        "admin: ω is not set yet. Call calibrate(…) with the first training batch, load a trained model, "
        "or choose omega='closed-form', which needs no data"
    )


def _sites(entries: Sequence[StackEntry]) -> list[AdminSite]:
    return [cast(AdminSite, entry.site) for entry in entries]


def absorb(omega: Tensor, before: Iterable[nn.Parameter], entry: StackEntry) -> None:
    """Multiply the parameters before the sub-layer by ω and divide its input matrices by it: the branch is
    unchanged."""
    for vector in before:
        vector.mul_(omega)
    for matrix in entry.matrices:
        if matrix.reads_stream:
            matrix.weight.div_(omega)


def variance(values: Tensor, mask: Tensor | None) -> Tensor:
    """The population variance over all elements at real positions, over all processes."""
    real = values if mask is None else values[mask]
    moments = torch.stack([real.new_tensor(real.numel()).double(), real.double().sum(), real.double().square().sum()])
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(moments)
    count, total, squares = moments
    return squares / count - (total / count) ** 2


class AdminSite(PostLNSite):
    omega: Tensor

    def __init__(self, norm: nn.Module, omega: Tensor, options: Admin.Options) -> None:
        super().__init__(norm)
        self.decays = options.omega_decay
        if options.omega_form == "parameter":
            self.omega = nn.Parameter(omega)
        else:
            self.register_buffer("omega", omega)

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return self.norm(torch.addcmul(branch, state, self.omega))

    def undecayed(self) -> Iterator[nn.Parameter]:
        if isinstance(self.omega, nn.Parameter) and not self.decays:
            yield self.omega


def reference(x: Tensor, layers: Layers, p: Parameters) -> Tensor:
    for l, layer in enumerate(layers):
        for s, f in enumerate(layer):
            x = p.norm(l, s)(p.at(l, s, "omega") * x + f(x))
    return x
