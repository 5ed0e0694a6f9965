from __future__ import annotations

import pytest
import torch
from torch import nn

from osler.train.config import TrainConfig
from osler.train.precision import compiled


@pytest.mark.parametrize(
    ("choice", "device", "static", "expected"),
    [
        ("auto", "cuda", True, True),
        ("auto", "cuda", False, False),
        ("auto", "cpu", True, False),
        ("on", "cpu", False, True),
        ("off", "cuda", True, False),
    ],
)
def test_only_batches_of_one_shape_on_a_gpu_are_worth_compiling(monkeypatch, choice, device, static, expected):
    monkeypatch.setattr(torch, "compile", lambda module: "compiled")
    found = compiled(nn.Linear(1, 1), TrainConfig(compile=choice), torch.device(device), static=static)
    assert (found == "compiled") is expected
