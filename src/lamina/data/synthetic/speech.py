"""A synthetic voice: sentences of a few dozen words, spoken by several speakers at two noise levels.

Each letter is a phone. Voiced phones are sums of harmonics of the speaker's pitch, weighted by three formants
(resonances); fricatives and the bursts of stops are noise in a band of frequencies. Formants and loudness move smoothly
from phone to phone, as the articulators do. A speaker has a pitch, a vocal-tract length, which scales all formants, and
a rate. Speakers of different splits are different, and so are their sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lamina.data.noise import uniforms
from lamina.data.synthetic.chance import chance, pick
from lamina.data.synthetic.lexicon import SPLITS, check_split
from lamina.errors import unknown

RATE = 16_000
FRAME = 80  # samples between two settings of the articulators: 5 ms
TOP = 5_000.0  # Hz, of the highest harmonic

NOISE_LEVELS = {"clean": (22.0, 34.0), "other": (4.0, 12.0)}
"""The signal-to-noise ratio in dB, between these limits, of the two kinds of recordings."""

SPEAKERS = {"train": 16, "valid": 4, "test": 4}


class Phone(NamedTuple):
    """The pronunciation of a letter."""

    milliseconds: float
    formants: tuple[float, float, float]  # Hz
    voice: float
    """Loudness of the harmonics."""
    noise: float = 0.0
    """Loudness of the noise."""
    band: tuple[float, float] = (3_000.0, 1_000.0)
    """Centre and width of the noise in Hz."""


PHONES = {
    "a": Phone(110, (730, 1_090, 2_440), 1.0),
    "e": Phone(100, (530, 1_840, 2_480), 0.9),
    "i": Phone(95, (270, 2_290, 3_010), 0.8),
    "o": Phone(105, (570, 840, 2_410), 0.9),
    "u": Phone(100, (300, 870, 2_240), 0.8),
    "l": Phone(70, (360, 1_300, 2_700), 0.55),
    "r": Phone(65, (420, 1_300, 1_600), 0.55),
    "m": Phone(75, (250, 1_000, 2_200), 0.40),
    "n": Phone(70, (250, 1_600, 2_600), 0.40),
    "v": Phone(65, (300, 1_100, 2_300), 0.30, 0.10, (4_500, 2_500)),
    "f": Phone(90, (300, 1_100, 2_300), 0.0, 0.18, (4_500, 2_500)),
    "s": Phone(100, (300, 1_700, 2_500), 0.0, 0.30, (6_000, 1_000)),
    "b": Phone(25, (250, 900, 2_200), 0.25, 0.20, (800, 600)),
    "d": Phone(25, (250, 1_700, 2_600), 0.25, 0.25, (3_800, 900)),
    "g": Phone(30, (250, 1_900, 2_300), 0.25, 0.25, (2_000, 600)),
    "t": Phone(35, (300, 1_700, 2_600), 0.0, 0.45, (4_200, 1_000)),
    "k": Phone(40, (300, 1_900, 2_300), 0.0, 0.45, (2_000, 600)),
}
STOPS = "bdgtk"
CLOSURE = Phone(45, (250, 1_400, 2_400), 0.0)
"""The silence before the burst of a stop."""
PAUSE = Phone(70, (450, 1_400, 2_400), 0.0)

WORD_CLASSES = {"verb": 8, "number": 9, "adjective": 8, "noun": 11}
"""The numbers of words of each class."""
PATTERNS = (
    ("verb", "noun"),
    ("verb", "number", "noun"),
    ("verb", "adjective", "noun"),
    ("verb", "number", "adjective", "noun"),
    ("noun", "verb", "number", "noun"),
    ("number", "number", "number", "number"),
)


@dataclass(frozen=True)
class Speaker:
    """The voice of a speaker."""

    pitch: float  # Hz
    tract: float
    """The factor of all formants."""
    rate: float
    """The factor of all durations."""

    @classmethod
    def of(cls, split: str, number: int) -> Speaker:
        draw = chance("speaker", split, number)
        tract = 0.86 + 0.32 * draw()
        return cls(pitch=95 + 130 * (tract - 0.86) / 0.32 + 20 * draw(), tract=tract, rate=0.85 + 0.35 * draw())


@dataclass(frozen=True)
class SpokenSentence:
    """A recording that is generated when its samples are read."""

    text: str
    speaker: Speaker
    noise_ratio: float
    """The signal-to-noise ratio in dB."""
    number: int
    """The number of the recording, which its noise is a function of."""

    def samples(self, rate: int, repaired: Counter[str] | None = None) -> NDArray[np.float32]:
        if rate != RATE:
            raise unknown("sample rate of the synthetic voice", str(rate), [str(RATE)])
        return speak(self)

    def identity(self) -> list[str | int | float]:
        return ["synthetic voice", self.text, *astuple(self.speaker), self.noise_ratio, self.number]


def spoken_sentences(split: str, count: int, level: str | None = None) -> Iterator[tuple[SpokenSentence, str]]:
    """`count` recordings with their texts, at one noise level or, by default, at the two in turn."""
    check_split(split)
    if level is not None and level not in NOISE_LEVELS:
        raise unknown("noise level", level, NOISE_LEVELS)
    draw = chance("speech", split, level or "")
    made = 0
    while made < count:
        words = [pick(draw, vocabulary()[kind]) for kind in pick(draw, PATTERNS)]
        number = int(draw() * 1_000_000_000)
        if _split_of(words) != split:
            continue
        low, high = NOISE_LEVELS[level or ("clean", "other")[made % 2]]
        speaker = Speaker.of(split, int(draw() * SPEAKERS[split]))
        text = " ".join(words)
        yield SpokenSentence(text, speaker, low + (high - low) * draw(), number), text
        made += 1


@cache
def vocabulary() -> dict[str, tuple[str, ...]]:
    """The words of each class: one to three syllables, no two alike."""
    draw = chance("spoken words")
    used: set[str] = set()
    classes: dict[str, tuple[str, ...]] = {}
    for kind, size in WORD_CLASSES.items():
        words: list[str] = []
        while len(words) < size:
            syllables = [pick(draw, "bdfgklmnrstv") + pick(draw, "aeiou") for _ in range(1 + int(draw() * 2.4))]
            word = "".join(syllables) + pick(draw, ("", "", "n", "s", "l", "t"))
            if len(word) > 2 and word not in used:
                used.add(word)
                words.append(word)
        classes[kind] = tuple(words)
    return classes


def _split_of(words: list[str]) -> str:
    """The split that a sentence belongs to, by its words: 8 in 10 train, 1 valid, 1 test."""
    place = int(chance("spoken sentence", *words)() * 10)
    return SPLITS[max(0, place - 7)]


def speak(sentence: SpokenSentence) -> NDArray[np.float32]:
    """The samples of a sentence, quantised to 16 bits so that they do not depend on the machine's rounding."""
    tracks = _articulate(sentence)
    total = len(tracks.voice) * FRAME
    noise = uniforms(np.full(3 * total, sentence.number), np.arange(3 * total), "voice") * 2 - 1
    aspiration, background = noise[:total], noise[total : 2 * total]
    speech = _harmonics(tracks, sentence.speaker.pitch) + _band_noise(tracks, aspiration)
    loudness = float(np.sqrt(np.mean(speech**2)))
    hiss = background * loudness * np.sqrt(3) * 10 ** (-sentence.noise_ratio / 20)  # uniform noise has variance 1/3
    mixed = 0.08 / loudness * (speech + hiss)
    return (np.clip(np.rint(mixed * 32767), -32768, 32767) / 32768).astype(np.float32)


