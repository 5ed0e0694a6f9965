"""Heads and their losses: shapes, what counts, and that what does not count has no loss and no gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from osler.core.errors import UnknownNameError
from osler.nn.heads import HEADS
from osler.nn.heads.base import Head
from osler.nn.packing import pack

NAN = float("nan")


@pytest.fixture
def batch():
    return pack([[5] * 4, [6] * 2, [7] * 3], pad_id=0, total=12, max_sequences=6)


@pytest.fixture
def hidden():
    return torch.randn(12, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)


def head(kind, labels):
    torch.manual_seed(0)
    module = HEADS.get(kind)(8, labels, 0.1).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


@pytest.mark.parametrize(
    ("kind", "labels", "rows"),
    [("tagging", 5, 12), ("attributes", 3, 12), ("classification", 4, 3), ("multilabel", 6, 3), ("regression", 1, 3)],
)
def test_logits_have_one_row_a_token_or_a_real_sequence(batch, hidden, kind, labels, rows):
    module = head(kind, labels)
    assert (module.kind, module.level) == (kind, "token" if rows == 12 else "sequence")
    assert module(hidden, batch).shape == (rows, labels)


@torch.no_grad()
def test_sequence_heads_read_the_first_token_only(batch, hidden):
    module = head("classification", 4)
    before = module(hidden, batch)
    others = hidden.clone()
    others[[1, 2, 3, 5, 7, 8, 9, 10, 11]] = 9.0
    assert torch.equal(module(others, batch), before)
    first = hidden.clone()
    first[4] = 9.0
    changed = module(first, batch)
    assert torch.equal(changed[[0, 2]], before[[0, 2]])
    assert not torch.allclose(changed[1], before[1])


def test_attributes_are_bits_of_a_target_and_each_counts_alike(batch, hidden):
    module = head("attributes", 3)
    targets = torch.full((12,), -100)
    targets[1], targets[5] = 0b101, 0
    logits = module(hidden, batch)
    loss, count = module.loss(logits, targets)
    answers = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    expected = nn.functional.binary_cross_entropy_with_logits(logits[[1, 5]], answers, reduction="none").mean(1).sum()
    assert (loss.item(), count.item()) == (pytest.approx(expected.item()), 2)
    (gradient,) = torch.autograd.grad(loss, hidden)
    assert gradient.abs().sum(dim=1).nonzero().flatten().tolist() == [1, 5]


def test_tagging_ignores_what_has_no_target(batch, hidden):
    """Padding (9 to 11), special tokens (0, 3, 4, 6) and non-first sub-words (2, 8) have neither loss nor gradient."""
    module = head("tagging", 5)
    targets = torch.tensor([-100, 1, -100, -100, -100, 4, -100, 0, -100, -100, -100, -100])
    loss, count = module.loss(module(hidden, batch), targets)
    expected = -sum(module(hidden, batch).log_softmax(-1)[row, targets[row]] for row in (1, 5, 7))
    assert count.item() == 3
    torch.testing.assert_close(loss, expected)
    loss.backward()
    touched = hidden.grad.abs().sum(dim=1) > 0
    assert touched.nonzero().flatten().tolist() == [1, 5, 7]


def test_classification_ignores_sequences_without_target(batch, hidden):
    module = head("classification", 4)
    logits = module(hidden, batch)
    loss, count = module.loss(logits, torch.tensor([2, -100, 0]))
    logs = logits.log_softmax(-1)
    torch.testing.assert_close(loss, -(logs[0, 2] + logs[2, 0]))
    assert count.item() == 2
    loss.backward()
    assert (hidden.grad.abs().sum(dim=1) > 0).nonzero().flatten().tolist() == [0, 6]


def test_multilabel_ignores_unknown_labels_and_rows(batch, hidden):
    module = head("multilabel", 2)
    logits = module(hidden, batch)
    loss, count = module.loss(logits, torch.tensor([[1.0, 0.0], [NAN, NAN], [NAN, 1.0]]))
    yes, no = torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
    torch.testing.assert_close(loss, -(yes[0, 0] + no[0, 1]) / 2 - yes[2, 1])
    assert count.item() == 2
    loss.backward()
    assert torch.isfinite(hidden.grad).all()
    assert (hidden.grad.abs().sum(dim=1) > 0).nonzero().flatten().tolist() == [0, 6]


def test_regression_ignores_unknown_values(batch, hidden):
    module = head("regression", 1)
    logits = module(hidden, batch)
    loss, count = module.loss(logits, torch.tensor([2.5, NAN, 0.0]))
    torch.testing.assert_close(loss, (logits[0, 0] - 2.5) ** 2 + logits[2, 0] ** 2)
    assert count.item() == 2
    loss.backward()
    assert torch.isfinite(hidden.grad).all()
    assert (hidden.grad.abs().sum(dim=1) > 0).nonzero().flatten().tolist() == [0, 6]


NOTHING = {
    "tagging": (3, torch.full((12,), -100)),
    "classification": (3, torch.full((3,), -100)),
    "multilabel": (3, torch.full((3, 3), NAN)),
    "regression": (1, torch.full((3,), NAN)),
}


@pytest.mark.parametrize("kind", NOTHING)
def test_a_batch_without_targets_has_zero_loss_and_gradient(batch, hidden, kind):
    labels, targets = NOTHING[kind]
    module = head(kind, labels)
    loss, count = module.loss(module(hidden, batch), targets)
    loss.backward()
    assert (loss.item(), count.item()) == (0.0, 0.0)
    assert not hidden.grad.any()
    assert not any(parameter.grad.any() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("kind", "labels", "targets"),
    [
        ("classification", 4, torch.tensor([2, 1, -100])),
        ("multilabel", 2, torch.tensor([[1.0, 0.0], [0.0, 0.0], [NAN, NAN]])),
        ("regression", 1, torch.tensor([2.5, 1.0, NAN])),
    ],
)
def test_weights_count_a_row_that_many_times(batch, hidden, kind, labels, targets):
    module = head(kind, labels)
    logits = module(hidden, batch)
    loss, count = module.loss(logits, targets, torch.tensor([3.0, 0.5, 7.0]))
    single = [module.loss(logits[row : row + 1], targets[row : row + 1])[0] for row in (0, 1)]
    torch.testing.assert_close(loss, 3.0 * single[0] + 0.5 * single[1])
    assert count.item() == 3.5


def test_weights_of_answers_count_within_a_sequence_and_do_not_change_its_share(batch, hidden):
    module = head("multilabel", 2)
    logits = module(hidden, batch)
    targets = torch.tensor([[1.0, 0.0], [0.0, 0.0], [NAN, 1.0]])
    loss, count = module.loss(logits, targets, torch.tensor([[3.0, 0.5], [1.0, 1.0], [9.0, 2.0]]))
    yes, no = torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
    rows = -(3.0 * yes[0, 0] + 0.5 * no[0, 1]) / 2, -(no[1, 0] + no[1, 1]) / 2, -2.0 * yes[2, 1]
    torch.testing.assert_close(loss, sum(rows))
    assert count.item() == 3


def test_loss_in_half_precision_is_computed_in_single(batch):
    module = head("classification", 4)
    logits = torch.tensor([[30.0, 0.0, 0.0, 0.0]], dtype=torch.bfloat16)
    loss, _ = module.loss(logits, torch.tensor([1]))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(30.0, abs=1e-5)


def test_regression_has_one_output():
    with pytest.raises(ValueError, match="one output"):
        HEADS.get("regression")(8, 2)


def test_initial_weights_are_small():
    module = HEADS.get("classification")(64, 3)
    assert module.dense.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not module.out_proj.bias.any()


@torch.no_grad()
def test_a_linear_head_is_the_projection_of_the_first_token(batch, hidden):
    module = HEADS.get("classification")(8, 4, 0.1, layers="linear").eval()
    assert [name for name, _ in module.named_parameters()] == ["out_proj.weight", "out_proj.bias"]
    torch.testing.assert_close(module(hidden, batch), module.out_proj(hidden[[0, 4, 6]]))


def test_dropout_comes_before_the_dense_layer_of_an_mlp_but_not_of_a_pooler(batch, hidden):
    for layers, before in (("mlp", 2), ("pooler", 1), ("linear", 1)):
        module = HEADS.get("classification")(8, 4, 0.1, layers=layers)
        calls = []
        module.dropout.register_forward_hook(lambda module, given, output, calls=calls: calls.append(1))
        module(hidden, batch)
        assert len(calls) == before


def test_an_unknown_form_of_a_head_is_refused():
    with pytest.raises(ValueError, match="mlp, linear or pooler, not deep"):
        HEADS.get("multilabel")(8, 2, 0.1, layers="deep")


def test_a_plug_in_head_is_found_by_name(monkeypatch, batch, hidden):
    class Mean(Head):
        kind = "mean"
        level = "sequence"

        def __init__(self, hidden_size, num_labels, dropout=0.1):
            super().__init__(hidden_size, num_labels, dropout)
            self.out = nn.Linear(hidden_size, num_labels)

        def forward(self, hidden, batch):
            parts = hidden[: int(batch.lengths().sum())].split(batch.lengths().tolist())
            return self.out(torch.stack([part.mean(0) for part in parts]))

        def loss(self, logits, targets, weights=None):
            return nn.functional.cross_entropy(logits, targets, reduction="sum"), torch.tensor(float(len(targets)))

    with pytest.raises(UnknownNameError):
        HEADS.get("mean")
    monkeypatch.setitem(HEADS._objects, "mean", Mean)
    assert HEADS.get("mean")(8, 2)(hidden, batch).shape == (3, 2)
    with pytest.raises(UnknownNameError, match="Did you mean 'tagging'"):
        HEADS.get("taging")


def test_names_are_known_without_torch():
    import subprocess
    import sys

    code = "import sys; from osler.nn.heads import HEADS; print(HEADS.names()); assert 'torch' not in sys.modules"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "tagging" in result.stdout
