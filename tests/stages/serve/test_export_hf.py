"""Exported heads in transformers: the folder's own pipeline predicts what osler does, and the card says what a stock one scores."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from encoders import preset_encoder

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleHead, BundleSpec
from osler.artifacts.calibration import BundleCalibration, HeadCalibration
from osler.artifacts.runner import TorchRunner
from osler.artifacts.task_folder import TaskFolder, TaskWriter
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.config import Recipe
from osler.core.errors import RecipeError
from osler.nn.multihead import MultiHeadModel
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.finetune.run import run as finetune
from osler.stages.serve import export_hf
from osler.stages.serve.config import ExportRecipe
from osler.stages.serve.export import plan, run
from osler.stages.serve.hf_pipeline import OslerTextClassification, OslerTokenClassification
from osler.tasks.card import TaskCard
from osler.text.document import Document, Span, TextPair

# Labels, and what differs from the plainest head. Random weights break the rules of tags often, so that decoding matters.
TAGGERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "greedy": {"options": {"decoding": "greedy"}},
    "strict": {"options": {"decoding": "greedy"}, "protocol": {"repair": "strict"}},
    "bioes": {"protocol": {"scheme": "BIOES"}},
    "chain": {"options": {"tagger": "crf"}},
    "last": {"protocol": {"subwords": "copy", "read": "last"}},
    "sentences": {"options": {"unit": "sentence", "max_words": 7}},
    "lines": {"options": {"unit": "sentence"}, "card": {"sentences": "lines"}},
}
TEXT_HEADS: dict[str, dict[str, Any]] = {
    "topic": {"card": {"kind": "classification"}, "protocol": {"metric": "accuracy"}},
    "codes": {"card": {"kind": "multilabel"}, "protocol": {"metric": "f1", "unit": "sentence"}},
    "severity": {"card": {"kind": "regression", "labels": ()}, "protocol": {"metric": "pearson"}},
    "entails": {"card": {"kind": "classification", "record": "pair"}, "protocol": {"metric": "accuracy"}},
    "similar": {
        "card": {"kind": "regression", "record": "pair", "symmetric": True, "labels": ()},
        "protocol": {"metric": "pearson"},
    },
}
NASTY = [
    "",
    " \n\t ",
    "Aspirin 81mg daily (metformin), T 38.2°C.\nNo fever.\n\nMr. Smith's follow-up: 3/4/2019.",
    "Cafe\u0301 \U0001f469\u200d⚕️ took β-blockers\u200b; 你好 \x00 \u202eright-to-left",
    "x" * 300 + " fever " + "-" * 150,
    "He takes aspirin. " * 60,
]
SOURCE = {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}}


class Made(Recipe):
    """A bundle with random weights, or a task."""

    name: str


def card(name: str, language: str = "en", protocol: dict[str, Any] | None = None, **more: Any) -> TaskCard:
    values = {
        "name": name,
        "title": name,
        "kind": "tagging",
        "language": language,
        "labels": ("DRUG", "DOSE"),
        "protocol": "plain",
        "protocols": {"plain": {"metric": "f1", **(protocol or {})}},
        "source": SOURCE,
    }
    return TaskCard.model_validate(values | more)


@pytest.fixture(scope="module")
def random_bundle(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with a head of every kind, of random weights."""
    heads = {
        name: BundleHead(
            card=card(name, protocol=parts.get("protocol"), **parts.get("card", {})),
            protocol="plain",
            # The only layers that the stock classifier of this architecture can have.
            options={"head": "linear", **parts.get("options", {})},
        )
        for name, parts in (TAGGERS | TEXT_HEADS).items()
    }
    spec = BundleSpec(max_length=48, overlap=8, heads=heads)

    def build(work: Workspace) -> None:
        model = MultiHeadModel(preset_encoder("tiny", vocab_size=400, pad_token_id=1, seed=0, max_length=64))
        # As if scores had been fitted on dev.
        fitted = HeadCalibration(temperature=2.5, slope=1.7, offset=-0.3)
        calibration = BundleCalibration(heads=dict.fromkeys(("plain", "chain", "topic", "codes"), fitted))
        bundle = Bundle(TorchRunner(model), Tokenizer.open(tokenizer), spec, calibration)
        torch.manual_seed(0)
        for name, builder in bundle.builders.items():
            more = {"layers": "linear"} if name in TEXT_HEADS else {}
            head = model.add_head(name, builder.head, len(builder.outputs), seed=0, labels=builder.outputs, **more)
            with torch.no_grad():
                for parameter in head.parameters():
                    parameter.copy_(torch.randn_like(parameter))
        bundle.save(work.path, tokenizer_from=tokenizer)

    out = tmp_path_factory.mktemp("hf") / "bundle"
    return produce(out, kind="bundle", recipe=Made(name="random"), parents={}, build=build).path


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer with everything that transformers wants to know about it."""
    return Tokenizer.write(tmp_path_factory.mktemp("tokenizer"), Tokenizer.open(tokenizer_folder).tokenizer, 64).folder


def own(folder: Path) -> Any:
    """The pipeline of an exported folder; its code is that of `osler_pipeline.py`, which `run` has executed."""
    from transformers import pipeline

    tagging = "scheme" in json.loads((folder / "osler_pipeline.json").read_text())
    kind = OslerTokenClassification if tagging else OslerTextClassification
    task = "token-classification" if tagging else "text-classification"
    return pipeline(task, model=str(folder), pipeline_class=kind, folder=folder, device="cpu")


@pytest.mark.parametrize("name", TAGGERS)
def test_the_own_pipeline_finds_the_mentions_that_osler_finds(random_bundle, tmp_path, name):
    made = run(ExportRecipe(bundle=random_bundle, head=name), tmp_path / "hf")
    read = own(made.path)
    expected = Bundle.load(random_bundle, "cpu").predict(name, [Document(str(n), t) for n, t in enumerate(NASTY)])
    assert sum(len(document.spans) for document in expected) > 20
    for found in (read(NASTY), read(NASTY, batch_size=4), [read(text) for text in NASTY]):
        for document, mentions in zip(expected, found, strict=True):
            assert [(m["start"], m["end"], m["entity_group"], m["word"]) for m in mentions] == [
                (s.start, s.end, s.label, document.text[s.start : s.end]) for s in document.spans
            ]
            assert [m["score"] for m in mentions] == pytest.approx([s.score for s in document.spans], abs=1e-4)
    assert made.counts["sample texts"]["own"] == 100.0


@pytest.mark.parametrize("name", TEXT_HEADS)
def test_the_own_pipeline_gives_texts_the_labels_that_osler_gives(random_bundle, tmp_path, name):
    made = run(ExportRecipe(bundle=random_bundle, head=name), tmp_path / "hf")
    pairs = [TextPair(str(n), a, b) for n, (a, b) in enumerate(zip(NASTY[2:], NASTY[1:], strict=False))]
    given = pairs if name in ("entails", "similar") else [Document(str(n), text) for n, text in enumerate(NASTY)]
    expected = Bundle.load(random_bundle, "cpu").predict(name, given)
    read = own(made.path)
    for record, answer in zip(expected, read([export_hf._input(record) for record in given]), strict=True):
        if record.value is not None:
            assert answer[0]["score"] == pytest.approx(record.value, abs=1e-4)
        elif name == "codes":
            assert {entry["label"] for entry in answer if entry["score"] > 0.5} == set(record.labels)
            assert {entry["label"]: entry["score"] for entry in answer} == pytest.approx(record.scores, abs=1e-4)
        else:
            assert answer[0]["label"] == record.labels[0]
            assert answer[0]["score"] == pytest.approx(record.scores[record.labels[0]], abs=1e-4)


def test_the_code_on_the_card_runs_without_osler(random_bundle, tmp_path):
    folder = run(ExportRecipe(bundle=random_bundle, head="chain"), tmp_path / "hf").path
    readme = (folder / "README.md").read_text()
    assert "No score was measured" in readme
    assert "trust_remote_code` is not needed" in readme
    own_code, stock_code = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    text = "Aspirin 81mg daily, metformin."
    code = "import sys\nsys.modules['osler'] = None\n" + (own_code + stock_code).replace('"Text"', repr(text))
    done = subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    [expected] = Bundle.load(random_bundle, "cpu").predict("chain", [Document("1", text)])
    assert expected.spans
    assert re.findall(r"'start': (\d+), 'end': (\d+)", first) == [(str(s.start), str(s.end)) for s in expected.spans]


def test_a_pipeline_refuses_settings_that_it_would_ignore(random_bundle, tmp_path):
    read = own(run(ExportRecipe(bundle=random_bundle, head="plain"), tmp_path / "hf").path)
    with pytest.raises(TypeError, match="stride: windows and aggregation are part of this pipeline"):
        read("Aspirin", stride=4)


def test_stock_pipelines_read_the_tags_of_any_scheme_as_bio(random_bundle, tmp_path):
    config = json.loads(
        (run(ExportRecipe(bundle=random_bundle, head="bioes"), tmp_path / "hf").path / "config.json").read_text()
    )
    assert list(config["id2label"].values()) == [
        "O", "B-DRUG", "I-DRUG", "I-DRUG", "B-DRUG", "B-DOSE", "I-DOSE", "I-DOSE", "B-DOSE"
    ]  # fmt: skip


DRUGS = ["aspirin", "metformin", "lisinopril", "ibuprofen", "warfarin", "omeprazole"]


def note(random_: random.Random, number: int, language: str) -> Document:
    """A few lines in which drugs and doses are easy to learn."""
    text, spans = "", []
    for _ in range(random_.randint(2, 6)):
        text += {"en": "He takes ", "es": "El paciente toma "}[language]
        for label, mention in (("DRUG", random_.choice(DRUGS)), ("DOSE", f"{random_.randint(1, 99)} mg")):
            spans.append(Span.at(len(text), len(text) + len(mention), label, id=f"T{len(spans) + 1}"))
            text += mention + (" " if label == "DRUG" else random_.choice([", daily.\n", ".\n\n", "; then "]))
    return Document(f"{language}{number}", text, tuple(spans))


@pytest.fixture(scope="module")
def trained(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A bundle with three heads, trained for a few seconds, and its tasks."""
    folder = tmp_path_factory.mktemp("trained")
    cards = [
        card("drugs-en"),
        card("drugs-es", "es", {"scheme": "BIOES"}),
        card("anticoagulated", protocol={"metric": "accuracy"}, kind="classification", labels=("yes", "no")),
    ]
    tasks = []
    for number, each in enumerate(cards):

        def build(work: Workspace, each: TaskCard = each, number: int = number) -> None:
            random_ = random.Random(number)
            with TaskWriter(work.path, pairs=False) as writer:
                for split, count in (("train", 60), ("dev", 12)):
                    for position in range(count):
                        record = note(random_, 1000 * number + 100 * (split == "dev") + position, each.language)
                        if each.name == "anticoagulated":
                            label = "yes" if "warfarin" in record.text else "no"
                            record = record.with_(spans=(), labels=(label,))
                        writer.add(split, record)
                writer.write_card(each)

        tasks.append(
            produce(folder / each.name, kind="task", recipe=Made(name=each.name), parents={}, build=build).path
        )
    model = preset_encoder("tiny", vocab_size=400, pad_token_id=1, seed=0, max_length=64)
    model.save(folder / "encoder")
    Tokenizer.open(tokenizer).copy_to(folder / "encoder")
    settings: dict[str, Any] = {"lr": 3e-3, "seed": 1, "device": "cpu"}
    size: dict[str, Any] = {"max_length": 64, "overlap": 8, "epochs": 4, "batch_size": 8, "head": "linear"}
    recipe = FinetuneRecipe(model=str(folder / "encoder"), tasks=tuple(tasks), train=settings, **size)
    return finetune(recipe, folder / "bundle").path, tasks


