"""Features of many recordings, computed by several processes in chunks, which an interrupted preparation reuses.

A chunk's file is named after its recordings and the options, so that it is found again only if nothing has changed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lamina.data.speech.filterbank import Features, FilterbankOptions, log_mel
from lamina.data.speech.recordings import Recording, UnreadableAudio
from lamina.errors import UserError
from lamina.files.atomic import write_file

UNREADABLE, TOO_SHORT, TOO_LONG = "unreadable audio", "too short", "too long"

_TASK = 8  # recordings that a process gets at a time
_VERSION = 1  # of the chunks


class SpeechOptions(FilterbankOptions):
    """Options of feature extraction, for the formats of speech."""

    max_frames: int = Field(3000, ge=1)
    """The largest number of frames (of 10 ms) of a recording; longer ones are dropped and counted."""
    bad_audio: Literal["error", "skip"] = "error"
    """What happens if a recording cannot be read: `error` stops, `skip` drops it and counts it."""


class Extracted(NamedTuple):
    """The features of some recordings, concatenated."""

    features: Features  # (frames, bins)
    lengths: NDArray[np.int64]  # 0 for a recording that is dropped
    dropped: dict[int, str]
    """The reason of each dropped recording, by its index."""
    repaired: Counter[str]


class _One(NamedTuple):
    """The features of one recording, or the reason why it is dropped."""

    features: Features
    reason: str = ""
    error: str = ""
    repaired: tuple[str, ...] = ()


@dataclass
class FeatureExtractor:
    """Computes features, with a chunk file for every call; use it in a `with` block, which ends its processes."""

    options: SpeechOptions
    folder: Path
    """The folder of the chunks until the preparation is finished."""
    processes: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    _pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> FeatureExtractor:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def __call__(self, recordings: Sequence[Recording]) -> Extracted:
        """The features of some recordings, from their chunk file or computed now."""
        path = self.folder / f"{self._key(recordings)}.npz"
        if path.exists():
            found = _read_chunk(path)
            if found is not None:
                return found
        made = self._compute(recordings)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(path, _chunk(made))
        return made

    def discard_chunks(self) -> None:
        """Remove the chunks, when the store is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _compute(self, recordings: Sequence[Recording]) -> Extracted:
        features, dropped, repaired = [], {}, Counter[str]()
        for index, each in enumerate(self._extract_all(recordings)):
            if each.error and self.options.bad_audio == "error":
                raise UserError(
                    f"{each.error} Correct or remove it, or set speech.bad_audio = 'skip' to leave such audio out."
                )
            if each.reason:
                dropped[index] = each.reason
            repaired.update(each.repaired)
            features.append(each.features)
        lengths = np.array([len(each) for each in features], np.int64)
        empty = np.zeros((0, self.options.bins), np.float32)
        return Extracted(np.concatenate([*features, empty]), lengths, dropped, repaired)

    def _extract_all(self, recordings: Sequence[Recording]) -> list[_One]:
        work = [recordings[at : at + _TASK] for at in range(0, len(recordings), _TASK)]
        if self.processes == 1 or len(work) == 1:
            done = [_extract(self.options, each) for each in work]
        else:
            if self._pool is None:  # spawned, because the tokenizer's threads do not survive a fork
                self._pool = ProcessPoolExecutor(self.processes, get_context("spawn"))
            try:
                done = list(self._pool.map(_extract, [self.options] * len(work), work))
            except BrokenProcessPool:
                raise UserError(
                    "a process that computes features ended abruptly, perhaps for lack of memory; run the same again, "
                    "which continues from here. (A program of your own that prepares speech needs the line `if "
                    '__name__ == "__main__":` before it starts, because each process imports the program.)'
                ) from None
        return [each for part in done for each in part]

    def _key(self, recordings: Sequence[Recording]) -> str:
        content = [_VERSION, self.options.model_dump(mode="json"), [each.identity() for each in recordings]]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _extract(options: SpeechOptions, recordings: Sequence[Recording]) -> list[_One]:
    found = []
    nothing = np.zeros((0, options.bins), np.float32)
    for recording in recordings:
        repaired: Counter[str] = Counter()
        try:
            features = log_mel(recording.samples(options.sample_rate, repaired), options)
        except UnreadableAudio as error:
            found.append(_One(nothing, UNREADABLE, error=str(error)))
            continue
        if not len(features):
            found.append(_One(nothing, TOO_SHORT))
        elif len(features) > options.max_frames:
            found.append(_One(nothing, TOO_LONG))
        else:
            found.append(_One(features, repaired=tuple(repaired)))
    return found


def _chunk(made: Extracted) -> bytes:
    notes = {"dropped": made.dropped, "repaired": made.repaired}
    file = io.BytesIO()
    note = np.frombuffer(json.dumps(notes).encode(), np.uint8)
    digest = np.frombuffer(hashlib.sha256(made.features.tobytes()).digest(), np.uint8)
    np.savez(file, features=made.features, lengths=made.lengths, notes=note, digest=digest)
    return file.getvalue()


def _read_chunk(path: Path) -> Extracted | None:
    """A chunk, or None if its file is damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            features, lengths = file["features"], file["lengths"]
            notes = json.loads(file["notes"].tobytes())
            if hashlib.sha256(features.tobytes()).digest() != file["digest"].tobytes():
                return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    dropped = {int(index): str(reason) for index, reason in notes["dropped"].items()}
    return Extracted(features, lengths, dropped, Counter(notes["repaired"]))
