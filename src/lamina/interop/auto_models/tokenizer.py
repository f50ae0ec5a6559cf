"""Lamina's tokenizer as a `tokenizer.json` of the tokenizers library, which transformers reads.

A Lamina tokenizer keeps special tokens outside the vocabulary that was learnt, and their ids come first. Here they are
entries of the vocabulary, as the library wants it, and a template adds those that the model's input begins and ends
with. Text that contains a special token such as `<eos>` stays ordinary text, except where a user has to write special
tokens: the mask of a masked language model, and the language tags of a multilingual one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lamina.data.tokenizer import BOS, CLS, EOS, MASK, PAD, SEP, UNK, Tokenizer
from lamina.data.vocabulary import HAVE_UNKNOWNS, build_pipeline

UNCHOSEN = -1e6
"""The score of a special token among the pieces of unigram."""
CAN_MATCH = ("word", "unigram")
"""The kinds whose model finds a special token in ordinary text, unless its name has a space, where text is divided."""


@dataclass(frozen=True)
class InputForm:
    """The special tokens around a text."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pairs: bool = False
    """Whether two texts may be joined, the second with segment 1 and `after` behind it."""
    padding_side: str = "right"
    is_masked: bool = False
    """Whether users write the mask in the text."""


SOURCE = InputForm(after=(EOS,))
PROMPT = InputForm(before=(EOS,), padding_side="left")
SENTENCES = InputForm(before=(CLS,), after=(SEP,), pairs=True)
MASKED_SENTENCES = InputForm(before=(CLS,), after=(SEP,), pairs=True, is_masked=True)
ROLES = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "mask_token": MASK, "cls_token": CLS, "sep_token": SEP}
"""What transformers calls the special tokens. The unknown word has no role, because decoding shows it."""


def library_tokenizer(tokenizer: Tokenizer, form: InputForm, max_length: int | None = None) -> Any:
    """The tokenizer as transformers' own class, which saves it as tokenizer.json.

    max_length: the largest number of tokens that the model has positions for.
    """
    from tokenizers import Tokenizer as Pipeline
    from transformers import PreTrainedTokenizerFast

    names = special_names(tokenizer, form)
    roles = {role: names[number] for role, number in ROLES.items()}
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if form.pairs else ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=Pipeline.from_str(tokenizer_json(tokenizer, form)),
        padding_side=form.padding_side,
        model_input_names=inputs,
        split_special_tokens=not _finds_specials(tokenizer, form),
        clean_up_tokenization_spaces=False,
        **roles,
        **({} if max_length is None else {"model_max_length": max_length}),
    )


def _finds_specials(tokenizer: Tokenizer, form: InputForm) -> bool:
    """Whether special tokens are found in text."""
    return form.is_masked or bool(tokenizer.languages)


def special_names(tokenizer: Tokenizer, form: InputForm) -> list[str]:
    """The names of the special tokens by id, none of which is an ordinary token."""
    ordinary = set(tokenizer.vocabulary.tokens)
    with_space = tokenizer.kind in CAN_MATCH and not _finds_specials(tokenizer, form)
    names = []
    for number, name in enumerate(tokenizer.specials):
        if number == UNK and tokenizer.kind in HAVE_UNKNOWNS:
            name = tokenizer.vocabulary.tokens[0]
        else:
            name = f"{name[:-1]} >" if with_space else name
            while name in ordinary:
                name = f"<{name}>"
        names.append(name)
    return names


def tokenizer_json(tokenizer: Tokenizer, form: InputForm) -> str:
    """The content of tokenizer.json."""
    names, kind = special_names(tokenizer, form), tokenizer.kind
    pipeline = build_pipeline(kind, tokenizer.lower_case, tokenizer.vocabulary, bool(tokenizer.moses))
    content: dict[str, Any] = json.loads(pipeline.to_str())
    texts = list(tokenizer.vocabulary.tokens[1 if kind in HAVE_UNKNOWNS else 0 :])
    ordered = [*names, *texts]
    model = content["model"]
    if model["type"] == "Unigram":
        scores = dict(zip(tokenizer.vocabulary.tokens, tokenizer.vocabulary.scores, strict=True))
        model["vocab"] = [[token, scores.get(token, UNCHOSEN)] for token in ordered]
        model["unk_id"] = UNK
    else:
        model["vocab"] = {token: number for number, token in enumerate(ordered)}
    content["added_tokens"] = [
        # Decoding omits special tokens, but shows an unknown word.
        _special(number, name)
        for number, name in enumerate(names)
        if number != UNK or kind not in HAVE_UNKNOWNS
    ]
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    others = [] if content["normalizer"] is None else [content["normalizer"]]
    content["normalizer"] = {"type": "Sequence", "normalizers": [strip, *others]}
    content["post_processor"] = _template(form, names)
    return json.dumps(content, ensure_ascii=False)


def _special(number: int, name: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": name, **flags}


def _template(form: InputForm, names: Sequence[str]) -> dict[str, Any]:
    def tokens(numbers: tuple[int, ...], segment: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": names[number], "type_id": segment}} for number in numbers]

    single = [*tokens(form.before, 0), {"Sequence": {"id": "A", "type_id": 0}}, *tokens(form.after, 0)]
    second = [{"Sequence": {"id": "B", "type_id": int(form.pairs)}}, *tokens(form.after, int(form.pairs))]
    used = {number: names[number] for number in (*form.before, *form.after)}
    known = {name: {"id": name, "ids": [number], "tokens": [name]} for number, name in used.items()}
    return {"type": "TemplateProcessing", "single": single, "pair": [*single, *second], "special_tokens": known}
