"""The CUDA path in half precision, against float32 on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch

from osler.nn.encoder import PackedEncoder
from osler.nn.mlm import MaskedLM
from osler.nn.packing import pack

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

KINDS = ["bert", "roberta", "xlm-roberta", "camembert", "electra", "modernbert", "distilbert", "albert"]
# bfloat16 keeps 8 bits: 0.4 % a rounding, hidden states of size 1 to 5, three layers.
MEAN, WORST = 0.02, 0.25


def near(found, expected):
    difference = (found.float().cpu() - expected).abs()
    assert difference.mean() < MEAN
    assert difference.max() < WORST


@pytest.fixture(params=KINDS)
def stock(request, tiny):
    return tiny.model(request.param)


@torch.no_grad()
@pytest.mark.parametrize("static", [False, True])
def test_packed_equals_each_alone(tiny, stock, static):
    sequences = tiny.sequences(40, 1, 17, 30)
    expected = tiny.alone(stock, sequences)
    encoder = PackedEncoder(copy.deepcopy(stock)).cuda()
    shape = {"total": 160, "max_sequences": 12, "max_length": 64} if static else {}
    batch = pack(sequences, pad_id=encoder.config.pad_token_id, **shape).to("cuda")
    with torch.autocast("cuda", torch.bfloat16):
        found = encoder(batch)
    assert torch.isfinite(found).all()
    near(found[:88], expected)
    near(encoder.bfloat16()(batch)[:88], expected)


@torch.no_grad()
def test_float32_is_exact(tiny, stock):
    sequences = tiny.sequences(40, 1, 17, 30)
    found = PackedEncoder(copy.deepcopy(stock)).cuda()(pack(sequences, pad_id=1).to("cuda"))
    torch.testing.assert_close(found.cpu(), tiny.alone(stock, sequences), rtol=0, atol=1e-3)


@torch.no_grad()
def test_sequences_do_not_see_each_other(tiny, stock):
    encoder = PackedEncoder(stock).cuda().bfloat16()
    sequences = tiny.sequences(23, 8, 31)
    before = encoder(pack(sequences, pad_id=1).to("cuda"))
    sequences[1] = sequences[1][::-1].copy()
    after = encoder(pack(sequences, pad_id=1).to("cuda"))
    assert torch.equal(before[:23], after[:23])
    assert torch.equal(before[31:], after[31:])


@pytest.mark.parametrize("kind", ["roberta", "modernbert"])
def test_compiled_training_step_equals_the_plain_one(tiny, kind):
    model = MaskedLM(tiny.model(kind, "AutoModelForMaskedLM")).cuda()
    sequences = tiny.sequences(40, 1, 17, 30)
    positions, targets = torch.tensor([3, 50, 70, 0]).cuda(), torch.tensor([9, 8, 7, -100]).cuda()

    def step(run):
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss, _ = run(batch, positions, targets)
        loss.backward()
        return loss.item(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    torch._dynamo.utils.counters.clear()  # other tests compile too
    compiled = torch.compile(model)
    for order in (sequences, sequences[::-1], sequences[:3]):
        batch = pack(order, pad_id=1, total=160, max_sequences=12, max_length=64).to("cuda")
        plain_loss, plain = step(model)
        fast_loss, fast = step(compiled)
        assert fast_loss == pytest.approx(plain_loss, rel=0.02)
        assert torch.nn.functional.cosine_similarity(plain, fast, dim=0) > 0.99
    # Other documents in the same static shape are no reason to compile again.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2
