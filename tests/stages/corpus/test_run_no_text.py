"""No text of a document leaves the shards: a word that is in every document, also in the broken ones, is in no other output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osler.artifacts.corpus import STEPS, Corpus
from osler.cli.main import app
from osler.core.errors import OslerError
from osler.stages.corpus.config import CorpusRecipe

MARK = "Zebedeeite"
TEXT = f"The patient with {MARK} was seen in the clinic today, and {MARK} was treated with aspirin for a week, as case "
RECIPE = """
workers = 1
licences = ["CC*"]
rewrite = {{ masks = {{}}, repeated_lines = {{}}, sentences = {{}}, whitespace = {{}} }}
filters = {{ length = {{ min_characters = 30 }} }}
boilerplate = {{ min_documents = 2 }}
near_duplicates = {{ threshold = 0.6 }}
{sources}
"""


def texts() -> Iterator[str]:
    """Texts that no two files share, some for every step: nearly the same, the same, short, repeated lines, broken characters."""
    number = 0
    while True:
        number += 1
        yield f"{TEXT}{number}\n{MARK} is here on a line.\nCafÃ© {MARK}@a.es"
        yield f"{MARK} {number}"
        yield f"{MARK} has number {number}, and {MARK} of {number} is not {number + 1}.\n" * 3


def records(path: Path) -> dict[str, dict[str, object]]:
    """A file of each format with good and bad records, and the settings of its source."""
    made = texts()
    rows = [{"id": f"j/{n % 5}", "text": next(made), "licence": "CC0" if n else MARK} for n in range(8)]
    lines = [*map(json.dumps, rows), json.dumps(rows[3] | {"id": "copy"}), f'{{"text": "{MARK}', f'{{"txt": "{MARK}"}}']
    (path / "notes.jsonl").write_text("\n".join([*lines, f'["{MARK}"]', f'{{"text": ["{MARK}"]}}']))
    table = [f'{n},"{next(made)}"' for n in range(5)] + [f"6,{MARK},{MARK}", f'7,"{MARK} is open', f'8,"{next(made)}"']
    (path / "table.csv").write_text("\n".join(["id,text", *table]))
    for name in "abc":
        (path / f"{name}.txt").write_text(next(made))
    (path / "d.txt").write_bytes(f"{MARK} año".encode("latin-1"))
    pq.write_table(pa.table({"id": ["1", "2"], "text": [next(made), next(made)]}), path / "good.parquet")
    pq.write_table(pa.table({"id": ["1"], MARK: [MARK]}), path / "other.parquet")
    citations = "".join(
        f"<MedlineCitation><PMID>{n // 2}</PMID><Article><ArticleTitle>{MARK}</ArticleTitle><Abstract><AbstractText>"
        f"{next(made)}{'</b>' * (n == 3)}</AbstractText></Abstract></Article></MedlineCitation>"
        for n in range(6)
    )
    (path / "pubmed.xml").write_text(f"<PubmedArticleSet>{citations}<{MARK}>")
    for name, broken in (("one", ""), ("two", f"<{MARK}>"), ("three", "&mark;")):
        article = f"<article><front/><body><p>{next(made)}</p>{broken}</body></article>"
        (path / f"{name}.nxml").write_text(article)
    head = "ROW_ID,SUBJECT_ID,CHARTDATE,CATEGORY,DESCRIPTION,ISERROR,TEXT"
    notes = [f'{n},1,2100-01-01,Nursing,Report,{n % 2},"{next(made)}"' for n in range(4)]
    (path / "NOTEEVENTS.csv").write_text("\n".join([head, *notes, f"9,{MARK}", f'10,1,2100,Nursing,Report,,"{MARK}']))
    topic = f'<health-topic title="{MARK}" id="1" language="English"><full-summary>{next(made)}</full-summary></health-topic>'
    (path / "topics.xml").write_text(f"<health-topics>{topic}<health-topic id='2'>{MARK}</health-topics>")
    pages = [json.dumps({"id": str(n), "title": MARK, "text": next(made)}) for n in range(3)]
    (path / "wiki_00").write_text("\n".join([*pages, f'{{"title": "{MARK}"}}', f"{MARK}"]))
    patent = {"publication_number": "1", "abstract": next(made), "ipc": [{"code": "A61F2/06"}]}
    (path / "patents.json").write_text(f'{json.dumps(patent)}\n{{"abstract": "{MARK}\n"{MARK}"\n')
    (path / "emea.es").write_text(f"{next(made)}\n\n{next(made)}\n")
    page = f"<html><body><p>{next(made)}</p></body></html>"
    body = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{page}"
    warc = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.es/\r\nContent-Length: {len(body)}\r\n\r\n{body}\r\n\r\n"
    (path / "crawl.warc").write_text(f"{warc}{MARK}\r\n{warc[:-60]}")
    return {
        "jsonl": {"files": "notes.jsonl", "facts": {"licence": "licence"}},
        "table": {"files": "table.csv"},
        "text": {"files": ["a.txt", "b.txt", "c.txt", "d.txt"]},
        "parquet": {"files": "*.parquet"},
        "pubmed": {"files": "pubmed.xml"},
        "jats": {"files": "*.nxml", "reader": "jats"},
        "mimic": {"files": "NOTEEVENTS.csv", "reader": "mimic"},
        "medlineplus": {"files": "topics.xml", "reader": "medlineplus"},
        "wikipedia": {"files": "wiki_00", "reader": "wikipedia"},
        "patents": {"files": "patents.json", "reader": "patents"},
        "moses": {"files": "emea.es", "reader": "moses"},
        "warc": {"files": "crawl.warc", "reader": "warc"},
    }


def osler(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["corpus", *arguments])
    assert done.exception is None or isinstance(done.exception, OslerError | SystemExit), done.exception
    return f"{done.output}{done.exception}\n"  # `main` prints the error


def test_no_output_but_the_shards_holds_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd, caplog) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "osler.stages.corpus.readers.warc._extractor", lambda _: lambda html: re.sub("<[^>]+>", "", html)
    )
    sources = [{"name": name, "licence": "CC0"} | given for name, given in records(tmp_path).items()]
    CorpusRecipe(sources=sources)  # type: ignore[arg-type]
    toml = "".join(
        "[[sources]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in one.items()) for one in sources
    )
    Path("recipe.toml").write_text(RECIPE.format(sources=toml))
    said = osler("build", "--recipe", "recipe.toml", "--out", "corpus", "--dry-run")
    said += osler("build", "--recipe", "recipe.toml", "--out", "corpus")
    assert Path("corpus").exists(), said
    said += osler("build", "--recipe", "recipe.toml", "--out", "corpus", "--strict")
    for name in [str(one["files"]) for one in sources if isinstance(one["files"], str)]:
        said += osler("build", name, "--strict", "--out", "refused")
    corpus = Corpus.open("corpus")
    card = corpus.card
    assert card is not None
    assert [name for name, source in card.sources.items() if not source.read] == []
    rows = pq.read_table(corpus.ledger_path).to_pylist()
    assert {row["step"] for row in rows} == set(STEPS) - {"decontaminate", "deidentify"}
    assert {row["source"] for row in rows if row["step"] == "read"} == set(card.sources) - {"moses"}
    for key in sorted({row["id"] for row in rows}):
        said += osler("explain", "corpus", key, "--diff")
    said += "".join(osler("audit", "corpus", "--step", step) for step in STEPS) + osler("show", "corpus")
    assert "Traceback" not in said
    written = [path for path in Path("corpus").rglob("*") if path.is_file() and path.suffix != ".parquet"]
    assert len(written) == 5
    said += json.dumps(rows) + "".join(path.read_text() for path in written)
    assert MARK not in said + "".join(capfd.readouterr()) + caplog.text
    assert MARK in osler("audit", "corpus", "--step", "near-duplicates", "--text")


def _toml(value: object) -> str:
    return (
        json.dumps(value)
        if not isinstance(value, dict)
        else "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    )
