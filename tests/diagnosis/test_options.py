"""The table `[diagnose]` of a config: thresholds of every check, filled in, checked, and under their former names."""

from __future__ import annotations

import warnings

import pytest

from lamina.config import to_toml
from lamina.diagnosis.checks import CHECKS
from lamina.diagnosis.options import FORMER_THRESHOLDS, DiagnoseOptions
from lamina.errors import UserError


def read(values: dict[str, object]) -> DiagnoseOptions:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return DiagnoseOptions.read(values, where="config.toml: diagnose")


def test_every_threshold_of_every_check_is_filled_in() -> None:
    options = read({"thresholds": {"vanishing": {"warning": 0.2}}})
    stored = options.model_dump()["thresholds"]
    defaults = {key.replace("-", "_"): check.Thresholds().model_dump() for key, check in CHECKS.members.items()}
    assert {name: table for name, table in defaults.items() if table} == stored | {
        "vanishing": stored["vanishing"] | {"warning": 0.3}
    }
    assert stored["vanishing"] == {
        "warning": 0.2,
        "failure": 0.1,
        "shrinking": 0.97,
        "small_learning_rate": 1e-4,
        "long_warmup": 4000,
    }
    assert options.thresholds.of(CHECKS["vanishing"]()).warning == 0.2
    text = to_toml(options)
    assert "[thresholds.learning_rate]" in text
    assert "# The largest number of half precision" in text


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"vanishng": {"warning": 0.2}}, r"config.toml: diagnose: thresholds.vanishng: .*did you mean 'vanishing'"),
        ({"vanishing": {"warnin": 0.2}}, r"diagnose: thresholds.vanishing.warnin: .*did you mean 'warning'"),
        ({"vanishing": {"failure": 0}}, r"config.toml: diagnose: thresholds.vanishing.failure: .*greater than 0"),
        ({"overflow": {"headroom": 0.5}}, r"thresholds.overflow.headroom: .*at least 1"),
        ({"vanishing": {"failure": True}}, r"failure is a number"),
    ],
)
def test_mistakes_are_refused_with_the_key(thresholds: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read({"thresholds": thresholds})


def test_former_names_are_read_with_a_note_of_the_new_ones(capsys: pytest.CaptureFixture[str]) -> None:
    former = {"reach_failure": 12.0, "vanishing_failure": 0.05, "collapse": 0.5}
    options = DiagnoseOptions.read({"every": 5, "verdicts": former}, where="former.toml")
    said = capsys.readouterr().err
    assert "former.toml" in said
    assert "replaced by diagnose.thresholds: reach_failure is now learning_rate.failure" in " ".join(said.split())
    stored = options.model_dump()["thresholds"]
    assert options.every == 5
    assert stored["learning_rate"] == {"warning": 40.0, "failure": 12.0, "gradient_share": 0.05}
    assert (stored["vanishing"]["failure"], stored["collapse"]["warning"]) == (0.05, 0.5)


def test_every_former_name_has_a_place() -> None:
    known = read({}).model_dump()["thresholds"]
    for name, places in FORMER_THRESHOLDS.items():
        for check, key in places:
            assert key in known[check], name


def test_of_two_names_the_new_one_counts_and_unknown_ones_are_refused() -> None:
    given = {"verdicts": {"collapse": 0.5}, "thresholds": {"collapse": {"warning": 0.4}}}
    assert DiagnoseOptions.read(given, where="diagnose").model_dump()["thresholds"]["collapse"] == {"warning": 0.4}
    with pytest.raises(UserError, match=r"verdicts: .*colapse.*collapse"):
        read({"verdicts": {"colapse": 0.5}})
