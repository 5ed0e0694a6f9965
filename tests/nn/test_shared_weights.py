from __future__ import annotations

import json

import numpy as np
import pytest

from osler.nn.shared_weights import SharedWeight, make_integers, read_shared, write_scales


def _store(folder, **tensors: tuple[str, np.ndarray]) -> None:
    """A safetensors file by hand: the library's own writer for bfloat16 needs torch."""
    header, data = {}, b""
    for name, (dtype, values) in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)


def _rounded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The upper halves of float32 numbers, and the numbers they stand for."""
    halves = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return halves, (halves.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("transposed", [False, True])
def test_integers_come_back_from_weights_and_scales(tmp_path, transposed):
    halves, weight = _rounded(np.random.default_rng(1).normal(size=(6, 4)))
    used = weight.T if transposed else weight
    scales = np.abs(used).max(axis=0).astype(np.float32) / 63
    _store(tmp_path, other=("BF16", halves[:1]), dense=("BF16", halves))
    write_scales(tmp_path, {"w.scale": scales})
    found = read_shared(tmp_path, {"w.int8": SharedWeight("dense", transposed, 63)})
    assert found["w.int8"].dtype == np.int8
    assert np.array_equal(found["w.int8"], make_integers(used, scales, 63))
    assert np.abs(found["w.int8"] * scales - used).max() <= scales.max() / 2 + 1e-6
    assert np.array_equal(found["w.scale"], scales)


def test_integers_stay_within_their_levels():
    assert make_integers(np.array([[9.0, -9.0, 0.4]]), np.float32(1.0), 7).tolist() == [[7, -7, 0]]


def test_weights_of_another_type_are_refused(tmp_path):
    _store(tmp_path, dense=("F32", np.ones((2, 2), dtype=np.float32)))
    write_scales(tmp_path, {"w.scale": np.ones(2, dtype=np.float32)})
    with pytest.raises(ValueError, match="dense is F32, not BF16"):
        read_shared(tmp_path, {"w.int8": SharedWeight("dense", False, 63)})
