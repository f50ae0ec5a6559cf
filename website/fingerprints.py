"""The fingerprint of a residual scheme: three quantities of a new model by layer, at 6, 18 and 50 layers.

    python website/fingerprints.py b2t

measures one scheme and prints it; the build of the site measures all of them.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor, nn

import lamina
from lamina.diagnosis.measures.base import Evidence
from lamina.diagnosis.measures.hidden_change import HiddenChange
from lamina.diagnosis.measures.layer_gradients import norms_by_layer, norms_over_kinds
from lamina.diagnosis.measures.stream_norms import STREAM, StreamNorms
from lamina.diagnosis.recording.passes import record_pass

DEPTHS = (6, 18, 50)
SEEDS = 2
SIZES = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "vocab_size": 64, "dropout": 0.0}
MODEL = "the decoder of an N-N encoder–decoder, width 16, feed-forward width 32, a batch of 8 pairs of 12 and 10 tokens"
QUANTITIES = {
    "gradient": "Gradient norm of a layer ÷ that of the last",
    "norm": "Mean squared norm of the stream ÷ width",
    "change": "Change of the normalised stream by a sub-layer",
}


@dataclass(frozen=True)
class Fingerprint:
    """The values of the decoder by layer or sub-layer, for each quantity and depth; means over seeds."""

    values: dict[str, dict[int, list[float]]]
    seconds: float


def measure(scheme: str, depths: tuple[int, ...] = DEPTHS, seeds: int = SEEDS) -> Fingerprint:
    began = time.perf_counter()
    values: dict[str, dict[int, list[float]]] = {name: {} for name in QUANTITIES}
    for depth in depths:
        found = [_measure_model(scheme, depth, seed) for seed in range(seeds)]
        for name in QUANTITIES:
            values[name][depth] = [fmean(each) for each in zip(*(one[name] for one in found), strict=True)]
    return Fingerprint(values, time.perf_counter() - began)


def _measure_model(scheme: str, depth: int, seed: int) -> dict[str, list[float]]:
    torch.manual_seed(seed)
    model = lamina.Transformer.from_preset("iwslt", residual=scheme, num_layers=depth, **SIZES)
    source, target = torch.randint(4, 64, (8, 12)), torch.randint(4, 64, (8, 10))
    model.calibrate(source, target)

    def run(model: nn.Module) -> Tensor:
        return model(source=source, target=target, labels=target.roll(-1, dims=1)).nll.mean()

    record, _ = record_pass(model, run)
    norms = norms_over_kinds({key: of for key, of in norms_by_layer(record.gradients).items() if key[0] == "decoder"})
    gradients = [norms["decoder"][layer] for layer in sorted(norms["decoder"])]
    evidence = Evidence(record=record)
    streams = StreamNorms().take(evidence).select(quantity=STREAM, stack="decoder", stream=None)
    [changes] = HiddenChange().take(evidence).select(stack="decoder")
    return {
        "gradient": [each / gradients[-1] if gradients[-1] else float("nan") for each in gradients],
        "norm": list(streams[0].y),
        "change": list(changes.y),
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        measured = measure(name)
        print(f"{name}: {MODEL}, mean over {SEEDS} seeds, {measured.seconds:.0f} s")
        for quantity, title in QUANTITIES.items():
            for depth, line in measured.values[quantity].items():
                print(f"  {title}, {depth} layers: {line[0]:.3g} … {line[len(line) // 2]:.3g} … {line[-1]:.3g}")
