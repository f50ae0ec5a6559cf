"""Which weights are the best so far, by one number: the validation loss, or the task's metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Best:
    """Its state is a few numbers, so that a resumed run judges as an uninterrupted one."""

    def __init__(self, name: str, higher_is_better: bool, state: Mapping[str, Any] | None = None) -> None:
        self.name, self._sign = name, 1 if higher_is_better else -1
        known = state if state and state["name"] == name else {}
        self.step: int | None = known.get("step")
        self.value: float | None = known.get("value")
        self.waited: int = known.get("waited", 0)
        """How often the number was taken since, and was no better."""

    def state(self) -> dict[str, Any]:
        return {"name": self.name, "step": self.step, "value": self.value, "waited": self.waited}

    def follow(self, step: int, value: float) -> bool:
        """Take in the number after a step; whether it is better than all before."""
        if self.value is not None and self._sign * value <= self._sign * self.value:
            self.waited += 1
            return False
        self.step, self.value, self.waited = step, value, 0
        return True
