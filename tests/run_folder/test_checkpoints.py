"""The names of checkpoints: which folders are finished ones, and of which step."""

from __future__ import annotations

from pathlib import Path

from lamina.run_folder.checkpoints import (
    finished_checkpoints,
    list_checkpoints,
    name_step,
    step_of,
    unfinished_checkpoints,
)


def test_names_sort_by_step_and_give_it_back(tmp_path: Path) -> None:
    for step in (7, 100, 123_456_789):
        (tmp_path / name_step(step)).mkdir()
    assert [step_of(each) for each in list_checkpoints(tmp_path)] == [7, 100, 123_456_789]
    (tmp_path / "latest").symlink_to(name_step(100))
    assert step_of(tmp_path / "latest") == 100


def test_what_is_no_finished_checkpoint_is_left_out(tmp_path: Path) -> None:
    for name in ("step-00000001", "step-00000002.replaced", ".step-00000003.partial", "step-4", "step-x", "other"):
        (tmp_path / name).mkdir()
    found = sorted(finished_checkpoints(tmp_path))
    assert [(step, in_place) for step, in_place, _ in found] == [(1, True), (2, False)]
    assert [each.name for each in unfinished_checkpoints(tmp_path)] == [".step-00000003.partial"]


def test_of_one_that_is_being_replaced_the_new_one_counts(tmp_path: Path) -> None:
    for name in ("step-00000002.replaced", "step-00000002"):
        (tmp_path / name).mkdir()
    assert [each.name for each in list_checkpoints(tmp_path)] == ["step-00000002"]
    (tmp_path / "step-00000002").rmdir()
    assert [each.name for each in list_checkpoints(tmp_path)] == ["step-00000002.replaced"]
