"""Partially annotated corpora: one head for the types of several, none of which teaches that another's are absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from osler.artifacts.bundle import Bundle
from osler.artifacts.task_folder import TaskFolder, read_records
from osler.core.errors import RecipeError
from osler.nn.multihead import Partial
from osler.stages.evaluate.config import EvaluateRecipe
from osler.stages.evaluate.run import run as evaluate
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.model import MultiTask
from osler.stages.finetune.run import prepare, run
from osler.text.document import Document

TRAIN = {"lr": 1e-2, "device": "cpu", "log_every": 1, "checkpoint_every": 0, "warmup": 0}
JOINT = {"entities": ("drugs", "diseases")}


@pytest.fixture(scope="module")
def tasks(make_task):
    """Both corpora hold drugs and diseases; each annotates its own, and the corpus of drugs is much the larger."""
    return {
        "drugs": make_task("drugs", ["DRUG"], seed=1, train=60, dev=6, test=8),
        "diseases": make_task("diseases", ["DISEASE"], seed=2, train=20, dev=6, test=8),
    }


def recipe(model, *tasks, **more) -> FinetuneRecipe:
    values = {"model": str(model), "tasks": tasks, "max_length": 64, "overlap": 8, "epochs": 6, "batch_size": 8}
    values |= {"dropout": 0.0, "train": TRAIN, "mixing": {"order": "proportional"}}
    return FinetuneRecipe.model_validate(values | more)


@pytest.fixture(scope="module")
def joint(models, tasks, tmp_path_factory) -> Path:
    given = recipe(models["plain"], *tasks.values(), joint=JOINT)
    return run(given, tmp_path_factory.mktemp("made") / "joint").path


def share_found(bundle: Bundle, head: str, tasks, words: dict[str, tuple[str, ...]]) -> dict[str, float]:
    """By type, how many of the words of that type a head finds in the test documents of both corpora."""
    records = [record for path in tasks.values() for record in TaskFolder.open(path).read("test")]
    predicted = bundle.predict(head, records)
    shares = {}
    for label, known in words.items():
        found = wanted = 0
        for record in predicted:
            assert isinstance(record, Document)
            present = {span.text_in(record.text) for span in record.spans if span.label == label}
            there = {word for word in known if f"{word} " in record.text}
            wanted += len(there)
            found += len(there & present)
        shares[label] = found / wanted
    return shares


TYPES = {"DRUG": ("aspirin", "warfarin"), "DISEASE": ("fever", "cough")}


def test_the_joint_head_finds_both_types_in_both_corpora_and_a_plain_union_does_not(
    joint, models, tasks, make_task, tmp_path
):
    shares = share_found(Bundle.load(joint, "cpu"), "entities", tasks, TYPES)
    assert min(shares.values()) > 0.9
    documents = {
        split: [record for path in tasks.values() for record in TaskFolder.open(path).read(split)]
        for split in ("train", "dev", "test")
    }
    union = make_task("union", ["DRUG", "DISEASE"], seed=0, **documents)
    plain = run(recipe(models["plain"], union), tmp_path / "plain").path
    taught_away = share_found(Bundle.load(plain, "cpu"), "union", tasks, TYPES)
    assert taught_away["DISEASE"] < 0.5  # most of them are O in the larger corpus


def test_the_marginal_loss_by_hand():
    """O of the corpus of drugs: the probability of O and of all tags of diseases together."""
    tags = ["O", "B-DRUG", "I-DRUG", "B-DISEASE", "I-DISEASE"]
    partial = Partial.of(["O", "B-DISEASE", "I-DISEASE"], tags)
    assert partial.outside.tolist() == [0, 1, 2]
    assert partial.own.tolist() == [3, 4]
    logits = torch.tensor([[0.3, 2.0, -1.0, 0.5, 0.1]], requires_grad=True)
    p = logits.detach().softmax(-1)[0]
    narrowed = partial.narrowed(logits).log_softmax(-1)
    assert narrowed[0, 0].exp().item() == pytest.approx(float(p[0] + p[1] + p[2]), rel=1e-6)
    assert narrowed[0, 1].exp().item() == pytest.approx(float(p[3]), rel=1e-6)
    (-narrowed[0, 0]).backward()
    gradient = logits.grad[0]
    # Nothing is taken from the tags of drugs in favour of O: both rise by their own share, the corpus's own types fall.
    assert gradient[0] / gradient[1] == pytest.approx(float(p[0] / p[1]), rel=1e-5)
    assert (gradient[:3] < 0).all()
    assert (gradient[3:] > 0).all()
    with pytest.raises(RecipeError, match="no output for the tag B-TEST"):
        Partial.of(["O", "B-TEST"], tags)


def test_a_corpus_does_not_teach_that_the_other_types_are_absent(models, tasks):
    """A head that is sure of a disease everywhere costs nothing on words the corpus of drugs leaves out."""
    given = recipe(models["plain"], *tasks.values(), joint=JOINT)
    state = prepare(given, models["plain"], [TaskFolder.open(path) for path in tasks.values()])
    head = state.bundle.model.head("entities")
    outputs = state.bundle.builders["entities"].outputs
    assert outputs == ["O", "B-DRUG", "I-DRUG", "B-DISEASE", "I-DISEASE"]
    with torch.no_grad():
        head.classifier.weight.zero_()
        head.classifier.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 20.0, 0.0]))
    batches = state.batches
    objective = MultiTask(state.bundle.model)
    for ref in {ref.task: ref for ref in batches.order(0)}.values():
        payload = batches.load(ref).payload
        assert payload.head == "entities"
        # Only words that are O, and what is ignored stays ignored.
        payload.targets[payload.targets > 0] = -100
        loss = float(objective(payload).logs[f"loss/{ref.task}"])
        assert loss < 1e-6 if ref.task == "drugs" else loss > 10


def test_each_task_is_chosen_and_scored_by_its_own_types(joint, tasks, tmp_path):
    counts = json.loads((joint / "manifest.json").read_text())["counts"]
    assert set(counts["dev"]) == set(tasks)
    assert counts["heads"] == 1
    assert min(counts["dev"].values()) > 0.9  # the other corpus's mentions are no false positives
    for name, path in tasks.items():
        made = evaluate(EvaluateRecipe(bundle=joint, task=path, head="entities", device="cpu"), tmp_path / name)
        metrics = json.loads((made.path / "metrics.json").read_text())
        assert metrics["main"] > 0.9
        assert metrics["protocol"] == f"{name}/strict@v1"
        labels = {span.label for record in read_records(made.path / "predictions.parquet") for span in record.spans}
        assert labels == set(TaskFolder.open(path).card.labels)


def test_the_bundle_has_one_head_that_annotates(joint):
    bundle = Bundle.load(joint, "cpu")
    assert bundle.spec.document_heads(language="en") == ["entities"]
    assert bundle.spec.heads["entities"].members == {"drugs": "strict", "diseases": "strict"}
    (note,) = bundle.annotate([Document("1", "bka aspirin mno fever lge .")])
    assert {(span.label, span.text_in(note.text)) for span in note.spans} == {("DRUG", "aspirin"), ("DISEASE", "fever")}
    assert "| entities | tagging | en | drugs/strict |" in (joint / "README.md").read_text()


def test_what_one_task_holds_out_teaches_no_other_task_of_the_head(models, tasks, make_task):
    theirs = TaskFolder.open(tasks["drugs"])
    shared = [record.with_(spans=()) for record in [*theirs.read("test")[:3], *theirs.read("dev")[:1]]]
    own = TaskFolder.open(tasks["diseases"]).read("train")
    leaky = make_task("leaky", ["DISEASE"], seed=7, train=[*own, *shared])
    given = recipe(models["plain"], tasks["drugs"], leaky, joint={"entities": ("drugs", "leaky")})
    state = prepare(given, models["plain"], [TaskFolder.open(path) for path in given.tasks])
    assert {name: leaks.found for name, leaks in state.leaks.items()} == {"drugs": 0, "leaky": 4}
    assert len(state.instances["leaky"].instances) == len(own)


def test_every_parameter_of_the_joint_head_learns(joint, models):
    bundle = Bundle.load(joint, "cpu").model
    spec = bundle.specs["entities"]
    fresh = type(bundle)(bundle.encoder).add_head(
        "entities", spec.kind, spec.num_labels, seed=1, labels=spec.labels, dropout=spec.dropout
    )
    for (key, value), after in zip(
        fresh.state_dict().items(), bundle.head("entities").state_dict().values(), strict=True
    ):
        assert (value != after).any(), key


def test_joint_heads_that_cannot_be_are_refused(models, tasks, tmp_path):
    both = (models["plain"], *tasks.values())
    cases = {
        "not among the tasks": {"joint": {"entities": ("drugs", "disease")}},
        "named twice": {"joint": {"one": ("drugs", "diseases"), "two": ("drugs", "diseases")}},
        "has the name of a task": {"joint": {"drugs": ("drugs", "diseases")}},
        "cannot be a CRF": {"joint": JOINT, "tagger": "crf"},
        "differ in subwords": {"joint": JOINT, "protocols": {"diseases": "strict-all"}},
    }
    for problem, values in cases.items():
        with pytest.raises(RecipeError, match=problem):
            run(recipe(*both, **values), tmp_path / "x")
    with pytest.raises(ValueError, match="at least 2 items"):
        recipe(*both, joint={"entities": ("drugs",)})


def test_a_member_is_scored_and_shown_under_its_own_protocol(models, tasks, tmp_path):
    protocols = {"diseases": "token"}
    made = run(recipe(models["plain"], *tasks.values(), epochs=1, joint=JOINT, protocols=protocols), tmp_path / "made")
    assert Bundle.load(made.path, "cpu").spec.heads["entities"].members == {"drugs": "strict", "diseases": "token"}
    card = (made.path / "README.md").read_text()
    assert "drugs/strict | " in card
    assert f"diseases/token | {made.manifest.counts['dev']['diseases']:.4f} token_f1" in card
    scored = evaluate(
        EvaluateRecipe(bundle=made.path, task=tasks["diseases"], head="entities", device="cpu"), tmp_path / "scored"
    )
    assert json.loads((scored.path / "metrics.json").read_text())["metric"] == "token_f1"


def test_class_weights_of_a_joint_head_are_those_of_each_task(models, tasks):
    """A task's targets are its own tags, so its weights count its own mentions only."""
    folders = [TaskFolder.open(path) for path in tasks.values()]
    given = recipe(models["plain"], *tasks.values(), joint=JOINT, class_weights="balanced")
    data = prepare(given, models["plain"], folders)
    for name, made in data.instances.items():
        assert made.class_weights.weights.shape == (3,), name  # O, B- and I- of one type
        payload, _ = data.batches.streams[name].load((0, 1), 1.0)
        assert payload.weights.shape == payload.targets.shape
        labelled = payload.targets >= 0
        assert payload.weights[labelled].unique().numel() == 2  # a mention counts for more than O
        assert torch.isfinite(MultiTask(data.bundle.model)(payload).loss_sum)


def test_fine_tuning_goes_on_from_the_encoder_of_a_joint_bundle_with_a_new_head(joint, tasks, tmp_path):
    still = TRAIN | {"lr": 1e-12, "steps": 1}
    made = run(recipe(joint, tasks["drugs"], train=still), tmp_path / "drugs").path
    before, after = Bundle.load(joint, "cpu").model, Bundle.load(made, "cpu").model
    assert list(after.heads) == ["drugs"]
    assert after.head("drugs").num_labels == 3
    for name, value in before.encoder.state_dict().items():
        torch.testing.assert_close(after.encoder.state_dict()[name], value, rtol=0, atol=1e-9)
