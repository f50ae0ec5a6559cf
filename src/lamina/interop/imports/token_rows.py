"""The tokens of a foreign model by Lamina's ids: its tokenizer, and the row of every token in the foreign tables.

Lamina's special tokens come first, whatever ids the foreign model gives to its own, so the rows of embedding tables and
of the output layer are reordered. A special token that the foreign model lacks has a row of zeros, and its score gets a
bias by which it is never predicted: the probabilities of all other tokens stay those of the foreign model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lamina.data.text_rules.library_pipeline import read_library_tokenizer
from lamina.data.tokenizer import SPECIALS, UNK, Tokenizer
from lamina.data.vocabulary import UNKNOWN_WORD, LearntVocabulary
from lamina.errors import UserError

TOKENIZER = "tokenizer.json"
ABSENT = -1
"""The row of a token that the foreign model lacks."""
NEVER = -1000.0
"""The bias of a score that leaves no probability, in single precision, beside any other."""
IDS_AS_TEXT = (
    "there is no tokenizer beside the model: text is written as the model's token ids with spaces between them; save "
    "the tokenizer there too, tokenizer.save_pretrained(folder), and import it again"
)


@dataclass(frozen=True)
class TokenRows:
    """A tokenizer, and for each of its ids the row in the foreign tables; -1 where there is none."""

    tokenizer: Tokenizer
    read: tuple[int, ...]
    """The rows of the embedding table."""
    predicted: tuple[int, ...]
    """The rows of the output layer."""

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, texts: Sequence[int], read: Mapping[int, int], predicted: Mapping[int, int]
    ) -> TokenRows:
        """texts: the foreign ids of ordinary tokens; read, predicted: those of special tokens, by Lamina's ids."""
        specials = range(len(SPECIALS))
        return cls(
            tokenizer,
            (*(read.get(number, ABSENT) for number in specials), *texts),
            (*(predicted.get(number, ABSENT) for number in specials), *texts),
        )

    @property
    def can_share(self) -> bool:
        """Whether one table can be embedding and output layer: no token is read as one row and predicted as another."""
        return all(out in (ABSENT, own) for own, out in zip(self.read, self.predicted, strict=True))

    def embedding(self, table: Tensor) -> Tensor:
        """The embedding table with the rows in the order of the tokenizer's ids."""
        return _select(table, self.read)

    def output(self, table: Tensor) -> Tensor:
        """The output table with the rows in the order of the tokenizer's ids."""
        return _select(table, self.predicted)

    def bias(self, given: Tensor | None = None) -> Tensor:
        """The bias of the scores, which excludes tokens that the foreign model does not predict."""
        rows = torch.tensor(self.predicted, device=None if given is None else given.device)
        found = torch.zeros(len(rows)) if given is None else given[rows.clamp(min=0)]
        return found.masked_fill(rows == ABSENT, NEVER)

    def check(self, size: int, where: str) -> None:
        """Refuse a tokenizer with more tokens than the model's tables have rows."""
        if max(self.read + self.predicted) >= size:
            raise UserError(
                f"{where}: the tokenizer has the id {max(self.read + self.predicted)}, but the model only {size} "
                "tokens; they belong to different models"
            )


def read_token_rows(
    folder: Path,
    size: int,
    read: Mapping[int, int | None],
    predicted: Mapping[int, int | None],
    *,
    vocabulary: str | None = None,
) -> tuple[TokenRows, list[str]]:
    """The tokens of a model folder, and what a user should know about them.

    size: the number of rows of the model's tables.
    read, predicted: the foreign ids of special tokens by Lamina's ids; None for those that the model lacks.
    vocabulary: the file with the ids of tokens that is read if there is no tokenizer.json.
    """
    known = {number: at for number, at in read.items() if at is not None}
    wanted = {number: at for number, at in predicted.items() if at is not None}
    specials = {*known.values(), *wanted.values()}
    if (folder / TOKENIZER).is_file():
        library = read_library_tokenizer(folder / TOKENIZER)
        places = {token: number for number, token in library.tokens.items()}
        texts, content = library.without(specials)
        if library.unknown is not None:
            known[UNK] = wanted[UNK] = places[library.unknown]
        rows = TokenRows.of(Tokenizer("imported", content), texts, known, wanted)
        left = size - len(places)
        notes = [f"{left} rows of the tables have no token in {TOKENIZER} and are left out"] if left > 0 else []
    elif vocabulary is not None and (folder / vocabulary).is_file():
        rows, notes = _words(_read_vocabulary(folder / vocabulary), specials, known, wanted), []
    else:
        rows, notes = _words({number: str(number) for number in range(size)}, specials, known, wanted), [IDS_AS_TEXT]
    rows.check(size, str(folder))
    return rows, notes


def words_of(tokens: Sequence[str], specials: int, read: Mapping[int, int], predicted: Mapping[int, int]) -> TokenRows:
    """The rows of a vocabulary of words between white space, the first `specials` of which are special tokens."""
    return _words(dict(enumerate(tokens)), set(range(specials)), read, predicted)


def _words(
    tokens: Mapping[int, str], specials: set[int], read: Mapping[int, int], predicted: Mapping[int, int]
) -> TokenRows:
    texts = [number for number in sorted(tokens) if number not in specials and tokens[number] != UNKNOWN_WORD]
    found = LearntVocabulary([UNKNOWN_WORD, *(tokens[number] for number in texts)])
    return TokenRows.of(Tokenizer("word", found), texts, read, predicted)


def _read_vocabulary(file: Path) -> dict[int, str]:
    try:
        content = json.loads(file.read_text("utf-8"))
        found = {int(number): str(token) for token, number in content.items()}
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: not a table from tokens to their ids ({error})") from None
    if len(found) != len(content):
        raise UserError(f"{file}: two tokens have the same id; the file is damaged.")
    return found


def _select(table: Tensor, rows: Sequence[int]) -> Tensor:
    index = torch.tensor(rows, device=table.device)
    return table[index.clamp(min=0)].masked_fill((index == ABSENT).unsqueeze(1), 0.0)
