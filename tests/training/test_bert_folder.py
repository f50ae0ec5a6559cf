"""Starting from a BERT that transformers saved: the same tokens and scores, and each difference is listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.tokenizer import SPECIALS, Tokenizer
from lamina.errors import UserError
from lamina.model.transformer import Transformer
from lamina.run_folder.starting_point import StartingPoint
from lamina.runs.run import Run
from lamina.tasks import build_task
from lamina.tasks.classification import Classification
from lamina.training.bert_folder import own_name
from lamina.training.config import RunConfig
from lamina.training.start_from import start_model

VOCABULARY = [
    "[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "!", ",", ".", "'", "a", "the", "cat", "dog", "sat",
    "ran", "##s", "##ning", "run", "cafe", "b", "##b", "##c", "c", "中", "9", "##9",
]  # fmt: skip
PAIRS = [("The cat sat.", "A dog ran!", 1), ("The dogs ran, running", "The Café", 0), ("abc 中 99", "zebra", 1)]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
MODEL = {
    "num_layers": 2, "model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "activation": "gelu",
    "positions": "learned", "max_length": 24, "scale_embeddings": False, "embedding_norm": True,
    "residual": "post-ln", "norm": {"eps": 1e-12}, "dropout": 0.0,
}  # fmt: skip


@pytest.fixture
def transformers() -> Any:
    library = pytest.importorskip("transformers")
    library.utils.logging.set_verbosity_error()
    return library


def save_bert(transformers: Any, folder: Path, kind: str = "BertForSequenceClassification", **changes: Any) -> Any:
    """A BERT with random weights and its tokenizer; returns the model."""
    torch.manual_seed(1)
    sizes = SIZES | {"vocab_size": len(VOCABULARY), "max_position_embeddings": 24} | changes
    model = getattr(transformers, kind)(transformers.BertConfig(**sizes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)  # so that norms and biases count
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return model


def own_tokenizer(transformers: Any, folder: Path) -> Any:
    """Transformers' own tokenizer of the vocabulary."""
    from tokenizers import BertWordPieceTokenizer

    inner = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner._tokenizer, model_input_names=inputs)


def config_for(folder: Path, tmp_path: Path, **changes: Any) -> RunConfig:
    for split in ("train", "valid"):
        rows = [f"{first}\t{second}\t{label}\n" for first, second, label in PAIRS]
        (tmp_path / f"{split}.tsv").write_text("".join(rows))
    values: dict[str, Any] = {"folder": str(tmp_path), "output": str(tmp_path / "store"), "format": "tsv"}
    values |= {"train": ["train.tsv"], "valid": ["valid.tsv"], "columns": {"first": 1, "second": 2, "label": 3}}
    tokenizer = changes.pop("tokenizer", {"file": str(folder / "vocab.txt")})
    prepare(PrepareOptions.read(values | {"tokenizer": tokenizer}, "test"))
    model = MODEL | changes.pop("model", {})
    base = {"task": "classification", "start_from": str(folder), "data": {"store": str(tmp_path / "store")}}
    return RunConfig.read({**base, "model": model, **changes}, where="test")


def started(config: RunConfig) -> tuple[Transformer, Classification, StartingPoint]:
    store = Run(config, "unused").open_store()
    task = build_task(config.task, store, config.task_options)
    assert isinstance(task, Classification)
    model = Transformer.build(task.model_options(config.model))
    record = start_model(config, store, model)
    assert record is not None
    return model.eval(), task, record


def test_texts_have_berts_tokens(transformers: Any, tmp_path: Path) -> None:
    save_bert(transformers, tmp_path)
    theirs = own_tokenizer(transformers, tmp_path)
    theirs.save_pretrained(tmp_path / "fast")
    texts = [text for pair in PAIRS for text in pair[:2]] + ["", "x" * 120, "CAFÉ'S"]
    for file in (tmp_path / "vocab.txt", tmp_path / "fast" / "tokenizer.json"):
        ours = Tokenizer.load(file)
        for text in texts:
            wanted = theirs.convert_ids_to_tokens(theirs.encode(text, add_special_tokens=False))
            found = ["[UNK]" if token == SPECIALS.index("<unk>") else _text(ours, token) for token in ours.encode(text)]
            assert found == wanted, text
        assert len(ours) == len(VOCABULARY) + 2, "BERT has no bos and no eos"
        assert Tokenizer.load(_saved(ours, tmp_path)).json == ours.json


