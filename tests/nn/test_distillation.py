"""Losses against a teacher by hand, and students made of a teacher's layers."""

from __future__ import annotations

import math

import pytest
import torch
from encoders import scores_at

from osler.core.errors import RecipeError
from osler.nn.distillation import SoftTargets, misalignment, projection_between, soft_loss
from osler.nn.heads import HEADS
from osler.nn.mlm import MaskedLM, evenly_spaced, of_layers
from osler.nn.packing import pack

LN2, LN3 = math.log(2), math.log(3)
NAN = float("nan")


def test_divergence_by_hand():
    """At T = 2 scores of 2·ln 3 and 0 are probabilities 3/4 and 1/4; an undecided student is 1/2 and 1/2."""
    teacher = torch.tensor([[2 * LN3, 0.0], [0.0, 0.0]])
    student = torch.tensor([[5.0, 5.0], [7.0, 7.0]])
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    found = SoftTargets.of(teacher, 2.0).divergence(student)
    assert found.tolist() == pytest.approx([4 * expected, 0.0], abs=1e-6)  # times T²


def test_the_temperature_leaves_the_size_of_gradients_as_it_was():
    """What T² is for: between nearly equal scores the gradient tends to (student - teacher) / V whatever T is."""
    torch.manual_seed(0)
    teacher = torch.randn(1, 6) * 1e-3
    norms = []
    for temperature in (1.0, 2.0, 8.0):
        student = torch.zeros(1, 6, requires_grad=True)
        SoftTargets.of(teacher, temperature).divergence(student).sum().backward()
        norms.append(float(student.grad.norm()))
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-2)


def test_the_k_likeliest_and_the_rest_by_hand():
    teacher = torch.tensor([[0.5, 0.25, 0.15, 0.1]]).log()
    student = torch.tensor([[0.2, 0.5, 0.1, 0.2]]).log()
    soft = SoftTargets.of(teacher, 1.0, top_k=1)
    assert soft.log_probabilities.exp()[0].tolist() == pytest.approx([0.5, 0.5])
    expected = 0.5 * math.log(0.5 / 0.2) + 0.5 * math.log(0.5 / 0.8)
    assert soft.divergence(student).tolist() == pytest.approx([expected], abs=1e-6)
    soft = SoftTargets.of(teacher, 1.0, top_k=2)
    expected = 0.5 * math.log(0.5 / 0.2) + 0.25 * math.log(0.25 / 0.5) + 0.25 * math.log(0.25 / 0.3)
    assert soft.divergence(student).tolist() == pytest.approx([expected], abs=1e-6)


def test_the_k_likeliest_never_say_more_than_all_and_agree_with_an_equal_student():
    torch.manual_seed(1)
    teacher, student = torch.randn(20, 50) * 4, torch.randn(20, 50)
    every = SoftTargets.of(teacher, 2.0).divergence(student)
    some = SoftTargets.of(teacher, 2.0, top_k=8)
    assert (some.divergence(student) <= every + 1e-4).all()  # joining outcomes never raises a divergence
    assert some.divergence(teacher).abs().max() < 1e-5
    whole = SoftTargets.of(teacher, 2.0, top_k=50)
    assert whole.tokens is None
    assert torch.equal(whole.divergence(student), every)


def test_a_teacher_that_is_certain_gives_a_finite_gradient():
    teacher = torch.tensor([[200.0, 0.0, 0.0, 0.0]])
    student = torch.tensor([[200.0, 0.0, 0.0, 1.0]], requires_grad=True)
    for top_k in (None, 2):
        loss = SoftTargets.of(teacher, 1.0, top_k).divergence(student).sum()
        (gradient,) = torch.autograd.grad(loss, student)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


def test_bfloat16_scores_are_compared_in_float32():
    torch.manual_seed(2)
    teacher, student = torch.randn(4, 500).bfloat16(), torch.randn(4, 500).bfloat16()
    found = SoftTargets.of(teacher, 2.0).divergence(student)
    assert found.dtype == torch.float32
    assert torch.equal(found, SoftTargets.of(teacher.float(), 2.0).divergence(student.float()))


