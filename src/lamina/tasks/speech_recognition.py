"""Speech recognition: an encoder–decoder over log-mel frames, evaluated by word and character error rates.

source   log-mel frames ─ two strided convolutions ─► a quarter as many vectors
target   <bos> v₁ … vₘ          labels   v₁ … vₘ <eos>

With an auxiliary CTC loss of weight λ on the encoder's output (Watanabe et al. 2017), training minimises
(1 − λ) · cross-entropy + λ · CTC.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from pydantic import Field
from torch import nn

from lamina.data.batches import Batch
from lamina.data.examples import Examples
from lamina.data.packed import Integers, PackedField
from lamina.data.readers.base import trim
from lamina.data.speech.extraction import SpeechOptions
from lamina.data.speech.filterbank import Normalisation, log_mel, normalise, normalise_utterances
from lamina.data.speech.recordings import AudioFile, why_unreadable
from lamina.data.speech.spec_augment import SpecAugmentOptions, mask_spans
from lamina.errors import UserError
from lamina.formatting import count
from lamina.generate.options import GenerateOptions
from lamina.generate.search import ModelInput
from lamina.model.options import ModelChoices, ModelOptions
from lamina.tasks.base import Inputs, Losses, Vocabulary
from lamina.tasks.generating import GeneratingTask, SourceLimit, TokenIds
from lamina.tasks.metrics import WordNormalisation, error_rate_signatures, error_rates
from lamina.tasks.sequence_to_sequence import SequenceOptions, SequenceToSequence


class SpeechRecognition(SequenceToSequence):
    class Options(SequenceOptions):
        normalisation: Normalisation = "utterance"
        """Normalisation of the features: each bin over the `utterance`, over the whole training set (`global`), or
        not at all (`none`)."""
        spec_augment: SpecAugmentOptions = SpecAugmentOptions()
        """Masks on the features in training."""
        ctc_weight: float = Field(0.0, ge=0, le=1)
        """λ, the weight of the CTC loss on the encoder's output; 0 for none."""
        word_normalisation: WordNormalisation = "none"
        """Normalisation of texts before errors are counted: none, or lower-cased and without punctuation."""
        generation: GenerateOptions = GenerateOptions(length_factor=0.0, length_margin=200, max_source=3000)
        """Options of generation, used in evaluation and by `lamina generate`."""

    name = "speech-recognition"
    embedded = "embedded-speech"
    fields = ("audio", "target")
    input_field = "audio"
    size_unit = "frames"
    metric = "wer"
    higher_is_better = False
    options: Options

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(len(self.store.tokenizer("target")), joint=False, feature_dim=self.speech.bins)

    def model_options(self, choices: ModelChoices) -> ModelOptions:
        values = self.complete_model(choices, self.vocabulary()) | {"ctc": self.options.ctc_weight > 0}
        return ModelOptions.read(values, where="model")

    @property
    def speech(self) -> SpeechOptions:
        """The options with which the features of the store were computed."""
        return SpeechOptions.read(self.store.manifest.settings["speech"], where=f"{self.store.folder}: speech")

    def sizes(self, examples: Examples) -> Integers:
        """The number of frames of each example: `data.max_tokens` counts frames."""
        return examples.lengths("audio")

    def source_of(self, batch: Batch, seed: int | None = None) -> PackedField:
        source = self._normalised(batch["audio"])
        if seed is None:
            return source
        masks, epoch = self.options.spec_augment, batch.epoch
        return source.with_ids(mask_spans(source.ids, source.lengths, batch.examples, masks, seed=seed, epoch=epoch))

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        found = model(**inputs.arguments, labels=inputs.labels, smoothing=self.label_smoothing)
        loss, weight = found.smoothed.sum(), self.options.ctc_weight
        if weight:
            loss = (1 - weight) * loss + weight * found.ctc.sum()
        return Losses(loss, found.nll.detach().sum(), inputs.count)

    def _normalised(self, field: PackedField) -> PackedField:
        if self.options.normalisation == "utterance":
            return field.with_ids(normalise_utterances(field.ids, field.lengths))
        if self.options.normalisation == "none":
            return field
        record = self.store.manifest.splits[self.store.sets("train")[0]].fields["audio"]
        return field.with_ids(normalise(field.ids, record.mean, record.deviation))

    def source(self, tokens: TokenIds, to: str | None) -> TokenIds:
        return GeneratingTask.source(self, tokens, to)

    def check_lines(self, lines: Iterable[str]) -> Iterable[str]:
        files = list(lines)
        read = [(number, trim(line)) for number, line in enumerate(files, start=1) if trim(line)]
        bad = [f"line {number}: {path} ({reason})" for number, path in read if (reason := why_unreadable(path))]
        if bad:
            raise UserError(
                f"{len(bad)} of {count(len(read), 'audio file')} cannot be read, so none was transcribed: "
                f"{'; '.join(bad)}. Correct these paths, or leave them out"
            )
        return files

    def encode_line(self, line: str, limit: SourceLimit, to: str | None) -> ModelInput:
        """The features of the audio file that a line names."""
        if not line:
            return []
        features = log_mel(AudioFile(line).samples(self.speech.sample_rate), self.speech)
        if not len(features):
            raise UserError(f"{line}: shorter than one frame of 25 ms")
        features = limit.cut(features)
        return self._normalised(PackedField(features, np.array([len(features)]))).ids

    def show_source(self, batch: Batch) -> str:
        return f"({len(batch['audio'].ids) / 100:.1f} s of speech)"

    def signatures(self) -> dict[str, str]:
        return error_rate_signatures(self.options.word_normalisation)

    def score(self, hypotheses: list[str], references: list[str]) -> dict[str, float]:
        return error_rates(hypotheses, references, self.options.word_normalisation)
