"""int8 graphs: small, close to the float graph, and the same for a text whatever is beside it in the batch."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from transformers import AlbertConfig, AutoModel, BertConfig, ModernBertConfig

from osler.nn.encoder import PackedEncoder
from osler.nn.multihead import MultiHeadModel
from osler.nn.onnx_graph import to_onnx
from osler.nn.onnx_int8 import _columns, quantise

SHAPE = {
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "vocab_size": 997,
}
NO_SPECIAL = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
CONFIGS = {
    "modernbert": ModernBertConfig(
        **SHAPE, max_position_embeddings=64, local_attention=16, pad_token_id=0, **NO_SPECIAL
    ),
    "bert": BertConfig(**SHAPE, max_position_embeddings=128),
    "albert": AlbertConfig(**SHAPE, embedding_size=128, max_position_embeddings=64),
}


@pytest.fixture(scope="module", params=CONFIGS)
def graphs(request) -> tuple[bytes, bytes]:
    torch.manual_seed(0)
    model = MultiHeadModel(PackedEncoder(AutoModel.from_config(CONFIGS[request.param]).eval()))
    model.add_head("tags", "tagging", 7, seed=0)
    model.add_head("class", "classification", 3, seed=0)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.05)
        if "norm" in name.lower() and parameter.ndim == 1 and "weight" in name:
            parameter.data[5] = 8.0  # one channel is far larger than the others, as in trained encoders
    plain = to_onnx(model.eval(), ["tags", "class"])
    return plain, quantise(plain)


def run(graph: bytes, ids: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return session.run(None, {item.name: values[item.name] for item in session.get_inputs()})


def test_an_int8_graph_is_close_and_a_text_does_not_depend_on_its_batch(graphs):
    plain, light = graphs
    rng = np.random.default_rng(0)
    ids, mask = rng.integers(5, 997, (5, 50)), np.ones((5, 50), dtype=np.int64)
    mask[2, 20:] = 0
    wanted, found = run(plain, ids, mask), run(light, ids, mask)
    for a, b in zip(wanted, found, strict=True):
        real = mask.astype(bool) if a.ndim == 3 else slice(None)
        assert np.abs(a - b)[real].mean() < 0.04 * np.abs(a[real]).mean()
    rows = np.array([2, 4])
    beside = run(light, np.concatenate([ids[rows], ids[:1] * 0 + 7]), np.concatenate([mask[rows], mask[:1]]))
    np.testing.assert_array_equal(beside[0][:2], found[0][rows])  # other texts of the same length: the same bits
    alone = run(light, ids[2:3, :20], mask[2:3, :20])
    np.testing.assert_allclose(alone[0][0], found[0][2, :20], atol=1e-3 * np.abs(found[0]).max())
    np.testing.assert_allclose(alone[1][0], found[1][2], atol=1e-3 * np.abs(found[1]).max())


def test_weights_and_embeddings_are_int8_and_heads_are_not(graphs):
    plain, light = graphs
    assert quantise(plain) == light
    weights = {item.name: numpy_helper.to_array(item) for item in onnx.load_from_string(light).graph.initializer}
    integers = [value for value in weights.values() if value.dtype == np.int8]
    assert sum(value.nbytes for value in integers) > 0.65 * sum(value.nbytes for value in weights.values())
    assert any(value.shape == (997, 128) for value in integers)
    assert any(sorted(value.shape) == [7, 128] for value in weights.values() if value.dtype == np.float32)
    assert len(light) < 0.4 * len(plain)


def test_columns_are_rounded_with_the_least_error():
    weight = np.random.default_rng(0).normal(size=(256, 8)).astype(np.float32)
    weight[:, 3] = 0.0
    weight[0, 5] = 8.0  # an outlier: the rest of its column keeps more precision if it is clipped a little
    values, scales = _columns(weight)
    assert values.dtype == np.int8
    assert np.abs(values).max() == 63  # seven bits, see the module
    plain = np.abs(weight).max(axis=0).clip(1e-12) / 63
    error = np.square(values * scales - weight).sum(axis=0)
    assert (error <= np.square(np.round(weight / plain) * plain - weight).sum(axis=0) * 1.0001).all()
    assert error[3] == 0.0
