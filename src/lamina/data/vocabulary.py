"""Learning a vocabulary, and the pipeline of the `tokenizers` library that applies it.

The pipelines have no special tokens; `lamina.data.tokenizer` explains why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from lamina.data.text_rules.library_pipeline import build_library_pipeline
from lamina.errors import UserError
from lamina.options import Options

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LearntKind = Literal["bpe", "wordpiece", "unigram", "word", "character"]
TokenizerKind = LearntKind | Literal["bert", "imported"]
Texts = tuple[str, ...]  # those of one example

UNKNOWN_WORD = "<unk>"
WHOLE_UNITS: tuple[TokenizerKind, ...] = ("word", "character")
"""The kinds whose words or characters are not divided into smaller units, so that 0 can be the size."""
HAVE_UNKNOWNS: tuple[TokenizerKind, ...] = (*WHOLE_UNITS, "unigram", "bert", "imported")
"""The kinds that have unknown words or characters; the unknown word is the first of their vocabulary."""

_CONTINUES = "##"  # marks a token that is not the first of its word
_LONGEST_BERT_WORD = 100  # characters; longer ones are unknown, as in BERT's own tokenizer
_LONGEST_WORD = 50  # characters; WordPiece takes cubic time, so longer words are split before
_MOST_BYTES = 4  # per character
_EVERY_WORD = 2**31 - 1
_SPACE = "▁"  # stands for a space in the pieces of unigram
_UNKNOWN_SCORE = -1e6  # so low that the text "<unk>" is never taken for the unknown piece
_DIGITS = 4  # of the scores of unigram; more would differ from one training to the next
_CHARACTER_STEP = 1e-4  # between the scores of characters that no piece was learnt for


class LearntVocabulary(NamedTuple):
    """The content of a tokenizer: tokens in the order of their ids, and what applies them."""

    tokens: Sequence[str]
    merges: Sequence[tuple[str, str]] = ()
    """The merges of `bpe`, in order."""
    scores: Sequence[float] = ()
    """The log-probability of each token of `unigram`."""
    pipeline: str = ""
    """The JSON of the pipeline of an `imported` tokenizer, without its vocabulary."""


class VocabularyOptions(Options):
    """The vocabulary to learn."""

    kind: LearntKind = "bpe"
    """The kind of tokenizer: bpe (byte-level, exact round trip), wordpiece (BERT), unigram (SentencePiece's default),
    word (WikiText) or character."""
    size: int = Field(10_000, ge=0)
    """The size of the vocabulary, special tokens and language tags included. For `word`
    and `character`, 0 keeps all of them."""
    lower_case: bool = False
    """Whether all text is lower-cased; `wordpiece` then also removes accents, as uncased BERT does."""
    moses: dict[str, str] = {}
    """Moses' word tokenisation before anything else, with the language of each text field, as in {source = "de",
    target = "en"}; for `bleu-tok`, as in the papers' IWSLT results. Units of bpe are then parts of these words. It
    needs the extra `moses`."""
    min_frequency: int = Field(1, ge=1)
    """The smallest number of occurrences of a pair (bpe, wordpiece) or a word (word) in the vocabulary."""

    @model_validator(mode="after")
    def _frequency_has_an_effect(self) -> Self:
        if self.kind == "unigram" and self.min_frequency > 1:
            raise ValueError("min_frequency has no effect on a unigram vocabulary; leave it out")
        return self


def learn(texts: Iterable[str], options: VocabularyOptions, specials: int) -> LearntVocabulary:
    """The vocabulary that fits the options; `specials` of the size are for special tokens."""
    room = options.size - specials
    # bpe: each byte; wordpiece: each byte, at the start of a word and later
    needed = {"bpe": 256, "wordpiece": 512}.get(options.kind, 1)
    if room < needed and not (options.kind in WHOLE_UNITS and options.size == 0):
        raise UserError(
            f"tokenizer.size = {options.size} is too small: {options.kind} needs at least {specials + needed}, "
            f"{specials} of them for special tokens."
        )
    model: dict[str, Any] = _train(texts, options, room)
    if options.kind == "unigram":
        return _unigram(dict(model["vocab"]))
    vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if options.kind in WHOLE_UNITS:
        words = [word for word in vocabulary if word != UNKNOWN_WORD]
        vocabulary = [UNKNOWN_WORD, *(words[:room] if options.size else words)]
    return LearntVocabulary(vocabulary, [(left, right) for left, right in model.get("merges", ())])


def _unigram(scores: dict[str, float]) -> LearntVocabulary:
    """The pieces from the most probable on, the unknown one first.

    The trainer adds the characters that no piece was learnt for in random order, the lowest score and a step higher for
    each. They all get the lowest score here, so that the same text gives the same vocabulary.
    """
    del scores[UNKNOWN_WORD]
    lowest = min(scores.values(), default=0.0)
    limit = lowest + _CHARACTER_STEP * sum(len(each) == 1 for each in scores)
    equal = {each: lowest if len(each) == 1 and score < limit else score for each, score in scores.items()}
    rounded = sorted((-round(score, _DIGITS), each) for each, score in equal.items())
    return LearntVocabulary(
        [UNKNOWN_WORD, *(each for _, each in rounded)], scores=[_UNKNOWN_SCORE, *(-score for score, _ in rounded)]
    )


def _train(texts: Iterable[str], options: VocabularyOptions, room: int) -> dict[str, Any]:
    """The trained model, as the library's JSON."""
    from tokenizers import models, pre_tokenizers, trainers

    pipeline = _without_model(options.kind, options.lower_case, bool(options.moses))
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
    elif options.kind == "unigram":
        pipeline.model = models.Unigram()
        trainer = trainers.UnigramTrainer(
            vocab_size=room + 1, unk_token=UNKNOWN_WORD, special_tokens=[UNKNOWN_WORD], show_progress=False
        )
    else:
        trainer = trainers.WordLevelTrainer(vocab_size=room + 1 if options.size else _EVERY_WORD, **settings)
    try:
        pipeline.train_from_iterator(texts, trainer)
    except Exception as error:  # the library raises no narrower class
        if options.kind != "unigram" or "not large enough" not in str(error):
            raise
        raise UserError(
            f"tokenizer.size = {options.size} is too small: unigram needs a token for every character of the text"
        ) from None
    model: dict[str, Any] = json.loads(pipeline.to_str())["model"]
    return model


