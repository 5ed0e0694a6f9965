from __future__ import annotations

import json
import resource
import signal

import pytest
import torch
from transformers import DistilBertConfig, ModernBertConfig, RobertaConfig

from osler.core.errors import ArtifactError, OutputError, RecipeError
from osler.nn.encoder import PackedEncoder
from osler.nn.multihead import MultiHeadModel, own_dropout
from osler.nn.packing import pack


@pytest.fixture
def model(tiny):
    model = MultiHeadModel(PackedEncoder(tiny.model("roberta")))
    model.add_head("ner", "tagging", 3, seed=1, labels=["O", "B-X", "I-X"])
    model.add_head("nli_2", "classification", 3, seed=1, labels=["e", "n", "c"], dropout=0.2)
    model.add_head("topics", "multilabel", 4, seed=1)
    model.add_head("similarity-a", "regression", 1, seed=1)
    return model


@pytest.fixture
def batch(tiny):
    return pack(tiny.sequences(9, 4, 6), pad_id=1, total=24)


TARGETS = {
    "ner": torch.tensor([-100, 0, 1, 2, 0, 0, 1, 0, -100, -100, 1, 0, -100] + [0] * 6 + [-100] * 5),
    "nli_2": torch.tensor([0, 1, 2]),
    "topics": torch.tensor([[1.0, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 0]]),
    "similarity-a": torch.tensor([0.5, 3.0, 5.0]),
}


@pytest.mark.parametrize(
    ("config", "rate"),
    [
        (RobertaConfig(hidden_dropout_prob=0.15), 0.15),
        (RobertaConfig(hidden_dropout_prob=0.15, classifier_dropout=0.3), 0.3),
        (RobertaConfig(classifier_dropout=0.0), 0.0),
        (ModernBertConfig(), 0.0),
        (DistilBertConfig(dropout=0.2), 0.2),
        (object(), 0.1),
    ],
)
def test_tags_have_the_dropout_of_the_stock_classes(config, rate):
    assert own_dropout(config, "tagging") == own_dropout(config, "crf") == rate
    assert own_dropout(config, "classification") == own_dropout(config, "regression") == 0.1


def test_one_pass_serves_all_heads(model, batch, monkeypatch):
    passes = []
    forward = model.encoder.model.forward
    monkeypatch.setattr(model.encoder.model, "forward", lambda **inputs: passes.append(1) or forward(**inputs))
    logits = model(batch)
    assert {name: tuple(value.shape) for name, value in logits.items()} == {
        "ner": (24, 3),
        "nli_2": (3, 3),
        "topics": (3, 4),
        "similarity-a": (3, 1),
    }
    assert len(passes) == 1
    some = model(batch, ["topics"])
    assert list(some) == ["topics"]
    assert torch.equal(some["topics"], logits["topics"])


