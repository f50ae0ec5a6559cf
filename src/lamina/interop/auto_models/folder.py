"""A trained run as a model folder of transformers: config.json, model.safetensors, tokenizer.json and the rest.

With vocabularies of their own for source and target, the folder `target` holds the target's tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from lamina.data.tokenizer import BOS, EOS, PAD
from lamina.generate.options import GenerateOptions
from lamina.interop.auto_models.config import LaminaConfig
from lamina.interop.auto_models.models import (
    LaminaForCausalLM,
    LaminaForMaskedLM,
    LaminaForSeq2SeqLM,
    LaminaForSequenceClassification,
    LaminaModel,
)
from lamina.interop.auto_models.speech import LaminaForSpeechSeq2Seq
from lamina.interop.auto_models.tokenizer import (
    MASKED_SENTENCES,
    PROMPT,
    SENTENCES,
    SOURCE,
    InputForm,
    library_tokenizer,
)
from lamina.model.options import ModelOptions
from lamina.runs.run import Run
from lamina.tasks.generating import GeneratingTask

TARGET = "target"
LONGEST_OUTPUT = 256
"""The largest number of new tokens where the run's limit depends on the length of the source, which `generate` of
transformers cannot express."""


def save_run(run: Run, folder: Path) -> list[str]:
    """Write the model and the tokenizers of a run to a folder; returns what a user should know about them."""
    model = library_model(run)
    model.save_pretrained(folder)
    for place, tokenizer in library_tokenizers(run):
        tokenizer.save_pretrained(folder / place)
    return list(_notes(run))


def library_model(run: Run) -> LaminaModel:
    """The run's model as a model of transformers; the weights are shared, not copied."""
    options, labels = run.model.options, run.task.store.labels
    ids: dict[str, Any] = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    if options.kind == "encoder-decoder":
        ids["decoder_start_token_id"] = BOS
    if options.head == "classes":
        ids |= {"id2label": dict(enumerate(labels)), "label2id": {label: at for at, label in enumerate(labels)}}
    model = model_class(options)(LaminaConfig.of(options, **ids), run.model).eval()
    if isinstance(run.task, GeneratingTask):
        model.generation_config = _generation(run.task.options.generation, ids)
    return model


def model_class(options: ModelOptions) -> type[LaminaModel]:
    """The class of transformers for a model with these options."""
    if options.kind == "encoder-decoder":
        return LaminaForSpeechSeq2Seq if options.feature_dim else LaminaForSeq2SeqLM
    if options.kind == "decoder":
        return LaminaForCausalLM
    return LaminaForSequenceClassification if options.head == "classes" else LaminaForMaskedLM


def library_tokenizers(run: Run) -> Iterator[tuple[str, Any]]:
    """The tokenizers by the place in the folder: the model's input, and the target's where it has its own."""
    options, store = run.model.options, run.task.store
    longest = options.max_length if options.positions == "learned" else None
    if not isinstance(run.task, GeneratingTask):
        form = SENTENCES if options.head == "classes" else MASKED_SENTENCES
        yield "", library_tokenizer(store.tokenizer(), form, longest)
        return
    target = store.tokenizer(run.task.output_field)
    if options.feature_dim:  # the input is speech
        yield "", library_tokenizer(target, InputForm(), longest)
        return
    source = store.tokenizer(run.task.input_field)
    yield "", library_tokenizer(source, PROMPT if options.kind == "decoder" else SOURCE, longest)
    if source.sha256 != target.sha256:
        yield TARGET, library_tokenizer(target, InputForm(), longest)


def _generation(options: GenerateOptions, ids: dict[str, Any]) -> GenerationConfig:
    """The run's options of generation, as far as transformers has them."""
    chosen: dict[str, Any] = {"max_new_tokens": options.max_length or LONGEST_OUTPUT}
    if options.method == "sample":
        values = {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p}
        chosen |= {"do_sample": True, **values}
    elif options.method != "greedy" and options.beam > 1:
        chosen |= {"num_beams": options.beam, "early_stopping": options.stop == "full"}
        chosen["length_penalty"] = options.length_penalty
    if options.no_repeat_ngram:
        chosen["no_repeat_ngram_size"] = options.no_repeat_ngram
    kept = {name: number for name, number in ids.items() if name.endswith("token_id")}
    return GenerationConfig(**chosen, **kept)


def _notes(run: Run) -> Iterator[str]:
    task = run.task
    if any(task.store.tokenizer(name).moses for name in task.store.manifest.tokenizers):
        yield "text must be divided into words by Moses' rules before tokenizer.json is applied; the file has none"
    if run.model.options.feature_dim:
        yield "the features of speech are not computed by transformers: give it those that Lamina's data has"
    if not isinstance(task, GeneratingTask):
        return
    options = task.options.generation
    if options.max_length is None:
        yield f"generation_config.json allows {LONGEST_OUTPUT} new tokens; Lamina's limit depends on the source"
    if options.method == "ctc":
        yield "generate() searches with the decoder alone, without the scores of CTC"
    if options.length_penalty_kind == "wu" and options.method == "beam":
        yield "the length penalty of Wu et al. is not in transformers; its own, |y|^a, is used with the same a"
