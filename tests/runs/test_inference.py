"""A trained model and text: generation, scores of given text, prefixes, memory."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest

import lamina
from lamina import UserError
from lamina.cli.models import _load
from lamina.runs.run import Run
from support.trained_runs import sources, trained_run

pytestmark = pytest.mark.slow
STATM = Path("/proc/self/statm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trained")


@pytest.fixture(scope="module")
def translator(folder: Path) -> Run:
    return lamina.load(trained_run("translation", folder))


def resident() -> int:
    """Bytes of memory in use."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_lines_in_lines_out(translator: Run) -> None:
    texts = sources(translator)
    outputs = translator.generate(texts)
    assert len(outputs) == len(texts)
    assert any(outputs)
    assert translator.generate(["", texts[0], "  ", texts[1]]) == ["", outputs[0], "", outputs[1]]
    assert translator.generate(texts, beam=1) == translator.generate(texts, method="greedy")
    with pytest.raises(UserError, match="generation: bean: unknown option 'bean'; did you mean 'beam'"):
        translator.generate(texts, bean=4)
    with pytest.raises(UserError, match="no choice of target language"):
        translator.generate(texts, to="tuvo")


def test_given_targets_are_scored(translator: Run) -> None:
    texts = sources(translator)
    targets = ["", *translator.generate(texts)[1:]]
    found = list(translator.score(texts, targets, window=3))
    tokenizer = translator.task.store.tokenizer("target")
    for target, scored in zip(targets, found, strict=True):
        assert scored.log_probability < 0
        assert scored.count == len(tokenizer.encode(target.strip())) + 1
        assert scored.perplexity == pytest.approx(math.exp(-scored.log_probability / scored.count))
    with pytest.raises(UserError, match="as many targets as lines"):
        list(translator.score(["a", "b"], ["c"]))


def test_a_line_that_is_too_long_is_cut_with_a_warning_that_names_it(translator: Run) -> None:
    long = " ".join(sources(translator))
    with pytest.warns(UserWarning, match=r"line 2: cut from \d+ to 9 tokens"):
        cut = translator.generate(["short", long], max_source=10)
    assert len(cut) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator.generate(["short", long])


def test_an_endless_input_streams_through(translator: Run) -> None:
    """Outputs come while input is still being read, and no more is read ahead than the window."""
    texts, read = sources(translator), 0

    def endless() -> Iterator[str]:
        nonlocal read
        for read in count(1):
            yield texts[read % len(texts)]

    for number, outputs in enumerate(islice(translator.stream(endless(), window=20, max_length=2), 100), start=1):
        assert len(outputs) == 1
        assert read <= number + 20


@pytest.mark.skipif(not STATM.exists(), reason="the system does not say how much memory is resident")
def test_many_thousand_lines_take_no_more_memory_than_some(translator: Run) -> None:
    """A stream that kept its lines and their tokens would grow by twice what is allowed, or more."""
    words = " ".join(sources(translator) * 8)[:600]

    def outputs(count: int) -> Iterator[object]:
        lines = (f"{number} {words}" for number in range(count))
        return translator.stream(lines, window=256, method="greedy", max_length=1)

    assert sum(1 for _ in outputs(1_000)) == 1_000
    before, most = resident(), 0
    for number, _ in enumerate(outputs(8_000), start=1):
        most = max(most, resident()) if number % 250 == 0 else most
    assert number == 8_000
    assert most - before < 16 << 20


def test_outputs_start_with_their_prefix(translator: Run) -> None:
    texts = sources(translator)
    outputs = translator.generate(texts)
    same = translator.generate(texts, prefixes="tu ma")
    assert all(output.startswith("tu ma") for output in same)
    assert same == translator.generate(texts, prefixes=["tu ma"] * len(texts))
    mixed = translator.generate(texts, prefixes=["", " to "] * (len(texts) // 2))
    assert mixed[::2] == outputs[::2]
    assert all(output.startswith("to") for output in mixed[1::2])
    [[best]] = translator.stream(texts[:1], prefixes="tu ma", nbest=1, max_length=6)
    [scored] = translator.score(texts[:1], [best.text])
    assert best.log_probability > scored.log_probability, "the prefix is given, and costs nothing"
    for number in (len(texts) - 1, len(texts) + 1):
        with pytest.raises(UserError, match="as many prefixes as lines"):
            translator.generate(texts, prefixes=["a"] * number)


def test_one_text_alone_is_no_list_of_texts(translator: Run) -> None:
    for call in (
        lambda: translator.generate("Guten Morgen!"),
        lambda: translator.stream("Guten Morgen!"),
        lambda: translator.score("Guten Morgen!", ["a"]),
        lambda: translator.score(["a"], "Guten Morgen!"),
    ):
        with pytest.raises(UserError, match=r"give a list of texts, such as \['Guten Morgen!'\]"):
            call()


def test_a_language_model_continues_a_prompt(folder: Path) -> None:
    run = lamina.load(trained_run("language-modelling", folder, block_length=32))
    prompts = [text[:20] for text in sources(run, 3)]
    sampled = run.generate(prompts, max_length=12)
    assert sampled == run.generate(prompts, max_length=12)
    assert sampled != run.generate(prompts, max_length=12, seed=2)
    assert run.generate(prompts[::-1], method="beam", max_length=4)[::-1] == run.generate(
        prompts, method="beam", max_length=4
    )
    [scored] = run.score(prompts[:1], [" and more"])
    assert scored.log_probability < 0
    cooler = lamina.load(run.path, generation={"temperature": 0.7}).task.options.generation
    assert cooler == run.task.options.generation.model_copy(update={"temperature": 0.7}), "still samples, still 100"
    beams = _load(str(run.path), "best", None, beam=4, int8=False).task.options.generation
    assert (beams.method, beams.beam, beams.max_length) == ("beam", 4, 100)


def test_a_multilingual_model_needs_the_target_language(folder: Path) -> None:
    run = lamina.load(trained_run("multilingual-translation", folder))
    with pytest.raises(UserError, match="name the language to translate into, one of marn, "):
        run.generate(["a"])
    with pytest.raises(UserError, match="unknown language 'tuv'; did you mean 'tuvo'"):
        run.generate(["a"], to="tuv")
    tokenizer = run.task.store.tokenizer()
    assert run.task.source([9], "tuvo")[0] == tokenizer.tag("tuvo")
    assert len(run.generate(["a", "b"], to="tuvo", max_length=3)) == 2


def test_a_task_without_text_says_so(folder: Path) -> None:
    run = lamina.load(trained_run("classification", folder))
    with pytest.raises(UserError, match="task 'classification' generates no text; these do: .*translation"):
        run.generate(["a"])
    assert "accuracy" in run.evaluate().scores["valid"]
