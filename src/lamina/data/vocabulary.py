"""Learning a vocabulary, and the pipeline of the `tokenizers` library that applies one.

The pipelines know no special tokens; see `lamina.data.tokenizer` for why.
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

Kind = Literal["bpe", "wordpiece", "word"]
Merges = list[tuple[str, str]]
Texts = tuple[str, ...]  # those of one example

UNKNOWN_WORD = "<unk>"

_CONTINUES = "##"  # marks a WordPiece that is not the first of its word
_LONGEST_WORD = 50  # characters; WordPiece searches in cubic time, so longer words are cut before it
_MOST_BYTES = 4  # per character
_EVERY_WORD = 2**31 - 1


class VocabularyOptions(Options):
    """How a vocabulary is learnt."""

    kind: Kind = "bpe"
    """bpe (byte-level, exact round trip), wordpiece (BERT) or word (WikiText)."""
    size: int = Field(10_000, ge=0)
    """Size of the vocabulary, special tokens and language tags included. For `word`, 0 keeps every word."""
    lower_case: bool = False
    """Lower-case all text before splitting it. With `wordpiece` accents go too, as in uncased BERT."""
    min_frequency: int = Field(1, ge=1)
    """Rarer pairs (bpe, wordpiece) or words (word) do not enter the vocabulary."""


def learn(texts: Iterable[str], options: VocabularyOptions, specials: int) -> tuple[list[str], Merges]:
    """The vocabulary in order, and for `bpe` the merges in order; `specials` numbers of the size are taken."""
    room = options.size - specials
    needed = {"bpe": 256, "wordpiece": 512, "word": 1}[options.kind]  # each byte; each byte, first and later
    if room < needed and not (options.kind == "word" and options.size == 0):
        raise UserError(
            f"tokenizer.size = {options.size} is too small: {options.kind} needs at least {specials + needed}, "
            f"{specials} of them for special tokens."
        )
    model: dict[str, Any] = _train(texts, options, room)
    vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if options.kind == "word":
        words = [word for word in vocabulary if word != UNKNOWN_WORD]
        vocabulary = [UNKNOWN_WORD, *(words[:room] if options.size else words)]
    return vocabulary, [(left, right) for left, right in model.get("merges", ())]


def _train(texts: Iterable[str], options: VocabularyOptions, room: int) -> dict[str, Any]:
    """The trained model as the library describes it in JSON."""
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
        # Entered first as "special", every byte inside a word is known, and its number does not depend on which
        # thread met it first.
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
    kind: Kind, lower_case: bool, vocabulary: Sequence[str], merges: Sequence[tuple[str, str]]
) -> Tokenizer:
    """The pipeline that applies a vocabulary; a token's number is its place."""
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


def _without_model(kind: Kind, lower_case: bool) -> Tokenizer:
    """Normalisation, splitting and their way back, around an empty model."""
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
        # Ġ is the space among the letters that stand for bytes: one before each word, and the first taken away.
        starts = decoders.Replace(Regex(f"^(?!{_CONTINUES})"), "Ġ")
        continues = decoders.Replace(Regex(f"^{_CONTINUES}"), "")
        pipeline.decoder = decoders.Sequence([starts, continues, decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    else:
        pipeline.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        spaces = decoders.Replace(Regex("^"), " ")
        pipeline.decoder = decoders.Sequence([spaces, decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return pipeline


def sample_evenly(stream: Iterable[Texts], characters: int) -> Iterator[str]:
    """At most about `characters` of text: every example, or every 2nd, 4th, 8th … one, the texts of each kept together.

    Whenever too much has been kept, every second example is let go and the step doubles. Between half of the bound
    and the bound is kept of a long stream. Whole examples are kept, since with an even step over single texts the
    sample of a parallel corpus would hold one language only.
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
