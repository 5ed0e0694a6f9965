"""`osler annotate` as a stage: what is kept, what is skipped, what is told, and what a kill leaves."""

from __future__ import annotations

import io
import json
import warnings
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import get_args

import pytest
from forked import run_code

from osler.artifacts.bundle import Bundle
from osler.artifacts.runner import run_heads
from osler.core.artifact import Artifact
from osler.core.errors import InputError, RecipeError
from osler.formats.jsonl import json_line
from osler.formats.registry import get_format
from osler.stages.serve import annotate
from osler.stages.serve.config import AnnotateRecipe, AnnotationFormat
from osler.stages.serve.engine import AnnotationEngine
from osler.text.document import Document, Relation, Span, TextPair

SPANISH = "El paciente fue visto por los médicos de la unidad con fiebre y tos, y se trata con el fármaco para las infecciones."
ENGLISH = (
    "The patient was seen by the doctors of the unit with fever and cough, and is treated for the infections at home."
)
FRENCH = (
    "Le patient est vu par les médecins de l'unité avec une fièvre et une toux, et il est traité pour des infections."
)


def recipe(bundle: Path, *files: Path, **more) -> AnnotateRecipe:
    return AnnotateRecipe(files=files, bundle=bundle, device="cpu", **more)


def lines(recipe: AnnotateRecipe) -> list[dict]:
    target = io.StringIO()
    annotate.stream(recipe, target)
    return [json.loads(line) for line in target.getvalue().split("\n") if line]


@pytest.fixture
def notes(tmp_path) -> Path:
    """A folder with one file that is not UTF-8 among three."""
    folder = tmp_path / "notes"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("Aspirin 81 mg.")
    (folder / "inner" / "b.txt").write_bytes(b"fiebre m\xe1s tos")
    (folder / "c.txt").write_text("No fever.")
    (folder / ".hidden.txt").write_bytes(b"\xff")
    return folder


@pytest.fixture
def scored(monkeypatch):
    """A bundle that finds three spans and two relations with known scores."""
    spans = (
        Span.at(0, 1, "A", id="T1", score=0.0),
        Span.at(2, 3, "A", id="T2", score=0.5),
        Span.at(4, 5, "A", id="T3"),
    )
    relations = (
        Relation("r", "T2", "T3", id="R1", score=0.0),
        Relation("r", "T2", "T3", id="R2"),
        Relation("r", "T1", "T3", id="R3", score=0.9),
    )
    found = Document("1", "a b c", spans, relations)
    monkeypatch.setattr(Bundle, "annotate", lambda *_: [found])


@pytest.mark.parametrize(
    ("least", "spans", "relations"),
    [
        (0.0, ["T1", "T2", "T3"], ["R1", "R2", "R3"]),
        (0.4, ["T2", "T3"], ["R2"]),
        (0.5, ["T2", "T3"], ["R2"]),
        (1.0, ["T3"], []),
    ],
)
@pytest.mark.usefixtures("scored")
def test_a_score_of_zero_is_low_and_what_has_no_score_is_kept(bundle, tmp_path, least, spans, relations):
    (tmp_path / "a.txt").write_text("a b c")
    [found] = lines(recipe(bundle, tmp_path / "a.txt", min_score=least))
    assert [span["id"] for span in found["spans"]] == spans
    assert [relation["id"] for relation in found.get("relations", [])] == relations


def test_a_file_that_is_not_utf8_is_skipped_and_counted_the_same_every_time(bundle, notes, tmp_path):
    first = annotate.run(recipe(bundle, notes), tmp_path / "out")
    assert first.counts["documents"] == 2
    assert first.counts["skipped"] == 1
    [skipped] = annotate.skipped(first)
    assert (skipped.where, skipped.problem) == ("inner/b.txt", "not UTF-8 at byte 8")
    assert "--encoding latin-1" in skipped.fix
    again = annotate.run(recipe(bundle, notes), tmp_path / "out")
    assert again.reused
    assert annotate.skipped(again) == [skipped]
    elsewhere = annotate.run(recipe(bundle, notes), tmp_path / "other")
    assert elsewhere.manifest.files == first.manifest.files
    read = annotate.run(recipe(bundle, notes, encoding="latin-1"), tmp_path / "read")
    assert (read.counts["documents"], "skipped" in read.counts) == (3, False)


