"""Tokenizers learnt from a few sentences of several scripts."""

from __future__ import annotations

from lamina.data.tokenizer import Tokenizer
from lamina.data.vocabulary import TokenizerKind, VocabularyOptions

CORPUS = [
    "Der Hund läuft schnell über die Brücke .",
    "The dog runs quickly across the bridge .",
    "<eos> <pad> <2de> <unk> [CLS] ##s spelled in text , and often : <eos> <2de> <eos>",
    "日本語 и русский, ελληνικά; emoji 😀 👩‍👩‍👧",
] * 30


def train(
    kind: TokenizerKind = "bpe", size: int = 800, lower_case: bool = False, languages: tuple[str, ...] = ()
) -> Tokenizer:
    return Tokenizer.train(CORPUS, VocabularyOptions(kind=kind, size=size, lower_case=lower_case), languages)
