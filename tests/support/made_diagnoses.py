"""Diagnoses made by hand, with every kind of thing a page has to show."""

from __future__ import annotations

import math

from lamina.diagnosis.measures import gradient_along_stream
from lamina.diagnosis.results import Diagnosis, Grid, Measure, Series, Skipped, Verdict

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "$\\frac{a}$ `code` | *bold* ]](javascript:alert(3)",
]
SLOPES = {"post-ln": 0.75, "pre-ln": 1.0, "b2t": 0.98, "resi-dual": 0.99, "admin": 0.95}


def make(
    scheme: str, name: str = "", layers: int = 12, *, step: int | None = None, schemes: tuple[str, ...] | None = None
) -> Diagnosis:
    """What a diagnosis of an encoder–decoder under `scheme` looks like, roughly."""
    post = SLOPES.get(scheme, 0.9) < 0.96
    return Diagnosis(
        name=name or scheme,
        model=f"{layers}-{layers} encoder–decoder, width 64, {scheme}",
        schemes=(scheme,) if schemes is None else schemes,
        repeats=5,
        step=step,
        seconds=41.5,
        verdicts=(verdict_of_gradient(scheme, layers), FINE, OVERFLOW) if post else (FINE, OVERFLOW),
        measures=(
            gradient(scheme, layers),
            stream_norms(scheme, layers),
            beta(scheme, layers),
            cosine(scheme, layers),
            hidden_change(scheme, layers),
            output_change(scheme),
            conditioning(),
        ),
        skipped=(Skipped(key="dual-split", reason="the model has no dual stream"),),
        notes=("Padding was left out of all means.",),
    )


FINE = Verdict(
    kind="collapse",
    severity="fine",
    sentence="The outputs of neighbouring layers stay apart: their cosine is at most 0.93 (threshold 0.99).",
    value=0.93,
    threshold=0.99,
)
OVERFLOW = Verdict(
    kind="overflow",
    severity="warning",
    sentence="The residual sum of decoder layer 12 reaches 9,800, near half precision's end (threshold 6,550).",
    advice="keep the stream in fp32, or train in bf16",
    value=9800,
    threshold=6550,
    where="decoder layer 12",
)


def verdict_of_gradient(scheme: str, layers: int) -> Verdict:
    ratio = SLOPES.get(scheme, 0.9) ** (2 * layers)
    return Verdict(
        kind="vanishing",
        severity="failure",
        sentence=f"The gradient of decoder layer 1 is {ratio:.1g} of layer {layers}'s (threshold 0.01): it vanishes "
        "at the norms after cross-attention.",
        advice="b2t, resi-dual or pre-ln keep it; a warm-up of 4,000 steps may be enough at this depth",
        value=ratio,
        threshold=0.01,
        where="decoder layer 1",
    )


def gradient(scheme: str, layers: int) -> Measure:
    numbers = tuple(float(l) for l in range(1, layers + 1))
    fall = SLOPES.get(scheme, 0.9)
    encoder = tuple(0.3 * fall ** (0.6 * (layers - l)) for l in numbers)
    decoder = tuple(0.5 * fall ** (2 * (layers - l)) for l in numbers)
    theory = tuple(0.5 * (2 / 3) ** ((layers - l) / 2) for l in numbers) if fall < 0.9 else tuple(0.4 for _ in numbers)
    lines = {
        "measured": (
            Series(label="encoder", x=numbers, y=encoder, spread=tuple(0.3 * y for y in encoder)),
            Series(label="decoder", x=numbers, y=decoder, spread=tuple(0.4 * y for y in decoder)),
        ),
        "theory": (Series(label="decoder: (2/3)^((L−l)/2)", x=numbers, y=theory, dashes=True),),
    }
    facts = {"decoder, first ÷ last": decoder[0] / decoder[-1], "slope of ln y": math.log(fall)}
    return gradient_along_stream.MEASURE.model_copy(update=lines | {"facts": facts})


def stream_norms(scheme: str, layers: int) -> Measure:
    places = tuple(float(k) for k in range(2 * layers + 1))
    grows = scheme == "pre-ln"
    norms = tuple((64 * (1 + k / 2)) if grows else 64.0 for k in places)
    return Measure(
        key="stream-norms",
        title="Norm of the stream",
        formula="E‖x_l‖²; pre-LN: (1+l/2)d ≤ E‖x_l‖² ≤ (1+3l/2)d",
        source="Xiong et al. 2020, lemma 2",
        look_for="A stream that grows steadily drowns later branches; a level one keeps them equal.",
        x_label="sub-layer",
        y_label="squared norm",
        measured=tuple(
            Series(label=part, x=places, y=norms, spread=tuple(0.05 * y for y in norms))
            for part in ("encoder", "decoder")
        ),
        theory=(
            Series(label="lower bound", x=places, y=tuple(64 * (1 + k / 4) for k in places), dashes=True),
            Series(label="upper bound", x=places, y=tuple(64 * (1 + 3 * k / 4) for k in places), dashes=True),
        )
        if grows
        else (),
    )


