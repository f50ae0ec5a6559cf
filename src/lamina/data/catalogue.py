"""The papers' data sets: what they are, where they come from, and the options that prepare each.

Paths start with the folder that an archive is unpacked into. Checksums are those that TensorFlow Datasets and other
catalogues publish; where none does it is None, and the file is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Download:
    """A file to fetch by hand, and where it comes from."""

    file: str
    url: str
    sha256: str | None = None

    @property
    def folder(self) -> str:
        """What an archive is unpacked into; empty for a file that is used as it is."""
        for ending in (".tar.gz", ".tgz", ".tar", ".zip"):
            if self.file.endswith(ending):
                return self.file.removesuffix(ending)
        return ""


@dataclass(frozen=True)
class Source:
    """One data set."""

    title: str
    licence: str
    downloads: tuple[Download, ...]
    options: dict[str, Any]
    """Those of `lamina prepare`; file names are relative to the folder that holds the downloads."""
    notes: str = ""
    pairs: str = ""
    """A folder with one sub-folder per language pair, each of which becomes a set."""


_STATMT = "https://www.statmt.org"
_EUROPARL = Download(
    "training-parallel-europarl-v7.tgz",
    f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz",
    "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
_COMMON_CRAWL = Download(
    "training-parallel-commoncrawl.tgz",
    f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz",
    "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
_NEWS_COMMENTARY = Download(
    "training-parallel-nc-v9.tgz",
    f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz",
    "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
_UNITED_NATIONS = Download(
    "training-parallel-un.tgz",
    f"{_STATMT}/wmt13/training-parallel-un.tgz",
    "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
)
_GIGA_FRENCH = Download(
    "training-giga-fren.tar",
    f"{_STATMT}/wmt10/training-giga-fren.tar",
    "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
)
_WMT_DEV = Download(
    "dev.tgz",
    "http://data.statmt.org/wmt19/translation-task/dev.tgz",
    "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)
_WMT_LICENCE = "research use; Europarl has no known restrictions, the rest as stated at statmt.org"


def _wmt_train(language: str) -> list[str]:
    """Couples English, `language` of the corpora that both WMT14 tasks share."""
    stems = (
        f"training-parallel-europarl-v7/training/europarl-v7.{language}-en",
        f"training-parallel-commoncrawl/commoncrawl.{language}-en",
        f"training-parallel-nc-v9/training/news-commentary-v9.{language}-en",
    )
    return [f"{stem}.{side}" for stem in stems for side in ("en", language)]


def _newstest(year: int, language: str) -> list[str]:
    """English, `language`: plain text up to 2013, SGML from 2014."""
    if year < 2014:
        return [f"dev/newstest{year}.{side}" for side in ("en", language)]
    stem = f"dev/newstest{year}-{language}en"
    return [f"{stem}-ref.en.sgm", f"{stem}-src.{language}.sgm"]


def _newstests(years: range, language: str) -> dict[str, list[str]]:
    return {f"newstest{year}": _newstest(year, language) for year in years}


def _iwslt(*names: str) -> list[str]:
    return [f"de-en/IWSLT14.{name}.de-en.{side}.xml" for name in names for side in ("de", "en")]


def _glue(task: str) -> dict[str, Any]:
    files = {"train": "train", "valid": "dev", "test": "test"}
    own = {split: [f"{task}/{name}.tsv"] for split, name in files.items()}
    return {"format": "glue", **own, "tokenizer": {"kind": "wordpiece", "size": 30_522, "lower_case": True}}


def _embedded(kind: str, train: int, held_out: int, size: int) -> dict[str, Any]:
    counts = {"train": train, "valid": held_out, "test": held_out}
    sets = {split: [f"{kind}:{count}"] for split, count in counts.items()}
    return {"format": "embedded", **sets, "tokenizer": {"size": size}}


def _embedded_pairs(pairs: dict[str, int], held_out: int) -> dict[str, Any]:
    """Language pairs of different size, as in the large collections."""
    sets = {"train": pairs, "valid": dict.fromkeys(pairs, held_out), "test": dict.fromkeys(pairs, held_out)}
    words = {
        split: {pair: [f"translation/{pair}:{count}"] for pair, count in counts.items()}
        for split, counts in sets.items()
    }
    return {"format": "embedded", **words, "tokenizer": {"size": 3000}}


def _own(title: str, options: dict[str, Any]) -> Source:
    return Source(title=title, licence="MIT, made by Lamina itself", downloads=(), options=options)


SOURCES = {
    "embedded-translation": _own("Sentences in two embedded languages", _embedded("translation", 20_000, 500, 2000)),
    "embedded-short-translation": _own(
        "Short sentences in a few dozen words of two embedded languages",
        _embedded("short-translation", 20_000, 500, 500),
    ),
    "embedded-multilingual": _own(
        "Sentences in three pairs of embedded languages",
        _embedded_pairs({"marn-tuvo": 12_000, "marn-selu": 6000, "marn-noric": 3000}, 200),
    ),
    "embedded-headlines": _own("Paragraphs with headlines", _embedded("headlines", 20_000, 500, 2000)),
    "embedded-text": _own("Running text in an embedded language", _embedded("text", 4000, 200, 2000)),
    "embedded-paraphrases": _own("Sentence pairs, the same or not", _embedded("paraphrases", 20_000, 1000, 2000)),
    "embedded-entailments": _own("Sentence pairs, entailed or not", _embedded("entailments", 20_000, 1000, 2000)),
    "iwslt14-de-en": Source(
        title="IWSLT 2014 German–English TED talks",
        licence="CC BY-NC-ND 4.0 (TED talks, WIT3)",
        downloads=(Download("de-en.tgz", "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"),),
        options={
            "train": [f"de-en/train.tags.de-en.{side}" for side in ("de", "en")],
            "test": _iwslt("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"),
            "hold_out": {"valid": 23},
            "max_length": 175,
            "tokenizer": {"size": 10_000, "lower_case": True},
        },
        notes="As usual one pair in 23 is held out for validation and five sets together are the test. Unlike the "
        "papers' scripts, text is not split by Moses' rules first: byte-level BPE needs no such step.",
    ),
    "wmt14-en-de": Source(
        title="WMT 2014 English–German, 4.5 million pairs",
        licence=_WMT_LICENCE,
        downloads=(_EUROPARL, _COMMON_CRAWL, _NEWS_COMMENTARY, _WMT_DEV),
        options={
            "train": _wmt_train("de"),
            "valid": _newstest(2013, "de"),
            "test": _newstests(range(2010, 2017), "de"),
            "max_length": 250,
            "tokenizer": {"size": 32_000},
        },
        notes="Test sets newstest2010 to newstest2016; newstest2013 also validates.",
    ),
    "wmt14-en-fr": Source(
        title="WMT 2014 English–French, 40 million pairs",
        licence=_WMT_LICENCE,
        downloads=(_EUROPARL, _COMMON_CRAWL, _NEWS_COMMENTARY, _UNITED_NATIONS, _GIGA_FRENCH, _WMT_DEV),
        options={
            "train": [
                *_wmt_train("fr"),
                *(f"training-parallel-un/un/undoc.2000.fr-en.{side}" for side in ("en", "fr")),
                *(f"training-giga-fren/giga-fren.release2.fixed.{side}.gz" for side in ("en", "fr")),
            ],
            "valid": _newstest(2013, "fr"),
            "test": _newstests(range(2010, 2015), "fr"),
            "max_length": 250,
            "tokenizer": {"size": 40_000},
        },
        notes="Test sets newstest2010 to newstest2014, the last year with French news.",
    ),
    "opus-100": Source(
        title="OPUS-100, English with 99 languages",
        licence="not stated as a whole; each corpus of OPUS has its own",
        downloads=(
            Download(
                "opus-100-corpus-v1.0.tar.gz",
                "https://object.pouta.csc.fi/OPUS-100/v1.0/opus-100-corpus-v1.0.tar.gz",
            ),
        ),
        options={"max_length": 250, "tokenizer": {"size": 64_000}},
        notes="Every language pair that is there becomes a set, and every language a tag. Five pairs have no test set.",
        pairs="opus-100-corpus-v1.0/opus-100-corpus/v1.0/supervised",
    ),
    "gigaword": Source(
        title="Gigaword headlines, 3.8 million article–headline pairs (Rush et al.)",
        licence="text of the Linguistic Data Consortium's English Gigaword; check that you may use it",
        downloads=(
            Download(
                "ggw_data.zip",
                "https://drive.google.com/uc?export=download&id=1USoQ8lJgN8kAWnUnRrupMGrPMLlDVqlV",
                "bc0c4a2e1aa19cf2123688b87bc2d778c0d8fc24a4090e3c10a27c5faa1b898b",
            ),
        ),
        options={
            **{
                split: [f"ggw_data/org_data/{name}.{side}.txt" for side in ("src", "tgt")]
                for split, name in (("train", "train"), ("valid", "dev"), ("test", "test"))
            },
            "max_length": 250,
            "tokenizer": {"size": 32_000},
        },
    ),
    "wikitext-103": Source(
        title="WikiText-103, 103 million words of Wikipedia",
        licence="CC BY-SA 3.0",
        downloads=(
            Download(
                "wikitext-103-v1.zip",
                "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip",
                "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
            ),
        ),
        options={
            "format": "wikitext",
            **{split: [f"wikitext-103-v1/wikitext-103/wiki.{split}.tokens"] for split in ("train", "valid", "test")},
            "tokenizer": {"kind": "word", "size": 0},
        },
    ),
    "wikipedia-books": Source(
        title="Wikipedia and books, for masked language modelling",
        licence="CC BY-SA (Wikipedia); that of the books you add",
        downloads=(
            Download("wikipedia.txt.gz", "https://dumps.wikimedia.org/ (as plain text, a paragraph a line)"),
            Download("books.txt.gz", "any collection of books as plain text, for example https://www.gutenberg.org/"),
        ),
        options={
            "format": "plain",
            "train": ["wikipedia.txt.gz", "books.txt.gz"],
            "hold_out": {"valid": 200},
            "tokenizer": {"kind": "wordpiece", "size": 30_522, "lower_case": True},
        },
        notes="The papers' book corpus is no longer given out. Lines are split 199 : 1 into training and validation.",
    ),
    "mrpc": Source(
        title="GLUE MRPC, paraphrases",
        licence="research use, not to be passed on (Microsoft Research Paraphrase Corpus)",
        downloads=(Download("MRPC/{train,dev,test}.tsv", "https://gluebenchmark.com/tasks"),),
        options=_glue("MRPC"),
        notes="For fine-tuning give the pre-trained model's vocabulary: tokenizer.file = its tokenizer.json.",
    ),
    "rte": Source(
        title="GLUE RTE, textual entailment",
        licence="research use, not to be passed on (PASCAL RTE challenges)",
        downloads=(
            Download(
                "RTE.zip",
                "https://dl.fbaipublicfiles.com/glue/data/RTE.zip",
                "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
            ),
        ),
        options=_glue("RTE"),
        notes="For fine-tuning give the pre-trained model's vocabulary: tokenizer.file = its tokenizer.json.",
    ),
}
