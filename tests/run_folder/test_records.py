from __future__ import annotations

from pathlib import Path

import pytest

from lamina.diagnosis.watching.observation import Observation
from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.records import Cost, DiagnosisFingerprint, Failure, Fingerprint, ObservationsFile, RecordFile

FAILURE = Failure(
    step=3, epoch=0, batch=2, examples=(4, 1), loss="nan", gradient_norm="inf", first_bad="the output of x"
)
RECORDS = {
    "cost": Cost(seconds=1.5, memory=1 << 40),
    "failure": FAILURE,
    "fingerprint": Fingerprint(config={"seed": 1}, data="a1", versions={"shared path": 1}),
    "diagnosed": DiagnosisFingerprint(version=1, thresholds={}, extent={"seeds": 2}, measures=["a"], checks=[]),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_read_as_it_was_written(name: str, tmp_path: Path) -> None:
    with RunFolder(tmp_path).claim() as folder:
        file = getattr(folder, name)
        assert file.read() is None
        file.write(RECORDS[name])
        assert file.read() == RECORDS[name]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"seconds": "long"}', '{"hours": 1}'])
def test_a_file_that_holds_no_such_record_is_none(text: str, tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "cost.json", Cost)
    file.path.write_text(text)
    assert file.read() is None


def test_observations_have_the_version_of_their_class(tmp_path: Path) -> None:
    file = ObservationsFile(tmp_path / "observations.json")
    file.write(7, [Observation(step=2), Observation(step=4)])
    assert [each.step for each in file.read(7, Observation)] == [2, 4]
    with pytest.raises(UserError, match="in format 7, but this version of Lamina reads format 8"):
        file.read(8, Observation)
    file.path.write_text('{"version": 7}')
    with pytest.raises(UserError, match="damaged"):
        file.read(7, Observation)
