"""Diagnoses made by hand, with every kind of thing a page has to show."""

from __future__ import annotations

import math

from lamina.diagnosis.measurement import (
    Axes,
    Description,
    Fact,
    Grid,
    Location,
    Measurement,
    NotMeasured,
    Series,
    Stage,
)
from lamina.diagnosis.measures.gradient_along_stream import GradientAlongStream
from lamina.diagnosis.results import Action, Diagnosis, Finding, SchemeTrait, Setting

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "$\\frac{a}$ `code` | *bold* ]](javascript:alert(3)",
]
SLOPES = {"post-ln": 0.75, "pre-ln": 1.0, "b2t": 0.98, "resi-dual": 0.99, "admin": 0.95}
ENCODER, DECODER = Location(stack="encoder"), Location(stack="decoder")


def make(
    scheme: str, name: str = "", layers: int = 12, *, step: int | None = None, schemes: tuple[str, ...] | None = None
) -> Diagnosis:
    """What a diagnosis of an encoder–decoder under `scheme` looks like, roughly."""
    post = SLOPES.get(scheme, 0.9) < 0.96
    return Diagnosis(
        name=name or scheme,
        model=f"{layers}-{layers} encoder–decoder, width 64, {scheme}",
        schemes=(scheme,) if schemes is None else schemes,
        stage=Stage(name="start") if step is None else Stage(name="step", step=step),
        repeats=5,
        seconds=41.5,
        findings=(
            *((vanishing(scheme, layers),) if post else ()),
            FINE,
            OVERFLOW,
            *NOT_MEASURED,
        ),
        measurements=(
            gradient_along_stream(scheme, layers),
            stream_norms(scheme, layers),
            layer_dependency(scheme, layers),
            cosine_of_layers(scheme, layers),
            hidden_change(scheme, layers),
            output_change(scheme),
            adam_conditioning(),
        ),
        not_measured=(
            NotMeasured(key="gradient-by-stream", reason="the model has no dual stream"),
            NotMeasured(key="watched-updates", reason=NEEDS_TRAINING, lacks=("training",)),
            NotMeasured(key="watched-weakest-layer", reason=NEEDS_TRAINING, lacks=("training",)),
        ),
        notes=("Padding was left out of all means.",),
    )


NEEDS_TRAINING = "it follows an optimiser in training"
NOT_MEASURED = (
    Finding(check="unstable", severity="not measured", sentence="watched-updates was not measured"),
    Finding(check="vanished", severity="not measured", sentence="watched-weakest-layer was not measured"),
    Finding(
        check="learning-rate",
        severity="not measured",
        sentence="the highest learning rate of training is not known",
        location=DECODER,
    ),
)
FINE = Finding(
    check="collapse",
    severity="fine",
    sentence="the outputs of neighbouring layers stay apart: their cosine is at most 0.93 (threshold 0.99)",
    value=0.93,
    threshold=0.99,
)
OVERFLOW = Finding(
    check="overflow",
    severity="warning",
    sentence="the residual sum of decoder layer 12 reaches 9,800, near half precision's end (threshold 6,550)",
    location=Location(stack="decoder", layer=12),
    value=9800,
    threshold=6550,
    remedies=(Setting(key="train.precision", value="bf16"), Action(text="keep the stream in fp32")),
)


def vanishing(scheme: str, layers: int) -> Finding:
    ratio = SLOPES.get(scheme, 0.9) ** (2 * layers)
    return Finding(
        check="vanishing",
        severity="failure",
        sentence=f"the gradient of decoder layer 1 is {ratio:.1g} of layer {layers}'s (threshold 0.01): it vanishes "
        "at the norms after cross-attention",
        location=Location(stack="decoder", layer=1),
        value=ratio,
        threshold=0.01,
        remedies=(
            SchemeTrait(avoids="vanishing", schemes=("b2t", "resi-dual", "pre-ln")),
            Setting(key="schedule.learning_rate", relation="<", value=3e-4),
        ),
    )