def test_every_parameter_is_in_the_optimiser_and_changes_after_one_step(model, batch):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for name in TARGETS:
        owned = {id(parameter) for parameter in model.head(name).parameters()}
        assert owned <= {id(parameter) for parameter in model.parameters()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.zeros(())
    for name, logits in model.train()(batch).items():
        summed, count = model.head(name).loss(logits, TARGETS[name])
        loss = loss + summed / count
    loss.backward()
    optimiser.step()
    same = [name for name, value in model.state_dict().items() if torch.equal(value, before[name])]
    # A bias of the keys adds the same to all scores of a query, which softmax takes away: it has no gradient.
    assert [name for name in same if not name.endswith("key.bias")] == []


def test_a_head_does_not_depend_on_the_others(tiny, model):
    alone = MultiHeadModel(PackedEncoder(tiny.model("roberta")))
    alone.add_head("topics", "multilabel", 4, seed=1)
    for name, value in alone.head("topics").state_dict().items():
        assert torch.equal(value, model.head("topics").state_dict()[name])
    alone.add_head("subjects", "multilabel", 4, seed=1)
    assert not torch.equal(alone.head("subjects").dense.weight, alone.head("topics").dense.weight)
    other = MultiHeadModel(PackedEncoder(tiny.model("roberta")))
    other.add_head("topics", "multilabel", 4, seed=2)
    assert not torch.equal(other.head("topics").dense.weight, alone.head("topics").dense.weight)


@pytest.mark.parametrize("kind", ["roberta", "modernbert", "deberta-v2"])
@torch.no_grad()
def test_saved_model_loads_again_and_its_encoder_is_stock(tiny, batch, tmp_path, kind):
    from transformers import AutoModel

    model = MultiHeadModel(PackedEncoder(tiny.model(kind)))
    model.add_head("ner", "tagging", 3, seed=1, labels=["O", "B-X", "I-X"])
    model.add_head("similarity-a", "regression", 1, seed=1, dropout=0.3)
    expected = model.eval()(batch)
    model.save(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["config.json", "heads.json", "heads.safetensors", "model.safetensors"]
    again = MultiHeadModel.load(tmp_path)
    assert not again.training
    assert again.specs == model.specs
    assert again.head("similarity-a").dropout.p == 0.3
    found = again(batch)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    sequences = tiny.sequences(9, 4, 6)
    stock = AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    hidden = again.encoder(batch)[:19]
    torch.testing.assert_close(hidden, tiny.alone(stock, sequences), rtol=0, atol=2e-5)


def test_saving_twice_gives_the_same_bytes(model, tmp_path):
    for name in ("a", "b"):
        model.save(tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_weights_have_flat_names(model, tmp_path):
    from safetensors.torch import load_file

    model.save(tmp_path)
    assert {"ner.classifier.weight", "nli_2.out_proj.bias", "similarity-a.dense.weight"} <= set(
        load_file(tmp_path / "heads.safetensors")
    )


@pytest.mark.parametrize("name", ["", "a.b", "a b", "keys", "type", "forward", "-x"])
def test_a_name_torch_cannot_hold_is_refused(model, name):
    with pytest.raises(RecipeError, match="cannot be named"):
        model.add_head(name, "tagging", 3, seed=0)


def test_mistakes_with_heads_are_told(model, batch):
    with pytest.raises(RecipeError, match="already"):
        model.add_head("ner", "tagging", 3, seed=0)
    with pytest.raises(ValueError, match="3 outputs but 2 labels"):
        model.add_head("other", "tagging", 3, labels=["a", "b"], seed=0)
    with pytest.raises(RecipeError, match="Did you mean 'topics'"):
        model(batch, ["topic"])


def test_a_head_follows_its_encoder_to_its_precision(tiny, batch):
    encoder = PackedEncoder(tiny.model("roberta"))
    encoder.bfloat16()
    model = MultiHeadModel(encoder)
    model.add_head("ner", "tagging", 3, seed=0)
    assert model(batch)["ner"].dtype == torch.bfloat16


def test_settings_in_an_older_file_are_ignored(model, tmp_path):
    model.save(tmp_path)
    content = json.loads((tmp_path / "heads.json").read_text())
    content["heads"]["ner"]["settings"] = {"scheme": "BIO"}
    (tmp_path / "heads.json").write_text(json.dumps(content))
    assert MultiHeadModel.load(tmp_path).specs == model.specs


def test_incomplete_folders_are_refused(model, tmp_path):
    model.encoder.save(tmp_path)
    with pytest.raises(ArtifactError, match="no heads"):
        MultiHeadModel.load(tmp_path)
    model.save(tmp_path)
    content = json.loads((tmp_path / "heads.json").read_text())
    (tmp_path / "heads.json").write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(ArtifactError, match="format 99"):
        MultiHeadModel.load(tmp_path)
    (tmp_path / "heads.json").write_text('{"format": 1, "heads": {"a": 3}}')
    with pytest.raises(ArtifactError, match="not a list of heads"):
        MultiHeadModel.load(tmp_path)
    del content["heads"]["topics"]
    (tmp_path / "heads.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match="broken or not those"):
        MultiHeadModel.load(tmp_path)
    (tmp_path / "heads.safetensors").write_bytes(b"")
    with pytest.raises(ArtifactError, match="are missing"):
        MultiHeadModel.load(tmp_path)


def test_a_full_disk_is_reported(model, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OutputError, match="size limit"):
            model.save(tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
