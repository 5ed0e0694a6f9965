"""Moses text: documents rebuilt from .ids and .xml files, blank lines and marks."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from osler.core.errors import InputError, RecipeError
from osler.stages.corpus.documents import BadRecord, RawDocument

ReadAll = Callable[..., list[Any]]
ES = {"language": "es"}
IDS = "en/1.xml.gz\tes/1.xml.gz\t1\t1\nen/1.xml.gz\tes/1.xml.gz\t2\t2 3\nen/2.xml.gz\tes/2.xml.gz\t1\t1\n"


def test_documents_from_the_ids_file(tmp_path: Path, read_all: ReadAll) -> None:
    (tmp_path / "EMEA.en-es.es.gz").write_bytes(gzip.compress("uno\ndós\ntres\n".encode()))
    (tmp_path / "EMEA.en-es.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "EMEA.en-es.ids").write_text(IDS)
    assert read_all(tmp_path / "EMEA.en-es.es.gz", reader="moses") == [
        RawDocument(1, "uno\ndós", "es/1.xml.gz", ES),
        RawDocument(3, "tres", "es/2.xml.gz", ES),
    ]
    assert [item.id for item in read_all(tmp_path / "EMEA.en-es.en", reader="moses")] == ["en/1.xml.gz", "en/2.xml.gz"]


LINKS = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE cesAlign PUBLIC "-//CES//DTD XML cesAlign//EN" "">
<cesAlign version="1.0">
<linkGrp targType="s" fromDoc="en/A&amp;B.xml.gz" toDoc="es/A&amp;B.xml.gz" >
<link xtargets="1;1" id="SL1"/>
<link xtargets="2;" id="SL2"/>
<link id="SL3" xtargets="3 4;2 3"/>
 </linkGrp>
<linkGrp targType="s" toDoc="es/2.xml.gz" fromDoc="en/2.xml.gz"><link xtargets=";1"/><link xtargets="1;2"/></linkGrp>
</cesAlign>
"""


def test_documents_from_the_xml_file_with_links(tmp_path: Path, read_all: ReadAll) -> None:
    (tmp_path / "EMEA.en-es.es").write_text("uno\ndos\ntres\n")
    (tmp_path / "EMEA.en-es.xml.gz").write_bytes(gzip.compress(LINKS.encode()))
    complete = [RawDocument(1, "uno\ndos", "es/A&B.xml.gz", ES), RawDocument(3, "tres", "es/2.xml.gz", ES)]
    assert read_all(tmp_path / "EMEA.en-es.es", reader="moses") == complete
    (tmp_path / "EMEA.en-es.es").write_text("uno\ndos\n")
    *found, bad = read_all(tmp_path / "EMEA.en-es.es", reader="moses")
    assert found == complete[:1]
    assert bad.reason == "the text has fewer lines than its file of documents"


def test_the_archive_of_opus_is_read_as_it_is(tmp_path: Path, read_all: ReadAll) -> None:
    with zipfile.ZipFile(tmp_path / "en-es.txt.zip", "w") as archive:
        archive.writestr("EMEA.en-es.es", "uno\ndos\ntres\n")
        archive.writestr("EMEA.en-es.ids", IDS)
    found = read_all(tmp_path / "en-es.txt.zip" / "EMEA.en-es.es", reader="moses")
    assert [item.text for item in found] == ["uno\ndos", "tres"]


def test_lines_that_cannot_be_read_or_placed(tmp_path: Path, read_all: ReadAll) -> None:
    (tmp_path / "x.en-es.es").write_bytes(b"uno\ndos \xf3\ntres\ncuatro\n")
    (tmp_path / "x.en-es.ids").write_text(IDS)
    found = read_all(tmp_path / "x.en-es.es", reader="moses")
    assert [(item.row, item.reason) for item in found if isinstance(item, BadRecord)] == [
        (2, "byte 5 of this line is not valid utf-8"),
        (4, "the file of documents names none for this line"),
    ]
    assert [item.text for item in found if isinstance(item, RawDocument)] == ["uno", "tres"]


def test_documents_without_an_ids_file(tmp_path: Path, read_all: ReadAll, monkeypatch) -> None:
    path = tmp_path / "x.en-es.es"
    path.write_text("\nEMEA/H/1\na\n\n\nEMEA/H/2\nb\n")
    expected = [RawDocument(2, "EMEA/H/1\na", None, ES), RawDocument(6, "EMEA/H/2\nb", None, ES)]
    assert read_all(path, reader="moses") == read_all(path, reader="moses", options={"mark": "^EMEA/H/"}) == expected
    path.write_text("a\nb\nc\n")
    assert [item.text for item in read_all(path, reader="moses", options={"sentences": 2})] == ["a\nb", "c"]
    with pytest.raises(RecipeError, match="not a regular expression"):
        read_all(path, reader="moses", options={"mark": "("})
    monkeypatch.setattr("osler.stages.corpus.readers.moses._LONGEST", 2)
    with pytest.raises(InputError, match=r"x\.en-es\.es:1: nothing tells where documents begin"):
        read_all(path, reader="moses")
