"""The chain head against brute force: every path of small chains is enumerated and summed."""

from __future__ import annotations

import itertools

import pytest
import torch

from osler.nn.encoder import PackedEncoder
from osler.nn.heads import HEADS
from osler.nn.heads.tagging import _by_halves, _one_by_one
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import pack
from osler.text.tags import Scheme, label_set, transitions

BIO = label_set(["X", "Y"], Scheme.BIO)  # O B-X I-X B-Y I-Y
BIOES = label_set(["X"], Scheme.BIOES)  # O B-X I-X E-X S-X


def chain(labels):
    torch.manual_seed(0)
    head = HEADS.get("crf")(8, len(labels), 0.1).eval()
    head.name_outputs(labels)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.randn_like(parameter))
    return head


def legal_paths(labels, length):
    scheme = Scheme.BIOES if "E-X" in labels else Scheme.BIO
    rules = transitions(labels, scheme)
    for path in itertools.product(range(len(labels)), repeat=length):
        if (
            rules.start[path[0]]
            and rules.end[path[-1]]
            and all(rules.allowed[a][b] for a, b in itertools.pairwise(path))
        ):
            yield path


def path_score(head, logits, path):
    steps = sum(head.transitions[a, b] for a, b in itertools.pairwise(path))
    return steps + sum(logits[place, tag] for place, tag in enumerate(path))


def brute_force(head, logits, gold, labels):
    everything = torch.stack([path_score(head, logits, path) for path in legal_paths(labels, len(gold))])
    return torch.logsumexp(everything, 0) - path_score(head, logits, gold)


@pytest.mark.parametrize(
    ("labels", "gold"),
    [(BIO, (0, 1, 2, 3)), (BIO, (3, 4, 4, 0)), (BIO, (1,)), (BIOES, (1, 2, 3, 0)), (BIOES, (4, 1, 3))],
)
def test_likelihood_is_that_of_all_legal_paths_enumerated(labels, gold):
    head = chain(labels)
    logits = torch.randn(len(gold), len(labels), generator=torch.Generator().manual_seed(1)) * 2
    loss, count = head.loss(logits, torch.tensor(gold))
    torch.testing.assert_close(loss, brute_force(head, logits, gold, labels))
    assert count.item() == len(gold)


