"""Masked language modelling as one more task: its batches, its head, what it leaks and what it leaves behind."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError
from osler.stages.finetune.batches import TaskBatches
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.mlm_task import language_model
from osler.stages.finetune.model import MultiTask
from osler.stages.finetune.run import FinetuneData, prepare, run

TRAIN = {"lr": 5e-3, "device": "cpu", "log_every": 1, "checkpoint_every": 0, "warmup": 0}


@pytest.fixture(scope="module")
def task(make_task):
    return make_task("drugs", ["DRUG"], seed=1, train=12)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rng = np.random.default_rng(5)
    syllables = ["".join(rng.choice(list("prstvwz"), 2)) + str(rng.choice(list("aeiou"))) for _ in range(12)]
    return [" ".join(rng.choice(syllables, 40)) for _ in range(10)]


@pytest.fixture(scope="module")
def corpus(make_corpus, texts):
    return make_corpus(texts)


def recipe(model, *tasks, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 2, "batch_size": 4}
    values |= {"dropout": 0.0, "train": TRAIN}
    return FinetuneRecipe.model_validate(values | more)


def prepared(given: FinetuneRecipe, model) -> tuple[FinetuneData, TaskBatches]:
    state = prepare(given, model, [TaskFolder.open(path) for path in given.tasks])
    return state, state.batches


def test_raw_text_takes_turns_and_its_loss_falls_but_chooses_nothing(models, task, corpus, tmp_path):
    given = recipe(models["masked"], task, epochs=8, mlm={"corpus": str(corpus)}, train=TRAIN | {"lr": 1e-2})
    made = run(given, tmp_path / "bundle")
    counts = made.manifest.counts
    assert counts["batches_trained"] == {"drugs": 24, "mlm": 24}
    assert set(counts["dev"]) == {"drugs"}
    assert made.manifest.parents["mlm"]
    history = json.loads((made.path / "history.json").read_text())
    losses = [record["loss/mlm"] for record in history if "loss/mlm" in record]
    assert np.mean(losses[-4:]) < 0.8 * np.mean(losses[:4])
    assert not any("mlm" in record for record in history)  # no dev score of that name
    # The head of the language model is not part of the bundle; the encoder loads as any other.
    assert list(json.loads((made.path / "heads.json").read_text())["heads"]) == ["drugs"]
    assert load_file(made.path / "model.safetensors").keys() == load_file(models["plain"] / "model.safetensors").keys()
    assert "Masked language modelling" in (made.path / "README.md").read_text()


def test_the_head_comes_from_the_folder_where_it_has_one_and_is_tied_to_the_encoder(models):
    own = load_file(models["masked"] / "model.safetensors")
    for name, mine in (("masked", True), ("plain", False)):
        encoder, masked = language_model(models[name], seed=1, reinitialise=False)
        dense = masked.model.cls.predictions.transform.dense.weight.detach().numpy()
        assert np.array_equal(dense, own["cls.predictions.transform.dense.weight"]) is mine
        table = encoder.model.get_input_embeddings().weight
        assert masked.model.get_output_embeddings().weight is table
        assert np.array_equal(table.detach().numpy(), own["bert.embeddings.word_embeddings.weight"])
    again, _ = language_model(models["masked"], seed=1, reinitialise=True)
    assert not np.array_equal(again.model.get_input_embeddings().weight.detach().numpy(), table.detach().numpy())


def test_every_part_of_the_language_model_learns_and_the_heads_are_left_alone(models, task, corpus):
    """One step on raw text: encoder and language-model head have a gradient, the task's head has none."""
    state, batches = prepared(recipe(models["masked"], task, mlm={"corpus": str(corpus)}), models["masked"])
    objective = MultiTask(state.bundle.model, None, state.language).train()
    ref = next(ref for ref in batches.order(0) if ref.task == "mlm")
    objective(batches.load(ref).payload).loss_sum.backward()
    for name, parameter in objective.named_parameters():
        if ".heads." in name:
            assert parameter.grad is None, name
        elif "token_type" not in name:
            assert parameter.grad is not None, name
            # A key's bias shifts all scores of a row alike, which softmax does not see.
            assert "key.bias" in name or bool(parameter.grad.abs().sum() > 0), name


def test_masks_touch_no_special_token_and_count_as_labels(models, task, corpus):
    given = recipe(models["masked"], task, mlm={"corpus": str(corpus), "rate": 0.3})
    _, batches = prepared(given, models["masked"])
    stream = batches.streams["mlm"]
    for ref in [ref for ref in batches.order(0) if ref.task == "mlm"]:
        loaded = batches.load(ref)
        payload = loaded.payload
        original = np.concatenate([stream.text.windows[stream._window(place)] for place in ref.indices])
        assert loaded.weight == int(len(original) * 0.3) == (payload.targets != -100).sum()
        at = payload.positions.numpy()
        assert not np.isin(original[at], [0, 1, 2, 3, 4]).any()
        assert np.array_equal(payload.targets.numpy(), original[at])
        changed = np.flatnonzero(payload.batch.input_ids.numpy() != original)
        assert set(changed) <= set(at)


