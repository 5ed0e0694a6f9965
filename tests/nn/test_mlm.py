from __future__ import annotations

import copy

import pytest
import torch
from encoders import preset_lm, scores_at
from torch.nn.functional import cross_entropy

from osler.core.errors import ArtifactError, InputError
from osler.nn.encoder import PackedEncoder, load_encoder
from osler.nn.mlm import MaskedLM
from osler.nn.packing import pack

KINDS = [
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "electra",
    "modernbert",
    "distilbert",
    "albert",
    "mpnet",
    "deberta-v2",
]
# float32; logits of size 1 in these models.
TOLERANCE = 2e-5


@pytest.fixture(params=KINDS)
def stock(request, tiny):
    return tiny.model(request.param, "AutoModelForMaskedLM")


def stock_logits(model, sequences):
    return torch.cat([model(input_ids=torch.as_tensor(ids)[None]).logits[0] for ids in sequences])


@torch.no_grad()
def test_logits_at_masked_positions_are_those_of_the_stock_model(tiny, stock):
    sequences = tiny.sequences(21, 4, 13)
    positions = torch.tensor([0, 20, 22, 37, 5])
    expected = stock_logits(stock, sequences)[positions]
    found = scores_at(MaskedLM(copy.deepcopy(stock)), pack(sequences, pad_id=1, total=50), positions)
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)
    assert expected.std() > 0.05


def test_loss_and_gradients_are_those_of_the_stock_model(tiny, stock):
    sequences = tiny.sequences(21, 4, 13)
    positions = torch.tensor([0, 20, 22, 37, 0])
    targets = torch.tensor([9, 50, 119, 7, -100])
    expected = cross_entropy(stock_logits(stock, sequences)[positions[:4]], targets[:4], reduction="sum")
    expected.backward()
    model = MaskedLM(copy.deepcopy(stock))
    loss, count = model(pack(sequences, pad_id=1), positions, targets)
    loss.backward()
    assert count.item() == 4
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=0)
    theirs = dict(stock.named_parameters())
    for name, parameter in model.model.named_parameters():
        if theirs[name].grad is not None:
            scale = theirs[name].grad.abs().max().clamp(min=1)
            torch.testing.assert_close(parameter.grad / scale, theirs[name].grad / scale, rtol=0, atol=2e-4)


def test_ignored_targets_have_no_loss_and_no_gradient(tiny):
    model = MaskedLM(tiny.model("roberta", "AutoModelForMaskedLM"))
    loss, count = model(pack(tiny.sequences(9), pad_id=1), torch.tensor([1, 2]), torch.tensor([-100, -100]))
    loss.backward()
    assert (loss.item(), count.item()) == (0.0, 0.0)
    assert not any(parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


@torch.no_grad()
def test_saved_model_is_a_stock_folder(tiny, stock, tmp_path):
    from transformers import AutoModelForMaskedLM

    sequences = tiny.sequences(12, 5)
    batch, everywhere = pack(sequences, pad_id=1), torch.arange(17)
    model = MaskedLM(stock)
    found = scores_at(model, batch, everywhere)
    model.save(tmp_path)
    assert "osler" not in (tmp_path / "config.json").read_text()
    again = AutoModelForMaskedLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    torch.testing.assert_close(found, stock_logits(again, sequences), rtol=0, atol=TOLERANCE)
    assert torch.equal(scores_at(MaskedLM.load(tmp_path), batch, everywhere), found)
    torch.testing.assert_close(load_encoder(tmp_path)(batch), model.hidden(batch), rtol=0, atol=1e-6)


def test_an_encoder_folder_without_the_head_is_refused(tiny, tmp_path):
    PackedEncoder(tiny.model("roberta")).save(tmp_path)
    with pytest.raises(ArtifactError, match="weights of RobertaForMaskedLM are missing, lm_head"):
        MaskedLM.load(tmp_path)


def test_an_unknown_head_is_refused(tiny):
    with pytest.raises(InputError, match="head of BertModel"):
        MaskedLM(tiny.model("bert"))


def test_a_preset_learns_and_depends_on_its_seed():
    def make(seed):
        return preset_lm("tiny", vocab_size=60, pad_token_id=1, max_length=32, dropout=0.0, seed=seed)

    model = make(3).train()
    assert (model.mode, model.max_length, model.vocab_size, model.hidden_size) == ("packed", 32, 60, 128)
    same, other = make(3).state_dict(), make(4).state_dict()
    assert all(torch.equal(value, same[name]) for name, value in model.state_dict().items())
    assert any(not torch.equal(value, other[name]) for name, value in model.state_dict().items())
    batch = pack([list(range(5, 30)), list(range(30, 50))], pad_id=1)
    positions, targets = torch.tensor([3, 10, 30]), torch.tensor([20, 21, 22])
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(20):
        loss, count = model(batch, positions, targets)
        losses.append(loss.item() / count.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[0] == pytest.approx(torch.tensor(60.0).log().item(), abs=1.0)
    assert losses[-1] < 0.2 * losses[0]
