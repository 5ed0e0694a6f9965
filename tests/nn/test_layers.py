from __future__ import annotations

import pytest
import torch
from torch import nn

from osler.nn.layers import HashedDropout, hashed_dropout, use_fast_layers


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
