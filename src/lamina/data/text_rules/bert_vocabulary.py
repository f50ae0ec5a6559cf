"""The vocabulary of a BERT that transformers saved: `vocab.txt` or `tokenizer.json` of its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from lamina.errors import UserError

VOCABULARY, TOKENIZER, SETTINGS = "vocab.txt", "tokenizer.json", "tokenizer_config.json"
UNKNOWN = "[UNK]"
MARKS = ("[PAD]", "[CLS]", "[SEP]", UNKNOWN, "[MASK]", "[CLS]", "[SEP]")
"""BERT's tokens that stand for Lamina's special tokens, in the order of their ids: padding, bos, eos, unknown word,
mask, cls and sep. BERT has no bos and eos; a text between them begins and ends as a BERT's does."""


class BertVocabulary(NamedTuple):
    """The tokens of a BERT in the order of their ids."""

    tokens: tuple[str, ...]
    lower_case: bool

    @property
    def text_tokens(self) -> list[str]:
        """The unknown word, then all tokens that are no marks."""
        return [UNKNOWN, *(token for token in self.tokens if token not in MARKS)]

    @property
    def rows(self) -> list[int]:
        """The id in the BERT of every token of a Lamina tokenizer: of its special tokens, then of its text tokens."""
        ids = {token: at for at, token in enumerate(self.tokens)}
        return [ids[mark] for mark in MARKS] + [ids[token] for token in self.text_tokens[1:]]


def find_bert_vocabulary(folder: Path) -> Path:
    """The file with the vocabulary of a model folder."""
    for name in (VOCABULARY, TOKENIZER):
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        f"{folder}: no {VOCABULARY} and no {TOKENIZER}, so it is not known what its token ids mean; save the tokenizer "
        "there too: tokenizer.save_pretrained(folder)"
    )


def read_bert_vocabulary(path: Path) -> BertVocabulary:
    """Read a vocabulary; a model other than BERT's WordPiece is refused."""
    if path.suffix == ".txt":
        try:
            tokens = path.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read as a vocabulary, a token a line ({error}).") from None
        settings = _read_json(path.with_name(SETTINGS)) or {}
        lower_case = bool(settings.get("do_lower_case", True))
    else:
        content = _read_json(path) or {}
        tokens, lower_case = _read_fast_tokenizer(content, path)
    missing = sorted(set(MARKS) - set(tokens))
    if missing or len(set(tokens)) != len(tokens):
        what = f"without {', '.join(missing)}" if missing else "with a token twice"
        raise UserError(f"{path}: not the vocabulary of a BERT: {what}.")
    return BertVocabulary(tuple(tokens), lower_case)


def _read_fast_tokenizer(content: dict[str, Any], path: Path) -> tuple[list[str], bool]:
    try:
        model, normalizer = content["model"], content["normalizer"]
        kinds = model["type"], normalizer["type"]
        if kinds != ("WordPiece", "BertNormalizer") or model["continuing_subword_prefix"] != "##":
            raise UserError(f"{path}: {' with '.join(kinds)}, not the WordPiece of a BERT; other models are not read.")
        ids: dict[str, int] = model["vocab"]
        tokens = sorted(ids, key=ids.__getitem__)
        if [ids[token] for token in tokens] != list(range(len(tokens))):
            raise UserError(f"{path}: the ids of its vocabulary have gaps; the file is damaged.")
        return tokens, bool(normalizer["lowercase"])
    except (KeyError, TypeError):
        raise UserError(f"{path}: not a tokenizer of a BERT that transformers saved.") from None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error}).") from None
    return found if isinstance(found, dict) else None
