"""The plan of a dry run: its numbers by hand, with and without a corpus, and nothing left behind."""

from __future__ import annotations

import json
import re
import shutil
import sys
from dataclasses import replace

import pytest
from encoders import preset_lm
from typer.testing import CliRunner

from osler.artifacts.corpus import Corpus
from osler.artifacts.tokenizer import Tokenizer
from osler.cli.main import app
from osler.clinic.raw import raw_texts
from osler.core.config import load_recipe
from osler.core.errors import ArtifactError, OslerError, RecipeError
from osler.nn.cost import memory_of
from osler.nn.masking import MaskingVocabulary
from osler.nn.presets import find_preset
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain.config import Distillation, PretrainRecipe, PretrainSettings
from osler.stages.pretrain.model import model_size
from osler.stages.pretrain.plan import (
    EFFICIENCY,
    CorpusSize,
    Costs,
    PlannedRecipe,
    corpus_size,
    full_plan,
    numbers_of_gpus,
    plan,
    with_stand_ins,
)
from osler.stages.pretrain.probe import Probe
from osler.stages.pretrain.tokenise import tokenise
from osler.stages.vocab.config import VocabRecipe
from osler.stages.vocab.run import run as learn_vocabulary

ROBERTA = MaskingVocabulary(50_265, pad_id=1, mask_id=50_264, special_ids=frozenset(range(5)), prefix=(0,), suffix=(2,))
MEASURED = Probe(
    device="GPU",
    tokens_per_second=1000.0,
    flops_per_second=1e12,
    peak=2e12,
    seconds=10.0,
    batch_tokens=1024,
    out_of_memory=False,
    memory=2**30,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    raw = folder / "clinic.jsonl"
    raw.write_text("".join(json.dumps(item) + "\n" for item in raw_texts(60, language="en", seed=0)))
    build_corpus(load_recipe(CorpusRecipe, options={"sources": [str(raw)]}), folder / "corpus")
    learn_vocabulary(VocabRecipe(corpus=folder / "corpus", size=400), folder / "tokenizer")
    return folder


def recipe(made=None, *, train=None, **options) -> PlannedRecipe:
    places = {"corpus": made / "corpus", "tokenizer": made / "tokenizer"} if made else {}
    shape = {"preset": "tiny", "max_length": 64, "batch_tokens": 512, **options}
    return PlannedRecipe(train=PretrainSettings(**(train or {})), **places, **shape)


def test_roberta_base_has_its_parameters():
    size = model_size(recipe(preset="roberta-base", max_length=512), ROBERTA)
    tables = 50_265 * 768 + 514 * 768 + 768
    attention, feed_forward, norms = 4 * (768 * 768 + 768), 768 * 3072 + 3072 + 3072 * 768 + 768, 2 * 2 * 768
    head = 768 * 768 + 768 + 2 * 768 + 50_265
    by_hand = tables + 2 * 768 + 12 * (attention + feed_forward + norms) + head
    assert size.parameters == by_hand == 124_697_433
    assert size.parameters - size.embeddings == by_hand - tables == 85_698_393
    assert size.optimiser_values == 2 * by_hand


def test_roberta_base_works_by_hand():
    size = model_size(recipe(preset="roberta-base", max_length=512), ROBERTA)
    layers = 12 * (4 * 768**2 + 2 * 768 * 3072)
    attention = 12 * 2 * 768 * 512
    head = 0.15 * (768**2 + 768 * 50_265)
    assert size.flops_per_token == pytest.approx(6 * (layers + attention + head))


def test_muon_keeps_one_number_for_a_matrix_of_a_layer():
    size = model_size(recipe(preset="roberta-base", train={"optimizer": "muon"}), ROBERTA)
    assert 2 * size.parameters - size.optimiser_values == 12 * (4 * 768**2 + 2 * 768 * 3072)


def test_memory_of_roberta_base_is_what_it_was_fitted_to():
    size = model_size(recipe(preset="roberta-base", max_length=512), ROBERTA)
    common = {"parameters": size.parameters, "optimiser_values": size.optimiser_values, "masked": 0.15}
    memory = memory_of(size.config, batch_tokens=65_536, half=True, **common)
    assert memory.total / 2**30 == pytest.approx(24.4, rel=0.05)
    doubled = memory_of(size.config, batch_tokens=131_072, half=True, **common)
    assert doubled.activations == 2 * memory.activations
    assert (doubled.weights, doubled.optimiser) == (memory.weights, memory.optimiser)
    whole = memory_of(size.config, batch_tokens=65_536, half=False, **common)
    assert whole.activations == 2 * memory.activations
    assert memory.total - memory.sharded(8) == pytest.approx(
        7 / 8 * (memory.weights + memory.gradients + memory.optimiser)
    )


def test_tokens_and_steps_count_the_ramp():
    batches = recipe(accumulate=8, ramp=((10, 1), (30, 4))).step_batches
    assert batches.tokens(5) == 5 * 512
    assert batches.tokens(100) == (10 * 1 + 20 * 4 + 70 * 8) * 512
    for steps in (1, 9, 10, 11, 30, 31, 100):
        assert batches.steps_for(batches.tokens(steps)) == steps
        assert batches.steps_for(batches.tokens(steps + 1) - 1) == steps


def test_the_estimate_from_a_sample_is_what_tokenising_counts(made, tmp_path):
    planned = recipe(made, validation_share=0.1)
    guessed = corpus_size(planned, tmp_path / "encoder")
    assert guessed.sampled
    corpus, tokenizer = Corpus.open(made / "corpus"), Tokenizer.open(made / "tokenizer")
    tokenise(corpus, tokenizer, tmp_path / "encoder.tokens", 0.1, workers=1)
    counted = corpus_size(planned, tmp_path / "encoder")
    assert counted.sampled is None
    assert guessed.epoch_tokens == pytest.approx(counted.epoch_tokens, rel=0.15)
    # Counted under another share of validation it is not what a run would reuse.
    assert corpus_size(recipe(made, validation_share=0.2), tmp_path / "encoder").sampled


@pytest.mark.parametrize("left", [0, 20_000, -8])
def test_a_damaged_corpus_is_named(made, tmp_path, left):
    shutil.copytree(made / "corpus", tmp_path / "corpus")
    [file] = (tmp_path / "corpus" / "shards").iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:left] + bytes(8 if left < 0 else 0))
    planned = recipe(made).changed(corpus=tmp_path / "corpus")
    with pytest.raises(ArtifactError, match="this file of the corpus is damaged") as refusal:
        corpus_size(planned, tmp_path / "encoder")
    assert refusal.value.where == str(file)


