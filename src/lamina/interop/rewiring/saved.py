"""Rewired models in files: a model type of their own, so that plain transformers refuses to load them wrongly.

`RewiredGPT2LMHeadModel` is GPT2LMHeadModel whose layers are rewired when it is built, as its config says; the Auto
classes find it after `import lamina.huggingface`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import transformers
from transformers import AutoConfig

from lamina.errors import UserError
from lamina.interop.rewiring.families import CONFIGS
from lamina.interop.rewiring.rewire import RewireOptions, connect
from lamina.residual.base import Residual

PREFIX = "lamina-rewired-"
KEY = "lamina_rewired"
"""The key of config.json with the options of the scheme."""
AUTO_CLASSES = (
    "AutoModel",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModelForMaskedLM",
    "AutoModelForQuestionAnswering",
    "AutoModelForSeq2SeqLM",
    "AutoModelForSequenceClassification",
    "AutoModelForTokenClassification",
)


def adopt(model: Any, chosen: RewireOptions) -> Any:
    """Make a connected model an instance of its rewired class."""
    register_rewired()
    setattr(model.config, KEY, chosen.model_dump(mode="json"))
    kinds: list[Any] = [type(model.config), type(model)]
    model.config.__class__ = rewired_config(kinds[0])
    model.__class__ = rewired_model(kinds[1])
    return model


@cache
def rewired_config(kind: Any) -> Any:
    """The config class of rewired models whose own config is of this class."""

    def prepare(self: Any, **others: Any) -> None:
        kind.__post_init__(self, **others)
        _register_models(kind)  # now that one is about to be loaded: each import of a library's model takes time

    values = {"model_type": PREFIX + kind.model_type, "__post_init__": prepare, "__module__": __name__}
    return type(f"Rewired{kind.__name__}", (kind,), values)


@cache
def rewired_model(kind: Any) -> Any:
    """The class of rewired models of this class."""

    def build(self: Any, config: Any, *others: Any, **keywords: Any) -> None:
        kind.__init__(self, config, *others, **keywords)
        connect(self, read_options(config))

    @classmethod  # type: ignore[misc]
    def from_pretrained(cls: Any, *arguments: Any, output_loading_info: bool = False, **keywords: Any) -> Any:
        above: Any = super(made, cls)
        model, found = above.from_pretrained(*arguments, output_loading_info=True, **keywords)
        missing = sorted(found["missing_keys"])
        if missing:
            raise UserError(f"{arguments[0]}: {len(missing)} weights are missing, such as {missing[0]}")
        for module in model.modules():
            if isinstance(module, Residual):  # a scheme reads some tensors when a state is loaded
                module.load_state_dict(module.state_dict())
        return (model, found) if output_loading_info else model

    values = {"__init__": build, "from_pretrained": from_pretrained, "__module__": __name__}
    made: Any = type(f"Rewired{kind.__name__}", (kind,), values)
    made.config_class = rewired_config(kind.config_class)
    return made


def read_options(config: Any) -> RewireOptions:
    """The options of a rewired model's config; each is checked."""
    return RewireOptions.read(getattr(config, KEY, None) or {}, where=f"config.json: {KEY}")


@cache
def register_rewired() -> None:
    """Make AutoConfig know the configs of rewired models."""
    for name in CONFIGS:
        own = rewired_config(getattr(transformers, name))
        AutoConfig.register(own.model_type, own, exist_ok=True)


@cache
def _register_models(kind: Any) -> None:
    """Make the Auto classes know the rewired models of a config."""
    for name in AUTO_CLASSES:
        auto = getattr(transformers, name)
        found = auto._model_mapping.get(kind, None)
        first = found[0] if isinstance(found, tuple | list) else found
        if first is not None:
            auto.register(rewired_config(kind), rewired_model(first), exist_ok=True)