@pytest.mark.parametrize("words", [0, 1, 2, 7, 64])
def test_joining_steps_by_halves_is_going_word_by_word(words):
    torch.manual_seed(words)
    first, onward = torch.randn(3, 5), torch.randn(3, words, 5, 5)
    real = torch.arange(words) < torch.tensor([[words], [words // 2], [0]])
    torch.testing.assert_close(_by_halves(first, onward, real), _one_by_one(first, onward, real))


def test_the_probabilities_of_all_legal_paths_add_up_to_one():
    head = chain(BIO)
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    losses = [head.loss(logits, torch.tensor(path))[0] for path in legal_paths(BIO, 3)]
    assert torch.stack(losses).neg().exp().sum().item() == pytest.approx(1.0, abs=1e-5)


# Three sequences, padding behind them; labelled words are some of their tokens, and one sequence has none.
BATCH = pack([[5] * 6, [6] * 2, [7] * 4, [8] * 3], pad_id=0, total=18, max_sequences=8)
TARGETS = torch.full((18,), -100)
TARGETS[[1, 3, 4]] = torch.tensor([0, 1, 2])  # tokens 2 and 5 are a later sub-word and a special token
TARGETS[[9, 10]] = torch.tensor([3, 4])
TARGETS[12] = 1


def test_a_packed_batch_is_its_chains_and_nothing_else_has_loss_or_gradient():
    head = chain(BIO)
    hidden = torch.randn(18, 8, generator=torch.Generator().manual_seed(2), requires_grad=True)
    logits = head(hidden, BATCH)
    loss, count = head.batch_loss(logits, TARGETS, BATCH)
    alone = [brute_force(head, logits[rows], TARGETS[rows].tolist(), BIO) for rows in ([1, 3, 4], [9, 10], [12])]
    torch.testing.assert_close(loss, sum(alone))
    assert count.item() == 6
    loss.backward()
    assert (hidden.grad.abs().sum(dim=1) > 0).nonzero().flatten().tolist() == [1, 3, 4, 9, 10, 12]


def test_a_batch_without_targets_has_zero_loss_and_gradient():
    head = chain(BIO)
    hidden = torch.randn(18, 8, requires_grad=True)
    loss, count = head.batch_loss(head(hidden, BATCH), torch.full((18,), -100), BATCH)
    loss.backward()
    assert (loss.item(), count.item()) == (0.0, 0.0)
    assert not hidden.grad.any()
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in head.parameters())


def test_without_steps_and_rules_the_loss_is_the_cross_entropy_of_a_linear_tagger():
    head, linear = HEADS.get("crf")(8, 5), HEADS.get("tagging")(8, 5)
    logits = torch.randn(18, 5, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(head.batch_loss(logits, TARGETS, BATCH), linear.loss(logits, TARGETS))


@pytest.mark.parametrize("gold", [(2, 0, 1), (0, 4, 4), (1, 4, 0)])
def test_gold_that_a_window_has_cut_is_finite_and_lifts_the_rule_only_where_it_breaks_it(gold):
    head = chain(BIO)
    rules = transitions(BIO, Scheme.BIO)
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(4))
    loss, _ = head.loss(logits, torch.tensor(gold))
    broken = [not rules.start[gold[0]], *(not rules.allowed[a][b] for a, b in itertools.pairwise(gold))]
    assert sum(broken) == 1
    paths = [
        path
        for path in itertools.product(range(5), repeat=3)
        if (broken[0] or rules.start[path[0]])
        and all(broken[place] or rules.allowed[path[place - 1]][path[place]] for place in (1, 2))
    ]
    scores = torch.stack([path_score(head, logits, path) for path in paths])
    torch.testing.assert_close(loss, torch.logsumexp(scores, 0) - path_score(head, logits, gold))


def test_the_recursion_runs_in_single_precision_under_autocast():
    head = chain(BIO)
    gold = torch.tensor([0, 1, 2, 0] * 30)
    logits = torch.randn(120, 5, generator=torch.Generator().manual_seed(5)) * 4
    exact, _ = head.loss(logits.bfloat16().float(), gold)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = head.loss(logits.bfloat16(), gold)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact)


def test_words_of_a_chain_cannot_be_weighed():
    with pytest.raises(ValueError, match="not supported with a CRF head"):
        chain(BIO).loss(torch.zeros(2, 5), torch.tensor([0, 0]), torch.ones(2))


def test_every_parameter_changes_in_one_step_and_a_saved_chain_is_the_same(tiny, tmp_path):
    model = MultiHeadModel(PackedEncoder(tiny.model("roberta")))
    model.add_head("ner", "crf", 5, seed=1, labels=BIO)
    batch = pack(tiny.sequences(6, 2, 4, 3), pad_id=1, total=18)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    loss, _ = model.head("ner").batch_loss(model(batch)["ner"], TARGETS, batch)
    loss.backward()
    optimiser.step()
    same = [name for name, value in model.state_dict().items() if torch.equal(value, before[name])]
    # Keys have no gradient in their bias; embeddings only in the rows of the batch, which is a change all the same.
    assert [name for name in same if not name.endswith("key.bias")] == []
    model.eval().save(tmp_path)
    again = MultiHeadModel.load(tmp_path)
    assert again.specs["ner"].kind == "crf"
    assert torch.equal(again.head("ner").steps(), model.head("ner").steps())
    assert torch.equal(again.head("ner").allowed, model.head("ner").allowed)
    assert not again.head("ner").allowed.all()
    with torch.no_grad():
        expected = model.head("ner").batch_loss(model(batch)["ner"], TARGETS, batch)[0]
        found = again.head("ner").batch_loss(again(batch)["ner"], TARGETS, batch)[0]
    assert torch.equal(found, expected)


def test_the_stock_model_of_a_chain_gives_its_logits(tiny, tmp_path):
    from transformers import AutoModelForTokenClassification

    from osler.nn.export import to_hf

    model = MultiHeadModel(PackedEncoder(tiny.model("roberta"))).eval()
    head = model.add_head("ner", "crf", 5, seed=1, labels=BIO)
    with torch.no_grad():
        head.classifier.weight.mul_(20)
    to_hf(model, "ner", None, tmp_path)
    stock = AutoModelForTokenClassification.from_pretrained(tmp_path).eval()
    [ids] = tiny.sequences(9)
    with torch.no_grad():
        expected = model(pack([ids], pad_id=1))["ner"]
        torch.testing.assert_close(stock(input_ids=torch.as_tensor(ids)[None]).logits[0], expected, rtol=0, atol=1e-4)
    assert list(stock.config.id2label.values()) == list(BIO)
