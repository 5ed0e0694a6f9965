from __future__ import annotations

import pytest
import torch
from torch import nn

from osler.nn import layers
from osler.nn.layers import HashedDropout, hashed_dropout, use_fast_layers, use_fast_products


def test_a_share_is_dropped_and_the_rest_scaled_up():
    torch.manual_seed(1)
    result = hashed_dropout(torch.ones(400, 768), 0.1)
    assert result.unique().tolist() == pytest.approx([0.0, 1.0 / 0.9])
    dropped = result == 0
    assert abs(float(dropped.float().mean()) - 0.1) < 0.002
    # Neither rows nor columns are favoured, and neighbours are independent.
    assert float((dropped.float().mean(0) - 0.1).abs().max()) < 0.1
    assert float((dropped.float().mean(1) - 0.1).abs().max()) < 0.06
    together = (dropped[:, 1:] & dropped[:, :-1]).float().mean()
    below = (dropped[1:] & dropped[:-1]).float().mean()
    assert abs(float(together) - 0.01) < 0.002
    assert abs(float(below) - 0.01) < 0.002


def test_it_repeats_with_the_generator_and_differs_from_call_to_call():
    torch.manual_seed(7)
    first, second = (hashed_dropout(torch.ones(50, 64), 0.3) for _ in range(2))
    torch.manual_seed(7)
    again = hashed_dropout(torch.ones(50, 64), 0.3)
    assert torch.equal(first, again)
    both = ((first == 0) & (second == 0)).float().mean()
    assert abs(float(both) - 0.09) < 0.03


def test_gradients_pass_where_values_do():
    values = torch.ones(100, 10, requires_grad=True)
    result = hashed_dropout(values, 0.5)
    result.sum().backward()
    assert torch.equal(values.grad, result.detach())


def test_elsewhere_it_is_the_plain_dropout():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.4))
    use_fast_layers(model)
    assert type(model[1]) is HashedDropout
    values = torch.ones(20, 8)
    torch.manual_seed(3)
    found = model[1](values)
    torch.manual_seed(3)
    assert torch.equal(found, nn.functional.dropout(values, 0.4))
    assert torch.equal(model[1].eval()(values), values)


AMD = {"cpu_name": "AMD EPYC", "amx_tile": False}


@pytest.fixture
def precision(monkeypatch):
    """Sets what the machine is, and returns the precision of products that it gets."""
    before = torch.get_float32_matmul_precision()

    def chosen(cpu, *, gpu=False, asked="highest", exact=None):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: cpu, raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
        if exact is not None:
            monkeypatch.setattr(layers, "_products_are_exact", lambda: exact)
        torch.set_float32_matmul_precision(asked)
        use_fast_products.__wrapped__()
        return torch.get_float32_matmul_precision()

    yield chosen
    torch.set_float32_matmul_precision(before)


def test_products_on_the_cpus_of_amd_are_faster_and_stay_exact(precision):
    assert precision(AMD, exact=True) == "medium"
    assert precision(AMD, exact=False) == "highest"


@pytest.mark.parametrize(
    ("cpu", "more"),
    [
        ({"cpu_name": "Intel(R) Xeon(R)", "amx_tile": False}, {}),
        ({"cpu_name": "AMD of the future", "amx_tile": True}, {}),  # it would round to bfloat16
        ({}, {}),  # an older torch
        (AMD, {"gpu": True}),
        (AMD, {"asked": "high"}),
    ],
)
def test_products_stay_as_they_are_elsewhere(precision, cpu, more):
    assert precision(cpu, exact=True, **more) == more.get("asked", "highest")


def test_rounded_products_are_recognised(monkeypatch):
    assert layers._products_are_exact()
    multiply = torch.Tensor.__matmul__

    def rounded(left, right):
        if left.dtype != torch.float32:
            return multiply(left, right)
        return multiply(left.bfloat16().float(), right.bfloat16().float())

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert not layers._products_are_exact()
