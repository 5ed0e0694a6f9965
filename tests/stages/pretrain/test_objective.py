"""The distilling objective as the loop calls it: its arithmetic, what it trains, and what it leaves alone."""

from __future__ import annotations

import pytest
import torch
from encoders import preset_lm, scores
from torch.nn.functional import cosine_similarity, cross_entropy, kl_div, log_softmax

from osler.nn.masking import MaskingVocabulary
from osler.nn.mlm import MaskedLM
from osler.nn.packing import pack
from osler.stages.pretrain.config import Distillation
from osler.stages.pretrain.data import MaskedBatch
from osler.stages.pretrain.objective import DistillingLanguageModelling, MaskedLanguageModelling
from osler.train.checkpoint import module_tensors
from osler.train.config import TrainConfig
from osler.train.optim import Optimiser

SIZE, PAD = 70, 1
VOCABULARY = MaskingVocabulary(SIZE, PAD, 4, frozenset(range(5)), (0,), (2,))


def model(preset: str, seed: int, size: int = SIZE) -> MaskedLM:
    made = preset_lm(
        preset, vocab_size=size, pad_token_id=PAD, max_length=32, bos_token_id=0, eos_token_id=2, dropout=0.0, seed=seed
    )
    with torch.no_grad():  # far from uniform, so that a mistake shows
        for parameter in made.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3.0)
    return made


def objective(student: str = "tiny", teacher: MaskedLM | None = None, **settings) -> DistillingLanguageModelling:
    teacher = teacher or model("small", 2)
    values = Distillation(teacher="unused", **settings)
    return DistillingLanguageModelling(model(student, 1), teacher, values, VOCABULARY, seed=1).train()


def payload() -> MaskedBatch:
    """Two sequences and two tokens of padding; of four places to fill the last has no target."""
    batch = pack([[0, 10, 4, 30, 2], [0, 4, 33, 2]], pad_id=PAD, total=11, max_length=32)
    return MaskedBatch(batch, torch.tensor([2, 3, 6, 0]), torch.tensor([20, 30, 21, -100]))


def test_the_loss_is_the_weighted_sum_of_the_three_means():
    made = objective(mlm=5.0, kl=2.0, temperature=2.0, cosine=1.0)
    data = payload()
    places, targets = data.positions[:3], data.targets[:3]
    with torch.no_grad():
        hidden, seen = made.model.hidden(data.batch), made.teacher.hidden(data.batch)
        ours, theirs = scores(made.model, hidden[places]), scores(made.teacher, seen[places])
        projected = made.projection(hidden)
    assert ours.shape == theirs.shape == (3, SIZE)
    mlm = cross_entropy(ours, targets)
    kl = 4 * kl_div(log_softmax(ours / 2, -1), log_softmax(theirs / 2, -1), reduction="batchmean", log_target=True)
    cosine = (1 - cosine_similarity(projected, seen, dim=-1))[:9].mean()

    output = made(data)
    logs = {name: float(value) for name, value in output.logs.items()}
    assert logs == pytest.approx({"loss/mlm": float(mlm), "loss/kl": float(kl), "loss/cosine": float(cosine)}, rel=1e-5)
    # The loop divides by the weight of the batch, its three masked positions.
    assert float(output.loss_sum.detach()) / 3 == pytest.approx(float(5 * mlm + 2 * kl + cosine), rel=1e-5)


def test_without_alignment_there_is_no_projection_and_equal_widths_need_none():
    assert objective(cosine=0.0).projection is None
    assert "loss/cosine" not in objective(cosine=0.0)(payload()).logs
    alike = objective("small", cosine=1.0)
    assert alike.projection is None
    assert float(alike(payload()).logs["loss/cosine"]) > 0


def test_a_student_equal_to_its_teacher_has_nothing_to_learn_from_it():
    made = objective("small", model("small", 1), cosine=1.0)
    logs = made(payload()).logs
    assert float(logs["loss/kl"]) == pytest.approx(0.0, abs=1e-5)
    assert float(logs["loss/cosine"]) == pytest.approx(0.0, abs=1e-5)
    assert float(logs["loss/mlm"]) > 0.1


