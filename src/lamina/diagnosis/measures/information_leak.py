"""Whether the output at a position depends on later tokens, on padding, or on other sequences.

    ‖y_t − y'_t‖ ÷ ‖y_t‖ over t < n/2,  y' the output when the tokens from n/2 on are replaced

and likewise for padding, and for half of the sequences. Not in the papers. Forward passes are made without gradient, in
which the embeddings of some tokens are those of other positions. A model that is trained to predict the next token must
not see it. Padding is where a mask among the model's arguments, or the padding token of the embedding or the config,
says so. Facts: `later tokens`, `padding` and `other sequences`, where they could be tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.recording.passes import Pass, as_written, loss_again, state_restored
from lamina.model.modes import evaluation_mode

LATER, PADDING, OTHERS = FactName("later tokens"), FactName("padding"), FactName("other sequences")


class InformationLeak(Measure):
    title = "Dependence on later tokens, padding and other sequences"
    formula = "‖y_t − y'_t‖ ÷ ‖y_t‖"
    source = "not in the papers"
    look_for = "A language model has 0 for later tokens, any model 0 for padding."
    axes = Axes(x="", y="relative change")
    needs = ("model",)
    first_batch_only = True
    max_seeds = 1
    position = 6

    def take(self, evidence: Evidence) -> Measurement:
        model, run = require(evidence.model), evidence.passes[0]
        if evidence.structure is not None and len(evidence.structure.placements) > 1:
            raise NotMeasurable("with several stacks a decoder may depend on all tokens of the encoder")
        with as_written(model), state_restored(model), evaluation_mode(model):
            seen = _look(model, run, None)
            if seen.path is None or seen.tokens is None or seen.output is None:
                raise NotMeasurable("the model reads no tokens of the shape (sequences, positions)")
            facts = []
            for name, replaced in _replacements(seen.tokens, seen.padding).items():
                changed, kept = _look(model, run, replaced).output, ~replaced & _real(seen.padding, replaced)
                if changed is not None and bool(kept.any()) and bool(replaced.any()):
                    difference = (changed - seen.output)[kept].norm() / seen.output[kept].norm()
                    facts.append(Fact(name=name, location=Location(module=seen.path), value=difference.item()))
        if not facts:
            raise NotMeasurable("nothing could be replaced: sequences have one token")
        return self.measurement(facts=facts)


def _replacements(tokens: Tensor, padding: Tensor | None) -> dict[FactName, Tensor]:
    """The tokens that are replaced, by the name of the fact."""
    sequences, length = tokens.shape
    later, others = torch.zeros_like(tokens, dtype=torch.bool), torch.zeros_like(tokens, dtype=torch.bool)
    later[:, length // 2 :] = True
    others[: sequences // 2] = True  # the first ones: a causal mask over sequences would hide the last
    return {LATER: later, OTHERS: others} | ({} if padding is None else {PADDING: padding})


def _real(padding: Tensor | None, like: Tensor) -> Tensor:
    return torch.ones_like(like) if padding is None else ~padding


class _Seen:
    """What one pass showed: the tokens of the first embedding, and the last output of the shape of the tokens."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.tokens: Tensor | None = None
        self.padding: Tensor | None = None
        self.output: Tensor | None = None


@torch.no_grad()
def _look(model: nn.Module, run: Pass, replaced: Tensor | None) -> _Seen:
    """Run the model, with the embeddings of some tokens replaced by those of other positions."""
    seen = _Seen()
    masks: dict[str, Any] = {}

    def embed(path: str, module: nn.Embedding, arguments: tuple[Any, ...], output: Tensor) -> Tensor | None:
        tokens = arguments[0] if arguments else None
        if not isinstance(tokens, Tensor) or tokens.dim() != 2 or tokens.shape[1] < 4:
            return None
        if seen.path is None:
            seen.path, seen.tokens = path, tokens
            padding = padding_of(model, module)
            if padding is not None:
                seen.padding = at_an_end(tokens == padding)
            elif isinstance(masks.get("padding"), Tensor) and masks["padding"].shape == tokens.shape:
                seen.padding = masks["padding"]
        if path != seen.path or replaced is None or replaced.shape != tokens.shape:
            return None
        return torch.where(replaced.unsqueeze(-1), output.roll((1, 1), (0, 1)).flip(1), output)

    def begin(module: nn.Module, arguments: Any, options: Mapping[str, Any]) -> None:
        mask = options.get("attention_mask")
        if isinstance(mask, Tensor) and mask.dim() == 2 and not mask.is_floating_point():
            masks["padding"] = mask == 0

    def end(module: nn.Module, arguments: Any, output: Any) -> None:
        values = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple) else (output,)
        shape = None if seen.tokens is None else seen.tokens.shape
        for each in values:
            if isinstance(each, Tensor) and each.is_floating_point() and each.dim() == 3 and each.shape[:2] == shape:
                seen.output = each.detach().float()
                return

    handles = [model.register_forward_pre_hook(begin, with_kwargs=True), model.register_forward_hook(end)]
    for path, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            handles.append(module.register_forward_hook(_with_path(embed, path)))
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it calls no hooks
    try:
        loss_again(model, run)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for handle in handles:
            handle.remove()
    return seen


def _with_path(hook: Any, path: str) -> Any:
    return lambda module, arguments, output: hook(path, module, arguments, output)


def padding_of(model: nn.Module, embedding: nn.Embedding) -> int | None:
    """The number of the padding token, as the embedding or the config of a model of transformers names it."""
    declared = getattr(getattr(model, "config", None), "pad_token_id", None)
    return declared if embedding.padding_idx is None and isinstance(declared, int) else embedding.padding_idx


def at_an_end(padding: Tensor) -> Tensor | None:
    """Padding as runs of at least two tokens at the beginning or the end of sequences; None if there is none.

    A token elsewhere that has the padding's number is no padding.
    """
    run = padding.int()
    runs = [run.flip(1).cumprod(1).flip(1).bool(), run.cumprod(1).bool()]
    ends = [each & (each.sum(1, keepdim=True) >= 2) & ~each.all(1, keepdim=True) for each in runs]
    found = ends[0] | ends[1]
    return found if bool(found.any()) else None