def test_if_nothing_can_be_read_that_is_an_error(bundle, notes, tmp_path):
    with pytest.raises(InputError, match=r"b\.txt: not UTF-8 at byte 8"):
        annotate.run(recipe(bundle, notes / "inner"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bad_line_is_skipped_and_named(bundle, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Aspirin."}\n\nnot json\n{"text": 3}\n{"id": "x", "text": "Fever."}\n')
    made = annotate.run(recipe(bundle, tmp_path / "a.jsonl"), tmp_path / "out")
    assert [item.where for item in annotate.skipped(made)] == ["a.jsonl:3", "a.jsonl:4"]
    written = get_format("jsonl").read(made.path / "annotations.jsonl")
    assert [document.id for document in written] == ["1", "x"]


def test_pairs_get_a_label_and_a_value_with_scores(bundle, tmp_path):
    (tmp_path / "pairs.tsv").write_text("premise\thypothesis\tsource\nHe has fever.\tHe is ill.\tED\n")
    (tmp_path / "pairs.jsonl").write_text('{"id": "p", "first": "He has fever.", "second": "He is ill."}\n')
    (tmp_path / "pairs.csv").write_text("a,text,b\nHe has fever.,unused,He is ill.\n")
    one = lines(recipe(bundle, tmp_path / "pairs.tsv"))
    two = lines(recipe(bundle, tmp_path / "pairs.jsonl"))
    three = lines(recipe(bundle, tmp_path / "pairs.csv", text_columns=("a", "b")))
    for [pair] in (one, two, three):
        [label] = pair["labels"]
        assert label in ("entailment:yes", "entailment:no")
        assert 0.5 <= pair["scores"][label] <= 1
        assert f"{pair['value']:.4f}" == pair["meta"]["value:similarity"]
        assert pair["labels"] == one[0]["labels"]
    assert one[0]["meta"]["source"] == "ED"
    made = annotate.run(recipe(bundle, tmp_path / "pairs.tsv", heads=("similarity",)), tmp_path / "out")
    assert made.counts == {"pairs": 1}


def test_heads_that_do_not_fit_the_input_say_what_to_give(bundle, pair_bundle, tmp_path):
    (tmp_path / "a.txt").write_text("Aspirin.")
    (tmp_path / "p.csv").write_text("sentence1,sentence2\na,b\n")
    with pytest.raises(RecipeError, match=r"no head of this bundle reads single texts: entailment and .* Give pairs"):
        lines(recipe(pair_bundle, tmp_path / "a.txt"))
    with pytest.raises(RecipeError, match="similarity can only read pairs of texts, and the input is single texts"):
        lines(recipe(bundle, tmp_path / "a.txt", heads=("similarity",)))
    with pytest.raises(RecipeError, match=r"drugs can only read single texts, .* entailment \(en\), similarity \(en\)"):
        annotate.plan(recipe(bundle, tmp_path / "p.csv", heads=("drugs",)), None)
    with pytest.raises(RecipeError, match="no head for single texts in the language 'fr'"):
        annotate.plan(recipe(bundle, tmp_path / "a.txt", language="fr"), None)
    with pytest.raises(RecipeError, match="brat cannot hold pairs"):
        annotate.plan(recipe(bundle, tmp_path / "p.csv", to="brat"), tmp_path / "out")
    assert lines(recipe(pair_bundle, tmp_path / "p.csv"))


@pytest.mark.parametrize(
    ("text", "more", "pieces"),
    [
        (ENGLISH, {}, []),
        (SPANISH, {}, []),
        (FRENCH, {}, ["looks French", "drugs and farmacos were trained on English and Spanish"]),
        (FRENCH, {"language": "all"}, []),
        (ENGLISH, {"heads": ("drugs", "farmacos")}, ["farmacos was trained on Spanish", "--language en"]),
        (ENGLISH, {"heads": ("farmacos",)}, ["looks English", "Expect poor results"]),
        (ENGLISH, {"language": "es"}, []),
        (SPANISH, {"heads": ("drugs",)}, ["looks Spanish", "drugs was trained on English"]),
        (ENGLISH, {"heads": ("drugs",)}, []),
        ("Aspirin 81 mg.", {}, []),
    ],
)
def test_text_in_another_language_than_the_heads_is_told_once(bundle, tmp_path, capsys, text, more, pieces):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    lines(recipe(bundle, tmp_path, batch_characters=1, **more))
    told = " ".join(capsys.readouterr().err.split())
    assert told.count("looks") == bool(pieces)
    for piece in pieces:
        assert piece in told


def test_the_plan_and_the_summary_say_which_heads_read_the_documents(bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(annotate, "_PART", 64)
    texts = [ENGLISH, SPANISH, "Aspirin 81 mg.", ENGLISH, SPANISH, ENGLISH]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    chosen = "each document is read by the heads for its language, or by all if it shows none of them"
    assert chosen in annotate.plan(recipe(bundle, tmp_path / "a.jsonl"), None)
    found = lines(recipe(bundle, tmp_path / "a.jsonl"))
    assert "documents read: 3 as English, 2 as Spanish, 1 by all heads\n" in capsys.readouterr().err
    labels = [{span["attributes"]["head"] for span in note["spans"]} for note in found]
    assert labels == [{"drugs"}, {"farmacos"}, {"drugs", "farmacos"}, {"drugs"}, {"farmacos"}, {"drugs"}]
    made = annotate.run(recipe(bundle, tmp_path / "a.jsonl"), tmp_path / "out")
    assert made.counts["read_as"] == {"en": 3, "es": 2, "": 1}
    assert set(made.counts) == {"documents", "entities", "relations", "read_as"}
    assert "documents read" not in capsys.readouterr().err  # Python prints nothing
    for more in ({"language": "all"}, {"language": "en"}, {"heads": ("drugs", "farmacos")}):
        assert chosen not in annotate.plan(recipe(bundle, tmp_path / "a.jsonl", **more), None)
        made = annotate.run(recipe(bundle, tmp_path / "a.jsonl", **more), tmp_path / "out", force=True)
        assert "read_as" not in made.counts
        lines(recipe(bundle, tmp_path / "a.jsonl", **more))
        assert "documents read" not in capsys.readouterr().err


def test_python_gives_what_the_command_line_gives_in_mixed_batches(bundle, tmp_path):
    import osler

    texts = [ENGLISH, SPANISH, "Aspirin 81 mg.", FRENCH, "", ENGLISH[:40], SPANISH[:30]] * 3
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for more in ({}, {"language": "all"}, {"language": "es"}, {"heads": ("drugs",)}):
        wanted = lines(recipe(bundle, tmp_path / "a.jsonl", **more))
        assert lines(recipe(bundle, tmp_path / "a.jsonl", batch_characters=150, **more)) == wanted
        nlp = osler.load(bundle, device="cpu", **more)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert [json.loads(json_line(document)) for document in nlp.pipe(texts, batch_size=5)] == wanted


def test_progress_has_a_total(bundle, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("Aspirin.")
    (tmp_path / "b.jsonl").write_text('{"text": "x"}\n\n{"text": "y"}\n')
    (tmp_path / "c.csv").write_text('text\n"two\nlines"\nz\n')
    totals = []
    real = annotate.progress
    monkeypatch.setattr(annotate, "progress", lambda name, total=None: totals.append(total) or real(name, total))
    files = [tmp_path / name for name in ("a.txt", "b.jsonl", "c.csv")]
    assert len(lines(recipe(bundle, *files))) == totals[0] == 5


def test_brat_output_has_a_configuration_with_the_types_found(bundle, tmp_path):
    (tmp_path / "a.txt").write_text("Aspirin 81 mg for chest pain, and no fever. " * 4)
    made = annotate.run(recipe(bundle, tmp_path / "a.txt", to="brat"), tmp_path / "out")
    shown = (made.path / "brat" / "annotation.conf").read_text()
    labels = {span.label for span in next(iter(get_format("brat").read(made.path / "brat"))).spans}
    assert shown.partition("[relations]")[0].split() == ["[entities]", *sorted(labels)]
    assert "head\tArg:<ANY>, Value:" in shown


FORMATS = get_args(AnnotationFormat)


@pytest.mark.parametrize("to", FORMATS)
def test_every_format_is_written_and_says_what_it_cannot_hold(bundle, tmp_path, capsys, to):
    (tmp_path / "a.txt").write_text("Aspirin 81 mg for chest pain, and no fever. " * 4)
    made = annotate.run(recipe(bundle, tmp_path / "a.txt", to=to, language="en"), tmp_path / "out")
    assert made.counts["documents"] == 1
    assert made.counts["entities"] > 0
    files = {name for name in made.manifest.files if not name.endswith("loss.json")}
    assert (
        files
        == {
            "jsonl": {"annotations.jsonl"},
            "brat": {"brat/a.ann", "brat/a.txt", "brat/annotation.conf"},
            "bioc": {"annotations.bioc.xml"},
            "pubtator": {"annotations.pubtator"},
            "csv": {f"csv/{name}.csv" for name in ("entities", "relations", "labels", "documents")},
            "parquet": {f"parquet/{name}.parquet" for name in ("entities", "relations", "labels", "documents")},
            "fhir": {"fhir/a.json"},
            "omop": {"omop/note.csv", "omop/note_nlp.csv"},
            "html": {"html/index.html"},
        }[to]
    )
    assert not (made.path / "parts").exists()
    annotate.report_loss(made)
    assert (f"{to} cannot hold" in capsys.readouterr().err) == ("loss.json" in made.manifest.files)
    if to in ("jsonl", "brat", "bioc", "pubtator"):
        [found] = get_format(to).read(made.path / ("brat" if to == "brat" else next(iter(files))))
        assert len(found.spans) == made.counts["entities"]


def test_options_of_a_format_are_checked_before_anything_is_read(bundle, tmp_path):
    (tmp_path / "a.txt").write_text("Aspirin.")
    with pytest.raises(RecipeError, match=r"the format 'fhir' has no option 'condition'. Did you mean 'conditions'"):
        annotate.plan(recipe(bundle, tmp_path / "a.txt", to="fhir", write={"condition": "x"}), tmp_path / "out")
    made = annotate.run(recipe(bundle, tmp_path / "a.txt", to="csv", write={"texts": True}), tmp_path / "out")
    assert "Aspirin." in (made.path / "csv" / "documents.csv").read_text()


def test_notes_are_cut_into_batches_by_size_and_keep_their_order(bundle, tmp_path, monkeypatch):
    lengths = [3, 300, 3, 3, 40, 3, 1000, 3]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{"x" * length}"}}\n' for length in lengths))
    seen = []
    real = AnnotationEngine.annotate
    monkeypatch.setattr(
        AnnotationEngine, "annotate", lambda self, batch, *rest: seen.append(batch) or real(self, batch, *rest)
    )
    found = lines(recipe(bundle, tmp_path / "a.jsonl", batch_characters=200))
    assert [len(note["text"]) for note in found] == lengths
    assert [[len(note.text) for note in batch] for batch in seen] == [[3], [300], [3, 3, 40, 3], [1000], [3]]


def test_the_cut_into_files_does_not_change_the_answers(bundle, tmp_path):
    texts = [f"Aspirin {number} mg for chest pain." for number in range(20)]
    (tmp_path / "files").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "files" / f"{number:02d}.txt").write_text(text)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    spans = [
        [note.get("spans") for note in lines(recipe(bundle, tmp_path / name))] for name in ("files", "a.jsonl", "a.csv")
    ]
    assert spans[0] == spans[1] == spans[2]


KILLED = """
import sys
from pathlib import Path
from killing import die_at_call
from osler.stages.serve import annotate
from osler.stages.serve.config import AnnotateRecipe
folder, call = Path(sys.argv[1]), int(sys.argv[2])
annotate._PART = 64
die_at_call(annotate, "_contents", call)
recipe = AnnotateRecipe(files=(folder / "notes.jsonl",), bundle=sys.argv[3], device="cpu", to=sys.argv[4])
annotate.run(recipe, folder / "out")
"""


@pytest.mark.parametrize("to", ["jsonl", "csv"])
def test_killed_twice_and_run_again_it_leaves_the_same_files_as_one_run(bundle, tmp_path, monkeypatch, to):
    # Two notes are a part, so that the first part is finished when the third note is counted.
    words = ["for", "para el", "and"]
    notes = "".join(f'{{"text": "Aspirin {n} {words[n % 3]}"}}\n' for n in range(6))
    (tmp_path / "notes.jsonl").write_text(f"{notes}bad\n")
    for call in (4, 3):
        done = run_code(KILLED, str(tmp_path), str(call), str(bundle), to, cwd=tmp_path)
        assert done.returncode == -9, done.stderr
    parts = sorted(path.name for path in (tmp_path / "out.partial" / "parts").glob("0*"))
    assert parts == ["00000000.json", "00000000.jsonl", "00000001.json", "00000001.jsonl"]
    monkeypatch.setattr(annotate, "_PART", 64)
    asked = recipe(bundle, tmp_path / "notes.jsonl", to=to)
    counted = []
    real = annotate._contents
    monkeypatch.setattr(annotate, "_contents", lambda record: counted.append(record) or real(record))
    killed = annotate.run(asked, tmp_path / "out")
    assert len(counted) == 2  # the notes of the last part
    whole = annotate.run(asked, tmp_path / "whole")
    assert killed.manifest == whole.manifest
    assert killed.counts["documents"] == 6
    assert killed.counts["read_as"] == {"en": 4, "es": 2}
    assert killed.counts["skipped"] == 1
    Artifact.open(killed.path).verify()
    inside = {path.relative_to(killed.path) for path in killed.path.rglob("*")}
    assert inside == {path.relative_to(whole.path) for path in whole.path.rglob("*")}


def test_the_date_of_a_resumed_run_is_that_of_its_start(bundle, tmp_path, monkeypatch):
    (tmp_path / "notes.jsonl").write_text('{"text": "Aspirin 81 mg for chest pain."}\n')
    asked = recipe(bundle, tmp_path / "notes.jsonl", to="omop")

    class Day(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 11, day, tzinfo=tz)

    monkeypatch.setattr(annotate, "datetime", Day)
    day = 18
    with monkeypatch.context() as patch:
        patch.setattr(annotate, "_assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            annotate.run(asked, tmp_path / "out")
    day = 19
    made = annotate.run(asked, tmp_path / "out")
    assert ",2026-11-18,2026-11-18 00:00:00," in (made.path / "omop" / "note_nlp.csv").read_text()
    fixed = annotate.run(asked.changed(write={"date": "2020-01-01"}), tmp_path / "fixed")
    assert ",2020-01-01,2020-01-01 00:00:00," in (fixed.path / "omop" / "note_nlp.csv").read_text()


NASTY = {
    "empty": "",
    "blank": " \n\t ",
    "emoji": "Fever 🤒🤒 and 👩🏽\u200d⚕️ aspirin 81 mg 😀",
    "bidi": "aspirin \u202eשלום\u202c 81 mg חום גבוה",
    "combining": "me\u0301tformine 81 mg, fie\u0300vre, a\u0301\u0302\u0303spirin",
    "breaks": "aspirin\r\n81\x0bmg\x0c\u2028fever\u2029\x85cough",
    "marks": "\ufeffaspirin\u200b81\u00admg\u2060 fever",
    "unspaced": "患者服用阿司匹林81毫克，没有发烧。",
    "one word": "aspirin" * 2000,
    "million": "Aspirin 81 mg for chest pain 😀, no fever. " * 24_000,
}


def test_offsets_slice_the_original_whatever_the_text(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr("osler.artifacts.bundle.SECTION_CHARACTERS", 10_000)  # ten sections in the longest text
    texts = {name: text[:100_000] for name, text in NASTY.items()}
    path = tmp_path / "nasty.jsonl"
    path.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()))
    for name in texts:
        (tmp_path / f"{name}.txt").write_bytes(texts[name].encode())
    found = {note["id"]: note for note in lines(recipe(bundle, path, heads=("drugs",)))}
    files = {note["id"]: note for note in lines(recipe(bundle, *tmp_path.glob("*.txt"), heads=("drugs",)))}
    assert found.keys() == files.keys() == texts.keys()
    for name, text in texts.items():
        assert found[name]["text"] == files[name]["text"] == text
        assert found[name].get("spans") == files[name].get("spans")
        ends = 0
        for span in found[name].get("spans", []):
            mention = text[span["start"] : span["end"]]
            assert mention
            assert mention.strip() == mention
            assert span["start"] >= ends
            ends = span["end"]
    assert len(found["million"]["spans"]) > 1000


def test_a_nul_character_is_refused_with_its_place(bundle, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"Jane CANARY\x00")
    with pytest.raises(InputError, match=r"a\.txt: NUL character at offset 11") as caught:
        lines(recipe(bundle, tmp_path / "a.txt"))
    assert "CANARY" not in str(caught.value)


def test_heads_that_read_a_pair_alike_share_an_encoder_pass(pair_bundle, monkeypatch):
    loaded = Bundle.load(pair_bundle, device="cpu")
    passes = []

    def counted(model, instances, heads, advance=None, **more):
        passes.append(list(heads))
        return run_heads(model, instances, heads, advance, **more)

    monkeypatch.setattr("osler.artifacts.runner.run_heads", counted)
    pairs = [TextPair("p", "He has fever.", "He is ill."), TextPair("q", "No pain.", "Severe pain.")]
    loaded.compare(pairs)
    assert passes == [["entailment"], ["similarity"]]  # similarity reads both orders
    heads = dict(loaded.spec.heads)
    heads["similarity"] = heads["similarity"].changed(card=heads["similarity"].card.changed(symmetric=False))
    one_order = replace(loaded, spec=loaded.spec.changed(heads=heads))
    passes.clear()
    found = one_order.compare(pairs)
    assert passes == [["entailment", "similarity"]]
    alone = one_order.predict("similarity", pairs)
    assert [pair.value for pair in found] == pytest.approx([pair.value for pair in alone], abs=1e-6)


def test_pairs_from_python(bundle, pair_bundle):
    import osler

    nlp = osler.load(pair_bundle, device="cpu")
    pairs = [("He has fever.", "He is ill."), ("No pain.", "Severe pain.")]
    found = list(nlp.pairs(pairs, batch_size=1))
    assert [(pair.first, pair.second) for pair in found] == pairs
    assert all(pair.labels[0].startswith("entailment:") and pair.value is not None for pair in found)
    backwards = next(nlp.pairs([("He is ill.", "He has fever.")]))
    assert backwards.value == pytest.approx(found[0].value, abs=1e-5)  # similarity is symmetric
    with pytest.raises(osler.OslerError, match="no head of this bundle reads single texts"):
        nlp("Aspirin.")
    with pytest.raises(osler.OslerError, match="pair 1: not a pair of texts"):
        next(nlp.pairs([("alone",)]))
    both = osler.load(bundle, device="cpu")
    assert (both.heads, both.pair_heads) == (["drugs", "farmacos"], ["entailment", "similarity"])


def test_python_warns_of_another_language_and_of_skipped_files(bundle, notes, tmp_path):
    import osler

    nlp = osler.load(bundle, device="cpu", heads=["farmacos"])
    with pytest.warns(UserWarning, match="looks English"):
        nlp(ENGLISH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        osler.load(bundle, device="cpu")(ENGLISH)
    with pytest.warns(UserWarning, match="1 inputs could not be read"):
        osler.annotate(files=[notes], bundle=bundle, device="cpu", out=tmp_path / "out")
