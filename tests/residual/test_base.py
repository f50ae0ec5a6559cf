"""The base of schemes: what a subclass is called and inherits, and what it refuses unless it says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from lamina import residual
from lamina.errors import UserError
from lamina.residual.base import Matrix, Place, Residual, Shape, SingleStream, Site, StackEntry
from lamina.residual.norm import NormOptions


class First(SingleStream):
    colour = "#123456"
    aliases = ("one",)
    avoids = frozenset({"vanishing"})
    folds = True

    def initialise(self, entries: Sequence[StackEntry], embeddings: Iterable[Matrix] = ()) -> None:
        pass


class Derived(First):
    pass


class Plain(SingleStream):
    pass


def built(scheme: type[Residual[Any]], **norm: Any) -> Residual[Any]:
    return scheme(Shape(4, 2, 4), NormOptions(**norm), scheme.Options())


def test_the_name_is_that_of_the_module() -> None:
    assert First.name == "test-base"


def test_colour_aliases_and_what_it_avoids_are_not_inherited() -> None:
    assert (First.colour, First.aliases, First.avoids) == ("#123456", ("one",), {"vanishing"})
    assert (Derived.colour, Derived.aliases, Derived.avoids) == (None, (), frozenset())
    assert Derived.folds, "what the code can do is inherited"


def test_a_scheme_changes_the_initialisation_if_it_says_how() -> None:
    assert built(First).changes_initialisation
    assert built(Derived).changes_initialisation
    assert not built(Plain).changes_initialisation
    assert not built(Plain).needs_calibration


def test_norms_are_of_the_options_and_of_the_width_of_the_stream() -> None:
    norm = built(Plain, kind="rms", eps=0.5).new_norm(eps_factor=2)
    assert isinstance(norm, nn.RMSNorm)
    assert norm.normalized_shape == (4,)
    assert norm.eps == 1.0


def test_a_single_stream_is_its_own_state() -> None:
    x, scheme = torch.randn(2, 4), built(Plain)
    assert scheme.open(x) is x
    assert scheme.close(x) is x


def test_folding_is_refused_with_the_schemes_that_can() -> None:
    with pytest.raises(UserError, match="test-base cannot be folded into a plain stack; these can: ") as refused:
        built(Plain).folded()
    able = str(refused.value).partition("these can: ")[2].split(", ")
    assert able == [scheme.name for scheme in residual.schemes() if scheme.folds]


def test_a_site_spares_nothing_from_decay_unless_it_says_so() -> None:
    site: Site[Any] = Site()
    site.gain = nn.Parameter(torch.ones(1))
    assert list(site.undecayed()) == []


def test_a_matrix_belongs_to_its_parameter() -> None:
    parameter = nn.Parameter(torch.randn(6, 2))
    assert Matrix("query", parameter[:2], held_by=parameter).parameter is parameter
    assert Matrix("query", parameter).parameter is parameter


def test_a_place_in_words() -> None:
    assert str(Place(3, 1, "feed-forward", False, True)) == "sub-layer 3 (feed-forward of layer 1)"
