"""The tokenizer: text to token ids and back, based on the `tokenizers` library.

There are five kinds that are learnt, and two that are read from a model folder of transformers:

    bpe        byte-level byte-pair encoding; no unknown words, and decoding restores every string exactly
    wordpiece  BERT's WordPiece, over bytes instead of characters, so that there are no unknown words; decoding gives
               normalised text with one space between words, as BERT's does
    unigram    pieces of words chosen by a unigram language model, as SentencePiece does by default; unknown characters
               become `<unk>`, several in a row become one, and the character ▁ becomes a space
    word       words between white space, for WikiText; unknown words become `<unk>`, and so does the word `<unk>` that
               WikiText itself contains
    character  single characters, for speech recognition on little data; unknown ones become `<unk>`
    bert       the WordPiece of a BERT, for `start_from`; unknown words become `<unk>`
    imported   the pipeline of a tokenizer.json, with all its rules, for a model that `lamina import` has read

Special tokens (padding, bos, eos, mask, language tags) are not part of the trained vocabulary: their ids come first,
and the ids of text after them. Text that contains `<eos>` or `<2de>` is therefore always ordinary text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np

from lamina.data.text_rules.bert_vocabulary import read_bert_vocabulary
from lamina.data.text_rules.library_pipeline import UnusablePipeline
from lamina.data.text_rules.moses import language_of, tokenise_words
from lamina.data.vocabulary import (
    HAVE_UNKNOWNS,
    LearntVocabulary,
    TokenizerKind,
    VocabularyOptions,
    build_pipeline,
    learn,
)
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
        kind: TokenizerKind,
        vocabulary: LearntVocabulary,
        lower_case: bool = False,
        languages: Sequence[str] = (),
        moses: Mapping[str, str] | None = None,
    ) -> None:
        self.kind: TokenizerKind = kind
        self.lower_case = lower_case
        self.languages = tuple(languages)
        self.moses = dict(moses or {})
        """The language of each text field, if text is first divided into words by Moses' rules."""
        self.vocabulary = vocabulary
        self._word_language: str | None = None
        self._pipeline = build_pipeline(kind, lower_case, vocabulary, bool(moses))
        first = len(SPECIALS) + len(self.languages)
        # Where there are unknown words, the unknown word is at index 0; it maps to the special token.
        inside = [UNK] if kind in HAVE_UNKNOWNS else []
        count = len(vocabulary.tokens)
        self._numbers = np.fromiter(chain(inside, range(first, first + count - len(inside))), np.int64, count)

    @classmethod
    def train(cls, texts: Iterable[str], options: VocabularyOptions, languages: Sequence[str] = ()) -> Tokenizer:
        """Learn a vocabulary; the same texts in the same order give the same result, on any number of threads.

        texts: divided into words already, where `options.moses` says that they are.
        """
        specials = len(SPECIALS) + len(languages)
        return cls(options.kind, learn(texts, options, specials), options.lower_case, languages, options.moses)

    def for_field(self, name: str) -> Tokenizer:
        """The tokenizer with the rules for words of the language of a text field; itself if there are none."""
        if not self.moses:
            return self
        own = copy(self)
        own._word_language = language_of(name, self.moses)
        return own

    def __len__(self) -> int:
        """The size of the vocabulary, special tokens included."""
        return int(self._numbers[-1]) + 1

    @property
    def specials(self) -> tuple[str, ...]:
        """The names of the special tokens, whose ids are 0, 1, 2, …: padding, bos, eos, mask, language tags."""
        return (*SPECIALS, *(f"<2{language}>" for language in self.languages))

    def tag(self, language: str) -> int:
        """The id of the tag `<2de>` for the target language `de`."""
        if language not in self.languages:
            raise unknown("language", language, self.languages)
        return len(SPECIALS) + self.languages.index(language)

    def encode(self, text: str) -> list[int]:
        """The tokens of one text, without bos and eos."""
        return cast(list[int], self.encode_batch([text])[0].tolist())

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The tokens of each text."""
        flat, lengths = self.encode_flat(texts)
        return np.split(flat, np.cumsum(lengths)[:-1]) if len(lengths) else []

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of all texts in one array, and the length of each; runs on all cores."""
        if self.moses:
            assert self._word_language is not None, "a tokenizer with Moses' rules encodes the text of a field"
            texts = tokenise_words(texts, self._word_language)
        encoded = [item.ids for item in self._pipeline.encode_batch_fast(list(texts), add_special_tokens=False)]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        inside = np.fromiter(chain.from_iterable(encoded), np.int64, int(lengths.sum()))
        return self._numbers[inside], lengths

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of the tokens; special tokens and tags are omitted, except the unknown word."""
        return self.decode_batch([tokens])[0]

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The text of each sequence of tokens."""
        inside = [[self._inside[token] for token in map(int, tokens) if token in self._inside] for tokens in batch]
        return self._pipeline.decode_batch(inside, skip_special_tokens=False)

    def name(self, token: int) -> str:
        """A token as it is shown to people: `<eos>`, `<2de>` or its text."""
        if not 0 <= token < len(self):
            raise UserError(f"token {token} is not in a vocabulary of {len(self)}.")
        return self.specials[token] if token < len(self.specials) else self.decode([token])

    @cached_property
    def _inside(self) -> dict[int, int]:
        return {int(number): place for place, number in enumerate(self._numbers)}

    @cached_property
    def json(self) -> str:
        """The tokenizer as JSON; equal tokenizers have equal JSON."""
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": self.kind,
            "lower_case": self.lower_case,
            "languages": self.languages,
            "vocabulary": self.vocabulary.tokens,
            "merges": self.vocabulary.merges,
        }
        if self.vocabulary.scores:
            content["scores"] = self.vocabulary.scores
        if self.vocabulary.pipeline:
            content["pipeline"] = self.vocabulary.pipeline
        if self.moses:
            content["moses"] = self.moses
        return json.dumps(content, ensure_ascii=False, indent=0) + "\n"

    @cached_property
    def sha256(self) -> str:
        """The hash of `json`, which is also the hash of the saved file."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the JSON file atomically."""
        write_file(path, self.json.encode())

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read what `save` wrote, or the vocabulary of a BERT that transformers saved.

        The file contains data only: the pipeline is rebuilt by this module.
        """
        if Path(path).suffix == ".txt":
            return cls._of_bert(Path(path))
        try:
            content = json.loads(Path(path).read_text("utf-8"))
            if "model" in content:  # a tokenizer of transformers
                return cls._of_bert(Path(path))
            described = (content["format"], content["version"])
        except FileNotFoundError:
            raise UserError(
                f"{path}: no such tokenizer file; tokenizer.file names one that lamina prepare made."
            ) from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"{path}: not a Lamina tokenizer ({error!r}).") from None
        if described != (_FORMAT, _VERSION):
            raise UserError(f"{path}: not {_FORMAT} version {_VERSION} but {described}; run lamina prepare again.")
        try:
            return cls(*_read_content(content, path))
        except UnusablePipeline as error:
            raise UserError(f"{path}: {error}") from None

    @classmethod
    def _of_bert(cls, path: Path) -> Tokenizer:
        found = read_bert_vocabulary(path)
        return cls("bert", LearntVocabulary(found.text_tokens), found.lower_case)


def _read_content(
    content: dict[str, object], path: str | Path
) -> tuple[TokenizerKind, LearntVocabulary, bool, tuple[str, ...], dict[str, str]]:
    stored = _Stored.read({key: content[key] for key in content if key not in ("format", "version")}, str(path))
    if len(set(stored.vocabulary)) != len(stored.vocabulary) or not stored.vocabulary:
        raise UserError(f"{path}: the vocabulary is empty or has a token twice; the file is damaged.")
    known = set(stored.vocabulary)
    if any(not {left, right, left + right} <= known for left, right in stored.merges):
        raise UserError(f"{path}: a merge uses a token that is not in the vocabulary; the file is damaged.")
    if len(stored.scores) not in {"unigram": {len(known)}, "imported": {0, len(known)}}.get(stored.kind, {0}):
        raise UserError(f"{path}: {len(stored.scores)} scores do not fit the vocabulary; the file is damaged.")
    if bool(stored.pipeline) != (stored.kind == "imported"):
        raise UserError(f"{path}: only an imported tokenizer has the pipeline of another library; the file is damaged.")
    vocabulary = LearntVocabulary(stored.vocabulary, stored.merges, stored.scores, stored.pipeline)
    return stored.kind, vocabulary, stored.lower_case, stored.languages, stored.moses


class _Stored(Options):
    kind: TokenizerKind
    lower_case: bool
    languages: tuple[str, ...]
    vocabulary: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    scores: tuple[float, ...] = ()
    pipeline: str = ""
    moses: dict[str, str] = {}