def beta(scheme: str, layers: int) -> Measure:
    count = 2 * layers

    def row(i: int) -> tuple[float, ...]:
        keep = 0.5**0.5 if scheme == "post-ln" else (1 - 1 / (i + 1)) ** 0.5
        weights = [keep**i, *(((1 - keep**2) ** 0.5) * keep ** (i - j) for j in range(1, i + 1))]
        return (*weights, *[math.nan] * (count - i))

    grid = Grid(
        label="encoder", values=tuple(row(i) for i in range(1, count + 1)), rows="sub-layer i", columns="branch j"
    )
    return Measure(
        key="layer-dependency",
        title="Layer dependency β",
        formula="β_ij = √(Var c_ij ÷ Var x_i)",
        source="Liu et al. 2020 (Admin), figures 7 and 8",
        look_for="A bright diagonal means that each layer leans on its own branch, and changes of it are amplified.",
        grids=(grid, grid.model_copy(update={"label": "decoder"})),
    )


def cosine(scheme: str, layers: int) -> Measure:
    near = 0.97 if scheme == "pre-ln" else 0.8
    values = tuple(tuple(near ** abs(i - j) for j in range(layers)) for i in range(layers))
    grid = Grid(label="encoder", values=values, rows="layer", columns="layer")
    return Measure(
        key="cosine-of-layers",
        title="Cosine between layer outputs",
        formula="mean over positions of cos(x_i, x_j)",
        source="Takase et al. 2023 (B2T), figure 5",
        look_for="Large bright squares are layers that say the same.",
        grids=(grid, grid.model_copy(update={"label": "decoder"})),
    )


def hidden_change(scheme: str, layers: int) -> Measure:
    places = tuple(float(k) for k in range(1, 2 * layers))
    change = tuple((2 - 2 * math.sqrt(k / (k + 1))) ** 0.5 if scheme == "pre-ln" else 0.75 for k in places)
    return Measure(
        key="hidden-change",
        title="Change of the hidden state",
        formula="E|LN(x_{k+1}) − LN(x_k)|",
        source="Xie et al. 2023 (ResiDual), figure 2 b",
        look_for="A curve that sinks towards nothing: later layers repeat earlier ones.",
        x_label="sub-layer",
        y_label="mean absolute change",
        measured=(
            Series(label="encoder", x=places, y=tuple(0.97 * y for y in change), spread=tuple(0.02 for _ in change)),
        ),
        theory=(Series(label="encoder", x=places, y=change, dashes=True),),
    )


def output_change(scheme: str) -> Measure:
    depths = (4.0, 8.0, 16.0, 32.0, 64.0, 100.0)
    change = tuple(math.log(n) * 1e-4 if scheme == "pre-ln" else n * 1e-4 for n in depths)
    return Measure(
        key="output-change",
        title="Change of the output against depth",
        formula="E‖F(x, W + δ) − F(x, W)‖²",
        source="Liu et al. 2020 (Admin), figure 4",
        look_for="In proportion to depth: amplification. With its logarithm: stable.",
        x_label="sub-layers",
        y_label="squared change",
        log_x=True,
        log_y=True,
        measured=(Series(label="feed-forward stack", x=depths, y=change, spread=tuple(0.1 * y for y in change)),),
        theory=(Series(label="∝ N", x=depths, y=tuple(n * 1e-4 for n in depths), dashes=True),),
        facts={"R² of N": 0.996, "R² of ln N": 0.91},
    )


def conditioning() -> Measure:
    kinds = ("query", "key", "value", "output", "inner", "outer")
    steps = tuple(float(t) for t in range(1, 21))
    return Measure(
        key="conditioning",
        title="Adam's conditioning",
        formula="κ = √Σ(∂u/∂g_i)²",
        source="Xie et al. 2023 (ResiDual), figure 3",
        look_for="Large values: a small error in the gradient becomes a large one in the update.",
        x_label="step",
        y_label="κ",
        measured=tuple(
            Series(label=kind, x=steps, y=tuple(3200 / (1 + 0.2 * at) / t for t in steps))
            for at, kind in enumerate(kinds)
        ),
        theory=(Series(label="g = v = 0", x=steps, y=tuple(3200.0 for _ in steps), dashes=True),),
    )


def hostile() -> Diagnosis:
    """Every text is an attack, and some numbers are none."""
    script, image, signs = HOSTILE
    nan, inf = math.nan, math.inf
    measure = Measure(
        key=script,
        title=image,
        formula=signs,
        source=script,
        look_for=image,
        x_label=script,
        y_label=signs,
        log_y=True,
        measured=(
            Series(
                label=script, x=(1.0, 2.0, 3.0, 4.0, 5.0), y=(1.0, nan, inf, 0.0, 2.0), spread=(0.1, nan, inf, 0.0, 9.0)
            ),
            Series(label="\x00\x1b[31m_hidden\u202e", x=(1.0,), y=(nan,)),
        ),
        theory=(Series(label=image, x=(1.0, 5.0), y=(1.0, -inf), dashes=True),),
        grids=(Grid(label=image, values=((nan, inf), (-1.0, 0.5)), rows=script, columns=image),),
        facts={script: nan, image: inf},
    )
    verdict = Verdict(
        kind="unstable", severity="failure", sentence=script, advice=image, value=nan, threshold=inf, where=signs
    )
    return Diagnosis(
        name=script,
        model=image,
        schemes=("no-such-scheme",),
        spread_over="batches",
        verdicts=(verdict,),
        measures=(measure,),
        skipped=(Skipped(key=image, reason=script),),
        notes=(signs, script, "a lone surrogate: \udc80"),
    )
