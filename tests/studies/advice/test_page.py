"""The page of an advice, the terminal, and the config to use."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.config import read_values
from lamina.studies.advice.outcome import Recommendation
from lamina.studies.advice.page import advice_page, save_advice, show_advice, write_config
from lamina.training.config import RunConfig
from support.made_advice import advice_of, made


@pytest.fixture
def advice() -> Recommendation:
    ruled_out, untried = made("post-ln", 1), made("resi-dual", 1)
    ruled_out.ruled_out = "the gradient <vanishes>"
    return advice_of(made("pre-ln", 0, 2.0, 2.2), made("b2t", 2, 1.8, 2.1, rate=3e-3), ruled_out, untried)


@pytest.mark.parametrize("form", ["html", "md"])
def test_the_page_has_the_advice_every_candidate_and_the_reasons(advice: Recommendation, form: str) -> None:
    page = advice_page(advice, form).replace("\\", "")
    assert "Use b2t, 6 layers of width 64, 0.003" in page
    assert "1.95 (1.8 to 2.1)" in page
    assert "Ruled out by their diagnosis" in page
    assert "1 further combination did not fit the budget and was not tried" in page
    assert "<vanishes>" not in page or form == "md"
    assert "Validation loss of the candidates" in page


def test_the_terminal_says_the_same(advice: Recommendation, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    show_advice(advice)
    said = capsys.readouterr().out
    assert "Use b2t" in said
    assert "Ruled out: post-ln" in said
    save_advice(advice, tmp_path / "advice.html")
    assert (tmp_path / "advice.html").read_text().startswith("<!doctype html>")


def test_the_config_is_ready_and_keeps_everything_else(advice: Recommendation, tmp_path: Path) -> None:
    values = {
        "data": {"max_tokens": 300},
        "seed": 7,
        "task": "translation",
        "model": {"residual": "layer-scale", "residual_options": {"start": 0.1}, "num_heads": 4},
        "optimiser": {"betas": [0.9, 0.9]},
    }
    write_config(advice, values, tmp_path / "advised.toml")
    config = RunConfig.read(read_values(tmp_path / "advised.toml"), where="")
    assert (config.model.residual, config.schedule.learning_rate, config.model.model_dim) == ("b2t", 3e-3, 64)
    assert (config.seed, config.data.max_tokens, config.optimiser.betas) == (7, 300, (0.9, 0.9))
    assert (tmp_path / "advised.toml").read_text().startswith("# Use b2t")
