"""The Python front door, from raw text to annotations, as a user writes it."""

from __future__ import annotations

import inspect
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import osler
from osler import api
from osler.artifacts.bundle import Bundle
from osler.artifacts.corpus import Corpus
from osler.artifacts.encoder import Encoder
from osler.artifacts.task_folder import TaskFolder
from osler.artifacts.tokenizer import Tokenizer
from osler.clinic import raw_texts
from osler.stages.finetune.config import FinetuneRecipe
from osler.stages.study.recipe import StudyRecipe

DOCS = Path(__file__).resolve().parents[1] / "docs"
SIZES = {"train": 12, "dev": 4, "test": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("front-door")


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Corpus:
    raw = folder / "raw.txt"
    texts = [str(item["text"]) for item in raw_texts(60, language="en", seed=0)]
    raw.write_text("\n\n".join(" ".join(text.split()) for text in texts), encoding="utf-8")
    return osler.corpus(sources=[{"files": [str(raw)], "unit": "block"}], out=folder / "corpus")


@pytest.fixture(scope="module")
def tokenizer(corpus: Corpus, folder: Path) -> Tokenizer:
    return osler.vocab(corpus=corpus.path, size=600, out=str(folder / "tokenizer"))


@pytest.fixture(scope="module")
def encoder(corpus: Corpus, tokenizer: Tokenizer, folder: Path) -> Encoder:
    return osler.pretrain(
        "demo/pretrain",
        corpus=str(folder / "corpus"),
        tokenizer=folder / "tokenizer",
        out=folder / "encoder",
        batch_tokens=512,
        shape={"layers": 1, "width": 32, "heads": 2, "inner": 32},
        validation_share=0.2,
        train={"steps": 2, "eval_every": 2, "checkpoint_every": 0},
    )


@pytest.fixture(scope="module")
def task(folder: Path) -> TaskFolder:
    return osler.tasks_prepare(task="clinic-phi-en", options=SIZES, out=folder / "task")


@pytest.fixture(scope="module")
def bundle(encoder: Encoder, task: TaskFolder, folder: Path) -> Bundle:
    return osler.finetune(
        model=str(encoder.path), tasks=[str(folder / "task")], out=folder / "bundle", epochs=1, train={"lr": 1e-3}
    )


def test_each_function_returns_its_artifact(corpus, tokenizer, encoder, task, bundle):
    assert isinstance(corpus, Corpus)
    assert isinstance(tokenizer, Tokenizer)
    assert isinstance(encoder, Encoder)
    assert isinstance(task, TaskFolder)
    assert isinstance(bundle, Bundle)
    assert task.splits == ["train", "dev", "test"]
    assert list(bundle.spec.heads) == ["clinic-phi-en"]


def test_load_annotates_one_text_and_many(bundle, folder):
    nlp = osler.load(str(folder / "bundle"))
    text = "Aspirin 81 mg daily."
    doc = nlp(text)
    assert isinstance(doc, osler.Document)
    assert doc.text == text
    assert doc.to_dict()["text"] == text
    assert set(doc.to_dict()) >= {"id", "text", "spans", "relations", "labels"}
    many = list(nlp.pipe((f"Seen on {day} March." for day in range(1, 8)), batch_size=3))
    assert [found.text for found in many] == [f"Seen on {day} March." for day in range(1, 8)]
    assert [found.id for found in many] == [str(number) for number in range(1, 8)]


@pytest.mark.usefixtures("bundle")
def test_load_takes_a_hub_id(folder, monkeypatch):
    def snapshot(name, allow_patterns):
        assert name == "someone/clinical-bundle"
        assert "heads.safetensors" in allow_patterns
        return str(folder / "bundle")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert osler.load("someone/clinical-bundle").heads == ["clinic-phi-en"]


def test_load_names_a_folder_that_is_no_bundle(tmp_path):
    with pytest.raises(osler.OslerError, match=r"bundle\.json"):
        osler.load(tmp_path)


def test_a_section_changes_one_value_and_a_recipe_object_works(encoder, folder):
    recipe = FinetuneRecipe(model=str(encoder.path), tasks=(folder / "task",), epochs=1, train={"lr": 1e-3})
    made = osler.finetune(recipe, out=folder / "bundle")  # the same recipe and inputs: reused
    assert made.spec == osler.load(folder / "bundle").bundle.spec


@pytest.mark.usefixtures("bundle")
def test_the_rest_of_the_flow(folder):
    evaluation = osler.evaluate(bundle=folder / "bundle", task=folder / "task", out=folder / "evaluation")
    assert evaluation.manifest.kind == "evaluation"
    (folder / "note.txt").write_text("Aspirin 81 mg daily.", encoding="utf-8")
    annotations = osler.annotate(files=[folder / "note.txt"], bundle=folder / "bundle", out=folder / "annotations")
    assert annotations.manifest.counts["documents"] == 1
    exported = osler.export(bundle=folder / "bundle", out=folder / "exported")
    assert (exported.path / "config.json").is_file()
    source = folder / "annotations" / "annotations.jsonl"
    converted = osler.convert(input=source, to_format="brat", out=folder / "brat")
    assert converted.counts["documents"] == 1
    assert osler.tasks_check([folder / "task"]).sound


@pytest.mark.usefixtures("task")
def test_a_study_from_python(encoder, folder):
    study = osler.study(
        models={"tiny": {"model": str(encoder.path)}},
        tasks=[folder / "task"],
        seeds=[1],
        finetune={"epochs": 1},
        workers=1,
        out=folder / "study",
    )
    assert study.manifest.counts["runs"] == 1


def test_a_single_task_and_a_wrong_one_are_understood(tmp_path):
    with pytest.raises(osler.OslerError, match=r"tasks= must be a list of paths, not 3"):
        osler.finetune(model="m", tasks=3, out=tmp_path / "b")
    with pytest.raises(osler.OslerError, match="Did you mean ncbi-disease"):
        osler.finetune(model="m", tasks="ncbi-diseas", out=tmp_path / "b")


def test_a_wrong_setting_names_the_nearest_field(folder):
    with pytest.raises(osler.OslerError, match="did you mean 'epochs'"):
        osler.finetune(model="m", tasks=["t"], epoch=3, out=folder / "nothing")


def test_every_public_name_exists_and_is_typed():
    for name in osler.__all__:
        thing = getattr(osler, name)
        if inspect.isfunction(thing):
            assert inspect.getdoc(thing), name
            assert inspect.signature(thing).return_annotation is not inspect.Signature.empty, name
    with pytest.raises(AttributeError):
        osler.nothing  # noqa: B018


def test_the_front_door_is_light():
    code = "import sys, osler; osler.finetune; print([m for m in ('torch', 'transformers', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_api_page_is_current():
    made = runpy.run_path(str(DOCS / "build_api.py"))["page"]()
    assert made == (DOCS / "api.md").read_text(encoding="utf-8"), "run: python docs/build_api.py"


def test_settings_change_single_values_of_a_recipe_object(folder):
    base = FinetuneRecipe(model="m", tasks=(folder,), train={"lr": 1e-3, "seed": 7})
    changed = api._resolve(FinetuneRecipe, base, {"train": {"lr": 1e-4}, "epochs": None})
    assert (changed.train.lr, changed.train.seed, changed.epochs) == (1e-4, 7, 10)


def test_a_name_with_a_dot_is_one_name():
    models = {"roberta-1.5": {"model": "m"}}
    assert list(api._resolve(StudyRecipe, None, {"models": models, "tasks": ["t"]}).models) == ["roberta-1.5"]


def test_distilling_keeps_the_tokenizer_of_the_recipe_and_needs_a_teacher(folder, monkeypatch):
    given = {}
    monkeypatch.setattr(api, "pretrain", lambda recipe, **settings: given.update(settings))
    (folder / "named.toml").write_text('tokenizer = "mine"\n', encoding="utf-8")
    osler.distill(folder / "named.toml", teacher="t", corpus="c", out="o")
    assert (given["tokenizer"], given["distill"]) == ("mine", {"teacher": "t"})
    osler.distill(teacher="t", corpus="c", out="o")
    assert given["tokenizer"] == "t"
    with pytest.raises(osler.OslerError, match="no teacher is named"):
        osler.distill(corpus="c", out="o")


def test_a_bundle_is_opened_by_a_string(bundle, folder):
    assert isinstance(bundle, Bundle)
    assert Bundle.load(str(folder / "bundle"), device="cpu").spec == bundle.spec
    assert Bundle.digest(str(folder / "bundle")) == Bundle.digest(folder / "bundle")
    with pytest.raises(osler.OslerError, match="no such folder"):
        Bundle.load("x")


WITHOUT_EXTRAS = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "safetensors", "pyarrow", "scipy", "matplotlib", "jinja2"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import osler
calls = {
    "corpus": {"sources": [{"files": [__file__]}]},
    "vocab": {"corpus": "c", "size": 300},
    "vocab_compare": {"corpus": "c", "tokenizers": ["t"]},
    "pretrain": {"corpus": "c", "tokenizer": "t", "train": {"steps": 1}},
    "distill": {"teacher": "t", "corpus": "c", "preset": "tiny", "train": {"steps": 1}},
    "tasks_prepare": {"task": "clinic-phi-en"},
    "tasks_check": {"folders": ["t"]},
    "finetune": {"model": "m", "tasks": ["clinic-phi-en"]},
    "evaluate": {"bundle": "b", "task": "clinic-phi-en"},
    "study": {"models": {"m": {"model": "m"}}, "tasks": ["clinic-phi-en"]},
    "study_pairwise": {"models": {"m": {"model": "m"}}, "tasks": ["clinic-phi-en", "clinic-entities-en"]},
    "annotate": {"files": [__file__], "bundle": "b"},
    "export": {"bundle": "b"},
    "load": {"bundle": "b"},
}
for name, settings in calls.items():
    out = {} if name in ("vocab_compare", "tasks_check", "load") else {"out": f"{sys.argv[1]}/{name}"}
    try:
        getattr(osler, name)(**settings, **out)
    except osler.OslerError as error:
        print(name, error)
"""


def test_without_an_extra_every_function_raises_an_error_of_osler_and_most_name_the_extra(tmp_path):
    script = tmp_path / "without.py"
    script.write_text(WITHOUT_EXTRAS)
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert len(told) == 14
    named = {name for name, message in told.items() if 'pip install "osler[' in message}
    # The others find a missing input first.
    assert named >= {"pretrain", "distill", "tasks_prepare", "finetune", "evaluate", "study", "study_pairwise", "load"}


@pytest.mark.parametrize(
    ("call", "pieces"),
    [
        (lambda out: osler.annotate(files=["n.txt"], out=out), ["n.txt: no such file"]),
        (lambda out: osler.annotate(files=["n.txt"], bundel="b", out=out), ["'bundel'", "'bundle'"]),
        (lambda out: osler.annotate(files=["no.txt"], bundle=out.parent, out=out), ["manifest.json"]),
        (lambda out: osler.finetune(model="m", tasks=["t"], train={"learning_rate": 1}, out=out), ["learning_rate"]),
        (lambda out: osler.finetune(model="m", tasks=["t"], epochs="many", out=out), ["epochs"]),
        (lambda out: osler.export("no-recipe", out=out), ["no-recipe", "no such recipe"]),
        (lambda out: osler.load(out.parent, lang="en"), ["no argument 'lang'", "Did you mean 'language'?"]),
        (lambda out: osler.annotate(files=["n.txt"], bundle="b"), ["'out'"]),
        (lambda out: osler.load(out.parent, device="gpu"), ["unknown device 'gpu'"]),
    ],
)
def test_python_errors_are_one_message_without_options_or_a_chain(tmp_path, call, pieces):
    with pytest.raises(osler.OslerError) as error:
        call(tmp_path / "out")
    message = str(error.value)
    for piece in pieces:
        assert piece in message
    assert "--" not in message
    assert "pydantic" not in message
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_options_in_messages_become_arguments():
    error = api._in_python(osler.OslerError("cannot write", fix="Choose another --out, or replace it with --force"))
    assert str(error) == "cannot write. Choose another out, or replace it with force=True."
    error = api._in_python(osler.OslerError("not UTF-8", fix="Convert it, for example --encoding latin-1"))
    assert str(error) == "not UTF-8. Convert it, for example encoding='latin-1'."


@pytest.mark.usefixtures("bundle")
def test_one_text_instead_of_many_and_no_text_are_told(folder):
    nlp = osler.load(folder / "bundle")
    with pytest.raises(osler.OslerError, match="pipe takes many texts"):
        next(nlp.pipe("Aspirin."))
    with pytest.raises(osler.OslerError, match="text 2: this is int, not a string"):
        list(nlp.pipe(["Aspirin.", 3]))
    with pytest.raises(osler.OslerError, match="no head of this bundle reads pairs of texts"):
        next(nlp.pairs([("a", "b")]))
