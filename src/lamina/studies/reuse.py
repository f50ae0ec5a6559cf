"""When a finished run can be reused: while its resolved config, its data and the result versions of its code are equal.

Result versions are small integers declared at the code they belong to: one for what all runs share
(`lamina.training.RESULT_VERSION`), one per scheme, task and optimiser (`result_version`), one per base initialisation
(`lamina.model.initialisation.RESULT_VERSIONS`). A change that alters results increases one of them, see CONTRIBUTING;
other edits do not cause runs to be trained again. Diagnoses also depend on the version of the measures
(`lamina.diagnosis.measures.RESULT_VERSION`), on the thresholds and on how many seeds and batches are measured: where
only these have changed, a run is diagnosed again and not trained again.

The version of torch is not part of it. Releases of torch compute the same up to rounding, as processors do; where one
does not, the golden values that guard the result versions differ under it, and a version is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from lamina import residual, training
from lamina.data.store import MANIFEST, Store
from lamina.diagnosis import measures
from lamina.diagnosis.checks import CHECKS
from lamina.files.hashes import hash_file
from lamina.model.initialisation import RESULT_VERSIONS
from lamina.model.options import pair
from lamina.options import Affects, result_values
from lamina.registry import Registry
from lamina.run_folder.records import DiagnosisFingerprint, Fingerprint
from lamina.runs.changes import differences
from lamina.runs.diagnose import Extent
from lamina.tasks import TASKS
from lamina.training.config import RunConfig
from lamina.training.optimisers import OPTIMISERS
from lamina.training.start_from import find_start


def fingerprint(config: RunConfig, store: Store) -> Fingerprint:
    """The fingerprint of a run if it were trained now."""
    return Fingerprint(
        config=result_values(config.resolved(store), Affects.RESULTS, Affects.LENGTH, Affects.ROUNDING),
        data=hash_file(store.folder / MANIFEST),
        started_from=start.sha256 if (start := find_start(config, store)) else "",
        versions=result_versions(config),
    )


def changes_between(before: Fingerprint | None, now: Fingerprint) -> list[str]:
    """The differences, such as `schedule.learning_rate: 0.001 -> 0.002`; empty if the run can be reused."""
    if before is None:
        return ["the former run has no record of what it depends on"]
    found = [f"{key}: {old} -> {new}" for key, old, new in differences(before.config, now.config, RunConfig)]
    found += [f"data: {before.data[:12]} -> {now.data[:12]}"] if before.data != now.data else []
    if before.started_from != now.started_from:
        found.append(f"start_from: other weights, {before.started_from[:12]} -> {now.started_from[:12]}")
    is_same_config = before.config == now.config
    for component, old, new in differences(before.versions, now.versions):
        if old is None and is_same_config:
            old = 1  # the component had no version of its own when the run was trained
        if old is not None and new is not None and old != new:  # else the config names another scheme or task
            found.append(f"result version of {component}: {old} -> {new}")
    return found


def result_versions(config: RunConfig) -> dict[str, int]:
    """The result versions of the code that trains a config."""
    found = {"shared path": training.RESULT_VERSION} | initialisation_versions(config.model.init)
    found |= optimiser_versions(config.optimiser.name)
    for name in pair(config.model.residual):
        found |= scheme_versions(name)
    return found | task_versions(config.task)


def initialisation_versions(name: str) -> dict[str, int]:
    """The result version of a base initialisation, if it is above 1: `{"initialisation fairseq": 2}`."""
    return {f"initialisation {name}": RESULT_VERSIONS[name]} if name in RESULT_VERSIONS else {}


def optimiser_versions(name: str) -> dict[str, int]:
    """The result versions above 1 of an optimiser and of those that it derives from: `{"optimiser adam": 2}`."""
    found = _with_bases(OPTIMISERS, OPTIMISERS[name])
    return {f"optimiser {base}": version for base, version in found if version > 1}


def scheme_versions(name: str) -> dict[str, int]:
    """The result versions of a scheme and of the schemes that it derives from: `{"scheme b2t": 1}`."""
    return {f"scheme {base}": version for base, version in _with_bases(residual.SCHEMES, residual.find(name))}


def task_versions(name: str) -> dict[str, int]:
    """The result versions of a task and of the tasks that it derives from: `{"task translation": 1}`."""
    return {f"task {base}": version for base, version in _with_bases(TASKS, TASKS[name])}


def _with_bases(registry: Registry[Any], member: type) -> Iterator[tuple[str, int]]:
    names = {each: name for name, each in registry.members.items()}
    for each in member.__mro__:
        if each in names:
            yield names[each], vars(each).get("result_version", 1)


def diagnosis_fingerprint(config: RunConfig, extent: Extent) -> DiagnosisFingerprint:
    """Everything else that the diagnoses of a run depend on, if it were diagnosed now."""
    return DiagnosisFingerprint(
        version=measures.RESULT_VERSION,
        thresholds=config.diagnose.thresholds.model_dump(mode="json"),
        extent=TypeAdapter(Extent).dump_python(extent, mode="json"),
        measures=list(measures.MEASURES),
        checks=list(CHECKS),
    )
