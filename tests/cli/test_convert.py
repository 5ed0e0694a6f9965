"""Converting: any format to any other and back keeps all but what the loss names; files are whole or not there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner, Result

from osler.cli.main import app
from osler.core.errors import InputError, OslerError, OutputError, RecipeError, UnknownNameError
from osler.formats.base import DEFECTS, Defect
from osler.formats.registry import FORMATS, OUTPUT_FORMATS, get_format
from osler.stages.prepare.config import ConvertRecipe
from osler.stages.prepare.convert import Conversion, capabilities, run
from osler.text.document import Document, Record, Relation, Span, TextPair

NOTE = Document(
    "a1",
    "Aspirin and warfarin .\nNo fever .",
    (
        Span.at(0, 7, "drug", id="T1", attributes={"concept": "D1"}),
        Span.at(12, 20, "drug", id="T2", attributes={"concept": "D2"}),
        Span.at(26, 31, "problem", id="T3", attributes={"assertion": "absent"}),
    ),
    (Relation("effect", "T1", "T2", "R1"),),
    labels=("D:r51",),
    meta={"tokens": "blanks"},
)
HARD = Document(
    "b-2",
    'left & right <knee> pain: "10 µg"\t…\r\n\nbis in die, señor 😀',
    (
        Span(((0, 4), (14, 24)), "problem", "T1", 0.5, {"assertion": "present"}),
        Span.at(7, 24, "problem", id="T2"),
        Span.at(14, 18, "site", id="T3", score=0.25),
    ),
    (Relation("of", "T3", "T2", "R1", score=0.75, attributes={"sure": "no"}),),
    labels=("a b", "c;d"),
    value=2.5,
    meta={"specialty": "knees"},
)
PLAIN = Document("c3", "Nothing to report .")
RECORDS: list[Record] = [
    NOTE,
    HARD,
    PLAIN,
    TextPair("p1", "He rests at home.", "He is in bed.", labels=("neutral",), meta={"type": "x"}),
    TextPair("p2", "Two\ttabs", 'A "quote"', value=3.5),
]

TEXT = {"characters replaced by a blank", "texts re-spaced at word edges", "outer white space"}
GONE = {"documents without a word", "pairs with an id used before"}
SPANS = TEXT | {
    "spans",
    "discontinuous spans",
    "overlapping spans",
    "spans across lines",
    "spans across sentences",
    "spans of blanks",
    "spans that are not sentences",
    "spans trimmed of blanks",
    "spans widened to word edges",
    "spans without a word",
    "labels rewritten",
}
RELATIONS = SPANS | {"relations", "relations across sentences", "relations between mentions without concepts"}
# Which reasons explain that a facet of a record is not what it was.
EXCUSES = {
    "id": {"ids renamed"},
    "text": TEXT,
    "spans": SPANS,
    "relations": RELATIONS,
    "attributes": RELATIONS | {"attributes"},
    "scores": RELATIONS | {"scores"},
    "labels": {"document labels", "labels rewritten"},
    "value": {"values"},
    "meta": {"meta"},
}
# Readers add these of themselves: how a text is tokenised or laid out.
ADDED = {"tokens", "title_length", "sentences", "primary_lines", "section", "primary", "secondary", "type"}


CAPABILITIES = list(capabilities())
HOLDS = {found.name: set(found.holds) for found in CAPABILITIES}


def place(name: str, folder: Path) -> Path:
    format_ = get_format(name)
    return folder / name / ("out" if format_.layout == "folder" else f"out{format_.suffixes[0]}")


def converted(source: Path, name: str, target: str, folder: Path) -> Conversion:
    return run(ConvertRecipe(input=source, from_format=name, to_format=target), place(target, folder))


def facets(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = {"id": record.id, "labels": record.labels, "value": record.value}
    found["meta"] = {key: value for key, value in record.meta.items() if key not in ADDED}
    if isinstance(record, TextPair):
        return found | {"text": (record.first, record.second)}
    keys = {span.id: span.key for span in record.spans}
    linked = [((r.label, keys[r.head], keys[r.tail]), r) for r in record.relations]
    things = [*((span.key, span) for span in record.spans), *linked]
    return found | {
        "text": record.text,
        "spans": Counter(keys.values()),
        "relations": Counter(key for key, _ in linked),
        # CUI-less is how ShARe writes that a mention has no concept. The readers of i2b2's XML add the name of the element.
        "attributes": Counter(
            (key, *sorted(i for i in t.attributes.items() if i[1] != "CUI-less" and i[0] != "element"))
            for key, t in things
        ),
        "scores": Counter((key, thing.score) for key, thing in things),
    }


def comparable(records: list[Record], lost: set[str]) -> list[Record]:
    """The records of the kind that the target holds."""
    if "documents" in lost:
        return [record for record in records if isinstance(record, TextPair)]
    if "text pairs" in lost:
        return [record for record in records if isinstance(record, Document)]
    if "records of another kind than the first" in lost:
        return [record for record in records if type(record) is type(records[0])]
    return records


@pytest.mark.parametrize("source", FORMATS.names())
def test_there_and_back_keeps_all_but_what_the_loss_names(source: str, tmp_path: Path) -> None:
    format_ = get_format(source)
    start = place(source, tmp_path / "start")
    start.parent.mkdir(parents=True)
    format_.write(RECORDS, start)
    before = list(format_.read(start))
    assert before
    has = {"texts" if isinstance(record, Document) else "pairs" for record in before}
    for target in FORMATS.names():
        if not has & HOLDS[target]:
            with pytest.raises(RecipeError, match="and the input has none"):
                converted(start, source, target, tmp_path / target / "there")
            continue
        first = converted(start, source, target, tmp_path / target / "there")
        back = converted(first.path, target, source, tmp_path / target / "back")
        lost = {*first.lost, *back.lost}
        after = list(format_.read(back.path))
        kept = comparable(before, lost)
        assert len(kept) == len(after) or lost & GONE, (source, target, lost)
        for old, new in zip(kept, after, strict=False):
            was, now = facets(old), facets(new)
            for facet in was:
                if facet == "id" and "gad_euadr" in (source, target):
                    continue  # its reader puts the name of the file before every id
                if was[facet] != now[facet]:
                    assert lost & EXCUSES[facet], (source, target, facet, was[facet], now[facet], lost)


def test_the_list_says_what_each_format_holds() -> None:
    assert HOLDS.keys() == {*FORMATS.names(), *OUTPUT_FORMATS.names()}
    assert HOLDS["brat"] == {"texts", "spans", "discontinuous spans", "relations", "attributes"}
    assert HOLDS["conll"] == {"texts", "spans"}
    assert HOLDS["sts"] == {"pairs", "pair values"}
    assert {"scores", "meta", "pair meta"} <= HOLDS["jsonl"]
    assert "relations" in HOLDS["pubtator"]


def test_the_guide_says_the_same(root: Path) -> None:
    guide = (root / "docs" / "guide" / "formats.md").read_text()
    for found in CAPABILITIES:
        rows = [line for line in guide.splitlines() if line.startswith(f"| `{found.name}` | ")]
        assert any(row.endswith(f" | {found.layout} | {', '.join(found.holds)} |") for row in rows), found.name


# The command.


def osler(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, arguments)], env={"COLUMNS": "200"})


def refused(result: Result) -> OslerError:
    assert isinstance(result.exception, OslerError), result.output
    return result.exception


@pytest.fixture
def brat(tmp_path: Path) -> Path:
    get_format("brat").write([NOTE, PLAIN], tmp_path / "notes")
    return tmp_path / "notes"


def test_the_format_is_seen_and_the_result_is_the_bare_file(brat: Path, tmp_path: Path) -> None:
    out = tmp_path / "notes.bioc.xml"
    done = osler(brat, "--to", "bioc", "--out", out)
    assert done.exit_code == 0, done.output
    assert "as brat (detected)" in done.stderr
    assert "nothing was lost" in done.stderr
    assert done.stdout.strip() == str(out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "notes.bioc.xml"]
    assert [record.id for record in get_format("bioc").read(out)] == ["a1", "c3"]


def test_a_loss_is_printed_and_written_beside(brat: Path, tmp_path: Path) -> None:
    out = tmp_path / "notes.conll"
    done = osler(brat, "--from", "brat", "--to", "conll", "--out", out)
    assert done.exit_code == 0, done.output
    assert "conll cannot hold: 3 attributes, 1 relations" in done.stderr
    report = json.loads((tmp_path / "notes.conll.loss.json").read_text())
    assert report["from"] == "brat"
    assert report["to"] == "conll"
    assert report["lost"] == {"attributes": 3, "relations": 1}
    # A later conversion to the same place that loses nothing takes the report away.
    bare = tmp_path / "bare"
    get_format("brat").write([PLAIN], bare)
    assert osler(bare, "--to", "conll", "--out", out, "--force").exit_code == 0
    assert not (tmp_path / "notes.conll.loss.json").exists()


def test_nothing_is_replaced_without_force(brat: Path, tmp_path: Path) -> None:
    file, folder = tmp_path / "notes.jsonl", tmp_path / "again"
    for out, name in ((file, "jsonl"), (folder, "brat")):
        assert osler(brat, "--to", name, "--out", out).exit_code == 0
        error = refused(osler(brat, "--to", name, "--out", out))
        assert isinstance(error, OutputError)
        assert "--force" in str(error)
        assert osler(brat, "--to", name, "--out", out, "--force").exit_code == 0
        assert len(list(get_format(name).read(out))) == 2


def test_force_replaces_only_what_the_command_writes(brat: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.doc").write_text("years")
    assert isinstance(refused(osler(brat, "--to", "brat", "--out", home, "--force")), OutputError)
    assert isinstance(refused(osler(brat, "--to", "bioc", "--out", home, "--force")), OutputError)
    assert isinstance(refused(osler(brat, "--to", "brat", "--out", tmp_path, "--force")), RecipeError)
    assert (home / "thesis.doc").read_text() == "years"
    assert len(list(get_format("brat").read(brat))) == 2


def test_a_broken_input_leaves_nothing_and_names_file_and_line(brat: Path, tmp_path: Path) -> None:
    out = tmp_path / "notes.jsonl"
    with (brat / "c3.ann").open("a") as stream:
        stream.write("T1\tdrug 0 7\tCANARY\nT2\tdrug 90 95\tCANARY\n")
    error = refused(osler(brat, "--to", "jsonl", "--out", out))
    assert "c3.ann:1" in str(error)
    assert "CANARY" not in str(error)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes"]
    done = osler(brat, "--to", "jsonl", "--out", out, "--tolerant")
    assert done.exit_code == 0
    report = json.loads((tmp_path / "notes.jsonl.loss.json").read_text())
    assert report["defects"] == {"bad-span": 1, "text-mismatch": 1}
    assert [Path(place).name for place in report["first_defects"].values()] == ["c3.ann:2", "c3.ann:1"]


def test_tolerant_is_advised_by_name_and_says_what_it_kept_and_where(brat: Path, tmp_path: Path) -> None:
    with (brat / "c3.ann").open("a") as stream:
        stream.write("T1\tdrug 0 7\tCANARY\nT2\tdrug 90 95\tCANARY\nT3\tdrug 91 95\tCANARY\n")
    error = refused(osler(brat, "--to", "jsonl", "--out", tmp_path / "out.jsonl"))
    assert "continue with --tolerant, which keeps the mention, at its offsets" in str(error)
    done = osler(brat, "--to", "jsonl", "--out", tmp_path / "out.jsonl", "--tolerant")
    assert "defects in the input, passed over with --tolerant: 3" in done.stderr
    shown = [line for line in done.stderr.splitlines() if "first at" in line]
    assert [line.partition(",")[0].strip() for line in shown] == ["2 bad-span", "1 text-mismatch"]
    assert shown[0].endswith("c3.ann:2; kept: nothing of the mention")


def test_the_guide_says_what_tolerant_keeps(root: Path) -> None:
    guide = (root / "docs" / "guide" / "formats.md").read_text()
    assert DEFECTS.keys() == set(get_args(Defect))
    for kind, (wrong, kept) in DEFECTS.items():
        assert f"| `{kind}` | {wrong} | {kept} |" in guide


def test_what_was_written_is_counted_not_what_was_read(brat: Path, tmp_path: Path) -> None:
    get_format("brat").write([NOTE, HARD, PLAIN], tmp_path / "hard")
    done = osler(tmp_path / "hard", "--to", "conll", "--out", tmp_path / "out.conll")
    # The discontinuous mention, and one of the two that overlap, are not in the file.
    assert "documents 3 · spans 4 of 6 (2 lost) · relations 0 of 2 (2 lost)" in done.stderr
    report = json.loads((tmp_path / "out.conll.loss.json").read_text())
    assert report["read"] == {"documents": 3, "spans": 6, "relations": 2}
    assert report["written"] == {"documents": 3, "spans": 4, "relations": 0}
    # Options of the writer may give names that its reader does not find.
    done = osler(tmp_path / "hard", "--to", "csv", "--out", tmp_path / "out.csv", "--set", "write.text=note")
    assert done.exit_code == 0
    assert "counts of the input: osler cannot read the result back" in done.stderr


def test_an_unclear_format_lists_the_candidates(tmp_path: Path) -> None:
    get_format("biosses").write([TextPair("1", "a", "b", value=1.0)], tmp_path / "pairs.tsv")
    error = refused(osler(tmp_path / "pairs.tsv", "--to", "jsonl", "--out", tmp_path / "out.jsonl"))
    assert "biosses or sts or tsv" in str(error)
    assert "--from" in str(error)
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    error = refused(osler(tmp_path / "image.png", "--to", "jsonl", "--out", tmp_path / "out.jsonl"))
    assert "osler convert --list" in str(error)


@pytest.mark.parametrize(
    ("arguments", "kind", "piece"),
    [
        (["--from", "brat", "--to", "biocc", "--out", "o"], UnknownNameError, "Did you mean 'bioc'"),
        (["--from", "brat", "--out", "o"], RecipeError, "--to is required"),
        (["--from", "brat", "--to", "bioc"], RecipeError, "--out"),
        (["--to", "conll", "--out", "o", "--set", "write.schem=BIO"], RecipeError, "Did you mean 'scheme'"),
        (["--from", "pubtator", "--to", "jsonl", "--out", "o"], InputError, "title line"),
    ],
)
def test_wrong_options_are_explained(
    brat: Path, arguments: list[str], kind: type[OslerError], piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(brat.parent)
    error = refused(osler(brat, *arguments))
    assert isinstance(error, kind)
    assert piece in str(error)


def test_options_of_the_formats_and_a_dry_run(brat: Path, tmp_path: Path) -> None:
    out = tmp_path / "notes.conll"
    assert "nothing was done" in osler(brat, "--to", "conll", "--out", out, "--dry-run").stderr
    assert not out.exists()
    assert osler(brat, "--to", "conll", "--out", out, "--set", "write.scheme=BIOES").exit_code == 0
    assert "S-drug" in out.read_text()


def test_the_formats_are_listed() -> None:
    shown = osler("--list").stdout
    for name in (*FORMATS.names(), *OUTPUT_FORMATS.names()):
        assert name in shown
