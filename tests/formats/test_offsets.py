"""Offsets that count something else than characters: noticed, named, and read with the option that the error gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osler.cli.main import app
from osler.core.errors import InputError, RecipeError
from osler.formats.base import DefectError, Format, Problems, configure
from osler.formats.offsets import Counting, is_cut
from osler.formats.registry import get_format
from osler.text.document import Document, Span


def corpus(text: str, count: int = 15) -> list[Document]:
    """Documents that mention two drugs, in texts that end in a number."""
    found = []
    for number in range(count):
        whole = f"{text} {number}"
        places = [(whole.index(drug), drug) for drug in ("aspirin", "ibuprofen")]
        spans = tuple(Span.at(at, at + len(drug), "Drug", id=f"T{at}") for at, drug in places)
        found.append(Document(f"d{number:02}", whole, spans))
    return found


def rewrite(folder: Path, change: Callable[[bytes], bytes], pattern: str = "*") -> None:
    for path in [folder, *folder.rglob(pattern)]:
        if path.is_file():
            path.write_bytes(change(path.read_bytes()))


def covered(format_: Format, source: Path) -> list[str]:
    """The texts of all mentions."""
    return [span.text_in(d.text) for d in format_.read(source) if isinstance(d, Document) for span in d.spans]


LINES = "Admitted today.\nHe took aspirin.\nThen ibuprofen was given.\nDay"


@pytest.mark.parametrize(
    ("text", "change", "option"),
    [
        (LINES, lambda data: data.replace(b"\n", b"\r\n"), "lf"),
        (LINES.replace("\n", "\r\n"), lambda data: data.replace(b"\r\n", b"\n"), "crlf"),
        (LINES, lambda data: "\ufeff".encode() + data, "no-bom"),
        (f"\ufeff{LINES}", lambda data: data.removeprefix("\ufeff".encode()), "bom"),
        (LINES, lambda data: "\ufeff".encode() + data.replace(b"\n", b"\r\n"), "lf,no-bom"),
        (f"qz {LINES} qz", lambda data: data.replace(b"qz", "😀".encode()), "utf-16"),
        (f"qz {LINES} qz", lambda data: data.replace(b"qz", "é".encode()), "bytes"),
        (f"qz {LINES} qz", lambda data: data.replace(b"qz", "é".encode()).replace(b"\n", b"\r\n"), "lf,bytes"),
    ],
)
def test_brat_texts_changed_after_they_were_annotated_stop_with_the_option_that_reads_them(
    tmp_path, text, change, option
):
    documents = corpus(text)
    get_format("brat").write(documents, tmp_path / "data")
    rewrite(tmp_path / "data", change, "*.txt")
    with pytest.raises(
        InputError, match=r"\d+ of 30 mentions have another text at their offsets. All fit if"
    ) as caught:
        list(get_format("brat").read(tmp_path / "data", problems=Problems()))
    assert f"--set options.offsets={option} " in str(caught.value)
    assert "aspirin" not in str(caught.value)
    with pytest.raises(DefectError, match=rf"up to here fit with .*offsets = {option}\b.* Use --set options.offsets="):
        list(get_format("brat").read(tmp_path / "data"))  # the first one that is off stops a strict reader
    format_ = configure(get_format("brat"), {"offsets": option})
    assert covered(format_, tmp_path / "data") == ["aspirin", "ibuprofen"] * 15


@pytest.mark.parametrize("name", ["brat", "bsc_tsv", "codiesp", "s800", "pubtator", "chemprot", "bioc", "i2b2_2014"])
@pytest.mark.parametrize(("letter", "option"), [("😀", "utf-16"), ("é", "bytes")])
def test_every_format_with_the_text_of_its_mentions_notices(tmp_path, name, letter, option):
    get_format(name).write(corpus("qz He took aspirin, qz then ibuprofen on day"), tmp_path / "data")
    rewrite(tmp_path / "data", lambda data: data.replace(b"qz", letter.encode()))
    with pytest.raises(InputError, match=f"30 of 30 mentions have another text.*--set options.offsets={option} "):
        list(get_format(name).read(tmp_path / "data", problems=Problems()))
    format_ = configure(get_format(name), {"offsets": option})
    assert covered(format_, tmp_path / "data") == ["aspirin", "ibuprofen"] * 15


def test_without_the_text_of_mentions_words_that_are_cut_are_the_evidence(tmp_path):
    documents = corpus(LINES)
    format_ = get_format("share_clef")
    format_.write(documents, tmp_path / "data")
    assert covered(format_, tmp_path / "data") == ["aspirin", "ibuprofen"] * 15
    rewrite(tmp_path / "data", lambda data: data.replace(b"\n", b"\r\n"), "ALLREPORTS/*.txt")
    with pytest.raises(InputError, match=r"30 of 30 mentions begin or end inside a word.*--set options.offsets=lf "):
        list(format_.read(tmp_path / "data"))
    assert covered(configure(format_, {"offsets": "lf"}), tmp_path / "data") == ["aspirin", "ibuprofen"] * 15


def test_a_few_defects_are_counted_as_before_and_many_that_nothing_explains_stop(tmp_path):
    get_format("brat").write(corpus(LINES), tmp_path / "data")
    files = sorted((tmp_path / "data").glob("*.ann"))
    files[0].write_text(files[0].read_text().replace("aspirin", "another"))
    problems = Problems()
    assert len(list(get_format("brat").read(tmp_path / "data", problems=problems))) == 15
    assert problems.counts == {"text-mismatch": 1}
    for path in files[:10]:
        path.write_text(path.read_text().replace("aspirin", "another"))
    with pytest.raises(InputError, match=r"10 of 30 .* do not explain it. Check that .*options.offsets=unchecked"):
        list(get_format("brat").read(tmp_path / "data", problems=Problems()))
    unchecked = configure(get_format("brat"), {"offsets": "unchecked"})
    assert len(list(unchecked.read(tmp_path / "data", problems=Problems()))) == 15


def test_the_option_rejects_what_it_does_not_know_and_what_excludes_each_other():
    for value, message in (("utf16", "Did you mean 'utf-16'"), ("lf,crlf", "both lf and crlf")):
        with pytest.raises(RecipeError, match=message):
            configure(get_format("brat"), {"offsets": value})


def test_offsets_are_translated_at_both_edges():
    lines = Counting("ab\r\ncd", ["lf"])
    assert [lines.fragment(0, 2), lines.fragment(3, 5)] == [(0, 2), (4, 6)]
    assert Counting("\ufeffab", ["no-bom"]).fragment(0, 2) == (1, 3)
    assert Counting("ab", ["bom"]).fragment(1, 3) == (0, 2)
    assert Counting("é😀a", ["bytes"]).fragment(6, 7) == (2, 3)
    assert Counting("é😀a", ["utf-16"]).fragment(3, 4) == (2, 3)
    start, end = Counting("ab", ["bom"]).fragment(0, 9)
    assert start < 0
    assert end > 2
    assert Counting("", ["lf", "utf-16"]).fragment(0, 0) == (0, 0)


def test_a_mention_is_cut_inside_a_word_and_not_where_a_script_has_no_spaces():
    text = "anti-CD4 cells 感冒药"
    assert not is_cut(text, 5, 8)
    assert is_cut(text, 5, 7)
    assert is_cut(text, 5, 9)
    assert not is_cut(text, 15, 17)


def test_your_own_misaligned_notes_get_no_card_before_the_offsets_are_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    get_format("brat").write(corpus(LINES, 40), tmp_path / "data")
    rewrite(tmp_path / "data", lambda data: data.replace(b"\n", b"\r\n"), "*.txt")
    new = ["tasks", "new", "mine", "--from", "data", "--out", "mine.toml"]
    refused = CliRunner().invoke(app, new)
    assert "80 of 80 mentions have another text at their offsets" in str(refused.exception)
    assert not Path("mine.toml").exists()
    made = CliRunner().invoke(app, [*new, "--set", "options.offsets=lf"])
    assert made.exit_code == 0, made.output
    done = CliRunner().invoke(app, ["tasks", "prepare", "mine.toml", "--from", "data", "--out", "task"])
    assert done.exit_code == 0, done.output
    checked = " ".join(CliRunner().invoke(app, ["tasks", "check", "task"]).output.split())
    assert "80 mentions verified, all cover whole words, and their own text where the files state it" in checked
