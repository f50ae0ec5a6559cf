"""The names of values in metrics.jsonl."""

from __future__ import annotations

from lamina.run_folder.metrics import FINAL, VALID, prefixed, values_of


def test_values_are_found_again_among_those_of_other_prefixes() -> None:
    line = {"step": 3, "nll": 4.5, **prefixed(VALID, {"nll": 4.0, "valid_bleu": 1.0}), **prefixed(FINAL, {"nll": 3.0})}
    assert set(line) == {"step", "nll", "valid_nll", "valid_valid_bleu", "final_nll"}
    assert values_of(VALID, line) == {"nll": 4.0, "valid_bleu": 1.0}
    assert values_of(FINAL, line) == {"nll": 3.0}
    assert values_of(FINAL, {"step": 3, "nll": 4.5}) == {}
