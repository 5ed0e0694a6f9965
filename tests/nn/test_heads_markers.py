"""The head that reads two marks of each sequence."""

from __future__ import annotations

import pytest
import torch

from osler.nn.heads import HEADS
from osler.nn.packing import pack

MARKS = [(1, 3), (1, 0), (2, 2)]


@pytest.fixture
def batch():
    return pack([[5] * 4, [6] * 2, [7] * 3], pad_id=0, total=12, marks=MARKS)


@pytest.fixture
def head():
    torch.manual_seed(0)
    return HEADS.get("markers")(8, 3, 0.1).eval()


def test_marks_are_places_of_the_batch_and_move_with_it(batch):
    assert batch.marks.tolist() == [[1, 3], [5, 4], [8, 8]]
    assert batch.to("cpu").marks.tolist() == batch.marks.tolist()


@pytest.mark.parametrize("marks", [[(0, 4), (0, 1), (0, 1)], [(0, -1), (0, 1), (0, 1)], [(0, 1), (0, 1)]])
def test_marks_outside_their_sequence_are_refused(marks):
    with pytest.raises(ValueError, match="marks"):
        pack([[5] * 4, [6] * 2, [7] * 3], pad_id=0, marks=marks)


def test_only_the_marked_tokens_are_read_and_their_order_matters(batch, head):
    hidden = torch.randn(12, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    logits = head(hidden, batch)
    assert logits.shape == (3, 3)
    assert (head.kind, head.level) == ("markers", "sequence")
    head.loss(logits, torch.tensor([0, 1, 2]))[0].backward()
    assert (hidden.grad.abs().sum(dim=1) > 0).nonzero().flatten().tolist() == [1, 3, 4, 5, 8]
    turned = pack([[5] * 4, [6] * 2, [7] * 3], pad_id=0, total=12, marks=[(3, 1), (1, 0), (2, 2)])
    other = head(hidden, turned)
    assert not torch.allclose(other[0], logits[0])
    assert torch.equal(other[1:], logits[1:])


def test_every_parameter_changes_in_one_step(batch, head):
    before = {name: value.clone() for name, value in head.state_dict().items()}
    optimiser = torch.optim.SGD(head.parameters(), lr=0.1)
    hidden = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
    head.loss(head(hidden, batch), torch.tensor([0, 1, 2]))[0].backward()
    optimiser.step()
    assert [name for name, value in head.state_dict().items() if torch.equal(value, before[name])] == []


def test_a_batch_without_marks_is_refused(head):
    with pytest.raises(ValueError, match="two marks"):
        head(torch.zeros(4, 8), pack([[5] * 4], pad_id=0))
