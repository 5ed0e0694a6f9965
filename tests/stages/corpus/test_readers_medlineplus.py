from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from osler.stages.corpus.config import CorpusSource
from osler.stages.corpus.documents import BadRecord, LeftOut, RawDocument, Revision
from osler.stages.corpus.inputs import find_inputs
from osler.stages.corpus.readers import READERS

TOPICS = """<health-topics total="3">
<health-topic title="Abdominal Pain" id="3061" language="English" date-created="01/07/2003"><also-called>Bellyache</also-called>
<full-summary>&lt;p&gt;Your &lt;b&gt;abdomen&lt;/b&gt; &amp;amp; chest,
 see &lt;a href="x"&gt;here&lt;/a&gt;.&lt;/p&gt;
&lt;ul&gt;&lt;li&gt;Less than &amp;lt; 5&lt;/li&gt;&lt;li&gt;Two&lt;br/&gt;lines&lt;/li&gt;&lt;/ul&gt;
</full-summary><site title="Elsewhere"/></health-topic>
<health-topic title="Dolor abdominal" id="3062" language="Spanish">
<full-summary>&lt;p&gt;El abdomen.&lt;/p&gt;</full-summary></health-topic>
<health-topic title="Broken" id="9" language="English"><full-summary></health-topic>
</health-topics>"""


def read(path: Path, **options: Any) -> list[Any]:
    source = CorpusSource(files=[path], reader="medlineplus", options=options)
    [file] = find_inputs([source])
    reader = READERS.get(file.reader)
    return [record for piece in reader.cut(file, source, 1) for record in reader.read(piece, source)]


@pytest.fixture
def topics(tmp_path: Path) -> Path:
    path = tmp_path / "mplus_topics_2024-05-01.xml"
    path.write_text(TOPICS)
    return path


def test_summaries_become_lines_of_text(topics: Path) -> None:
    english, spanish, broken = read(topics)
    assert english == RawDocument(
        1,
        "Abdominal Pain\nYour abdomen & chest, see here.\nLess than < 5\nTwo\nlines",
        "3061",
        {"title": "Abdominal Pain", "date": "2003-01-07", "language": "en"},
        Revision(3061, 20240501),
    )
    assert (spanish.text, spanish.facts) == (
        "Dolor abdominal\nEl abdomen.",
        {"title": "Dolor abdominal", "language": "es"},
    )
    assert isinstance(broken, BadRecord)


def test_languages_and_parts(topics: Path) -> None:
    english, spanish, _ = read(topics, languages=["es"])
    assert english == LeftOut(1, "medlineplus.languages", "3061")
    assert spanish.id == "3062"
    assert read(topics, parts=["also_called"])[0].text == "Bellyache"


def test_definitions(tmp_path: Path) -> None:
    path = tmp_path / "generalhealthdefinitions.xml"
    path.write_text(
        '<generalHealth title="General Health"><term-group reference="NIH"><term>Body\nTemperature</term>'
        "<definition><![CDATA[Your temperature &lt; 38 at <i>rest</i>.]]></definition></term-group></generalHealth>"
    )
    facts = {"title": "Body Temperature", "language": "en"}
    assert read(path) == [RawDocument(1, "Body Temperature\nYour temperature < 38 at rest.", None, facts)]
    assert [file.reader for file in find_inputs([CorpusSource(files=[tmp_path])])] == ["medlineplus"]
    assert isinstance(read(path, languages=["es"])[0], LeftOut)


@pytest.mark.realdata
def test_real_topics(data_dir: Path) -> None:
    [path] = (data_dir / "raw_formats" / "medlineplus_xml").glob("*.xml")
    english, spanish = read(path)
    assert english.text.startswith("Abdominal Pain\nYour abdomen extends")
    assert "\nTiene un dolor abdominal repentino e intenso\n" in spanish.text