class Tracks(NamedTuple):
    """The settings of the articulators, one row per frame of 5 ms."""

    formants: NDArray[np.float64]  # (frames, 3)
    voice: NDArray[np.float64]  # (frames,)
    noise: NDArray[np.float64]  # (frames,)
    band: NDArray[np.float64]  # (frames, 2)


def _articulate(sentence: SpokenSentence) -> Tracks:
    """The phones of a sentence as tracks, smoothed over 25 ms."""
    draw = chance("durations", sentence.number)
    phones = [PAUSE]
    for letter in sentence.text:
        if letter in STOPS:
            phones.append(CLOSURE)
        phones.append(PHONES.get(letter, PAUSE))
    phones.append(PAUSE)
    counts = [max(2, round(each.milliseconds * sentence.speaker.rate * (0.85 + 0.3 * draw()) / 5)) for each in phones]
    rows = np.array([(*each.formants, each.voice, each.noise, *each.band) for each in phones], np.float64)
    tracks = np.repeat(rows, counts, axis=0)
    kernel = np.hanning(7)[1:-1]
    padded = np.pad(tracks, ((2, 2), (0, 0)), mode="edge")
    smooth = np.stack([np.convolve(column, kernel / kernel.sum(), "valid") for column in padded.T], axis=1)
    smooth[:, :3] *= sentence.speaker.tract
    return Tracks(smooth[:, :3], smooth[:, 3], smooth[:, 4], smooth[:, 5:])


def _harmonics(tracks: Tracks, pitch: float) -> NDArray[np.float64]:
    """Σ_k A(k·f₀) sin(k φ), with the envelope A of three resonances and a pitch that falls by a fifth."""
    frames = len(tracks.voice)
    at = (np.arange(frames * FRAME) + 0.5) / FRAME - 0.5
    falling = pitch * (1.1 - 0.2 * np.arange(frames * FRAME) / (frames * FRAME))
    phase = 2 * np.pi * np.cumsum(falling) / RATE
    centres = np.arange(frames)
    total = np.zeros(frames * FRAME)
    for k in range(1, int(TOP / pitch) + 1):
        frequency = k * pitch
        resonances = [
            gain / (1 + ((frequency - tracks.formants[:, i]) / width) ** 2)
            for i, (gain, width) in enumerate(((1.0, 70.0), (0.6, 90.0), (0.35, 140.0)))
        ]
        amplitude = tracks.voice * np.sum(resonances, axis=0) / np.sqrt(k)
        total += np.interp(at, centres, amplitude) * np.sin(k * phase)
    return total


def _band_noise(tracks: Tracks, noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noise in the band of each frame, by overlapping windows of two frames."""
    frames = len(tracks.voice)
    window = np.hanning(2 * FRAME + 1)[:-1]
    frequencies = np.fft.rfftfreq(2 * FRAME, 1 / RATE)
    padded = np.concatenate([noise, noise[:FRAME]])
    pieces = np.lib.stride_tricks.sliding_window_view(padded, 2 * FRAME)[::FRAME] * window  # (frames, window)
    filters = np.exp(-0.5 * ((frequencies - tracks.band[:, :1]) / tracks.band[:, 1:]) ** 2)
    shaped = np.fft.irfft(np.fft.rfft(pieces) * filters, 2 * FRAME) * tracks.noise[:, None]
    total = np.zeros((frames + 1) * FRAME)
    total[:-FRAME] += shaped[:, :FRAME].reshape(-1)
    total[FRAME:] += shaped[:, FRAME:].reshape(-1)
    return total[:-FRAME] * 3
