"""Recorded passes: what may share a recording, and on a GPU that replays give what plain passes give."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch
from train_toys import Toy, ToySource, config, weights

from osler.train.loop import train
from osler.train.replay import Replay, shape_of, tensors
from osler.train.source import Batch


def needs_gpu(test):
    return pytest.mark.gpu(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")(test))


@dataclass(frozen=True)
class Full:
    """A toy batch filled up to eight tokens; the labels of the rest are left out of the loss."""

    tokens: torch.Tensor
    labels: torch.Tensor
    head: str
    looks: bool = False
    repeatable: bool = True
    rest: dict = field(default_factory=dict)


class FullSource(ToySource):
    """The toy's batches, all of one shape; `every` head has its own recording."""

    looks = False

    def load(self, ref):
        batch = super().load(ref)
        given = batch.payload
        missing = 8 - len(given["tokens"])
        tokens = torch.nn.functional.pad(given["tokens"], (0, missing))
        labels = torch.nn.functional.pad(given["labels"], (0, missing), value=-100)
        return Batch(Full(tokens, labels, given["head"], looks=self.looks), batch.weight, batch.tokens)


class FullToy(Toy):
    def forward(self, payload):
        if (
            payload.looks and float(payload.tokens.float().mean()) < 0
        ):  # a look at the host, which no recording can hold
            raise AssertionError
        return super().forward({"tokens": payload.tokens, "labels": payload.labels, "head": payload.head})


def test_one_recording_serves_batches_that_differ_in_numbers_alone():
    batch = Full(torch.zeros(8, dtype=torch.long), torch.zeros(8), "a", rest={"x": [torch.ones(2)]})
    assert shape_of(batch) == shape_of(replace(batch, tokens=torch.ones(8, dtype=torch.long)))
    others = [
        replace(batch, tokens=torch.zeros(9, dtype=torch.long)),
        replace(batch, tokens=torch.zeros(8)),
        replace(batch, head="b"),
        replace(batch, rest={"x": [torch.ones(3)]}),
    ]
    assert len({shape_of(batch), *map(shape_of, others)}) == 5
    assert [tensor.shape[0] for tensor in tensors(batch)] == [8, 8, 2]


def _trained(folder, source, *, compile, **settings):
    module = FullToy(heads=("one", "two"))
    given = config(device="cuda", compile=compile, **settings)
    result = train(module, source, given, folder=folder)
    return [record["loss"] for record in result.history], weights(module)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("micro", [1, 3])
@needs_gpu
def test_replays_give_what_plain_passes_give_dropout_and_several_heads_included(
    tmp_path, monkeypatch, micro, precision
):
    replayed = []
    call = torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda graph: replayed.append(1) or call(graph))
    source = FullSource(30, micro=micro, heads=("one", "two"))
    plain, end = _trained(tmp_path / "plain", source, compile="off", precision=precision)
    assert not replayed
    losses, found = _trained(tmp_path / "replayed", source, compile="auto", precision=precision)
    assert len(replayed) >= 30 * micro - 4
    assert losses == pytest.approx(plain, rel=1e-4)
    for name in end:
        assert torch.allclose(found[name], end[name], atol=1e-4), name


@needs_gpu
def test_a_model_that_looks_at_numbers_is_run_as_usual(tmp_path):
    source = FullSource(12, heads=("one", "two"))
    plain, _ = _trained(tmp_path / "plain", source, compile="off")
    source.looks = True
    losses, _ = _trained(tmp_path / "looking", source, compile="auto")
    assert losses == pytest.approx(plain, rel=1e-4)


@needs_gpu
def test_gradients_of_recorded_and_plain_passes_add_up():
    module = FullToy(dropout=0.0).cuda()
    batches = [FullSource(9).load((step, 0)).payload for step in range(9)]

    def run(payload, scale):
        output = module(payload)
        (output.loss_sum * scale).backward()
        return replace(output, loss_sum=output.loss_sum.detach())

    replay = Replay(run, module, torch.device("cuda"))
    for payload in batches[:4]:
        replay(payload, 1.0)
        module.zero_grad(set_to_none=True)
    for payload in batches[4:]:
        replay(payload, 0.5)
    run(replace(batches[0], tokens=batches[0].tokens.cuda(), labels=batches[0].labels.cuda()), 0.5)
    replay(batches[1], 0.5)
    found = {name: parameter.grad.clone() for name, parameter in module.named_parameters()}
    module.zero_grad(set_to_none=True)
    for payload in [*batches[4:], batches[0], batches[1]]:
        run(replace(payload, tokens=payload.tokens.cuda(), labels=payload.labels.cuda()), 0.5)
    for name, parameter in module.named_parameters():
        assert torch.allclose(found[name], parameter.grad, atol=1e-5), name