def test_a_source_read_twice_makes_an_epoch_longer(made, tmp_path):
    once = corpus_size(recipe(made), tmp_path / "e").epoch_tokens
    twice = corpus_size(recipe(made, source_weights={"clinic": 2.0}), tmp_path / "e").epoch_tokens
    assert twice == pytest.approx(2 * once, abs=2)


def costs(**options) -> Costs:
    train = options.pop("train", {"steps": 100})
    planned = recipe(batch_tokens=1024, train=train, **options)
    corpus = CorpusSize(documents=10, epoch_tokens=50_000, chunk_lengths=(64,), sampled=10)
    return Costs(planned, model_size(planned, ROBERTA), corpus, MEASURED)


def test_more_gpus_help_as_far_as_there_are_micro_batches():
    one, four = costs(), costs(accumulate=4)
    assert [one.speed_up(count) for count in (1, 8)] == [1.0, 1.0]
    assert [four.speed_up(count) for count in (1, 2, 3, 4, 8)] == [1.0] + [
        pytest.approx(EFFICIENCY * times) for times in (2, 2, 4, 4)
    ]
    lines = four.time_lines((1, 4))
    assert "6 min" in lines[0]  # 409,600 tokens at 1,000 a second
    assert "1 min" in lines[1]
    assert "90%" in lines[2]


@pytest.mark.parametrize("accumulate", [1, 2, 3, 4, 6, 16])
def test_no_number_of_gpus_is_slower_than_a_smaller_one(accumulate):
    speeds = [costs(accumulate=accumulate).speed_up(count) for count in range(1, 20)]
    assert speeds == sorted(speeds)
    assert min(speeds) == 1.0


def test_only_gpus_that_get_a_micro_batch_have_a_line():
    lines = costs(accumulate=2).time_lines((1, 2, 4, 8))
    assert [line.split(" like")[0].strip() for line in lines if "like this" in line] == ["1 GPU", "2 GPUs"]
    assert any("8 GPUs are no faster than 2" in line for line in lines)
    alone = costs().time_lines((8,))
    assert alone[0].startswith(" 1 GPU")
    assert "a step has 1 micro-batch" in alone[1]