def description(key: str, title: str, x: str = "", y: str = "", **axes: bool) -> Description:
    return Description(
        key=key,
        title=title,
        formula=f"‖{key}‖_i",
        source=f"the paper about {title.lower()}, figure 4",
        look_for=f"What is remarkable in {title.lower()}.",
        axes=Axes(x=x, y=y, **axes),
    )


def gradient_along_stream(scheme: str, layers: int) -> Measurement:
    """The real measure's description; a prediction for the decoder alone."""
    numbers = tuple(float(l) for l in range(1, layers + 1))
    fall = SLOPES.get(scheme, 0.9)
    encoder = tuple(0.3 * fall ** (0.6 * (layers - l)) for l in numbers)
    decoder = tuple(0.5 * fall ** (2 * (layers - l)) for l in numbers)
    theory = tuple(0.5 * (2 / 3) ** ((layers - l) / 2) for l in numbers) if fall < 0.9 else tuple(0.4 for _ in numbers)
    return Measurement(
        about=GradientAlongStream().about,
        series=(
            Series(location=ENCODER, x=numbers, y=encoder, spread=tuple(0.3 * y for y in encoder)),
            Series(location=DECODER, x=numbers, y=decoder, spread=tuple(0.4 * y for y in decoder)),
            Series(location=DECODER, quantity="norms alone", role="predicted", x=numbers, y=theory),
        ),
        facts=(
            Fact(name="first/last", location=DECODER, value=decoder[0] / decoder[-1]),
            Fact(name="slope", location=DECODER, value=math.log(fall), spread=0.125),
        ),
    )


def stream_norms(scheme: str, layers: int) -> Measurement:
    """Two quantities; under pre-ln with bounds for the first, else with a prediction for the second."""
    places = tuple(float(k) for k in range(2 * layers + 1))
    grows = scheme == "pre-ln"
    norms = tuple((64 * (1 + k / 2)) if grows else 64.0 for k in places)
    series = []
    for place in (ENCODER, DECODER):
        spread = tuple(0.05 * y for y in norms)
        series.append(Series(location=place, quantity="stream", x=places, y=norms, spread=spread))
        series.append(Series(location=place, quantity="norm input", x=places, y=tuple(1.5 * y for y in norms)))
        if grows:
            for quantity, slope in (("at least", 0.25), ("at most", 0.75)):
                y = tuple(64 * (1 + slope * k) for k in places)
                series.append(Series(location=place, quantity=quantity, role="bound", x=places, y=y))
        else:
            y = tuple(96.0 for _ in places)
            series.append(
                Series(location=place, quantity="Lemma 2", role="predicted", predicts="norm input", x=places, y=y)
            )
    about = description("stream-norms", "Norms of the stream", "sub-layer", "squared norm")
    return Measurement(about=about, series=tuple(series))


def layer_dependency(scheme: str, layers: int) -> Measurement:
    count = 2 * layers

    def row(i: int) -> tuple[float, ...]:
        keep = 0.5**0.5 if scheme == "post-ln" else (1 - 1 / (i + 1)) ** 0.5
        weights = [keep**i, *(((1 - keep**2) ** 0.5) * keep ** (i - j) for j in range(1, i + 1))]
        return (*weights, *[math.nan] * (count - i))

    values = tuple(row(i) for i in range(1, count + 1))
    grids = tuple(
        Grid(location=place, values=values, rows="sub-layer i", columns="branch j", first_column=0)
        for place in (ENCODER, DECODER)
    )
    return Measurement(about=description("layer-dependency", "Layer dependency β"), grids=grids)


def cosine_of_layers(scheme: str, layers: int) -> Measurement:
    near = 0.97 if scheme == "pre-ln" else 0.8
    values = tuple(tuple(near ** abs(i - j) for j in range(layers)) for i in range(layers))
    grids = tuple(Grid(location=place, values=values, rows="layer", columns="layer") for place in (ENCODER, DECODER))
    return Measurement(about=description("cosine-of-layers", "Cosine between layer outputs"), grids=grids)


