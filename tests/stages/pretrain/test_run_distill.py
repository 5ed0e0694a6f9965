"""Distillation as a stage: what a student starts from, what is refused, and that a broken run ends as a whole one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from encoders import preset_lm
from safetensors.numpy import load_file
from typer.testing import CliRunner

from osler.cli.main import app
from osler.clinic.raw import raw_texts
from osler.core.config import load_recipe, shipped_recipe, validate
from osler.core.errors import ArtifactError, InputError, RecipeError
from osler.nn.presets import Preset
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain import run as stage
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.model import trainings
from osler.stages.pretrain.plan import full_plan
from osler.train.loop import TrainingRun

RECIPES = ("lewis2020/distill", "lewis2020/distill-align", "lewis2020/train-longer")
SMALL = ("max_length=32", "batch_tokens=256", "accumulate=2", "validation_share=0.2", "validation_tokens=300")
SHORT = ("train.steps=4", "train.eval_every=2", "train.log_every=1", "train.device=cpu", "train.checkpoint_every=2")


@pytest.fixture(scope="module")
def folders(tokenizer_folder, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("distill")
    (folder / "raw.jsonl").write_text("".join(json.dumps(record) + "\n" for record in raw_texts(60, "en", 1)))
    corpus = build_corpus(CorpusRecipe(sources=[{"files": [str(folder / "raw.jsonl")]}]), folder / "corpus").path
    made = {"corpus": corpus, "tokenizer": tokenizer_folder, "tokens": folder / "tokens"}
    for name, preset, seed in (("teacher", Preset(4, 256, 4, 1024), 2), ("student", "tiny", 3)):
        made[name] = folder / name
        preset_lm(
            preset, vocab_size=400, pad_token_id=1, max_length=32, bos_token_id=0, eos_token_id=2, seed=seed
        ).save(made[name])
        shutil.copyfile(tokenizer_folder / "tokenizer.json", made[name] / "tokenizer.json")
    return made


def recipe(folders: dict[str, Path], *sets: str, name: str | None = RECIPES[1], **options) -> PretrainRecipe:
    values = {
        "corpus": folders["corpus"],
        "tokenizer": folders["tokenizer"],
        "tokens": folders["tokens"],
        "distill.teacher": folders["teacher"],
        **options,
    }
    path = shipped_recipe(name) if name else None
    return load_recipe(PretrainRecipe, path, (*SMALL, *SHORT, *sets), values)


def test_recipes_hold_the_values_of_the_paper():
    given = {"corpus": "c", "tokenizer": "t", "start_from": "s"}
    plain, aligned = (
        load_recipe(PretrainRecipe, shipped_recipe(n), (), {**given, "distill.teacher": "x"}) for n in RECIPES[:2]
    )
    longer = load_recipe(PretrainRecipe, shipped_recipe(RECIPES[2]), (), given)
    base = load_recipe(PretrainRecipe, shipped_recipe("lewis2020/base-pm-m3-voc"), (), given)
    # Optimiser and validation documents are those of the student's and the teacher's pretraining.
    for name in ("betas", "eps", "weight_decay", "decay_vectors", "clip", "spike", "optimizer", "final_lr_ratio"):
        assert getattr(plain.train, name) == getattr(base.train, name), name
    assert (plain.validation_share, plain.validation_tokens) == (base.validation_share, base.validation_tokens)
    assert plain.batch_tokens * plain.accumulate == 8_192 * 512
    assert (plain.train.steps, plain.train.lr, plain.train.warmup) == (50_000, 5e-4, 0.05)
    assert (plain.distill.mlm, plain.distill.kl, plain.distill.temperature, plain.distill.cosine) == (
        5.0,
        2.0,
        2.0,
        0.0,
    )
    assert aligned.distill == plain.distill.changed(cosine=1.0)
    # All three differ in the losses alone.
    assert aligned.changed(distill=None) == plain.changed(distill=None) == longer


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_runs_at_reduced_size_and_its_validation_compares(folders, tmp_path, name):
    options = {"start_from": folders["student"]}
    if name == RECIPES[2]:
        options["distill.teacher"] = None
    made = stage.run(recipe(folders, name=name, **options), tmp_path / "out")
    history = json.loads((made.path / "history.json").read_text())
    parts = {key for record in history if record["kind"] == "train" for key in record if key.startswith("loss/")}
    assert (
        parts == {0: {"loss/mlm", "loss/kl"}, 1: {"loss/mlm", "loss/kl", "loss/cosine"}, 2: set()}[RECIPES.index(name)]
    )
    assert ("teacher" in made.manifest.parents) == (name != RECIPES[2])
    # A validation loss is that of masked tokens, near ln 400 so early, and not the sum of several losses.
    assert 5.0 < made.manifest.counts["validation_loss"] < 7.5
    saved = load_file(made.path / "model.safetensors")
    assert saved.keys() == load_file(folders["student"] / "model.safetensors").keys()  # no projection, no teacher


def test_a_run_that_was_broken_off_ends_with_the_same_bytes(folders, tmp_path, monkeypatch):
    made = recipe(folders, start_from=folders["student"])
    whole = stage.run(made, tmp_path / "whole")
    save = TrainingRun._save

    def die_after_saving(self: TrainingRun) -> None:
        save(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "_save", die_after_saving)
        with pytest.raises(KeyboardInterrupt):
            stage.run(made, tmp_path / "broken")
    checkpoint = next((tmp_path / "broken.partial" / "checkpoints").glob("step-*"))
    kept = load_file(checkpoint / "model.safetensors")
    assert {"projection.weight", "projection.bias"} <= kept.keys()
    student = load_file(folders["student"] / "model.safetensors")
    assert sum(value.size for value in kept.values()) == sum(v.size for v in student.values()) + 256 * 128 + 256
    again = stage.run(made, tmp_path / "broken")
    assert again.manifest.files == whole.manifest.files


def test_a_student_of_layers_starts_as_the_teacher(folders, tmp_path):
    """With a rate of next to nothing the result is the start: the first and the last layer of the teacher's four."""
    made = stage.run(recipe(folders, "train.lr=1e-30", "distill.teacher_layers=even"), tmp_path / "out")
    ours, theirs = load_file(made.path / "model.safetensors"), load_file(folders["teacher"] / "model.safetensors")
    assert json.loads((made.path / "config.json").read_text())["num_hidden_layers"] == 2
    for key, value in ours.items():
        source = key.replace("encoder.layer.1.", "encoder.layer.3.")
        assert np.allclose(value, theirs[source], rtol=0, atol=1e-25), key
    assert len([key for key in ours if "encoder.layer" in key]) * 2 == len(
        [key for key in theirs if "encoder.layer" in key]
    )