def test_misalignment_is_the_mean_over_real_positions():
    batch = pack([[5, 6], [7]], pad_id=1, total=5)
    real = batch.input_ids != 1
    assert real.tolist() == [True, True, True, False, False]
    student = torch.tensor([[1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [NAN, NAN], [1.0, 1.0]])
    teacher = torch.tensor([[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    assert float(misalignment(student, teacher, real)) == pytest.approx((0.0 + 1.0 + 2.0) / 3)


def test_a_projection_only_where_the_widths_differ_and_the_same_for_the_same_seed():
    assert projection_between(8, 8, seed=1) is None
    one, again, other = (projection_between(8, 12, seed=seed) for seed in (1, 1, 2))
    assert one.weight.shape == (12, 8)
    assert torch.equal(one.weight, again.weight)
    assert not torch.equal(one.weight, other.weight)


def head(kind: str, labels: int):
    return HEADS.get(kind)(4, labels, 0.0)


def test_soft_losses_of_task_heads_by_hand():
    """Rows without a target have no loss; what the target is does not matter."""
    teacher = torch.tensor([[2 * LN3, 0.0], [9.0, -9.0]])
    student = torch.zeros(2, 2)
    row = 4 * (0.75 * math.log(1.5) + 0.25 * math.log(0.5))
    for kind in ("tagging", "classification"):
        for gold in (0, 1):
            found = soft_loss(head(kind, 2), student, teacher, torch.tensor([gold, -100]), 2.0)
            assert float(found) == pytest.approx(row, abs=1e-6)

    # Each label by itself: P(yes) = 3/4 against 1/2 for the first; the second label of the first row is unknown.
    targets = torch.tensor([[1.0, NAN], [NAN, NAN]])
    found = soft_loss(head("multilabel", 2), student, teacher, targets, 2.0)
    assert float(found) == pytest.approx(row, abs=1e-6)
    both = soft_loss(head("multilabel", 2), student, teacher, torch.tensor([[1.0, 0.0], [NAN, NAN]]), 2.0)
    assert float(both) == pytest.approx(row / 2, abs=1e-6)  # the teacher is undecided on the second label: no loss

    # The same for the attributes of a token; the row without a target has no loss.
    found = soft_loss(head("attributes", 2), student, teacher, torch.tensor([3, -100]), 2.0)
    assert float(found) == pytest.approx(row / 2, abs=1e-6)

    values, theirs = torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0], [9.0]])
    found = soft_loss(head("regression", 1), values, theirs, torch.tensor([0.0, NAN]), 2.0)
    assert float(found) == pytest.approx(9.0)


def test_an_unknown_kind_of_head_is_refused():
    odd = head("tagging", 2)
    odd.kind = "pointer"
    with pytest.raises(RecipeError, match="not supported for a pointer head"):
        soft_loss(odd, torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, dtype=torch.long), 2.0)


def test_even_layers_are_those_of_distilbert():
    assert evenly_spaced(6, 12) == (0, 2, 4, 7, 9, 11)
    assert evenly_spaced(1, 12) == (0,)
    assert evenly_spaced(12, 12) == tuple(range(12))


@pytest.mark.parametrize("kind", ["roberta", "bert", "distilbert", "modernbert"])
def test_a_student_of_all_layers_is_the_teacher_and_one_of_some_has_their_weights(tiny, tmp_path, kind):
    teacher = MaskedLM(tiny.model(kind, "AutoModelForMaskedLM"))
    batch = pack(tiny.sequences(9, 5), pad_id=1)
    positions = torch.tensor([0, 3, 11])
    state = torch.get_rng_state()
    twin = of_layers(teacher, (0, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(scores_at(twin, batch, positions), scores_at(teacher, batch, positions))

    student = of_layers(teacher, (0, 2))
    assert student.config.num_hidden_layers == 2
    ours, theirs = student.model.state_dict(), teacher.model.state_dict()
    assert len(ours) < len(theirs)
    for name, value in ours.items():
        source = next(old for old in (name.replace(".1.", ".2."), name) if old in theirs) if ".1." in name else name
        assert torch.equal(value, theirs[source]), name
        assert value.data_ptr() != theirs[source].data_ptr()
    # It is a model of its own: saved and loaded it says the same, and the kinds of its layers came along.
    student.save(tmp_path / kind)
    again = MaskedLM.load(tmp_path / kind)
    assert torch.equal(scores_at(again, batch, positions), scores_at(student, batch, positions))
    if kind == "modernbert":
        assert again.config.layer_types == [teacher.config.layer_types[0], teacher.config.layer_types[2]]


def test_layers_that_cannot_be_taken_are_named(tiny):
    teacher = MaskedLM(tiny.model("roberta", "AutoModelForMaskedLM"))
    for layers in ((), (1, 0), (0, 0), (0, 3), (-1, 0)):
        with pytest.raises(RecipeError, match="between 0 and 2"):
            of_layers(teacher, layers)
    with pytest.raises(RecipeError, match="cannot come first"):
        of_layers(MaskedLM(tiny.model("modernbert", "AutoModelForMaskedLM")), (1, 2))
    with pytest.raises(RecipeError, match="single layers of AlbertForMaskedLM is not supported"):
        of_layers(MaskedLM(tiny.model("albert", "AutoModelForMaskedLM")), (0,))
    student = of_layers(teacher, (0,), dropout=0.0)
    assert student.config.hidden_dropout_prob == student.config.attention_probs_dropout_prob == 0.0
    assert teacher.config.hidden_dropout_prob > 0
