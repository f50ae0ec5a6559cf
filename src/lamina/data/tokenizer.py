"""Text to numbers and back, on top of the `tokenizers` library.

Three kinds:

- `bpe`: byte-level byte-pair encoding. Nothing is unknown and every string comes back exactly.
- `wordpiece`: BERT's pieces, over bytes instead of characters, so that nothing is unknown here either. Comes back
  as BERT's do: normalised, one space between words.
- `word`: words between white space, for WikiText. The only kind with unknown words: they become `<unk>`, and so does
  the word `<unk>` that WikiText itself writes.

Special tokens (padding, ends, mask, language tags) are not part of the trained vocabulary: their numbers come first
and text is numbered after them. Text that spells `<eos>` or `<2de>` is therefore ordinary text, always.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np

from lamina.data.vocabulary import Kind, VocabularyOptions, build_pipeline, learn
from lamina.errors import UserError, unknown
from lamina.files.atomic import write_file
from lamina.options import Options

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>", "<mask>", "<cls>", "<sep>")
PAD, BOS, EOS, UNK, MASK, CLS, SEP = range(len(SPECIALS))

_FORMAT, _VERSION = "lamina-tokenizer", 1


class Tokenizer:
    """A trained vocabulary; immutable."""

    def __init__(
        self,
        kind: Kind,
        vocabulary: Sequence[str],
        merges: Sequence[tuple[str, str]] = (),
        lower_case: bool = False,
        languages: Sequence[str] = (),
    ) -> None:
        self.kind: Kind = kind
        self.lower_case = lower_case
        self.languages = tuple(languages)
        self._vocabulary = tuple(vocabulary)
        self._merges = tuple(merges)
        self._pipeline = build_pipeline(kind, lower_case, self._vocabulary, self._merges)
        first = len(SPECIALS) + len(self.languages)
        # `word` keeps its unknown word at its own number 0; outside, that is the special token.
        inside = [UNK] if kind == "word" else []
        numbers = range(first, first + len(self._vocabulary) - len(inside))
        self._numbers = np.fromiter(chain(inside, numbers), np.int64, len(self._vocabulary))

    @classmethod
    def train(cls, texts: Iterable[str], options: VocabularyOptions, languages: Sequence[str] = ()) -> Tokenizer:
        """Learn a vocabulary; the same texts in the same order give the same one, on any number of threads."""
        specials = len(SPECIALS) + len(languages)
        vocabulary, merges = learn(texts, options, specials)
        return cls(options.kind, vocabulary, merges, options.lower_case, languages)

    def __len__(self) -> int:
        """The size of the vocabulary, special tokens included: the rows of an embedding."""
        return int(self._numbers[-1]) + 1

    @property
    def specials(self) -> tuple[str, ...]:
        """The names of the special tokens, which are the numbers 0, 1, 2 …: padding, ends, mask, language tags."""
        return (*SPECIALS, *(f"<2{language}>" for language in self.languages))

    def tag(self, language: str) -> int:
        """The number of the tag that asks for `language`, `<2de>`."""
        if language not in self.languages:
            raise unknown("language", language, self.languages)
        return len(SPECIALS) + self.languages.index(language)

    def encode(self, text: str) -> list[int]:
        """The tokens of one text, without ends."""
        return cast(list[int], self.encode_batch([text])[0].tolist())

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The tokens of each text."""
        flat, lengths = self.encode_flat(texts)
        return np.split(flat, np.cumsum(lengths)[:-1]) if len(lengths) else []

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """All tokens in one array, and how many each text has; on all cores."""
        encoded = [item.ids for item in self._pipeline.encode_batch_fast(list(texts), add_special_tokens=False)]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        inside = np.fromiter(chain.from_iterable(encoded), np.int64, int(lengths.sum()))
        return self._numbers[inside], lengths

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of the tokens; special tokens and tags are left out, except the unknown word."""
        return self.decode_batch([tokens])[0]

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The text of each sequence of tokens."""
        inside = [[self._inside[token] for token in map(int, tokens) if token in self._inside] for tokens in batch]
        return self._pipeline.decode_batch(inside, skip_special_tokens=False)

    def name(self, token: int) -> str:
        """A token as a human would see it in a table: `<eos>`, `<2de>` or its text."""
        if not 0 <= token < len(self):
            raise UserError(f"token {token} is not in a vocabulary of {len(self)}.")
        return self.specials[token] if token < len(self.specials) else self.decode([token])

    @cached_property
    def _inside(self) -> dict[int, int]:
        return {int(number): place for place, number in enumerate(self._numbers)}

    @cached_property
    def json(self) -> str:
        """Everything there is to know about this tokenizer; equal tokenizers have equal JSON."""
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": self.kind,
            "lower_case": self.lower_case,
            "languages": self.languages,
            "vocabulary": self._vocabulary,
            "merges": self._merges,
        }
        return json.dumps(content, ensure_ascii=False, indent=0) + "\n"

    @cached_property
    def sha256(self) -> str:
        """The hash of `json`, which is also that of the saved file."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the JSON file, whole or not at all."""
        write_file(path, self.json.encode())

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read what `save` wrote; the pipeline is rebuilt by our code, so a stranger's file holds data only."""
        try:
            content = json.loads(Path(path).read_text("utf-8"))
            described = (content["format"], content["version"])
        except FileNotFoundError:
            raise UserError(f"{path}: no such tokenizer file.") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"{path}: not a Lamina tokenizer ({error!r}).") from None
        if described != (_FORMAT, _VERSION):
            raise UserError(f"{path}: not {_FORMAT} version {_VERSION} but {described}; run lamina prepare again.")
        return cls(*_read_content(content, path))


def _read_content(
    content: dict[str, object], path: str | Path
) -> tuple[Kind, list[str], list[tuple[str, str]], bool, list[str]]:
    stored = _Stored.read({key: content[key] for key in content if key not in ("format", "version")}, str(path))
    if len(set(stored.vocabulary)) != len(stored.vocabulary) or not stored.vocabulary:
        raise UserError(f"{path}: the vocabulary is empty or names a token twice; the file is damaged.")
    known = set(stored.vocabulary)
    if any(not {left, right, left + right} <= known for left, right in stored.merges):
        raise UserError(f"{path}: a merge joins what is not in the vocabulary; the file is damaged.")
    return stored.kind, list(stored.vocabulary), list(stored.merges), stored.lower_case, list(stored.languages)


class _Stored(Options):
    kind: Kind
    lower_case: bool
    languages: tuple[str, ...]
    vocabulary: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