def test_a_random_student_has_the_shape_that_is_asked_for(folders, tmp_path):
    made = stage.run(recipe(folders, "preset=tiny", "shape.layers=1", name=None), tmp_path / "out")
    assert json.loads((made.path / "config.json").read_text())["num_hidden_layers"] == 1


def test_mistakes_are_named_before_any_work(folders, tokenizer_folder, tmp_path):
    def attempt(*sets: str, **options) -> None:
        stage.run(recipe(folders, *sets, **options), tmp_path / "out")

    with pytest.raises(RecipeError, match="width is 128, the teacher's 256"):
        attempt("distill.teacher_layers=even", preset="tiny")
    with pytest.raises(RecipeError, match="between 0 and 3"):
        attempt("distill.teacher_layers=[0, 4]")
    with pytest.raises(RecipeError, match="3 layers, but teacher_layers names 2"):
        attempt("distill.teacher_layers=[0, 1]", "shape.layers=3")
    with pytest.raises(RecipeError, match="reads 32 tokens, max_length is 64"):
        attempt("max_length=64", start_from=folders["student"])
    with pytest.raises(RecipeError, match="start_from or from teacher_layers"):
        attempt("distill.teacher_layers=even", start_from=folders["student"])
    with pytest.raises(RecipeError, match="the teacher has no effect"):
        attempt("distill.kl=0", "distill.cosine=0", start_from=folders["student"])
    with pytest.raises(InputError, match="no such folder"):
        attempt(**{"distill.teacher": tmp_path / "nowhere", "start_from": folders["student"]})
    with pytest.raises(RecipeError, match=r"'distill.teacher' is missing"):
        validate(PretrainRecipe, {"corpus": "c", "tokenizer": "t", "distill": {}}, where="here")

    other = tmp_path / "other"
    shutil.copytree(folders["teacher"], other)
    content = json.loads((other / "tokenizer.json").read_text())
    vocab = content["model"]["vocab"]
    first, second = list(vocab)[-2:]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    (other / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match="2 of the student's tokens are missing from it or have another id"):
        attempt(**{"distill.teacher": other, "start_from": folders["student"]})
    assert not list(tmp_path.glob("out*"))


def test_the_command_is_a_front_of_the_same_stage(folders, tmp_path):
    sets = [part for value in (*SMALL, *SHORT, f"tokens={folders['tokens']}") for part in ("--set", value)]
    command = ["distill", str(folders["corpus"]), "--teacher", str(folders["teacher"]), "--layers", "0,2", "--align"]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "out"), *sets])
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["recipe"]["distill"]["teacher_layers"] == [0, 2]
    assert manifest["recipe"]["distill"]["cosine"] == 1.0
    bare = CliRunner().invoke(app, ["distill", str(folders["corpus"]), "-t", str(folders["tokenizer"])])
    assert isinstance(bare.exception, RecipeError)
    assert "no teacher is named" in str(bare.exception)
    odd = CliRunner().invoke(app, [*command[:4], "--layers", "odd"])
    assert "must be 'even' or numbers" in str(odd.exception)