def build_pipeline(
    kind: TokenizerKind, lower_case: bool, vocabulary: LearntVocabulary, has_words: bool = False
) -> Tokenizer:
    """The pipeline that applies a vocabulary; the id of a token is its position.

    has_words: whether the text is divided into words already, so that only spaces separate them.
    """
    from tokenizers import models

    if kind == "imported":
        return build_library_pipeline(vocabulary)
    numbers = {token: place for place, token in enumerate(vocabulary.tokens)}
    pipeline = _without_model(kind, lower_case, has_words)
    if kind == "bpe":
        pipeline.model = models.BPE(numbers, list(vocabulary.merges))
    elif kind == "unigram":
        scored = zip(vocabulary.tokens, vocabulary.scores, strict=True)
        pipeline.model = models.Unigram(list(scored), unk_id=0, byte_fallback=False)
    elif kind == "bert":
        pipeline.model = models.WordPiece(
            numbers, unk_token=vocabulary.tokens[0], max_input_chars_per_word=_LONGEST_BERT_WORD
        )
    elif kind == "wordpiece":
        pipeline.model = models.WordPiece(numbers, max_input_chars_per_word=_LONGEST_WORD * _MOST_BYTES)
    else:
        pipeline.model = models.WordLevel(numbers, UNKNOWN_WORD)
    return pipeline


def _without_model(kind: TokenizerKind, lower_case: bool, has_words: bool) -> Tokenizer:
    """A pipeline with normalisation, splitting and decoding, and an empty model."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pipeline = Tokenizer(models.WordLevel({}, UNKNOWN_WORD))
    if lower_case:
        pipeline.normalizer = normalizers.Lowercase()
    if kind == "bpe":
        pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if has_words:
            words = pre_tokenizers.Split(" ", "merged_with_next")
            letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            pipeline.pre_tokenizer = pre_tokenizers.Sequence([words, letters])
        pipeline.decoder = decoders.ByteLevel()
    elif kind == "wordpiece":
        pipeline.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
        parts = [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(Regex(f".{{1,{_LONGEST_WORD}}}"), "isolated")]
        pipeline.pre_tokenizer = pre_tokenizers.Sequence(
            [*parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        # Ġ is the byte-level letter for a space: one is put before each word, and the first is removed.
        starts = decoders.Replace(Regex(f"^(?!{_CONTINUES})"), "Ġ")
        continues = decoders.Replace(Regex(f"^{_CONTINUES}"), "")
        pipeline.decoder = decoders.Sequence([starts, continues, decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    elif kind == "bert":
        pipeline.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
        pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        pipeline.decoder = decoders.WordPiece(_CONTINUES, cleanup=False)
    elif kind == "unigram":
        pipeline.pre_tokenizer = pre_tokenizers.Metaspace(_SPACE, prepend_scheme="always")
        pipeline.decoder = decoders.Metaspace(_SPACE, prepend_scheme="always")
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
