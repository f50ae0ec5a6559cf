"""Diagnosis of a folder with `config.json` and safetensors, as transformers saves it (the extra `transformers`).

Only files in the folder are read: there is no network access, no code of the folder is executed, no kernel is loaded,
and weights are read from safetensors only. With weights the given model is diagnosed, over batches; without weights
newly initialised models are, over seeds. Batches are random.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from lamina.diagnosis.measurement import Stage
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.subject import OUTPUT_DEPTHS, Subject, passes_over
from lamina.errors import UserError
from lamina.interop.random_input import random_batches
from lamina.interop.weight_files import has_weights

CONFIG = "config.json"
ATTENTION = ("eager", "sdpa")
"""The implementations of attention that are part of transformers and torch; any other name can load a kernel."""
OWN_TYPES = "lamina"
"""What the model types of Lamina's own folders begin with."""
DEPTHS = ("num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
RANDOM_INPUT = "the batches are random tokens, pixels or audio; on real input activations may differ"
NO_WEIGHTS = "there are no weights beside config.json; newly initialised models are measured"


def is_model_folder(path: Path) -> bool:
    """Whether a folder has a config.json."""
    return (path / CONFIG).is_file()


def pretrained_subject(
    path: Path, *, batches: int = 4, tokens: int = 256, depths: tuple[int, ...] = OUTPUT_DEPTHS
) -> Subject:
    """The model of a folder on `batches` random batches of about `tokens` positions each."""
    weights = has_weights(path)
    with _quiet(_import(path)) as transformers:
        model_class, config = _class_and_config(transformers, path)
        notes = [RANDOM_INPUT, *restrict_attention(config)]
        if weights:
            return _with_weights(path, model_class, config, batches, tokens, notes)
    factory = _Factory(model_class, config)
    model = factory(1, None)
    notes.append(NO_WEIGHTS)
    passes = passes_over(model, random_batches(model, batches, tokens), None, batches, notes)
    any_depth = _follows_depth(factory, model)
    if not any_depth:
        notes.append(f"the depth of {model_class.__name__} cannot be changed through its config")
    return Subject(path.name, passes, factory=factory, any_depth=any_depth, depths=depths, notes=notes)


def _follows_depth(factory: _Factory, model: nn.Module) -> bool:
    """Whether setting the depth in the config changes the first and the last stack, which measures against depth use.

    A config that is composed of several configs has no single key for the depth.
    """
    own = {len(layers) for layers in find_layers(model).layers.values()}
    depth = 2 if 2 not in own else 3 if 3 not in own else 4
    found = [len(layers) for layers in find_layers(factory(1, depth)).layers.values()]
    return {found[0], found[-1]} == {depth}


def restrict_attention(config: Any) -> list[str]:
    """Let a config, and the configs that it is composed of, choose no attention but `eager` or `sdpa`.

    Returns a note for every other name. Without a choice transformers uses sdpa, or eager for models without it.
    """
    refused = []
    if config._attn_implementation not in (None, *ATTENTION):
        refused.append(config._attn_implementation)
        config._attn_implementation = None
    parts = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    notes = [f"config.json asks for the attention {name!r}; sdpa or eager is used instead" for name in refused]
    return list(
        dict.fromkeys(notes + [note for part in parts if part is not None for note in restrict_attention(part)])
    )


def _with_weights(path: Path, model_class: Any, config: Any, batches: int, tokens: int, notes: list[str]) -> Subject:
    try:
        model, found = model_class.from_pretrained(
            path,
            config=config,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{path}: {model_class.__name__} could not be loaded from it: {error}") from error
    if found["missing_keys"]:
        first, count = sorted(found["missing_keys"])[0], len(found["missing_keys"])
        notes.append(f"{count} weights are not in the files and were drawn at random, such as {first}")
    passes = passes_over(model, random_batches(model, batches, tokens), None, batches, notes)
    return Subject(path.name, passes, model=model, stage=Stage(name="given"), notes=notes)


class _Factory:
    """Builds newly initialised models of the folder's config, at any depth."""

    def __init__(self, model_class: Any, config: Any) -> None:
        self.model_class, self.config = model_class, config

    def __call__(self, seed: int, num_layers: int | None) -> nn.Module:
        config = copy.deepcopy(self.config)
        if num_layers is not None:
            for name in DEPTHS:
                if hasattr(config, name):
                    setattr(config, name, num_layers)
            kinds = getattr(config, "layer_types", None)
            if kinds:  # one entry for each layer
                config.layer_types = [kinds[at % len(kinds)] for at in range(num_layers)]
        torch.manual_seed(seed)
        return self.model_class(config)


def _import(path: Path) -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError(
            f"{path}: to read a model of transformers, install the extra: pip install 'lamina[transformers]'"
        ) from None
    return transformers


def _class_and_config(transformers: Any, path: Path) -> tuple[Any, Any]:
    """The class that the config names, of transformers or Lamina, and the config; no code of the folder is executed."""
    try:
        values = json.loads((path / CONFIG).read_bytes())
        named = (values.get("architectures") or [None])[0]
        own = _own_class(transformers, values.get("model_type"), str(named))
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (ValueError, OSError, AttributeError, KeyError) as error:
        raise UserError(f"{path / CONFIG}: not the config of a model of transformers: {error}") from error
    found = (own or getattr(transformers, str(named), None)) if named else None
    if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
        return found, config
    if named is not None:
        raise UserError(f"{path / CONFIG}: transformers {transformers.__version__} has no model {named!r}")
    return transformers.MODEL_MAPPING[type(config)], config


def _own_class(transformers: Any, model_type: object, named: str) -> Any:
    """Lamina's class of this name, for folders of `lamina export --to hf` and of rewired models; None for others."""
    if not str(model_type).startswith(OWN_TYPES):
        return None
    from lamina.interop.auto_models import register as own  # imports transformers, which may be missing
    from lamina.interop.rewiring import saved

    own.register()
    saved.register_rewired()
    rewired = getattr(transformers, named.removeprefix("Rewired"), None) if named.startswith("Rewired") else None
    if isinstance(rewired, type) and issubclass(rewired, transformers.PreTrainedModel):
        return saved.rewired_model(rewired)
    return next((each for each in own.CLASSES.values() if each.__name__ == named), None)


@contextmanager
def _quiet(transformers: Any) -> Iterator[Any]:
    """Switch off the log messages and progress bars of transformers."""
    logging = transformers.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield transformers
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