def _text(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.vocabulary.tokens[token - len(SPECIALS) + 1]


def _saved(tokenizer: Tokenizer, folder: Path) -> Path:
    tokenizer.save(folder / "own.json")
    return folder / "own.json"


def test_a_fine_tuned_classifier_gives_the_same_probabilities(transformers: Any, tmp_path: Path) -> None:
    theirs = save_bert(transformers, tmp_path / "bert")
    tokenizer = own_tokenizer(transformers, tmp_path / "bert")
    model, task, record = started(config_for(tmp_path / "bert", tmp_path))
    assert record.initialised == ()
    assert record.not_used == ()
    found = list(task.predict(model, [pair[:2] for pair in PAIRS]))
    for (first, second, _), prediction in zip(PAIRS, found, strict=True):
        assert prediction is not None
        with torch.no_grad():
            wanted = theirs(**tokenizer(first, second, return_tensors="pt")).logits.softmax(-1)[0]
        assert list(prediction.probabilities.values()) == pytest.approx(wanted.tolist(), abs=1e-6)


@pytest.mark.parametrize("kind", ["BertModel", "BertForMaskedLM", "BertForPreTraining"])
def test_the_output_layer_of_another_kind_is_new(transformers: Any, tmp_path: Path, kind: str) -> None:
    theirs = save_bert(transformers, tmp_path / "bert", kind)
    model, _, record = started(config_for(tmp_path / "bert", tmp_path))
    assert record.initialised == ("head.dense.weight", "head.dense.bias", "head.output.weight", "head.output.bias")
    assert record.differences == ()
    body = getattr(theirs, "bert", theirs)
    own = model.state_dict()["stack.layers.1.sublayers.1.inner.weight"]
    assert torch.equal(own, body.encoder.layer[1].intermediate.dense.weight)
    assert all(name.startswith(("head.", "bert.")) for name in record.not_used)


def test_a_masked_language_model_continues_with_its_head(transformers: Any, tmp_path: Path) -> None:
    theirs = save_bert(transformers, tmp_path / "bert", "BertForMaskedLM")
    (tmp_path / "text.txt").write_text("the cat sat\na dog ran\n" * 20)
    values = {"folder": str(tmp_path), "output": str(tmp_path / "store"), "format": "plain"}
    files = {"train": ["text.txt"], "valid": ["text.txt"], "tokenizer": {"file": str(tmp_path / "bert" / "vocab.txt")}}
    prepare(PrepareOptions.read({**values, **files}, "test"))
    base = {"task": "masked-language-modelling", "start_from": str(tmp_path / "bert")}
    values = {**base, "data": {"store": str(tmp_path / "store")}, "model": MODEL | {"num_segments": 2}}
    config = RunConfig.read({**values, "task_options": {"block_length": 16}}, where="test")
    store = Run(config, "unused").open_store()
    task = build_task(config.task, store, config.task_options)
    model = Transformer.build(task.model_options(config.model))
    record = start_model(config, store, model)
    assert record is not None
    assert record.initialised == ()
    bias = theirs.cls.predictions.bias
    token = Tokenizer.load(tmp_path / "bert" / "vocab.txt").encode("cat")[0]
    assert model.state_dict()["head.bias"][token] == bias[VOCABULARY.index("cat")]


def test_each_difference_is_listed(transformers: Any, tmp_path: Path) -> None:
    save_bert(transformers, tmp_path / "bert", intermediate_size=24)
    changed = {"num_heads": 4, "norm": {"eps": 1e-5}, "residual": "pre-ln", "max_length": 20}
    with pytest.raises(UserError) as refused:
        started(config_for(tmp_path / "bert", tmp_path, model=changed))
    message = str(refused.value)
    for line in (
        "model.residual: here 'pre-ln', there 'post-ln'",
        "model.num_heads: here 4, there 2",
        "model.norm: here {'kind': 'layer', 'eps': 1e-05, 'bias': True}",
        "embedding.positions.table.weight: here (20, 16) of float32, there (24, 16) of float32",
        "stack.layers.0.sublayers.1.inner.weight: here (32, 16) of float32, there (24, 16) of float32",
    ):
        assert line in message


def test_data_with_another_tokenizer_is_refused(transformers: Any, tmp_path: Path) -> None:
    save_bert(transformers, tmp_path / "bert")
    config = config_for(tmp_path / "bert", tmp_path, tokenizer={"size": 300})
    with pytest.raises(UserError, match=r"is not that of .*bert.*\n  lamina prepare .*tokenizer.file=.*vocab.txt"):
        started(config)


def test_a_run_from_a_bert_trains(transformers: Any, tmp_path: Path) -> None:
    save_bert(transformers, tmp_path / "bert")
    train = {"steps": 2, "validate_every": 0, "save_every": 0, "device": "cpu"}
    run = Run(config_for(tmp_path / "bert", tmp_path, train=train), tmp_path / "run")
    assert run.train(quiet=True).step == 2
    record = StartingPoint.load(run.folder.started_from)
    assert record is not None
    assert record.path == str(tmp_path / "bert")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            {"config.json": '{"model_type": "roberta"}'},
            "of type 'roberta'; of transformers' models, only a BERT",
        ),
        ({"config.json": "{"}, "cannot be read as a config"),
        ({"model.safetensors": None}, "has no model.safetensors"),
        ({"model.safetensors": "nothing"}, "cannot be read as safetensors"),
        ({"vocab.txt": None}, r"no vocab.txt and no tokenizer.json.*tokenizer.save_pretrained"),
        ({"vocab.txt": "[PAD]\n[UNK]\n"}, r"not the vocabulary of a BERT: without \[CLS\], \[MASK\], \[SEP\]"),
    ],
)
def test_a_folder_that_cannot_be_read(
    transformers: Any, tmp_path: Path, spoil: dict[str, str | None], says: str
) -> None:
    save_bert(transformers, tmp_path / "bert")
    config = config_for(tmp_path / "bert", tmp_path)
    for name, content in spoil.items():
        file = tmp_path / "bert" / name
        file.unlink() if content is None else file.write_text(content)
    with pytest.raises(UserError, match=says):
        started(config)


def test_an_activation_that_lamina_lacks_is_refused(transformers: Any, tmp_path: Path) -> None:
    save_bert(transformers, tmp_path / "bert")
    content = json.loads((tmp_path / "bert" / "config.json").read_text())
    config = config_for(tmp_path / "bert", tmp_path)
    (tmp_path / "bert" / "config.json").write_text(json.dumps(content | {"hidden_act": "mish"}))
    with pytest.raises(UserError, match=r"config.json: activation: unknown value 'mish'"):
        started(config)


def test_a_weight_that_is_not_known_keeps_its_name() -> None:
    assert own_name("bert.encoder.layer.3.adapter.weight", "classes") == "encoder.layer.3.adapter.weight"
    assert own_name("bert.encoder.layer.3.output.dense.bias", "none") == "stack.layers.3.sublayers.1.outer.bias"
    assert own_name("pooler.dense.bias", "none") == "bert.pooler.dense.bias"
