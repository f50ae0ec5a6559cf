"""`started_from.json`: the weights that a run was started from, if it was not initialised at random."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.options import Options


class StartingPoint(Options):
    """Where the first weights of a run came from, and which of them."""

    path: str
    """The run folder or model folder, as the config named it."""
    checkpoint: str
    """The checkpoint of the run; empty for a model folder."""
    sha256: str
    """The hash of the weights."""
    loaded: int
    """Number of parameters and buffers that were loaded."""
    initialised: tuple[str, ...] = ()
    """The names of those that keep their initial values, the new output layer's among them."""
    not_used: tuple[str, ...] = ()
    """The names of the weights that the model has no place for."""
    differences: tuple[str, ...] = ()
    """The differences between the two models that were accepted, one sentence each."""

    @classmethod
    def load(cls, file: Path) -> StartingPoint | None:
        """The record of a run; None if the run was initialised at random."""
        try:
            return cls.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError):
            raise UserError(f"{file}: cannot be understood; damaged, or written by another version.") from None

    def save(self, file: Path) -> None:
        write_file(file, (self.model_dump_json(indent=1) + "\n").encode())

    def describe(self) -> str:
        """What was loaded, in one line."""
        which = f" ({self.checkpoint})" if self.checkpoint else ""
        parts = [f"{self.loaded} weights loaded"]
        parts += [f"{len(self.initialised)} initialised"] if self.initialised else []
        parts += [f"{len(self.not_used)} of the starting model not used"] if self.not_used else []
        return f"started from {self.path}{which}: {', '.join(parts)}"
