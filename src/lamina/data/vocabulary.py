"""Learning a vocabulary, and the pipeline of the `tokenizers` library that applies it.

The pipelines have no special tokens; `lamina.data.tokenizer` explains why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lamina.errors import UserError
from lamina.options import Options

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TokenizerKind = Literal["bpe", "wordpiece", "word", "character"]
Merges = list[tuple[str, str]]
Texts = tuple[str, ...]  # those of one example

UNKNOWN_WORD = "<unk>"
WHOLE_UNITS: tuple[TokenizerKind, ...] = ("word", "character")
"""The kinds that have unknown words or characters, because theirs are not divided into smaller units."""

_CONTINUES = "##"  # marks a token that is not the first of its word
_LONGEST_WORD = 50  # characters; WordPiece takes cubic time, so longer words are split before
_MOST_BYTES = 4  # per character
_EVERY_WORD = 2**31 - 1


class VocabularyOptions(Options):
    """The vocabulary to learn."""

    kind: TokenizerKind = "bpe"
    """The kind of tokenizer: bpe (byte-level, exact round trip), wordpiece (BERT), word (WikiText) or character."""
    size: int = Field(10_000, ge=0)
    """The size of the vocabulary, special tokens and language tags included. For `word`
    and `character`, 0 keeps all of them."""
    lower_case: bool = False
    """Whether all text is lower-cased; `wordpiece` then also removes accents, as uncased BERT does."""
    min_frequency: int = Field(1, ge=1)
    """The smallest number of occurrences of a pair (bpe, wordpiece) or a word (word) in the vocabulary."""


def learn(texts: Iterable[str], options: VocabularyOptions, specials: int) -> tuple[list[str], Merges]:
    """The vocabulary in order, and for `bpe` the merges in order; `specials` of the size are for special tokens."""
    room = options.size - specials
    needed = {"bpe": 256, "wordpiece": 512, "word": 1, "character": 1}[
        options.kind
    ]  # each byte; each byte, first and later
    if room < needed and not (options.kind in WHOLE_UNITS and options.size == 0):
        raise UserError(
            f"tokenizer.size = {options.size} is too small: {options.kind} needs at least {specials + needed}, "
            f"{specials} of them for special tokens."
        )
    model: dict[str, Any] = _train(texts, options, room)
    vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if options.kind in WHOLE_UNITS:
        words = [word for word in vocabulary if word != UNKNOWN_WORD]
        vocabulary = [UNKNOWN_WORD, *(words[:room] if options.size else words)]
    return vocabulary, [(left, right) for left, right in model.get("merges", ())]


def _train(texts: Iterable[str], options: VocabularyOptions, room: int) -> dict[str, Any]:
    """The trained model, as the library's JSON."""
    from tokenizers import models, pre_tokenizers, trainers

    pipeline = _without_model(options.kind, options.lower_case)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    settings: dict[str, Any] = {"min_frequency": options.min_frequency, "show_progress": False}
    trainer: Any
    if options.kind == "bpe":
        pipeline.model = models.BPE()
        trainer = trainers.BpeTrainer(vocab_size=room, initial_alphabet=alphabet, **settings)
    elif options.kind == "wordpiece":
        pipeline.model = models.WordPiece({})
        # As special tokens, which come first, all bytes inside words are in the vocabulary, and their ids do not depend
        # on the order in which threads see them.
        inner = [_CONTINUES + letter for letter in alphabet]
        trainer = trainers.WordPieceTrainer(
            vocab_size=room, initial_alphabet=alphabet, special_tokens=inner, **settings
        )
    else:
        trainer = trainers.WordLevelTrainer(vocab_size=room + 1 if options.size else _EVERY_WORD, **settings)
    pipeline.train_from_iterator(texts, trainer)
    model: dict[str, Any] = json.loads(pipeline.to_str())["model"]
    return model


def build_pipeline(
    kind: TokenizerKind, lower_case: bool, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]]
) -> Tokenizer:
    """The pipeline that applies a vocabulary; the id of a token is its position."""
    from tokenizers import models

    numbers = {token: place for place, token in enumerate(vocabulary)}
    pipeline = _without_model(kind, lower_case)
    if kind == "bpe":
        pipeline.model = models.BPE(numbers, list(merges))
    elif kind == "wordpiece":
        pipeline.model = models.WordPiece(numbers, max_input_chars_per_word=_LONGEST_WORD * _MOST_BYTES)
    else:
        pipeline.model = models.WordLevel(numbers, UNKNOWN_WORD)
    return pipeline


def _without_model(kind: TokenizerKind, lower_case: bool) -> Tokenizer:
    """A pipeline with normalisation, splitting and decoding, and an empty model."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pipeline = Tokenizer(models.WordLevel({}, UNKNOWN_WORD))
    if lower_case:
        pipeline.normalizer = normalizers.Lowercase()
    if kind == "bpe":
        pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        pipeline.decoder = decoders.ByteLevel()
    elif kind == "wordpiece":
        pipeline.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
        words = [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(Regex(f".{{1,{_LONGEST_WORD}}}"), "isolated")]
        pipeline.pre_tokenizer = pre_tokenizers.Sequence(
            [*words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        # Ġ is the byte-level letter for a space: one is put before each word, and the first is removed.
        starts = decoders.Replace(Regex(f"^(?!{_CONTINUES})"), "Ġ")
        continues = decoders.Replace(Regex(f"^{_CONTINUES}"), "")
        pipeline.decoder = decoders.Sequence([starts, continues, decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    elif kind == "character":
        pipeline.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        pipeline.decoder = decoders.Fuse()
    else:
        pipeline.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        spaces = decoders.Replace(Regex("^"), " ")
        pipeline.decoder = decoders.Sequence([spaces, decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return pipeline


def sample_evenly(stream: Iterable[Texts], characters: int) -> Iterator[str]:
    """About `characters` of text at most, evenly spaced over a stream of unknown length: every n-th example.

    Whenever the sample is too large, every second example is dropped and n is doubled, so that a long stream gives
    between half the bound and the bound. Whole examples are sampled: single texts of a parallel corpus at an even
    distance would all be of one language.
    """
    kept: list[Texts] = []
    size, step = 0, 1
    for number, texts in enumerate(stream):
        if number % step:
            continue
        kept.append(texts)
        size += _length(texts)
        while size > characters and len(kept) > 1:
            kept = kept[::2]
            size, step = sum(map(_length, kept)), step * 2
    return (text for texts in kept for text in texts)


def _length(texts: Texts) -> int:
    return sum(map(len, texts))