@pytest.mark.parametrize(("extra", "named"), [([], True), (["--dry-run"], True), (["--dry-run"], False)])
def test_without_a_start_no_random_student_is_trained(folders, tmp_path, extra, named):
    places = [str(folders["corpus"]), "-t", str(folders["tokenizer"])] if named else []
    teacher = str(folders["teacher"])
    commands = {
        "this recipe continues a pretrained model": [
            ["pretrain", *places, "--recipe", "lewis2020/train-longer"],
            ["distill", *places, "--recipe", "lewis2020/distill", "--teacher", teacher],
            ["distill", *places, "--recipe", "lewis2020/distill-align", "--teacher", teacher, "--preset", "tiny"],
        ],
        "nothing says what the student starts from": [["distill", *places, "--teacher", teacher]],
    }
    for message, lines in commands.items():
        for line in lines:
            found = CliRunner().invoke(app, [*line, "--out", str(tmp_path / "out"), *extra])
            assert isinstance(found.exception, RecipeError), (line, found.output)
            assert message in str(found.exception)
            assert "--from FOLDER" in str(found.exception)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def pretrained(folders, tmp_path_factory) -> Path:
    """An encoder that osler pretrained on the corpus, a tenth of the documents held out."""
    made = recipe(folders, "preset=tiny", "validation_share=0.1", name=None, **{"distill.teacher": None})
    return stage.run(made.changed(tokens=None), tmp_path_factory.mktemp("pretrained") / "encoder").path


@pytest.mark.parametrize("role", ["start_from", "distill.teacher"])
def test_other_validation_documents_than_those_of_a_model_stop_the_run(folders, pretrained, tmp_path, role):
    def attempt(*sets: str, plan: bool = False):
        made = recipe(folders, *sets, **{"start_from": folders["student"], role: pretrained}).changed(tokens=None)
        return full_plan(made, tmp_path / "out", seconds=0) if plan else stage.run(made, tmp_path / "out")

    who = "checkpoint" if role == "start_from" else "teacher"
    for plan in (False, True):
        with pytest.raises(
            RecipeError, match=f"the {who} was trained on this corpus with validation_share = 0.1"
        ) as found:
            attempt("validation_share=0.4", plan=plan)
        assert "75% of the validation documents were trained on" in str(found.value)
        with pytest.raises(RecipeError, match="the two validate on different documents"):
            attempt("validation_share=0.05", plan=plan)
    assert not list(tmp_path.iterdir())
    notes = [line for line in attempt("validation_share=0.1", plan=True) if "is not known" in line]
    other = "teacher" if who == "checkpoint" else "checkpoint"
    assert len(notes) == 1
    assert f"the {other}" in notes[0]
    assert "it has no record of its text" in notes[0]
    attempt("validation_share=0.4", "check_validation=false", plan=True)


def test_what_a_model_was_trained_on_stays_known_over_several_runs(folders, pretrained, tmp_path):
    own = {"start_from": pretrained, "distill.teacher": None}
    share = ("preset=tiny", "validation_share=0.1")
    (tmp_path / "raw.jsonl").write_text("".join(json.dumps(record) + "\n" for record in raw_texts(40, "en", 2)))
    other = build_corpus(CorpusRecipe(sources=[{"files": [str(tmp_path / "raw.jsonl")]}]), tmp_path / "corpus").path
    second = stage.run(
        recipe(folders, *share, name=None, corpus=other, **own).changed(tokens=None), tmp_path / "second"
    )
    assert [record["share"] for record in second.counts["trained_on"]] == [0.1, 0.1]
    assert len({record["corpus"] for record in second.counts["trained_on"]}) == 2
    third = recipe(folders, "validation_share=0.4", name=None, start_from=second.path, **{"distill.teacher": None})
    with pytest.raises(RecipeError, match="75% of the validation documents"):
        stage.run(third.changed(tokens=None), tmp_path / "third")


def test_an_encoder_of_an_earlier_version_is_known_by_its_recipe(pretrained, tmp_path):
    older = shutil.copytree(pretrained, tmp_path / "older")
    manifest = json.loads((older / "manifest.json").read_text())
    recorded = manifest["counts"].pop("trained_on")
    (older / "manifest.json").write_text(json.dumps(manifest))
    assert [training._asdict() for training in trainings(older)] == recorded
