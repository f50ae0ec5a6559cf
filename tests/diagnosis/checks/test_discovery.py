"""A new check is one file, or a class of an installed package."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from lamina.diagnosis import checks
from lamina.diagnosis.checks.base import Check
from lamina.diagnosis.results import Finding
from lamina.errors import UserError
from lamina.registry import Registry
from support.measurements import advice, fact, findings, measurement

NEW_CHECK = '''
from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check
from lamina.diagnosis.results import Action
from lamina.options import Options

class LargeCondition(Check):
    """Is κ larger than anybody would like?"""

    class Thresholds(Options):
        warning: PositiveFloat = 5.0
        """κ of the whole model."""

    reads = ("adam-conditioning",)
    predicts_failure = True

    def judge(self, evidence, thresholds):
        value = evidence.get("adam-conditioning").fact("κ")
        severity = "failure" if value > thresholds.warning else "fine"
        sentence = f"κ is {value:g}, and the threshold {thresholds.warning:g}"
        yield self.finding(
            severity, sentence, value=value, threshold=thresholds.warning, remedies=[Action(text="lower it")]
        )
'''
CONDITION = measurement("adam-conditioning", facts=[fact("κ", 7.0)])


def fresh() -> Registry[Check]:
    return Registry(checks.__name__, Check, kind="check", group="lamina.checks", attribute="key")  # type: ignore[type-abstract]


@pytest.fixture
def _with_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package has one more folder, with one more file."""
    (tmp_path / "large_condition.py").write_text(NEW_CHECK)
    monkeypatch.setattr(checks, "__path__", [*checks.__path__, str(tmp_path)])
    monkeypatch.setattr(checks, "CHECKS", fresh())
    monkeypatch.delitem(sys.modules, "lamina.diagnosis.checks.large_condition", raising=False)


def judged(key: str, **thresholds: float) -> Finding:
    chosen = checks.define_thresholds().read({key.replace("-", "_"): thresholds}, where="diagnose.thresholds")
    (found,) = findings(key, [CONDITION], thresholds=chosen)
    return found


@pytest.mark.usefixtures("_with_new_file")
def test_a_new_check_is_one_file() -> None:
    usual = judged("large-condition")
    assert (usual.severity, usual.value, usual.threshold, advice(usual)) == ("failure", 7.0, 5.0, "lower it")
    assert checks.expects_failure([usual])
    assert judged("large-condition", warning=9.0).severity == "fine"
    with pytest.raises(UserError, match="diagnose.thresholds: large_condition.warning"):
        judged("large-condition", warning=-1.0)
    (missing,) = findings("large-condition", [])
    assert missing.severity == "not measured"


def test_packages_add_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_checks.py").write_text(NEW_CHECK)
    monkeypatch.syspath_prepend(tmp_path)
    entry = metadata.EntryPoint("their-condition", "their_checks:LargeCondition", "lamina.checks")
    broken = metadata.EntryPoint("broken", "their_checks:Nothing", "lamina.checks")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry, broken] if group == "lamina.checks" else [])
    monkeypatch.setattr(checks, "CHECKS", fresh())
    with pytest.warns(UserWarning, match=r"check 'broken' .*cannot be used, left out"):
        assert checks.CHECKS["their-condition"].key == "their-condition"
    assert judged("their-condition").check == "their-condition"
    assert judged("their-condition", warning=9.0).severity == "fine"


def test_a_config_without_the_package_is_refused_with_the_checks_that_there_are() -> None:
    with pytest.raises(UserError, match=r"diagnose.thresholds: .*their_condition.*vanishing"):
        checks.define_thresholds().read({"their_condition": {"warning": 9.0}}, where="diagnose.thresholds")
