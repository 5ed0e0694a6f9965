"""Exported heads, loaded by stock transformers."""

from __future__ import annotations

import json

import pytest
import torch

from osler.core.errors import InputError
from osler.nn.encoder import PackedEncoder
from osler.nn.export import to_hf
from osler.nn.heads import HEADS
from osler.nn.heads.base import SequenceHead
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import pack

SEQUENCE = ["bert", "roberta", "xlm-roberta", "camembert", "mpnet", "albert"]
OTHER = ["electra", "distilbert", "modernbert", "deberta-v2"]
# float32; ModernBERT's extra norm adds an epsilon of 1e-5 relative to logits of size 5.
TOLERANCE = 1e-4


def build(tiny, architecture, kind, count, **more):
    model = MultiHeadModel(PackedEncoder(tiny.model(architecture)))
    head = model.add_head("task", kind, count, seed=0, **more)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.mul_(20).add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


@torch.no_grad()
def compare(tiny, model, stock):
    sequences = tiny.sequences(14, 5, 9)
    found = model(pack(sequences, pad_id=1))["task"]
    rows = [stock.eval()(input_ids=torch.as_tensor(ids)[None]).logits for ids in sequences]
    expected = torch.cat([row.reshape(-1, row.shape[-1]) for row in rows])
    assert found.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("architecture", SEQUENCE + OTHER)
def test_token_classifiers_give_equal_logits(tiny, tmp_path, architecture):
    from transformers import AutoModelForTokenClassification

    model = build(tiny, architecture, "tagging", 3, labels=["O", "B-X", "I-X"])
    to_hf(model, "task", None, tmp_path)
    stock, report = AutoModelForTokenClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert stock.config.id2label == {0: "O", 1: "B-X", 2: "I-X"}
    assert stock.config.label2id["I-X"] == 2
    assert "osler" not in (tmp_path / "config.json").read_text()
    compare(tiny, model, stock)


@pytest.mark.parametrize("architecture", SEQUENCE)
@pytest.mark.parametrize(
    ("kind", "count", "problem"),
    [
        ("classification", 3, "single_label_classification"),
        ("multilabel", 4, "multi_label_classification"),
        ("regression", 1, "regression"),
    ],
)
def test_sequence_classifiers_give_equal_logits(tiny, tmp_path, architecture, kind, count, problem):
    from transformers import AutoModelForSequenceClassification

    model = build(tiny, architecture, kind, count)
    labels = [f"label {number}" for number in range(count)]
    to_hf(model, "task", labels, tmp_path)
    stock, report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert (stock.config.problem_type, list(stock.config.id2label.values())) == (problem, labels)
    compare(tiny, model, stock)


@pytest.mark.parametrize("architecture", OTHER)
def test_a_stock_head_of_another_shape_is_refused(tiny, tmp_path, architecture):
    with pytest.raises(InputError, match=f"sequence classifier of {architecture} does not have the shape"):
        to_hf(build(tiny, architecture, "classification", 3), "task", None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_linear_head_is_exported_where_the_stock_classifier_can_be_linear(tiny, tmp_path):
    from transformers import AutoModelForSequenceClassification

    model = build(tiny, "modernbert", "classification", 3, layers="linear")
    model.encoder.config.classifier_pooling = "mean"
    to_hf(model, "task", None, tmp_path)
    stock, report = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    compare(tiny, model, stock)


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_a_linear_head_is_refused_where_the_stock_classifier_has_more_layers(tiny, tmp_path, architecture):
    with pytest.raises(InputError, match="does not have the shape") as error:
        to_hf(build(tiny, architecture, "classification", 3, layers="linear"), "task", None, tmp_path / "out")
    assert "modernbert" in error.value.fix
    assert not (tmp_path / "out").exists()


def test_a_pooler_is_the_pooler_of_the_stock_bert(tiny, tmp_path):
    from transformers import AutoModelForSequenceClassification

    model = build(tiny, "bert", "regression", 1, layers="pooler")
    to_hf(model, "task", None, tmp_path)
    stock = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(stock.bert.pooler.dense.weight, model.head("task").dense.weight)
    compare(tiny, model, stock)


def test_a_stock_head_that_turns_out_to_differ_is_refused(tiny, tmp_path, monkeypatch):
    """As if a later transformers changed what its classifier does: the export notices before it writes."""
    from osler.nn import export

    monkeypatch.setitem(export._SEQUENCE, "electra", export._SEQUENCE["roberta"])
    with pytest.raises(InputError, match="does not give the logits"):
        to_hf(build(tiny, "electra", "classification", 3), "task", None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_model_that_was_exported_is_left_as_it_was(tiny, tmp_path):
    model = build(tiny, "modernbert", "tagging", 2).bfloat16().train()
    before = model.encoder.config.to_dict()
    to_hf(model, "task", ["a", "b"], tmp_path)
    assert model.encoder.config.to_dict() == before
    assert model.encoder.config._attn_implementation == "osler_packed"
    assert model.training
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float32"


def test_wrong_labels_and_kinds_are_refused(tiny, tmp_path, monkeypatch):
    model = build(tiny, "roberta", "tagging", 2)
    with pytest.raises(InputError, match="3 labels for 2 outputs"):
        to_hf(model, "task", ["a", "b", "c"], tmp_path / "out")

    class Other(SequenceHead):
        kind = "other"

        def loss(self, logits, targets, weights=None):
            return logits.sum(), torch.tensor(1.0)

    monkeypatch.setitem(HEADS._objects, "other", Other)
    with pytest.raises(InputError, match="no stock model for a other head"):
        to_hf(build(tiny, "roberta", "other", 2), "task", None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_modernbert_that_cannot_be_made_stock_is_refused(tiny, tmp_path):
    model = build(tiny, "modernbert", "tagging", 2)
    with torch.no_grad():
        model.encoder.model.final_norm.weight[3] = 0.0
    with pytest.raises(InputError, match="cannot be made an identity"):
        to_hf(model, "task", None, tmp_path / "out")
    assert not (tmp_path / "out").exists()