def test_on_a_cpu_time_and_memory_are_those_of_the_cpu():
    on_gpu = costs(train={"steps": 100, "device": "cpu"})
    on_cpu = replace(on_gpu, measured=replace(MEASURED, memory=None))
    assert on_cpu.time_lines((1, 2, 4))[0] == "1 min on this CPU, without validation"
    assert not any("2" in line for line in on_cpu.time_lines((1, 2, 4)))
    memory = on_cpu.memory_lines((1, 2))
    said = r"at least [\d.]+ GiB on this CPU in fp32, 0.5 GiB of it for the program; the machine has [\d.]+ GiB"
    assert re.fullmatch(said, memory[0])
    assert memory[2].startswith("on a GPU about")
    assert "per GPU" not in " ".join(memory)


def test_a_plan_longer_than_the_corpus_says_how_many_epochs():
    assert any("2.0 epochs" in line and "smaller" in line for line in costs().tokens_lines())
    assert not any("smaller" in line for line in costs(train={"steps": 10}).tokens_lines())
    assert costs(train={}).steps == 48  # one epoch where the recipe does not say


@pytest.mark.parametrize(
    ("budget", "tokens"), [("50s", 50_000), ("5e12flop", None)], ids=["a budget of time", "a budget of work"]
)
def test_a_budget_says_what_fits(budget, tokens):
    plan = costs(train={"budget": budget})
    fit = tokens or 5e12 / plan.size.flops_per_token
    assert plan.steps == int(fit // 1024)
    assert any(f"{plan.steps:,} steps within {budget}" in line for line in plan.tokens_lines())


def test_models_that_are_not_there_have_stand_ins(tmp_path):
    absent = recipe(
        preset="compact",
        start_from=tmp_path / "roberta-base-checkpoint",
        distill=Distillation(teacher=tmp_path / "teacher"),
    )
    feasible, notes = with_stand_ins(absent)
    assert (feasible.preset, feasible.start_from, feasible.distill) == ("roberta-base", None, None)
    assert len(notes) == 2


def test_a_checkpoint_and_a_teacher_count(tmp_path):

    for name, preset in (("checkpoint", "tiny"), ("teacher", "small")):
        preset_lm(preset, vocab_size=300, pad_token_id=1, max_length=64, seed=1).save(tmp_path / name)
    taught = recipe(
        start_from=tmp_path / "checkpoint", distill=Distillation(teacher=tmp_path / "teacher"), train={"steps": 5}
    )
    alone = recipe(start_from=tmp_path / "checkpoint", train={"steps": 5})
    assert with_stand_ins(taught) == (taught, [])
    both, one = model_size(taught, ROBERTA), model_size(alone, ROBERTA)
    assert both.config.vocab_size == 300
    assert both.parameters == one.parameters
    assert both.flops_per_token > one.flops_per_token
    assert (both.teacher_parameters > both.parameters, one.teacher_parameters) == (True, 0)
    with_teacher, without = ("\n".join(full_plan(plan, tmp_path / "e", seconds=0)) for plan in (taught, alone))
    assert "300 entries, those of the checkpoint" in with_teacher
    assert "teacher" in with_teacher.split("memory")[1]
    assert "teacher" not in without


def test_layers_of_a_teacher_bring_their_attention_along(tmp_path):
    from osler.nn.mlm import of_layers

    shape = find_preset("tiny").changed(layers=4, width=None, heads=None, inner=None)
    teacher = preset_lm(shape, vocab_size=300, pad_token_id=1, max_length=512, seed=1)
    teacher.save(tmp_path / "teacher")
    assert len(set(teacher.config.layer_types)) == 2
    for layers in ((0, 1), (0, 3), (0, 2, 3)):
        settings = Distillation(teacher=tmp_path / "teacher", teacher_layers=layers)
        planned = model_size(PlannedRecipe(distill=settings, max_length=512), ROBERTA)
        assert planned.config.layer_types == of_layers(teacher, layers).config.layer_types


def test_a_plan_before_there_is_data(tmp_path):
    lines = "\n".join(full_plan(recipe(train={"steps": 7}), tmp_path / "encoder", seconds=0))
    assert "50,265 entries, assumed" in lines
    assert "none yet: planned without it" in lines
    assert "no corpus is named" in lines
    assert f"{7 * 512:,} in total" in lines
    sized = "\n".join(full_plan(recipe(train={"steps": 7}), tmp_path / "encoder", seconds=0, vocab_size=1000))
    assert "1,000 entries, from --vocab-size" in sized


def test_numbers_of_gpus():
    assert numbers_of_gpus("8, 1,2") == (1, 2, 8)
    for wrong in ("", "0", "two", "1;2"):
        with pytest.raises(RecipeError, match="--gpus must be a list of numbers such as 1,2,4"):
            numbers_of_gpus(wrong)


def test_a_dry_run_with_its_probe_leaves_nothing_behind(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    module = sys.modules[full_plan.__module__]
    short = module.probe
    monkeypatch.setattr(module, "probe", lambda *given, **named: short(*given, **{**named, "seconds": 0.2}))
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    command = ["pretrain", str(made / "corpus"), "-t", str(made / "tokenizer"), "--preset", "tiny", "--steps", "50"]
    sizes = ["--set", "max_length=64", "--set", "batch_tokens=256", "--set", "train.device='cpu'"]
    shown = CliRunner().invoke(app, [*command, *sizes, "--dry-run", "--gpus", "1,2"])
    assert shown.exit_code == 0, shown.output
    assert re.search(r"[\d,]+ tokens/s on this CPU", shown.output)
    assert re.search(r"time +\d+ s on this CPU", shown.output)
    assert "nothing was done" in shown.output
    assert list(tmp_path.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before


def test_torchrun_with_more_processes_than_micro_batches_says_so(made, tmp_path, monkeypatch):
    for name, value in {"WORLD_SIZE": "4", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    said = "a step has 1 micro-batch, so 4 processes are no faster than 1"
    assert any(said in line for line in plan(recipe(made), tmp_path / "encoder"))
    assert not any(said in line for line in plan(recipe(made, accumulate=4), tmp_path / "encoder"))


def _wrong(made, tmp_path) -> dict[str, list[str]]:
    """Command lines that cannot work, by what is wrong with them."""
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file.txt").write_text("")
    corpus, tokenizer, absent = str(made / "corpus"), str(made / "tokenizer"), str(tmp_path / "absent")
    preset_lm("tiny", vocab_size=400, pad_token_id=1, max_length=64, seed=1).save(tmp_path / "model")
    shutil.copyfile(made / "tokenizer" / "tokenizer.json", tmp_path / "model" / "tokenizer.json")
    model = str(tmp_path / "model")
    pretrain = ["pretrain", corpus, "-t", tokenizer]
    return {
        "no corpus": ["pretrain", absent, "-t", tokenizer],
        "no tokenizer": ["pretrain", corpus, "-t", absent],
        "a corpus without a tokenizer": ["pretrain", corpus],
        "a tokenizer as corpus": ["pretrain", tokenizer, "-t", tokenizer],
        "no checkpoint": [*pretrain, "--from", absent],
        "a checkpoint that reads less": [*pretrain, "--from", model],
        "a checkpoint of another shape": [*pretrain, "--from", model, "--set", "shape.layers=9"],
        "a source that is not there": [*pretrain, "--set", "source_weights.absent=2"],
        "an encoder larger than memory": [*pretrain, "--set", "shape.width=1000000", "--set", "train.device=cpu"],
        "out is taken": [*pretrain, "--out", str(taken)],
        "out is inside a file": [*pretrain, "--out", str(taken / "file.txt" / "out")],
        "tokens is the corpus": [*pretrain, "--set", f"tokens={corpus}", "--force"],
        "no document to hold out": [*pretrain, "--set", "validation_share=1e-9"],
        "no teacher": ["distill", corpus],
        "a teacher that is not there": ["distill", corpus, "--teacher", absent],
        "a teacher with another vocabulary": ["distill", corpus, "--teacher", model, "-t", str(made / "other")],
        "vocab: no corpus": ["vocab", "train", absent],
        "vocab: too small": ["vocab", "train", corpus, "--size", "200"],
        "vocab: out is taken": ["vocab", "train", corpus, "--size", "300", "--out", str(taken)],
        "compare: no tokenizer": ["vocab", "compare", tokenizer, absent, "--on", corpus],
        "compare: the same twice": ["vocab", "compare", tokenizer, tokenizer, "--on", corpus],
        "compare: no terms": ["vocab", "compare", tokenizer, model, "--on", corpus, "--terms", absent],
        "compare: out is taken": ["vocab", "compare", tokenizer, model, "--on", corpus, "--out", str(taken)],
    }


def test_a_dry_run_raises_what_the_run_raises(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learn_vocabulary(VocabRecipe(corpus=made / "corpus", size=300), made / "other")
    for name, command in _wrong(made, tmp_path).items():
        messages = []
        for extra in ([], ["--dry-run"]):
            found = CliRunner().invoke(app, [*command, *extra])
            assert isinstance(found.exception, OslerError), (name, extra, found.output, found.exception)
            messages.append(str(found.exception))
        assert messages[0] == messages[1], name


def test_without_dry_run_corpus_and_tokenizer_must_be_named():
    with pytest.raises(RecipeError, match="'corpus' is missing"):
        load_recipe(PretrainRecipe, options={"train.steps": 3})
