"""The pipeline of a `tokenizer.json` of the tokenizers library, taken apart and built again with other token ids.

Of the file are kept: normalisation, splitting into words, the model (BPE, Unigram, WordPiece or WordLevel) with its
vocabulary, and decoding. Special tokens are left out, because Lamina keeps them outside of the vocabulary: text that
contains `<|endoftext|>` is ordinary text. The file is data, which the library's parser reads; no code comes with it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from lamina.data.vocabulary import LearntVocabulary

KEPT = ("normalizer", "pre_tokenizer", "decoder")
"""The parts of the file that are kept, besides the model."""
UNCHOSEN = -1e6
"""The score of a token that the model of Unigram never chooses."""


class UnusablePipeline(UserError):
    """The tokenizers library cannot build a pipeline."""


class LibraryTokenizer(NamedTuple):
    """The content of a tokenizer.json."""

    tokens: Mapping[int, str]
    """The tokens by their ids, special ones included."""
    unknown: str | None
    """The token for unknown text."""
    merges: tuple[tuple[str, str], ...]
    """The merges of BPE, in order."""
    scores: Mapping[str, float]
    """The scores of Unigram."""
    pipeline: str
    """The rest, as JSON."""

    def without(self, specials: Collection[int]) -> tuple[list[int], LearntVocabulary]:
        """The ids of the tokens that are no special ones, and the vocabulary that applies them.

        The vocabulary begins with the unknown word, whether the pipeline ever gives it or not.
        """
        from lamina.data.vocabulary import UNKNOWN_WORD, LearntVocabulary

        unknown = self.unknown or UNKNOWN_WORD
        ids = [number for number in sorted(self.tokens) if number not in specials and self.tokens[number] != unknown]
        tokens = [unknown, *(self.tokens[number] for number in ids)]
        scores = [self.scores.get(each, UNCHOSEN) for each in tokens] if self.scores else ()
        known = set(tokens)
        merges = [(left, right) for left, right in self.merges if {left, right, left + right} <= known]
        return ids, LearntVocabulary(tokens, merges, scores, self.pipeline)


def read_library_tokenizer(path: Path) -> LibraryTokenizer:
    """Read a tokenizer.json; one that the library itself cannot use is refused."""
    from tokenizers import Tokenizer

    try:
        text = path.read_text("utf-8")
        Tokenizer.from_str(text)
        content = json.loads(text)
        model = content["model"]
        kind = model.get("type") or ("Unigram" if isinstance(model["vocab"], list) else "BPE")
        if kind == "Unigram":
            listed = [str(token) for token, _ in model["vocab"]]
            scores = {str(token): float(score) for token, score in model["vocab"]}
            unknown = None if model.get("unk_id") is None else listed[model["unk_id"]]
        else:
            listed, scores = [], {}
            unknown = model.get("unk_token") or None
        ids = dict(enumerate(listed)) if listed else {int(at): token for token, at in model["vocab"].items()}
        ids |= {int(each["id"]): str(each["content"]) for each in content.get("added_tokens") or ()}
        merges = tuple(_read_merge(each) for each in model.get("merges") or ())
    except Exception as error:  # the library raises no narrower class
        raise UserError(
            f"{path}: not a tokenizer.json of the tokenizers library ({error}); save it again with "
            "tokenizer.save_pretrained(folder)"
        ) from None
    if len(set(ids.values())) != len(ids):
        raise UserError(f"{path}: two ids have the same token; the file is damaged.")
    settings = {name: value for name, value in model.items() if name not in ("vocab", "merges", "unk_id")}
    rest: dict[str, Any] = {name: content.get(name) for name in KEPT} | {"model": settings | {"type": kind}}
    return LibraryTokenizer(ids, unknown, merges, scores, json.dumps(rest, ensure_ascii=False))


def build_library_pipeline(vocabulary: LearntVocabulary) -> Tokenizer:
    """The pipeline with the ids of a vocabulary, in which the id of a token is its position."""
    from tokenizers import Tokenizer

    try:
        content = json.loads(vocabulary.pipeline)
        model = content["model"]
        if model["type"] == "Unigram":
            scored = zip(vocabulary.tokens, vocabulary.scores, strict=True)
            model |= {"vocab": [list(each) for each in scored], "unk_id": 0}
        else:
            model["vocab"] = {token: place for place, token in enumerate(vocabulary.tokens)}
        if model["type"] == "BPE":
            model["merges"] = [list(each) for each in vocabulary.merges]
        content |= {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "post_processor": None}
        return Tokenizer.from_str(json.dumps(content, ensure_ascii=False))
    except Exception as error:  # the library raises no narrower class
        raise UnusablePipeline(f"the pipeline of the imported tokenizer cannot be built ({error})") from None


def _read_merge(given: str | list[str]) -> tuple[str, str]:
    left, right = given.split(" ") if isinstance(given, str) else given
    return left, right
