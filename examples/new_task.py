"""A task of your own: write a word backwards, trained and evaluated as the built-in tasks are.

The class says what the data is, and how outputs are scored; batches, model, loss, search and checkpoints come from
`SequenceToSequence`. A task with data in files needs `score` only, and a store that `lamina prepare` made.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import lamina
from lamina.data.catalogue import Source, embedded_sets
from lamina.data.synthetic import KINDS, SyntheticKind
from lamina.tasks import TASKS
from lamina.tasks.sequence_to_sequence import SequenceOptions, SequenceToSequence


def words(split: str, count: int, variant: str | None) -> Iterator[tuple[str, str]]:
    """Words of three to six letters with spaces between them, and the same backwards."""
    generator = random.Random(f"{split} {variant}")
    for _ in range(count):
        letters = generator.choices("abcdefgh", k=generator.randint(3, 6))
        yield " ".join(letters), " ".join(reversed(letters))


KINDS["words"] = SyntheticKind(("source", "target"), words)


class Reversal(SequenceToSequence):
    Options = SequenceOptions
    name = "reversal"
    embedded = Source.embedded("Words and their reversals", embedded_sets("words", train=2000, held_out=100, size=280))
    metric = "correct"

    def score(self, hypotheses: list[str], references: list[str]) -> dict[str, float]:
        pairs = list(zip(hypotheses, references, strict=True))
        return {"correct": 100 * sum(hypothesis == reference for hypothesis, reference in pairs) / len(pairs)}


TASKS.add("reversal", Reversal)

if __name__ == "__main__":
    config = {
        "task": "reversal",
        "model": {"residual": "b2t", "num_layers": 2, "model_dim": 32, "feed_forward_dim": 64, "num_heads": 4},
        "schedule": {"learning_rate": 3e-3, "warmup_steps": 20},
        "train": {"steps": 60, "validate_every": 60},
    }
    run = lamina.train(config, folder="runs/reversal")
    print(run.evaluate("valid"))
    print(run.generate(["a b c d"]))