def test_entries_that_only_the_teacher_has_are_no_part_of_its_distribution():
    """A teacher with a longer table: the student is compared on the tokenizer's entries alone."""
    long = model("small", 2, size=150)
    made = objective(teacher=long)
    data = payload()
    places = data.positions[:3]
    ours = scores(made.model, made.model.hidden(data.batch)[places]).detach()
    theirs = scores(long, long.hidden(data.batch)[places])[:, :SIZE]
    kl = 4 * kl_div(log_softmax(ours / 2, -1), log_softmax(theirs / 2, -1), reduction="batchmean", log_target=True)
    assert float(made(data).logs["loss/kl"]) == pytest.approx(float(kl), rel=1e-5)


def test_the_likeliest_tokens_alone_say_less_and_the_gradient_stays_finite():
    every, some = objective(), objective(top_k=4)
    data = payload()
    assert 0 < float(some(data).logs["loss/kl"]) < float(every(data).logs["loss/kl"])
    some(data).loss_sum.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in some.parameters())


def test_evaluation_is_the_plain_loss_and_does_not_run_the_teacher(monkeypatch):
    made = objective(cosine=1.0).eval()
    plain = MaskedLanguageModelling(made.model).eval()

    def refuse(_batch):
        raise AssertionError("the teacher ran")

    monkeypatch.setattr(made.teacher, "hidden", refuse)
    assert torch.equal(made(payload()).loss_sum, plain(payload()).loss_sum)
    with pytest.raises(AssertionError, match="the teacher ran"):
        made.train()(payload())


def test_the_teacher_makes_one_pass_over_a_micro_batch(monkeypatch):
    made = objective(cosine=1.0)
    passes = []
    run = made.teacher.hidden
    monkeypatch.setattr(made.teacher, "hidden", lambda batch: passes.append(1) or run(batch))
    made(payload()).loss_sum.backward()
    assert len(passes) == 1


def test_a_step_moves_student_and_projection_and_nothing_of_the_teacher():
    made = objective(cosine=1.0)
    taught = {name: value.clone() for name, value in made.teacher.state_dict().items()}
    before = {name: value.clone() for name, value in module_tensors(made).items()}
    optimiser = Optimiser(made, TrainConfig(lr=1e-2, weight_decay=0.0))
    assert "projection.weight" in before
    assert {id(parameter) for parameter in made.parameters()} == {id(own) for own in optimiser.parameters}
    assert not any(parameter is own for parameter in made.teacher.parameters() for own in optimiser.parameters)
    made(payload()).loss_sum.backward()
    optimiser.set_lr(1.0)
    optimiser.step(torch.tensor(False))
    after = module_tensors(made)
    assert all(torch.equal(value, made.teacher.state_dict()[name]) for name, value in taught.items())
    assert all(parameter.grad is None for parameter in made.teacher.parameters())
    still = [name for name, value in before.items() if torch.equal(value, after[name])]
    assert still == []
    # What is saved of a run is the student and its projection; the numbers tell.
    student = sum(parameter.numel() for parameter in made.model.parameters())
    assert sum(value.numel() for value in after.values()) == student + sum(
        p.numel() for p in made.projection.parameters()
    )


def test_the_teacher_is_frozen():
    made = objective(teacher=model("small", 2).train())
    assert not made.teacher.training
    assert not any(parameter.requires_grad for parameter in made.teacher.parameters())


def test_the_teacher_goes_along_to_another_device_and_stays_in_evaluation_mode():
    made = objective()
    made.to(torch.device("meta"))
    assert {parameter.device.type for parameter in made.teacher.parameters()} == {"meta"}
    made.train()
    assert not made.teacher.training


def test_a_compiled_pass_is_one_graph_for_batches_of_any_number_of_sequences(monkeypatch):
    """Attention on a CPU reads lengths as numbers, which no graph can hold; the one on a GPU does not, so it is left out here."""
    from torch._dynamo.testing import CompileCounter

    made, counter = objective(cosine=1.0, top_k=4), CompileCounter()
    attend = lambda query, key, value, *_: (value + query * key).transpose(1, 2)  # noqa: E731
    monkeypatch.setattr("osler.nn.attention._by_lengths", attend)
    compiled = torch.compile(made, backend=counter, fullgraph=True)
    for count in (2, 3, 5):
        batch = pack([[0, 4, 9, 2]] * count, pad_id=PAD, total=24, max_length=32, max_sequences=8)
        data = MaskedBatch(batch, torch.tensor([1, 2, 5, 0]), torch.tensor([20, 30, 21, -100]))
        assert float(compiled(data).loss_sum.detach()) == pytest.approx(float(made(data).loss_sum.detach()), rel=1e-4)
    assert counter.frame_count == 1
