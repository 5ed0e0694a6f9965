"""Packed batches through complete models, against the stock model on each sequence alone."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from encoders import preset_encoder

from osler.core.errors import ArtifactError, InputError
from osler.nn import encoder as probe
from osler.nn.encoder import PackedEncoder, fresh_encoder, honours_registration, load_encoder
from osler.nn.packing import pack
from osler.nn.presets import Preset

PACKED = ["bert", "roberta", "xlm-roberta", "camembert", "electra", "modernbert", "distilbert", "albert"]
PADDED = ["deberta-v2", "mpnet"]
# float32, three layers, hidden states of size 1 to 5; only the order of sums differs.
TOLERANCE = 2e-5


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)


@pytest.fixture(params=PACKED + PADDED)
def kind(request):
    return request.param


@pytest.fixture
def stock(tiny, kind):
    return tiny.model(kind)


@pytest.fixture
def encoder(stock, kind):
    encoder = PackedEncoder(copy.deepcopy(stock))
    assert encoder.mode == ("packed" if kind in PACKED else "padded")
    return encoder


@torch.no_grad()
@pytest.mark.parametrize("lengths", [(40, 1, 17, 30), (3, 2, 9, 4), (20, 20)])
def test_packed_equals_each_alone(tiny, stock, encoder, lengths):
    sequences = tiny.sequences(*lengths)
    found = encoder(pack(sequences, pad_id=1))
    close(found, tiny.alone(stock, sequences))


@torch.no_grad()
def test_sequences_do_not_see_each_other(tiny, encoder):
    sequences = tiny.sequences(23, 8, 31)
    before = encoder(pack(sequences, pad_id=1))
    changed = [sequences[0], np.full(8, 7), sequences[2]]
    after = encoder(pack(changed, pad_id=1))
    assert torch.equal(before[:23], after[:23])
    assert torch.equal(before[31:], after[31:])
    assert not torch.allclose(before[23:31], after[23:31], atol=1e-2)


@torch.no_grad()
def test_static_shape_changes_nothing(tiny, stock, encoder):
    sequences = tiny.sequences(23, 8, 31)
    batch = pack(sequences, pad_id=encoder.config.pad_token_id, total=128, max_sequences=9, max_length=40)
    found = encoder(batch)
    assert found.shape == (128, 32)
    assert torch.isfinite(found).all()
    close(found[:62], tiny.alone(stock, sequences))


def test_gradients_are_those_of_padded_rows(tiny, stock, encoder):
    sequences = tiny.sequences(23, 8, 31)
    direction = torch.randn(62, 32, generator=torch.Generator().manual_seed(3))
    (tiny.alone(stock, sequences) * direction).sum().backward()
    batch = pack(sequences, pad_id=encoder.config.pad_token_id, total=70)
    (encoder(batch)[:62] * direction).sum().backward()
    expected = dict(stock.named_parameters())
    assert any(parameter.grad.abs().max() > 1 for parameter in expected.values() if parameter.grad is not None)
    for name, parameter in encoder.model.named_parameters():
        if parameter.grad is None:
            assert expected[name].grad is None
            continue
        scale = expected[name].grad.abs().max().clamp(min=1)
        torch.testing.assert_close(parameter.grad / scale, expected[name].grad / scale, rtol=0, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["bert", "electra", "deberta-v2"])
def test_token_types_reach_the_model(tiny, kind):
    stock = tiny.model(kind)
    encoder = PackedEncoder(copy.deepcopy(stock))
    (ids,) = tiny.sequences(12)
    types = np.array([0] * 5 + [1] * 7)
    found = encoder(pack([ids[:4], ids], token_types=[types[:4], types], pad_id=0))[4:]
    with_types = stock(input_ids=torch.as_tensor(ids)[None], token_type_ids=torch.as_tensor(types)[None])[0][0]
    close(found, with_types)
    assert not torch.allclose(found, tiny.alone(stock, [ids]), atol=1e-2)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["roberta", "modernbert", "mpnet"])
def test_token_types_are_dropped_where_the_model_has_one_type(tiny, kind):
    stock = tiny.model(kind)
    (ids,) = tiny.sequences(6)
    found = PackedEncoder(copy.deepcopy(stock))(pack([ids], token_types=[[0, 0, 0, 1, 1, 1]], pad_id=1))
    close(found, tiny.alone(stock, [ids]))


@pytest.mark.parametrize(("kind", "expected"), [("roberta", True), ("mpnet", False), ("deberta-v2", False)])
def test_the_probe_tries_and_leaves_the_model_as_it_was(tiny, monkeypatch, kind, expected):
    monkeypatch.setattr(probe, "_known", {})
    model = tiny.model(kind).train()
    before = model.config._attn_implementation
    assert honours_registration(model) is expected
    assert model.config._attn_implementation == before
    assert model.training


def test_the_probe_notices_a_leak(tiny, monkeypatch):
    monkeypatch.setattr(probe, "_known", {})
    model = tiny.model("bert")
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda **inputs: forward(**inputs | _one_sequence(inputs)))
    assert not honours_registration(model)


def test_the_verdict_is_remembered_for_each_configuration(tiny, monkeypatch):
    monkeypatch.setattr(probe, "_known", {})
    leaking, other = tiny.model("bert"), tiny.model("bert")
    other.config.layer_norm_eps = 1e-6  # any setting may change what a class does
    forward = leaking.forward
    monkeypatch.setattr(leaking, "forward", lambda **inputs: forward(**inputs | _one_sequence(inputs)))
    assert not honours_registration(leaking)
    assert honours_registration(other)
    monkeypatch.setattr(other, "forward", None)  # a second probe would fail
    other.config._name_or_path = "a copy in another folder"
    assert honours_registration(other.half())


def _one_sequence(inputs):
    """Take the borders between packed sequences away."""
    if "cu_seq_lens_q" not in inputs:
        return {}
    borders = inputs["cu_seq_lens_q"][[0, -1]]
    return {"cu_seq_lens_q": borders, "max_length_q": int(borders[-1])}


def test_padded_on_request_keeps_attention_dropout(tiny):
    config = tiny.config("bert")
    config.hidden_dropout_prob, config.attention_probs_dropout_prob = 0.0, 0.5
    from transformers import BertModel

    batch = pack(tiny.sequences(20, 11), pad_id=0)
    model = BertModel(config, add_pooling_layer=False).train()
    packed = PackedEncoder(model)
    assert torch.equal(packed(batch), packed(batch))
    padded = PackedEncoder(model, mode="padded")
    assert padded.mode == "padded"
    assert not torch.allclose(padded(batch), padded(batch))
    # The first encoder must not go on with an attention that knows no borders.
    with pytest.raises(RuntimeError, match="changed from outside"):
        packed(batch)


def test_packed_on_request_is_refused_where_it_would_leak(tiny):
    with pytest.raises(ValueError, match="MPNetModel cannot run packed"):
        PackedEncoder(tiny.model("mpnet"), mode="packed")


@pytest.mark.parametrize(("kind", "length"), [("roberta", 64), ("bert", 66), ("modernbert", 66), ("mpnet", 64)])
@torch.no_grad()
def test_max_length_is_what_the_model_takes(tiny, kind, length):
    encoder = PackedEncoder(tiny.model(kind))
    assert (encoder.max_length, encoder.hidden_size, encoder.vocab_size) == (length, 32, 120)
    assert encoder(pack(tiny.sequences(length), pad_id=1)).shape == (length, 32)
    with pytest.raises(ValueError, match=f"takes {length}"):
        encoder(pack(tiny.sequences(length + 1), pad_id=1))


@torch.no_grad()
def test_saved_encoder_is_a_stock_folder_and_loads_again(tiny, tmp_path, encoder):
    from transformers import AutoModel

    sequences = tiny.sequences(19, 6)
    encoder.save(tmp_path / "encoder")
    assert sorted(path.name for path in (tmp_path / "encoder").iterdir()) == ["config.json", "model.safetensors"]
    assert "osler" not in (tmp_path / "encoder" / "config.json").read_text()
    stock = AutoModel.from_pretrained(tmp_path / "encoder", attn_implementation="eager").eval()
    found = encoder(pack(sequences, pad_id=1))
    close(found, tiny.alone(stock, sequences))
    again = load_encoder(tmp_path / "encoder")
    assert (again.mode, again.training) == (encoder.mode, False)
    assert torch.equal(again(pack(sequences, pad_id=1)), found)


@torch.no_grad()
def test_half_precision_weights_load_in_float32(tiny, tmp_path):
    encoder = PackedEncoder(tiny.model("roberta"))
    encoder.model.bfloat16()
    encoder.save(tmp_path)
    assert {parameter.dtype for parameter in load_encoder(tmp_path).parameters()} == {torch.float32}


def test_a_fresh_encoder_has_the_shape_and_none_of_the_weights(tiny, tmp_path):
    encoder = PackedEncoder(tiny.model("electra").bfloat16())
    encoder.save(tmp_path)
    fresh, again, other = (fresh_encoder(tmp_path, seed=seed) for seed in (1, 1, 2))
    trained = encoder.float().state_dict()
    for name, value in fresh.state_dict().items():
        assert (value.shape, value.dtype) == (trained[name].shape, torch.float32)
        assert torch.equal(value, again.state_dict()[name])
    weight = "model.encoder.layer.0.attention.self.query.weight"
    assert not torch.allclose(fresh.state_dict()[weight], trained[weight], atol=1e-3)
    assert not torch.equal(fresh.state_dict()[weight], other.state_dict()[weight])
    assert not fresh.training


def broken(folder, how):
    folder.mkdir()
    weights = folder / "model.safetensors"
    PackedEncoder(preset_encoder(Preset(4, 256, 4, 1024), vocab_size=50, pad_token_id=1, seed=0).model).save(folder)
    if how == "no config":
        (folder / "config.json").unlink()
    elif how == "config is not JSON":
        (folder / "config.json").write_text("{")
    elif how == "no weights":
        weights.unlink()
    elif how == "pickle":
        weights.rename(folder / "pytorch_model.bin")
    elif how == "cut short":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif how == "other shapes":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 51}))
    elif how == "layers missing":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 5}))
    elif how == "code of its own":
        config = json.loads((folder / "config.json").read_text())
        remote = {"model_type": "unheard-of", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
        (folder / "config.json").write_text(json.dumps(config | remote))
        (folder / "evil.py").write_text("raise SystemExit('code of a model folder was run')")
    return folder


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no config", "no config.json"),
        ("config is not JSON", "cannot be loaded"),
        ("no weights", "no model.safetensors"),
        ("pickle", "pickle .*pytorch_model.bin.*osler convert-model"),
        ("cut short", "cannot be loaded"),
        ("other shapes", "cannot be loaded"),
        ("layers missing", "16 weights of RobertaModel are missing"),
        ("code of its own", "cannot be loaded"),
    ],
)
def test_a_folder_that_is_not_a_complete_model_is_refused(tmp_path, how, message):
    with pytest.raises(ArtifactError, match=message) as caught:
        load_encoder(broken(tmp_path / "model", how))
    assert "model" in caught.value.where


def test_a_wrong_name_is_reported(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        load_encoder(tmp_path / "nothing")
    with pytest.raises(InputError, match="no such model"):
        load_encoder("osler-test-owner/no-such-model")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="this is a file"):
        load_encoder(tmp_path / "file")


def test_a_hub_name_is_read_from_the_local_cache(tiny, tmp_path, monkeypatch):
    PackedEncoder(tiny.model("bert")).save(tmp_path)
    asked = {}

    def snapshot(name, allow_patterns):
        asked[name] = allow_patterns
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert load_encoder("owner/name").config.model_type == "bert"
    assert not any(pattern.endswith((".bin", ".py", "*")) for pattern in asked["owner/name"])