def hidden_change(scheme: str, layers: int) -> Measurement:
    places = tuple(float(k) for k in range(1, 2 * layers))
    change = tuple((2 - 2 * math.sqrt(k / (k + 1))) ** 0.5 if scheme == "pre-ln" else 0.75 for k in places)
    measured = tuple(0.97 * y for y in change)
    return Measurement(
        about=description("hidden-change", "Change of the hidden state", "sub-layer", "mean absolute change"),
        series=(
            Series(location=ENCODER, x=places, y=measured, spread=tuple(0.02 for _ in change)),
            Series(location=ENCODER, role="predicted", x=places, y=change),
        ),
    )


def output_change(scheme: str) -> Measurement:
    depths = (4.0, 8.0, 16.0, 32.0, 64.0, 100.0)
    change = tuple(math.log(n) * 1e-4 if scheme == "pre-ln" else n * 1e-4 for n in depths)
    line = tuple(n * 1e-4 for n in depths)
    return Measurement(
        about=description("output-change", "Change of the output", "sub-layers", "change", log_x=True, log_y=True),
        series=(
            Series(quantity="noise", x=depths, y=change, spread=tuple(0.1 * y for y in change)),
            Series(quantity="line in n", role="predicted", x=depths, y=line),
        ),
        facts=(
            Fact(name="R² of n", quantity="noise", value=0.996),
            Fact(name="R² of ln n", quantity="noise", value=0.91),
        ),
    )


def adam_conditioning() -> Measurement:
    """A line for each matrix, and a prediction that is about all of them."""
    matrices = ("query", "key", "value", "output", "inner", "outer")
    steps = tuple(float(t) for t in range(1, 21))
    measured = tuple(
        Series(location=Location(matrix=matrix), x=steps, y=tuple(3200 / (1 + 0.2 * at) / t for t in steps))
        for at, matrix in enumerate(matrices)
    )
    still = Series(quantity="without gradient", role="predicted", x=steps, y=tuple(3200.0 for _ in steps))
    about = description("adam-conditioning", "Conditioning of Adam", "step", "κ")
    return Measurement(about=about, series=(*measured, still))


def hostile() -> Diagnosis:
    """Every text is an attack, and some numbers are NaN or infinite."""
    script, image, signs = HOSTILE
    nan, inf = math.nan, math.inf
    measurement = Measurement(
        about=Description(
            key=script,
            title=image,
            formula=signs,
            source=script,
            look_for=image,
            axes=Axes(x=script, y=signs, log_y=True),
        ),
        series=(
            Series(
                location=Location(stack=script),
                x=(1.0, 2.0, 3.0, 4.0, 5.0),
                y=(1.0, nan, inf, 0.0, 2.0),
                spread=(0.1, nan, inf, 0.0, 9.0),
            ),
            Series(location=Location(stack="\x00\x1b[31m_hidden\u202e"), x=(1.0,), y=(nan,)),
            Series(location=Location(module=signs), quantity=image, x=(1.0, 2.0), y=(1.0, 2.0)),
            Series(quantity=image, role="predicted", x=(1.0, 5.0), y=(1.0, -inf)),
        ),
        grids=(Grid(quantity=image, values=((nan, inf), (-1.0, 0.5)), rows=script, columns=image),),
        facts=(Fact(name=script, value=nan), Fact(name=image, quantity=signs, value=inf)),
    )
    remedies = (
        Action(text=image),
        Setting(key=script, value=signs),
        SchemeTrait(avoids=script, schemes=(image, signs)),
    )
    return Diagnosis(
        name=script,
        model=image,
        schemes=("no-such-scheme",),
        stage=Stage(name="given"),
        spread_over="batches",
        findings=(
            Finding(
                check=image,
                severity="failure",
                sentence=script,
                value=nan,
                threshold=inf,
                location=Location(module=signs),
                remedies=remedies,
            ),
            Finding(check=script, severity="not measured", sentence=signs),
        ),
        measurements=(measurement,),
        not_measured=(NotMeasured(key=image, reason=script),),
        notes=(signs, script, "a lone surrogate: \udc80"),
    )
