"""Tasks that generate text: their search options, truncation of inputs, and samples."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lamina import UserError
from lamina.data.tokenizer import EOS
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import score
from lamina.generate.search import generate
from lamina.tasks import TASKS
from lamina.tasks.generating import GeneratingTask
from support.small_tasks import model_for, task_of


@pytest.mark.parametrize(
    ("name", "given"), [("language-modelling", {"temperature": 0.7}), ("summarisation", {"beam": 4})]
)
def test_a_changed_option_of_generation_leaves_the_tasks_others(name: str, given: dict[str, Any], folder: Path) -> None:
    own = task_of(name, folder).options.generation
    assert own != GenerateOptions(), "this task has its own search options"
    assert task_of(name, folder, generation=given).options.generation == own.model_copy(update=given)
    with pytest.raises(UserError, match=f"task '{name}': generation.baem: unknown option 'baem'; did you mean 'beam'"):
        task_of(name, folder, generation={"baem": 3})


def long_prompt(folder: Path) -> tuple[Any, Any, str, list[int]]:
    """A language model of 16 positions, and a text of more tokens."""
    task = task_of("language-modelling", folder)
    model = model_for(task, positions="learned", max_length=16).eval()
    tokenizer, split = task.store.tokenizer(), task.store["valid"]
    text = " ".join(tokenizer.decode(split.tokens("text", at)) for at in range(2)).strip()
    tokens = tokenizer.encode(text)
    assert len(tokens) > 16
    return task, model, text, tokens


def test_a_prompt_beyond_the_positions_is_cut_to_its_end(folder: Path) -> None:
    task, model, text, tokens = long_prompt(folder)
    options, tokenizer = GenerateOptions(method="greedy", max_length=5), task.store.tokenizer()
    warned: list[str] = []
    short, cut, again = task.generate_text(model, ["ma", text, "ma"], options, warn=warned.append)
    assert short == again
    [[best]] = generate(model, [tokens[-14:]], options, bos=EOS, eos=EOS)
    assert [output.text for output in cut] == [tokenizer.decode(best.tokens)]
    prefix = tokenizer.decode(tokens[:3])
    room = 14 - len(tokenizer.encode(prefix.strip()))
    [[forced]] = task.generate_text(model, [text], options, prefixes=prefix, warn=warned.append)
    assert forced.text.startswith(prefix.strip())
    assert [warning.partition(" tokens")[0] for warning in warned] == [
        f"line 2: cut from {len(tokens)} to 14",
        f"line 1: cut from {len(tokens)} to {room}",
    ]


def test_a_scored_target_comes_before_its_prompt_where_positions_are_few(folder: Path) -> None:
    task, model, text, tokens = long_prompt(folder)
    target = task.store.tokenizer().encode("ma")
    found = list(task.score_text(model, [text, text], ["ma", text], warn=lambda warning: None))
    wanted = score(model, [tokens[len(target) - 14 :], []], [target, tokens[:14]], bos=EOS, eos=EOS)
    assert [each.count for each in found] == [len(target) + 1, 15]
    assert [each.log_probability for each in found] == pytest.approx([each.log_probability for each in wanted])


@pytest.mark.parametrize(("name", "to", "added"), [("translation", None, 1), ("multilingual-translation", "tuvo", 2)])
def test_sources_of_which_nothing_could_be_read_are_refused_at_once(
    name: str, to: str | None, added: int, folder: Path
) -> None:
    task = task_of(name, folder)
    model, options = model_for(task).eval(), GenerateOptions(max_source=added)
    for call in (task.generate_text, partial(task.score_text, targets=["a"])):
        with pytest.raises(UserError, match=f"max_source {added} is too small: {added} come with every line"):
            call(model, ["a"], options=options, to=to)
    enough = GenerateOptions(max_source=added + 1, max_length=2)
    assert len(list(task.generate_text(model, ["a"], enough, to=to, warn=lambda warning: None))) == 1


@pytest.mark.parametrize("name", [task.name for task in TASKS.values() if issubclass(task, GeneratingTask)])
def test_samples_show_what_the_model_makes_of_a_few_examples(name: str, folder: Path) -> None:
    task = task_of(name, folder)
    model, field = model_for(task), task.fields[0]
    shown = task.samples(model, "valid", 3)
    assert len(shown) == 3
    assert all(each.source and each.reference for each in shown)
    if name == "speech-recognition":
        assert all(re.fullmatch(r"\(\d\.\d s of speech\)", each.source) for each in shown)
        return
    tokenizer, sets = task.store.tokenizer(field), task.store.sets("valid")
    texts = [
        tokenizer.decode(task.store[part].tokens(each, at))
        for part in sets
        for each in task.fields
        for at in range(len(task.store[part]))
    ]
    for each in shown:
        whole = each.source + each.reference if name == "language-modelling" else each.source
        if name == "multilingual-translation":
            tag, _, whole = whole.partition(" ")
            assert re.fullmatch("<.+>", tag), tag
        assert any(text.startswith(whole) for text in texts)
    assert task.samples(model, "valid", 0) == []
