"""A hundred mistakes on the command line: each ends with exit code 2 and one message.

It names what is wrong and a way out: a command, an option, a key or the valid values. Nothing is left behind.

The commands run in this process, in a folder with a small store, a config and a trained run.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest

from lamina.cli import main
from support.trained_runs import trained_run

MISTAKES = """
--colour | --colour
schem | schem
schemes residul | resi-dual
schemes a b | b
schemes "" | scheme
train | config
train missing.toml | missing.toml
train . | config.toml
train own.toml train.step=3 | train.step
train own.toml steps=3 | train.steps
train own.toml train.steps | train.steps
train own.toml train.steps=three | train.steps
train own.toml train.steps=-1 | train.steps
train own.toml train.steps=1.5 | train.steps
train own.toml train.steps= | train.steps
train own.toml =3 | =3
train own.toml model.residual=b2 | b2t
train own.toml model.residual=[] | model.residual
train own.toml model.residual=3 | model.residual
train own.toml model.num_heads=3 | num_heads
train own.toml model.num_layers=0 | num_layers
train own.toml model.model_dim=0 | model_dim
train own.toml model.dropout=2 | dropout
train own.toml model.dropout=nan | dropout
train own.toml model.wide=3 | wide
train own.toml model.preset=big | preset
train own.toml model.vocab_size=9 | vocab_size
train own.toml model.kind=decoder | model.kind
train own.toml model.head=classes | model.head
train own.toml model.padding_index=5 | padding_index
train own.toml model.num_layers=100000000 | num_layers
train own.toml model=3 | model
train own.toml "model.a[b]=3" | model.a[b]
train odd.toml | model.a[b]
train own.toml --folder deep/down/run data.store=nowhere | nowhere
train own.toml task=translate | translation
train own.toml task=3 | task
train own.toml task_options.nothing=1 | nothing
train own.toml seed=x | seed
train own.toml data.store=nowhere | nowhere
train own.toml data.store=own.toml | own.toml
train own.toml data.max_tokens=0 | max_tokens
train own.toml data.max_tokens=many | max_tokens
train own.toml data.oversize=never | oversize
train own.toml optimiser.name=adm | adam
train own.toml optimiser.eps=-1 | eps
train own.toml optimiser.betas=[1] | betas
train own.toml schedule.name=linaer | linear
train own.toml schedule.learning_rate=-1 | learning_rate
train own.toml schedule.learning_rate=inf | learning_rate
train own.toml schedule.warmup_steps=-3 | warmup_steps
train own.toml train.precision=fp8 | precision
train own.toml train.device=tpu | device
train own.toml train.device=cuda:99 | device
train own.toml train.parallel=both | parallel
train own.toml train.keep_checkpoints=0 | keep_checkpoints
train own.toml train.track=mlflow | track
train own.toml train.accumulate=0 | accumulate
train own.toml diagnose.every=-1 | every
train own.toml diagnose.thresholds.none.failure=1 | none
train own.toml "a[b]=3" | a[b]
train own.toml --folder own.toml | own.toml
train own.toml --fodler x | --fodler
train own.toml --folder | --folder
train broken.toml | broken.toml
train binary.toml | binary.toml
train extends.toml | gone.toml
train store | store
plan | config
plan missing.toml | missing.toml
plan own.toml --gpus 0 | --gpus
plan own.toml --gpus x | --gpus
plan own.toml --efficiency 2 | --efficiency
plan own.toml model.wide=3 | wide
evaluate | run
evaluate missing | missing
evaluate store | store
evaluate own.toml | own.toml
evaluate run --split tset | tset
evaluate run --checkpoint beast | beast
evaluate run --checkpoint ../../store | ../../store
evaluate run --checkpoint average | lamina average
evaluate run --beam 0 | --beam
evaluate run --beam 4 method=sample | method=sample
evaluate run --beam 4 beam=3 | beam=3
evaluate run --data lines.txt | couples
evaluate run --data lines.txt --data missing.txt | missing.txt
evaluate run --save own.toml | own.toml
evaluate run beams=3 | beam
evaluate run length_penalty=x | length_penalty
evaluate run length_penalty | length_penalty
generate missing | missing
generate run --input missing.txt | missing.txt
generate run --input store | store
generate run lines.txt | --input lines.txt
generate run --input lines.txt --output lines.txt | lines.txt
generate run --input lines.txt --output-format xml | xml
generate run --input lines.txt --to fr | to
generate run --input lines.txt nbest=3 | nbest
generate run --input lines.txt --beam 4 method=sample | method=sample
predict run "a text" | lamina generate
runs missing | missing
init translatoin | translation
init translation --output own.toml | own.toml
generate run --input lines.txt --score missing.txt | missing.txt
generate run --input lines.txt --score lines.txt --prefix a | --prefix
generate run --input binary.toml | binary.toml
average missing | missing
average run --last 99 | keep_checkpoints
average run --last 0 | --last
compare own.toml | --residual
compare own.toml --residual b2 | b2t
compare own.toml --residual b2t,b2t | b2t
compare own.toml --residual b2t/pre-ln/post-ln | b2t/pre-ln/post-ln
compare own.toml --residual b2t --depth x | x
compare own.toml --residual b2t --depth 0 | 0
compare own.toml --residual b2t --seeds 0 | --seeds
compare own.toml --residual b2t --output report.doc | report.doc
report | runs
report missing | missing
report run --output page.doc | page.doc
diagnose | what
diagnose missing.toml | missing.toml
diagnose store | store
diagnose run model.residual=b2t | model.residual=b2t
diagnose own.toml --output why.doc | why.doc
diagnose own.toml --depths a,b | a,b
diagnose own.toml --seeds 0 | --seeds
diagnose broken.json | broken.json
prepare nothing-known | nothing-known
prepare missing.toml | missing.toml
prepare embedded-translation --output own.toml | own.toml
prepare embedded-translation --output "" | output: must not be empty
prepare nothing --show | nothing
prepare missing --verify | missing
prepare own.toml --verify | own.toml
demo --steps 0 | --steps
demo --folder own.toml | own.toml
"""

CONFIG = """
[data]
store = "{store}"
max_tokens = 400
oversize = "alone"
[model]
model_dim = 16
feed_forward_dim = 32
num_heads = 2
num_layers = 1
[train]
steps = 2
"""


WAY_OUT = re.compile(
    r"\blamina [a-z]+\b|--[a-z]+|`\w+|Valid: |did you mean|must (?:not )?be|there are|ends in one of|working directory"
    r"|[;,:.] (?i:change|choose|correct|give|leave|make|name|set|train|use|write)\b|\bsuch as\b"
)
"""A command, an option, a key, the values that are valid, or an instruction."""


def mistakes() -> Iterator[tuple[str, str]]:
    for line in MISTAKES.strip().splitlines():
        command, _, named = line.rpartition(" | ")
        yield command, named


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mistakes")
    run = trained_run("translation", place / "made", steps=2)
    (place / "run").symlink_to(run)
    store = next((place / "made" / "stores").rglob("manifest.json")).parent
    (place / "store").symlink_to(store)
    (place / "own.toml").write_text(CONFIG.format(store=store))
    (place / "broken.toml").write_text("[data\nstore = ")
    (place / "extends.toml").write_text('extends = "gone.toml"\n')
    (place / "binary.toml").write_bytes(bytes(range(128, 256)))
    (place / "odd.toml").write_text('[model."a[b]"]\nx = 1\n')
    (place / "broken.json").write_text('{"a": ')
    (place / "lines.txt").write_text("a line\n")
    return place


def test_there_are_a_hundred() -> None:
    assert len(set(mistakes())) == len(list(mistakes())) >= 100


@pytest.mark.parametrize(("command", "named"), list(mistakes()))
def test_a_mistake_is_one_message(command: str, named: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(place)
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "argv", ["lamina", *shlex.split(command)])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a line\n")))
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setenv("COLUMNS", "400")
    error = io.StringIO()
    with (
        contextlib.redirect_stderr(error),
        contextlib.redirect_stdout(io.StringIO()),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    text = error.getvalue()
    assert ended.value.code == 2, text
    assert "Traceback" not in text
    assert re.search(re.escape(named), text, re.IGNORECASE), text
    assert len(text) < 2000, "a message, not a listing"
    own_words = sorted((word for word in shlex.split(command)[1:] if len(word) > 2), key=len, reverse=True)
    assert WAY_OUT.search(reduce(lambda left, word: left.replace(word, ""), own_words, text)), text
    assert content(place) == before, "nothing is left behind"


def content(place: Path) -> set[Path]:
    """All files and folders."""
    return set(place.rglob("*"))