def test_the_rate_and_the_weight_of_the_recipe_count(models, task, corpus):
    losses, masked = {}, {}
    for weight in (1.0, 2.5):
        given = recipe(models["masked"], task, mlm={"corpus": str(corpus), "weight": weight})
        state, batches = prepared(given, models["masked"])
        ref = next(ref for ref in batches.order(0) if ref.task == "mlm")
        with torch.no_grad():
            objective = MultiTask(state.bundle.model.eval(), None, state.language)
            losses[weight] = float(objective(batches.load(ref).payload).loss_sum)
    assert losses[2.5] == pytest.approx(2.5 * losses[1.0], rel=1e-5)
    for rate in (0.15, 0.4):
        state, batches = prepared(
            recipe(models["masked"], task, mlm={"corpus": str(corpus), "rate": rate}), models["masked"]
        )
        masked[rate] = batches.load(next(ref for ref in batches.order(0) if ref.task == "mlm")).weight
    assert masked[0.4] > 2 * masked[0.15]


def test_an_epoch_is_no_longer_for_a_large_corpus_and_goes_on_where_the_last_one_ended(models, task, corpus):
    _, batches = prepared(recipe(models["masked"], task, mlm={"corpus": str(corpus)}), models["masked"])
    count = len(batches.streams["mlm"].text.windows)
    turns = [[ref for ref in batches.order(epoch) if ref.task == "mlm"] for epoch in range(8)]
    assert {len(epoch) for epoch in turns} == {3}  # as many as the task's twelve documents in fours
    stream = batches.streams["mlm"]
    places = sorted(place for epoch in turns for ref in epoch for place in ref.indices)
    assert places == list(range(8 * 3 * 4))
    first_pass = Counter(stream._window(place) for place in places[:count])
    assert first_pass == Counter(range(count))
    few = recipe(models["masked"], task, mlm={"corpus": str(corpus), "batches": 2}, mixing={"order": "proportional"})
    _, batches = prepared(few, models["masked"])
    batches.order(0)
    assert batches.counts[0] == {"drugs": 3, "mlm": 2}
    wide = recipe(models["masked"], task, mlm={"corpus": str(corpus)}, mixing={"batch_sizes": {"mlm": 2}})
    assert {len(r.indices) for r in prepared(wide, models["masked"])[1].order(0) if r.task == "mlm"} == {2}


@pytest.mark.parametrize("order", ["round-robin", "proportional", "temperature", "annealed"])
def test_a_number_of_batches_is_that_number_in_every_epoch_and_no_batch_comes_twice(models, task, corpus, order):
    given = recipe(models["masked"], task, epochs=3, mlm={"corpus": str(corpus), "batches": 2}, mixing={"order": order})
    _, batches = prepared(given, models["masked"])
    seen = []
    for epoch in range(3):
        turns = [ref.task for ref in batches.order(epoch)]
        assert turns == ["drugs", "mlm", "drugs", "mlm", "drugs"]
        assert batches.counts[epoch] == {"drugs": 3, "mlm": 2}
        seen += [ref.indices for ref in batches.order(epoch) if ref.task == "mlm"]
    assert len(set(seen)) == 6


def test_documents_that_a_task_holds_out_are_removed_from_the_corpus_and_counted(
    models, task, make_corpus, texts, tmp_path
):
    held = [record for split in ("dev", "test") for record in TaskFolder.open(task).read(split)]
    leaky = make_corpus([*texts[:4], held[0].text, *texts[4:], held[-1].text.upper()])
    given = recipe(models["masked"], task, epochs=20, mlm={"corpus": str(leaky)})
    state, _ = prepared(given, models["masked"])
    assert {name: leaks.found for name, leaks in state.leaks.items()} == {"drugs": 0, "mlm": 2}
    assert state.documents["mlm"] == len(texts)
    made = run(given.changed(epochs=1, mlm={"corpus": str(leaky), "batches": 99}), tmp_path / "bundle")
    assert made.manifest.counts["leaked_removed"] == {"drugs": 0, "mlm": 2}
    with pytest.raises(RecipeError, match="no document to train on"):
        prepared(recipe(models["masked"], task, mlm={"corpus": str(make_corpus([held[0].text]))}), models["masked"])


def test_the_weight_of_raw_text_stands_in_one_place(models, task, corpus, tmp_path):
    given = recipe(models["masked"], task, mlm={"corpus": str(corpus)}, mixing={"loss_weights": {"mlm": 2.0}})
    with pytest.raises(RecipeError, match="cannot weight raw text"):
        run(given, tmp_path / "x")
    with pytest.raises(RecipeError, match="which is not among the tasks"):
        run(recipe(models["masked"], task, mixing={"batch_sizes": {"mlm": 2}}), tmp_path / "x")
