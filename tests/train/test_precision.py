from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from osler.core.errors import RecipeError
from osler.nn import attention
from osler.nn.attention import keep_out_of_graphs
from osler.train.config import TrainConfig
from osler.train.precision import CompiledLayers, choose_device, compiled


@pytest.mark.parametrize(
    ("choice", "device", "static", "expected"),
    [
        ("auto", "cuda", True, True),
        ("auto", "cuda", False, False),
        ("auto", "cpu", True, False),
        ("on", "cpu", False, True),
        ("layers", "cuda", True, True),
        ("layers", "cuda", False, False),
        ("off", "cuda", True, False),
    ],
)
def test_only_batches_of_one_shape_on_a_gpu_are_worth_compiling(monkeypatch, choice, device, static, expected):
    monkeypatch.setattr(torch, "compile", lambda module: "compiled")
    found = compiled(nn.Linear(1, 1), TrainConfig(compile=choice), torch.device(device), static=static)
    assert (found == "compiled") is expected


@pytest.mark.parametrize(
    ("name", "devices", "message"),
    [
        ("cuda", 0, "device = 'cuda', but no CUDA device is available. Set device to 'auto' or 'cpu'."),
        ("cuda:1", 1, "device = 'cuda:1', but there is one CUDA device: cuda:0. Set device to 'auto' or one of these."),
        ("gpu", 1, "unknown device 'gpu'. Set device to 'auto', 'cpu', 'cuda' or 'cuda:N'."),
    ],
)
def test_a_device_that_is_not_there_is_one_clear_error(monkeypatch, name, devices, message):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    with pytest.raises(RecipeError) as error:
        choose_device(name)
    assert str(error.value) == message


def test_the_cpu_is_chosen_where_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")


def test_reading_lengths_stays_out_of_compiled_graphs_but_the_compiler_is_not_imported_before():
    code = "import sys, osler.nn.attention; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    keep_out_of_graphs()
    assert attention._by_lengths.__wrapped__ is not attention._by_lengths
    assert torch._dynamo.eval_frame.innermost_fn(attention._by_lengths).__name__ == "_by_lengths"


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, hidden):
        return torch.tanh(self.inner(hidden)) + hidden


def test_compiled_layers_give_what_plain_ones_give_and_only_inside(monkeypatch):
    compiled_lengths, compile_for_real = [], torch.compile

    def backend(graph, inputs):
        compiled_lengths.append([tuple(tensor.shape) for tensor in inputs if isinstance(tensor, torch.Tensor)])
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda *given, **more: compile_for_real(*given, backend=backend, **more))
    stack = nn.ModuleList([_Layer(), _Layer()])
    inside = CompiledLayers(list(stack))
    for length in (5, 9, 3):
        hidden = torch.randn(length, 4, requires_grad=True)  # as what a layer gets from the one before
        expected = stack[1](stack[0](hidden))
        assert len(compiled_lengths) == (0 if length == 5 else 1)  # outside, nothing is compiled
        with inside():
            found = stack[1](stack[0](hidden))
        assert torch.equal(found, expected)
    assert len(compiled_lengths) == 1  # one piece of code for both layers and every length
    with pytest.raises(KeyError), inside():
        raise KeyError
    assert all("forward" not in vars(layer) for layer in stack)


def test_a_layer_that_cannot_be_compiled_runs_as_usual(monkeypatch):
    compile_for_real = torch.compile

    def backend(graph, inputs):
        raise RuntimeError("no compiler on this machine")

    monkeypatch.setattr(torch, "compile", lambda *given, **more: compile_for_real(*given, backend=backend, **more))
    layer, hidden = _Layer(), torch.randn(5, 4)
    with CompiledLayers([layer])():
        found = layer(hidden)
    assert torch.equal(found, layer(hidden))