def test_three_trained_heads_score_in_transformers_what_they_score_in_osler(trained, tmp_path):
    bundle, tasks = trained
    for task in tasks:
        name = TaskFolder.open(task).card.name
        recipe = ExportRecipe(bundle=bundle, head=name, tasks=(task,))
        assert f"dev of {name}" in plan(recipe, tmp_path / name)[1]
        made = run(recipe, tmp_path / name)
        measured = made.counts[f"dev of {name}/plain@v1"]
        assert measured["osler"] > 40
        assert abs(measured["osler"] - measured["own"]) <= 0.5
        row = (
            f"| dev of {name}/plain@v1 | {measured['metric']} | 12 | {measured['osler']:.1f} | {measured['own']:.1f} |"
        )
        assert row in (made.path / "README.md").read_text()
        assert run(recipe, tmp_path / name).reused


def test_a_head_that_scores_less_than_allowed_is_not_exported(trained, tmp_path, monkeypatch, capsys):
    """As if the own pipeline read other tokens than osler: the loss is measured and named, and can be accepted."""
    bundle, tasks = trained
    settings = export_hf._settings
    monkeypatch.setattr(export_hf, "_settings", lambda *given: settings(*given) | {"read": "last"})
    recipe = ExportRecipe(bundle=bundle, head="drugs-en", tasks=(tasks[0],))
    with pytest.raises(RecipeError, match=r"drugs-en scores .* instead of .* on dev of drugs-en/plain@v1.*--max-loss"):
        run(recipe, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
    assert not (tmp_path / "hf.partial").exists()
    made = run(recipe.changed(max_loss=100.0), tmp_path / "hf")
    assert made.counts["dev of drugs-en/plain@v1"]["own"] < made.counts["dev of drugs-en/plain@v1"]["osler"] - 0.5


def test_a_stock_pipeline_that_scores_less_is_named(trained, tmp_path, capsys):
    bundle, tasks = trained
    made = run(ExportRecipe(bundle=bundle, head="drugs-en", tasks=(tasks[0],)), tmp_path / "hf")
    measured = made.counts["dev of drugs-en/plain@v1"]
    assert measured["stock"] < measured["osler"] - 0.5  # byte-level sub-words, only the first of a word is labelled
    readme, printed = (made.path / "README.md").read_text(), " ".join(capsys.readouterr().err.split())
    assert f"It loses {measured['osler'] - measured['stock']:.1f} points of f1" in readme
    assert f"a stock pipeline scores {measured['stock']:.1f} instead of {measured['osler']:.1f}" in printed


def test_wrong_inputs_are_told_before_anything_is_made(trained, tmp_path):
    bundle, tasks = trained
    with pytest.raises(RecipeError, match=r"drugs-en was not trained on drugs-es. Give the folder of drugs-en"):
        run(ExportRecipe(bundle=bundle, head="drugs-en", tasks=(tasks[1],)), tmp_path / "hf")
    assert list(tmp_path.iterdir()) == []


def test_relation_heads_have_no_stock_pipeline(tmp_path, random_bundle):
    spec = BundleSpec.load(random_bundle)
    relations = card("links", kind="relation", labels=("treats",), pairs=(("DRUG", "DOSE"),))
    copy = tmp_path / "bundle"
    produce(
        copy,
        kind="bundle",
        recipe=Made(name="relations"),
        parents={},
        build=lambda work: spec.changed(heads={"links": BundleHead(card=relations, protocol="plain")}).save(work.path),
    )
    assert Artifact.open(copy).manifest.kind == "bundle"
    with pytest.raises(RecipeError, match="links is for mentions that other heads find"):
        plan(ExportRecipe(bundle=copy), tmp_path / "hf")
