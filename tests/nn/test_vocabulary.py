from __future__ import annotations

import copy
import math

import pytest
import torch
from encoders import preset_lm, scores, scores_at
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from torch.nn.functional import cross_entropy

from osler.core.errors import InputError
from osler.nn.mlm import MaskedLM
from osler.nn.packing import pack
from osler.nn.vocabulary import CLOSED, PaddedDecoder, set_dropout, with_vocabulary
from osler.text.subwords import origins

KINDS = ["bert", "roberta", "camembert", "electra", "modernbert", "distilbert", "albert", "mpnet", "deberta-v2"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def preset(vocab_size: int) -> MaskedLM:
    return preset_lm("tiny", vocab_size=vocab_size, pad_token_id=1, max_length=32, dropout=0.0, seed=3)


def unpadded(model: MaskedLM) -> MaskedLM:
    """The same weights with torch's own decoder."""
    other = copy.deepcopy(model)
    linear = torch.nn.Linear(other.hidden_size, other.vocab_size)
    linear.weight, linear.bias = other.model.decoder.weight, other.model.decoder.bias
    other.model.set_output_embeddings(linear)
    return other


def test_loss_and_gradients_are_the_same_with_and_without_padding():
    padded = preset(90)
    with torch.no_grad():
        padded.model.decoder.bias.normal_()
    plain = unpadded(padded)
    assert isinstance(padded.model.decoder, PaddedDecoder)
    assert not isinstance(plain.model.decoder, PaddedDecoder)
    batch = pack([list(range(5, 30)), list(range(60, 80))], pad_id=1)
    positions, targets = torch.tensor([3, 10, 30, 0]), torch.tensor([20, 89, 0, -100])
    losses = []
    for model in (padded, plain):
        loss, _ = model(batch, positions, targets)
        loss.backward()
        losses.append(loss)
    torch.testing.assert_close(*losses, rtol=1e-6, atol=0)
    expected = dict(plain.named_parameters())
    found = dict(padded.named_parameters())
    assert found.keys() == expected.keys()
    for name, parameter in found.items():
        assert parameter.shape == expected[name].shape
        torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_the_product_is_a_multiple_of_64_and_its_padding_has_no_probability():
    model = preset(90)
    hidden = torch.randn(7, 128)
    computed = model.padded_head(hidden)
    assert computed.shape == (7, 128)
    assert computed[:, 90:].eq(CLOSED).all()
    assert computed.softmax(-1)[:, 90:].eq(0).all()
    assert torch.equal(scores(model, hidden), computed[:, :90])
    with torch.autocast("cpu", torch.bfloat16):
        assert model.padded_head(hidden).softmax(-1)[:, 90:].eq(0).all()


def test_a_vocabulary_of_a_round_size_is_left_as_it_is():
    assert type(preset(128).model.decoder) is torch.nn.Linear


def test_the_padding_is_never_trained_and_weights_stay_tied():
    model = preset(90).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    batch = pack([list(range(5, 30))], pad_id=1)
    for _ in range(3):
        optimiser.zero_grad()
        model(batch, torch.tensor([3, 9]), torch.tensor([40, 41]))[0].backward()
        optimiser.step()
    assert model.model.decoder.weight is model.model.get_input_embeddings().weight
    assert model.padded_head(torch.randn(4, 128))[:, 90:].eq(CLOSED).all()
    assert len(model.model.decoder.weight) == len(model.model.decoder.bias) == 90


@torch.no_grad()
def test_the_saved_folder_has_the_vocabulary_s_own_size_and_comes_back(tmp_path):
    from transformers import AutoModelForMaskedLM

    model = preset(90)
    model.save(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    tables = {name: tensor.shape for name, tensor in saved.items() if "decoder" in name or "tok_embeddings" in name}
    assert {shape[0] for shape in tables.values()} == {90}
    assert len(tables) >= 2
    ids = torch.arange(5, 30)
    stock = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    assert stock.config.vocab_size == 90
    expected = stock(input_ids=ids[None]).logits[0]
    assert expected.shape == (25, 90)
    batch, everywhere = pack([ids.tolist()], pad_id=1), torch.arange(25)
    torch.testing.assert_close(scores_at(model, batch, everywhere), expected, rtol=0, atol=2e-5)
    again = MaskedLM.load(tmp_path)
    assert isinstance(again.model.decoder, PaddedDecoder)
    assert torch.equal(scores_at(again, batch, everywhere), scores_at(model, batch, everywhere))


def test_the_padded_decoder_compiles_to_one_graph_without_breaks():
    model = preset(90)
    hidden, targets = torch.randn(6, 128), torch.tensor([0, 89, 5, 6, 7, 8])

    def loss(hidden):
        return cross_entropy(model.padded_head(hidden), targets)

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(hidden), loss(hidden))


def words(order: list[int]) -> Tokenizer:
    """A tokenizer of whole words, whose entries have the numbers of `order`."""
    names = [*SPECIAL, *(f"w{number}" for number in range(5, len(order)))]
    vocabulary = {name: order[number] for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_vocabulary_in_another_order_gives_the_same_model(tiny, kind):
    """Every row keeps its token, the padding may move, positions move with it: scores are permuted and nothing else."""
    stock = tiny.model(kind, "AutoModelForMaskedLM")
    pad = stock.config.pad_token_id
    order = torch.randperm(tiny.vocab, generator=torch.Generator().manual_seed(1))
    if kind == "mpnet":  # its code has the number of the padding fixed
        place = int((order == pad).nonzero())
        order[[pad, place]] = order[[place, pad]]
    made = origins(words(list(range(tiny.vocab))), words(order.tolist()))
    assert (made.special, made.kept, made.composed, made.unknown) == (5, tiny.vocab - 5, 0, 0)
    swapped = with_vocabulary(stock, made, pad_id=int(order[pad]), begin_id=None, end_id=None)
    sequences = tiny.sequences(21, 4, 13)
    everywhere = torch.arange(38)
    expected = scores_at(MaskedLM(stock), pack(sequences, pad_id=pad), everywhere)
    moved = [order[torch.as_tensor(ids)].tolist() for ids in sequences]
    found = scores_at(MaskedLM(swapped), pack(moved, pad_id=int(order[pad])), everywhere)
    torch.testing.assert_close(found[:, order], expected, rtol=0, atol=2e-5)
    assert swapped.config.pad_token_id == int(order[pad])
    assert swapped.get_output_embeddings().weight is swapped.get_input_embeddings().weight


def test_mpnet_s_padding_cannot_move(tiny):
    order = [*range(1, tiny.vocab), 0]
    made = origins(words(list(range(tiny.vocab))), words(order))
    with pytest.raises(InputError, match="needs the padding token at id 1"):
        with_vocabulary(tiny.model("mpnet", "AutoModelForMaskedLM"), made, pad_id=2, begin_id=None, end_id=None)


@torch.no_grad()
def test_rows_are_means_of_the_pieces_and_the_rest_the_mean_of_all(tiny):
    stock = tiny.model("roberta", "AutoModelForMaskedLM")
    stock.lm_head.bias.copy_(torch.arange(120.0))
    old = words(list(range(120)))
    table = stock.get_input_embeddings().weight.clone()
    names = {**{name: number for number, name in enumerate(SPECIAL)}, "w9": 5, "strange": 6}
    new = Tokenizer(models.WordPiece(names, unk_token="<unk>"))
    new.add_special_tokens(SPECIAL)
    made = origins(old, new)
    assert (made.kept, made.composed, made.unknown) == (1, 0, 1)
    swapped = with_vocabulary(stock, made, pad_id=1, begin_id=0, end_id=2)
    rows = swapped.get_input_embeddings().weight
    assert swapped.config.vocab_size == 7
    assert torch.equal(rows[5], table[9])
    torch.testing.assert_close(rows[6], table.mean(0))
    assert swapped.lm_head.bias[:5].tolist() == [0, 1, 2, 3, 4]
    assert swapped.lm_head.bias[5:].tolist() == pytest.approx([9, 59.5])
    assert swapped.lm_head.decoder.bias is swapped.lm_head.bias


def test_untied_output_rows_are_made_from_output_rows(tiny):
    config = tiny.config("roberta")
    config.tie_word_embeddings = False
    from transformers import AutoModelForMaskedLM

    stock = AutoModelForMaskedLM.from_config(config)
    order = [*range(5), *range(119, 4, -1)]
    swapped = with_vocabulary(stock, origins(words(list(range(120))), words(order)), pad_id=1, begin_id=0, end_id=2)
    assert not torch.equal(swapped.lm_head.decoder.weight, swapped.get_input_embeddings().weight)
    assert torch.equal(swapped.lm_head.decoder.weight[order], stock.lm_head.decoder.weight)


def test_dropout_of_a_loaded_model_can_be_changed(tiny):
    model = tiny.model("roberta", "AutoModelForMaskedLM")
    set_dropout(model, 0.25)
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.25}
    assert math.isclose(model.config.hidden_dropout_prob, 0.25)
