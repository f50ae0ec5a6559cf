"""BERT: the same logits as transformers', as a masked language model and as a classifier."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina.data.tokenizer import BOS, CLS, EOS, MASK, SEP
from lamina.errors import UserError
from lamina.interop.imports.bert import read_bert
from lamina.interop.imports.foreign_model import ForeignConfig
from support.imported_models import change_config, change_tensors, imported

pytestmark = pytest.mark.peers
transformers = pytest.importorskip("transformers", reason="install the extra transformers")
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{number}" for number in range(55)]


def save_bert(folder: Path, kind: str = "BertForMaskedLM") -> object:
    sizes = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(1)
    config = transformers.BertConfig(**sizes, intermediate_size=48, max_position_embeddings=40, num_labels=3)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join([*MARKS, *WORDS]) + "\n")
    return model


def test_a_masked_language_model(tmp_path: Path) -> None:
    model = save_bert(tmp_path / "bert")
    run = imported(tmp_path / "bert")
    ids = torch.cat([torch.tensor([[2], [2]]), torch.randint(5, 60, (2, 7)), torch.tensor([[4, 3], [4, 3]])], 1)
    special = {2: CLS, 3: SEP, 4: MASK}
    own = torch.tensor([[special.get(each, each + 2) for each in row] for row in ids.tolist()])
    theirs, ours = model(ids).logits, run.model(own)
    torch.testing.assert_close(ours[..., 7:], theirs[..., 5:], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.softmax(-1)[..., 7:], theirs.softmax(-1)[..., 5:], atol=1e-6, rtol=1e-4)
    assert float(ours.softmax(-1)[..., [BOS, EOS]].detach().max()) == 0


def test_a_classifier(tmp_path: Path) -> None:
    model = save_bert(tmp_path / "bert", "BertForSequenceClassification")
    change_config(tmp_path / "bert", id2label={"0": "no", "1": "maybe", "2": "yes"})
    run = imported(tmp_path / "bert", pairs=True)
    segments = torch.tensor([[0, 0, 0, 1, 1]])
    logits = model(torch.tensor([[2, 6, 3, 8, 3]]), token_type_ids=segments).logits[0]
    [found] = run.predict([("w1", "w3")])
    assert tuple(found.probabilities) == ("no", "maybe", "yes")
    torch.testing.assert_close(torch.tensor([*found.probabilities.values()]), logits.softmax(-1), atol=1e-5, rtol=1e-4)


def test_missing_and_wrong_tensors_are_listed(tmp_path: Path) -> None:
    save_bert(tmp_path / "bert")

    def change(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["bert.encoder.layer.1.output.dense.bias"]
        tensors["bert.encoder.layer.0.attention.self.query.weight"] = torch.zeros(32, 31)
        tensors["bert.encoder.layer.7.attention.self.query.weight"] = torch.zeros(2, 2)

    change_tensors(tmp_path / "bert", change)
    with pytest.raises(UserError) as caught:
        imported(tmp_path / "bert")
    message = str(caught.value)
    assert "stack.layers.1.sublayers.1.outer.bias: missing; its shape would be (32,)" in message
    assert "layer.0.attention.self.query.weight: its shape is (32, 31), the config says (32, 32)" in message
    assert "layers.7.sublayers.0.query.weight: no place" in message or "layer.7.attention" in message


def test_one_without_an_output_layer_is_refused(tmp_path: Path) -> None:
    save_bert(tmp_path / "bert", "BertModel")
    with pytest.raises(UserError, match="without an output layer.*start_from"):
        read_bert(tmp_path / "bert", ForeignConfig.read(tmp_path / "bert"))
