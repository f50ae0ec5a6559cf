"""`lamina prepare`: read text, learn or load a tokenizer, encode, and write a store.

Every source is read twice, once to sample text for the tokenizer and once to encode it, and never held in memory.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from lamina.data.encode import Encoder, SplitBuilder, encode_into
from lamina.data.prepare_options import SPLITS, PrepareOptions
from lamina.data.readers import READERS, Example, Notes, Reader, make_reader
from lamina.data.readers.base import read_trimmed
from lamina.data.readers.columns import AUDIO, LABEL
from lamina.data.speech.extraction import FeatureExtractor
from lamina.data.store import DROPPED, MANIFEST, SourceRecord, SplitRecord, Store
from lamina.data.store_writer import StoreWriter
from lamina.data.text_rules.moses import language_of, tokenise_words
from lamina.data.tokenizer import Tokenizer
from lamina.data.vocabulary import sample_evenly
from lamina.errors import UserError
from lamina.files.hashes import hash_file
from lamina.files.progress import Progress, no_progress

__all__ = ["PrepareOptions", "list_notices", "prepare", "summarise"]

Readers = dict[str, Reader]
"""Readers by the name under which a split, or one of its sets, is stored."""

_REPORT_EVERY = 4096  # examples


def prepare(options: PrepareOptions, progress: Progress = no_progress) -> Store:
    """Make the store, or return an existing one made from the same files with the same options."""
    for language in options.tokenizer.moses.values():
        tokenise_words((), language)  # refuses, before anything is read, a language without rules
    labels = _find_labels(options)
    readers = _make_readers(options, labels)
    for reader in readers.values():
        reader.check()
    sources = _describe_sources(options, readers)
    if (Path(options.output) / MANIFEST).is_file() and not options.replace:
        return _reuse(options, sources)
    before = _fingerprints(sources)
    chunks = Path(options.output).absolute().with_name(f".{Path(options.output).name}.lamina-features")
    with (
        FeatureExtractor(options.speech, chunks) as extract,
        StoreWriter(options.output, options.replace) as writer,
    ):
        work = _Work(options, readers, extract, progress)
        tokenizers = work.make_tokenizers()
        builders = work.encode(tokenizers, writer)
        if _fingerprints(sources) != before:
            raise UserError("a source file changed while it was being read; run lamina prepare again.")
        names = _write_tokenizers(tokenizers, writer)
        writer.write(
            DROPPED, json.dumps({name: builder.notes.dropped_lines() for name, builder in builders.items()}).encode()
        )
        store = writer.finish(
            settings=options.settings(),
            sources=sources,
            labels=_labels(labels, readers),
            tokenizers=names,
            splits={name: _close(builder) for name, builder in builders.items()},
        )
        extract.discard_chunks()
        return store


def summarise(store: Store) -> dict[str, Any]:
    """The contents of a store, and what was dropped, as plain data."""
    return {
        "store": str(store.folder),
        "vocabulary": {field: len(store.tokenizer(field)) for field in store.manifest.tokenizers},
        "labels": list(store.labels),
        "splits": {name: record.model_dump(mode="json") for name, record in store.manifest.splits.items()},
    }


def list_notices(store: Store) -> list[str]:
    """Sentences about properties of a store that the user may not expect."""
    notices = []
    for name, record in store.manifest.splits.items():
        if record.seen_in_training:
            notices.append(f"{name}: {record.seen_in_training:,} of {record.examples:,} examples are also in train.")
        if record.source_equals_target:
            notices.append(
                f"{name}: source and target are the same text in {record.source_equals_target:,} of "
                f"{record.examples:,} examples."
            )
        for field_name, counts in record.fields.items():
            if counts.unknown:
                share = f"{counts.unknown:,} of {counts.tokens:,} tokens"
                notices.append(f"{name}: {share} of {field_name} are unknown and are stored as <unk>.")
    wanted = store.manifest.settings.get("tokenizer", {})
    for file in dict.fromkeys(store.manifest.tokenizers.values()):
        fields = [name for name, own in store.manifest.tokenizers.items() if own == file]
        size = len(store.tokenizer(fields[0]))
        if not wanted.get("file") and size < wanted.get("size", 0):
            notices.append(
                f"The vocabulary of {' and '.join(fields)} has {size:,} tokens, fewer than tokenizer.size = "
                f"{wanted['size']:,}: the training text has no more that occur often enough."
            )
    return notices


@dataclass
class _Work:
    """The two passes over the sources: for the tokenizers, and for encoding."""

    options: PrepareOptions
    readers: Readers
    extract: FeatureExtractor
    progress: Progress
    training_examples: int | None = None
    held_out: dict[int, Counter[str]] = field(default_factory=dict)
    """The number of times that each example, identified by the hash of its texts, is in validation and test sets."""

    def make_tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizer of each text field; fields that share one share its vocabulary."""
        fields = self._text_fields()
        if self.options.tokenizer.file or self.options.tokenizer.joint:
            file = self.options.tokenizer.file
            shared = Tokenizer.load(file) if file else self._learn(fields)
            return {name: shared.for_field(name) for name in fields}
        if set(fields) != {"source", "target"}:
            raise UserError(f"tokenizer.joint = false is for source and target; here the fields are {list(fields)}.")
        return {name: self._learn((name,)).for_field(name) for name in fields}

    def encode(self, tokenizers: dict[str, Tokenizer], writer: StoreWriter) -> dict[str, SplitBuilder]:
        """Write every split, and those that are held out of the training files."""
        options = self.options
        keep_empty = READERS[options.format].keeps_empty
        encoder = Encoder(tokenizers, options.max_length, options.over_long, keep_empty, self.extract)
        done: Counter[str] = Counter()
        builders: dict[str, SplitBuilder] = {}
        targets: dict[str, dict[str, SplitBuilder]] = {}  # by reader, the builders of its splits
        for name in self.readers:
            split = _split(name)
            chosen = (split, *(options.hold_out if split == "train" else ()))
            targets[name] = {each: SplitBuilder(name.replace(split, each, 1), each == "train") for each in chosen}
            builders |= {builder.name: builder for builder in targets[name].values()}
        # Training sets come last, because their examples are compared with those of the other splits.
        for name in sorted(self.readers, key=lambda name: _split(name) == "train"):
            split, own = _split(name), targets[name]

            def route(example: Example, split: str = split, own: dict[str, SplitBuilder] = own) -> str:
                target = options.split_of(example) if len(own) > 1 else split
                self._note_equal_texts(example, own[target], builders)
                return target

            for count in encode_into(own, read_trimmed(self.readers[name], own[split].notes), route, encoder, writer):
                done[split] += count
                self.progress(f"encoding {split}", done[split], self.training_examples if split == "train" else None)
        return builders

    def _note_equal_texts(self, example: Example, builder: SplitBuilder, builders: dict[str, SplitBuilder]) -> None:
        """Count examples of which source and target are equal, and those that are in a training set and another."""
        if AUDIO in example.fields:  # many recordings have the same text
            return
        texts = tuple(value for value in example.fields.values() if isinstance(value, str))
        if "source" in example.fields and example.fields["source"] == example.fields.get("target"):
            builder.source_equals_target += 1
        if not any(texts):
            return
        if not builder.is_training:
            self.held_out.setdefault(hash(texts), Counter())[builder.name] += 1
        else:
            for name, count in self.held_out.pop(hash(texts), Counter()).items():
                builders[name].seen_in_training += count

    def _text_fields(self) -> tuple[str, ...]:
        for reader in self.readers.values():
            for example in read_trimmed(reader, Notes()):
                fields = tuple(name for name, value in example.fields.items() if isinstance(value, str))
                if not fields:
                    raise UserError("columns: name at least one text, not the label alone.")
                return fields
        raise UserError(f"no example in {', '.join(self.readers)}: every line is empty.")

    def _learn(self, fields: tuple[str, ...]) -> Tokenizer:
        bound, moses = self.options.tokenizer.characters, self.options.tokenizer.moses
        stream = self._training_texts(fields)
        texts = sample_evenly(stream, bound) if bound else (text for texts in stream for text in texts)
        if moses:
            languages = cycle([language_of(name, moses) for name in fields])
            texts = (tokenise_words([text], language)[0] for text, language in zip(texts, languages, strict=False))
        return Tokenizer.train(texts, self.options.tokenizer, self.options.languages)

    def _training_texts(self, fields: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """The texts of each training example that is not held out."""
        number = 0
        for name, reader in self.readers.items():
            for example in read_trimmed(reader, Notes()) if _split(name) == "train" else ():
                if number % _REPORT_EVERY == 0:
                    self.progress(f"reading {', '.join(fields)} for the vocabulary", number, None)
                number += 1
                if self.options.split_of(example) == "train":
                    yield tuple(str(example.fields[field]) for field in fields)
        self.training_examples = number


def _write_tokenizers(tokenizers: dict[str, Tokenizer], writer: StoreWriter) -> dict[str, str]:
    """The file of each field's tokenizer; one for all fields if they share it."""
    shared = len({id(each.vocabulary) for each in tokenizers.values()}) == 1
    names = {name: "tokenizer.json" if shared else f"tokenizer.{name}.json" for name in tokenizers}
    for name, file in names.items():
        writer.write(file, tokenizers[name].json.encode())
    return names


def _find_labels(options: PrepareOptions) -> tuple[str, ...]:
    """The label set: as given, or the labels of the training files, in the order of numbers or of the alphabet."""
    if options.labels or not (LABEL in options.columns or READERS[options.format].has_labels):
        return options.labels
    found: set[str] = set()
    readers = _make_readers(options, (), found)
    training = [reader for name, reader in readers.items() if _split(name) == "train"]
    for reader in training or readers.values():
        reader.check()
        for _ in reader.read(Notes()):
            pass
    return tuple(sorted(found, key=int if all(map(str.isdecimal, found)) else str))


def _make_readers(options: PrepareOptions, labels: tuple[str, ...], collected: set[str] | None = None) -> Readers:
    readers: Readers = {}
    columns = {str(name): column for name, column in options.columns.items()}
    for split in SPLITS:
        for name, sources in options.sets(split).items():
            if READERS[options.format].reads_files:
                sources = tuple(os.path.join(options.folder, file) for file in sources)
            readers[name] = make_reader(options.format, sources, split, columns, labels, options.unit, collected)
    if not readers:
        raise UserError("nothing to prepare: give the files of train, valid or test.")
    if not options.train and not options.tokenizer.file:
        raise UserError("no training files to learn a tokenizer from: give train, or tokenizer.file.")
    return readers


def _describe_sources(options: PrepareOptions, readers: Readers) -> tuple[SourceRecord, ...]:
    records = []
    files = [(name, file) for name, reader in readers.items() for file in reader.files]
    if options.tokenizer.file:
        files.append(("tokenizer", options.tokenizer.file))
    for name, file in files:
        path = Path(os.path.abspath(file))
        digest = hash_file(path)
        records.append(SourceRecord(split=name, path=str(path), bytes=path.stat().st_size, sha256=digest))
    for name, reader in readers.items():
        for chosen, commit in reader.revisions().items():
            records.append(SourceRecord(split=name, path=chosen, bytes=0, sha256=commit))
    return tuple(records)


def _fingerprints(sources: tuple[SourceRecord, ...]) -> list[tuple[int, int]]:
    """Size and modification time of every source file, to notice a change while it is read."""
    paths = [Path(source.path) for source in sources if os.path.isabs(source.path)]
    return [(status.st_size, status.st_mtime_ns) for status in (path.stat() for path in paths)]


def _reuse(options: PrepareOptions, sources: tuple[SourceRecord, ...]) -> Store:
    store = Store.open(options.output)
    old, new = store.manifest.settings, options.settings()
    defaults = PrepareOptions(output=options.output).settings()  # options that did not exist then have their defaults
    changes = [f"option {key}" for key in {**old, **new} if old.get(key, defaults.get(key)) != new.get(key)]
    known = {(source.split, source.sha256) for source in store.manifest.sources}
    changes += [source.path for source in sources if (source.split, source.sha256) not in known]
    if len(sources) != len(store.manifest.sources):
        changes.append("the number of source files")
    if changes:
        raise UserError(
            f"{store.folder}: made from something else; different now: {', '.join(changes)}. Choose another output, or "
            f"replace it (--replace)."
        )
    return store


def _close(builder: SplitBuilder) -> SplitRecord:
    if builder.writer is None or not builder.writer.examples:
        raise UserError(f"{builder.name}: no example is left; dropped: {builder.notes.dropped() or 'none'}.")
    record = builder.writer.close(builder.notes.dropped(), builder.notes.repaired)
    counts = {"seen_in_training": builder.seen_in_training, "source_equals_target": builder.source_equals_target}
    return record.model_copy(update=counts)


def _labels(labels: tuple[str, ...], readers: Readers) -> tuple[str, ...]:
    for reader in readers.values():
        if reader.label_names:
            return reader.label_names
    return labels


def _split(name: str) -> str:
    return name.partition("/")[0]
