"""Write the pages in docs/reference/ from the models they describe: python docs/build_reference.py

Every example below is read by the model it belongs to when the pages are made, so a wrong or missing one stops the build.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import tempfile
import tomllib
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow.parquet as pq
import tomli_w
from pydantic import TypeAdapter

from osler.artifacts.corpus import LEDGER_SCHEMA, STEPS
from osler.artifacts.evaluation import Evaluation, EvaluationMetrics
from osler.core.config import Recipe, attribute_docs, find_field, validate
from osler.formats.jsonl import as_json
from osler.formats.registry import get_format
from osler.metrics.deid import MAPS
from osler.stages.corpus.filters import FILTERS
from osler.stages.corpus.presets import PRESETS
from osler.stages.corpus.readers import READERS
from osler.stages.corpus.rewriters import REWRITERS
from osler.stages.study.recipe import Refinement, StudyModel, StudyRecipe
from osler.tasks import card as cards
from osler.tasks.card import Kind, TaskCard
from osler.tasks.catalogue import protocol_families
from osler.tasks.scoring import score
from osler.text.document import Document, Record, Relation, Span, TextPair

MADE = "<!-- Made by docs/build_reference.py; do not edit. -->"

CARD_EXAMPLES = {
    "TaskCard": {
        "name": '"discharge-drugs"',
        "title": '"Drugs in discharge letters"',
        "kind": '"tagging"',
        "record": '"document"',
        "language": '"es"',
        "domain": '"clinical"',
        "labels": '["DRUG", "DOSE"]',
        "label_map": '{ Medication = "DRUG", "Dose*" = "DOSE" }',
        "discover_labels": "true",
        "negative": '"none"',
        "pairs": '[["DRUG", "DOSE"]]',
        "mentions": '["PROBLEM"]',
        "symmetric": "true",
        "sentences": '"lines"',
        "phi": '"meddocan"',
        "folds": "10",
        "fold": "3",
        "licence": '"CC BY 4.0"',
        "access": '"Ask the data office"',
        "citation": '"Our annotation guidelines, 2026"',
        "distribution": '["letters.zip"]',
        "notes": '["Doses of infusions are not annotated."]',
        "source": '{ reader = "clinic" }',
        "known_problems": "{ train = { text-mismatch = 5 } }",
        "tolerated": '["duplicate-id"]',
        "counts": "{ train = { documents = 500, mentions = 3733 } }",
        "paper": '{ source = "Our report, table 1" }',
        "release": '"2024"',
        "releases": '{ 2024 = { title = "the first export" } }',
        "protocol": '"strict"',
        "protocols": '{ strict = { metric = "f1" } }',
    },
    "Protocol": {
        "version": "2",
        "description": '"Exact characters and label, micro-averaged."',
        "train_on": '["train", "dev"]',
        "metric": '"f1"',
        "scheme": '"BIOES"',
        "repair": '"strict"',
        "decoding": '"constrained"',
        "subwords": '"all"',
        "read": '"last"',
        "fragments": '"tag"',
        "merged": '"entity"',
        "order": '"given"',
        "swapped": "true",
        "unit": '"sentence"',
        "records": '"labelled"',
        "candidates": '"document"',
        "markers": '"blind"',
    },
    "SourceLayout": {
        "reader": '"files"',
        "options": '{ text = "report", label = "outcome" }',
        "format": '"brat"',
        "folder": '["PharmaCoNERCorpus*"]',
        "splits": '{ train = { files = ["train/*.txt", "train/*.ann"] } }',
    },
    "Split": {
        "files": '["train/*.txt", "train/*.ann"]',
        "extra": '["train/codes.tsv"]',
        "where": '{ hospital = "A" }',
        "listed": '{ file = "test_ids.txt" }',
        "carve": '{ of = "train", share = 0.1 }',
        "optional": "true",
    },
    "Carve": {
        "by": '"meta:patient"',
        "pattern": '"^(\\\\d+)-"',
        "of": '"train"',
        "share": "0.1",
        "seed": "1",
        "method": '"tail"',
    },
    "MemberList": {"by": '"id"', "pattern": '"^(\\\\d+)-"', "file": '"test_ids.txt"'},
    "ExpectedCounts": {
        "documents": "500",
        "mentions": "3733",
        "relations": "120",
        "overlapping": "4",
        "discontinuous": "2",
        "assigned": "900",
        "labels": "{ DRUG = 2304, DOSE = 1429 }",
    },
    "PublishedCounts": {
        "source": '"Our report, table 1"',
        "splits": "{ all = { documents = 1000 } }",
        "differences": '{ "all.mentions" = "the report counts drafts too" }',
    },
    "Release": {
        "title": '"the export of 2025, with the second hospital"',
        "marks": '["train/B/*.txt"]',
        "splits": '{ train = { files = ["train.jsonl"] } }',
        "counts": "{ train = { documents = 900 } }",
        "paper": '{ source = "Our second report" }',
    },
}
CARD = """\
name = "discharge-drugs"
title = "Drugs in discharge letters"
kind = "tagging"
language = "es"
labels = ["DRUG", "DOSE"]
protocol = "strict"

[source]
reader = "files"
format = "brat"
splits.train.files = ["train/*.txt", "train/*.ann"]
splits.dev.carve = { of = "train", share = 0.1 }
splits.test.files = ["test/*.txt", "test/*.ann"]

[protocols.strict]
metric = "f1"
repair = "strict"
description = "Exact characters and label, micro-averaged over mentions."
"""
METRICS = {
    "f1": "harmonic mean of precision and recall, micro-averaged: over all mentions, relations or labels alike",
    "precision": "share of the predictions that are right, micro-averaged",
    "recall": "share of gold that is found, micro-averaged",
    "macro_f1": "mean of the F1 of each label",
    "partial_f1": "as `f1`, where a mention of the right label with other boundaries counts half",
    "token_f1": "as `f1`, over words instead of mentions",
    "b_anchored_f1": 'as `f1`, where an I- that continues nothing belongs to the last B- before it; needs `repair = "b-anchored"`',
    "safe_harbor_recall": "share of the identifiers named by HIPAA's Safe Harbor rule that would be masked; needs `phi`",
    "clean_share": "share of the documents in which every identifier would be masked; needs `phi`",
    "accuracy": "share of the records whose labels are all right; of the mentions, in a task of attributes",
    "hoc_f1": "harmonic mean of the mean precision and the mean recall over records, as for the Hallmarks of Cancer",
    "map": "mean average precision of the labels ranked by their score",
    "pearson": "Pearson correlation with gold",
    "spearman": "Spearman rank correlation with gold",
}
STUDY_EXAMPLES = {
    "StudyRecipe": {
        "title": '"Which encoder?"',
        "models": '{ ours = { model = "encoder" }, theirs = { model = "other-encoder" } }',
        "tasks": '["tasks/meddocan", "tasks/pharmaconer"]',
        "folds": '{ gad = ["tasks/gad-1", "tasks/gad-2"] }',
        "over_folds": '"median"',
        "seeds": "[1, 2, 3]",
        "grid": '{ "train.lr" = [1e-4, 3e-4, 1e-3] }',
        "choose": '"run"',
        "score": '"all"',
        "modes": '["single", "together"]',
        "twins": '"updates"',
        "within": '["Clinical"]',
        "fractions": "[0.1, 0.5]",
        "groups": '{ Clinical = ["meddocan", "pharmaconer"] }',
        "without": '["gad"]',
        "protocols": '{ meddocan = "conlleval" }',
        "baseline": '"theirs"',
        "finetune": "{ epochs = 10, train = { lr = 3e-5 } }",
        "mode_settings": "{ together = { epochs = 20 } }",
        "task_settings": "{ meddocan = { batch_size = 16 } }",
        "split": '"dev"',
        "across": '{ ncbi-disease = ["bc5cdr-disease"] }',
        "layout": '"lewis2020"',
        "published": '"lewis2020"',
        "store": '"runs"',
        "engine": '"ray"',
        "workers": "4",
        "keep_weights": "false",
        "processes": "2",
    },
    "StudyModel": {
        "model": '"encoder"',
        "like": '"BlueBERT-P"',
        "refine": '{ tasks = ["meddocan", "pharmaconer"] }',
        "settings": "{ reinitialise = true }",
        "task_settings": "{ meddocan = { epochs = 20 } }",
        "published": '["BioBERT"]',
    },
    "Refinement": {
        "tasks": '["meddocan", "pharmaconer"]',
        "settings": "{ epochs = 5 }",
        "score": "true",
    },
}
LETTER = Document(
    "letter-1",
    "Aspirina 100 mg al día por dolor torácico.",
    spans=(
        Span.at(0, 8, "DRUG", id="T1", attributes={"code": "B01AC06"}),
        Span.at(9, 15, "DOSE", id="T2"),
        Span(((27, 32), (33, 41)), "PROBLEM", id="T3"),
    ),
    relations=(Relation("dose-of", "T2", "T1", id="R1"),),
    labels=("cardiology",),
    meta={"patient": "17"},
)
PAIR = TextPair("pair-1", "The patient denies fever.", "The patient has a fever.", labels=("contradiction",))
ANNOTATED = Document(
    "letter-2",
    "Ibuprofeno si dolor.",
    spans=(Span.at(0, 10, "DRUG", id="T1", score=0.97, attributes={"head": "discharge-drugs"}),),
    labels=("department:surgery",),
    scores={"department:surgery": 0.81},
    meta={"value:severity": "2.1400"},
)


def pages() -> dict[str, str]:
    """Every page by its file name in docs/reference/."""
    made = {
        "cards.md": _cards(),
        "cleaning.md": _cleaning(),
        "corpus.md": _corpus(),
        "records.md": _records(),
        "study.md": _study(),
    }
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}


def _cards() -> Iterator[str]:
    validate(TaskCard, tomllib.loads(CARD), where="CARD")
    yield from ("# Task cards", "", MADE, "")
    yield (
        "A task is a TOML card: what is predicted, where the official files are, and how predictions are scored. "
        "[`osler tasks new`](../guide/own-task.md) writes one for your data, `osler tasks info NAME --toml` prints a shipped "
        "one, and a card of your own works by its path wherever a task name does. A small complete card:"
    )
    yield from ("", "```toml", CARD.rstrip(), "```", "")
    titles = {
        "TaskCard": ("The card", "The keys at the top of the file."),
        "Protocol": ("[protocols.NAME]", None),
        "SourceLayout": ("[source]", None),
        "Split": ("[source.splits.NAME]", None),
        "Carve": ("carve", None),
        "MemberList": ("listed", None),
        "ExpectedCounts": (
            "[counts.SPLIT]",
            "Also in `[paper.splits.NAME]`. Only the numbers that are given are compared.",
        ),
        "PublishedCounts": ("[paper]", None),
        "Release": ("[releases.NAME]", None),
    }
    links = {getattr(cards, name): title for name, (title, _) in titles.items()}
    for name, (title, text) in titles.items():
        kind = getattr(cards, name)
        yield from (f"## {title}", "", text or inspect.getdoc(kind) or "", "")
        yield from _table(kind, CARD_EXAMPLES[name], links)
        if name == "TaskCard":
            yield from (
                "",
                f"Maps for `phi`: {', '.join(f'`{name}`' for name in MAPS)}, or the path of a TOML file.",
                "",
            )
            yield (
                '`protocol_family = "ner"` adds the protocols that shipped cards of this kind share, such as `strict` and '
                f"`conlleval`; a list adds several. Families: {', '.join(f'`{name}`' for name in protocol_families())} "
                "([what is in them](../tasks.md#shared-protocols)). Protocols of the card itself win."
            )
        if name == "Protocol":
            yield from ("", "Metrics by kind of task:", "", "| kind | metrics |", "|---|---|")
            named = {kind: _metrics(kind) for kind in Kind}
            yield from (f"| {kind} | {', '.join(f'`{name}`' for name in names)} |" for kind, names in named.items())
            yield from ("", "| metric | what it is |", "|---|---|")
            found = dict.fromkeys(name for names in named.values() for name in names)
            yield from (f"| `{name}` | {METRICS[name]} |" for name in found)
        yield ""


def _cleaning() -> Iterator[str]:
    yield from ("# Cleaning a corpus", "", MADE, "")
    yield (
        "Every rewriter, filter and preset of [`osler corpus build`](../api.md#corpusrecipe). Rewriters change the text of a document "
        "or take passages out of it; filters remove whole documents. They run in the order of the recipe, for the corpus "
        "(`[rewrite.NAME]`, `[filters.NAME]`) or for one source (`[sources.clean.rewrite.NAME]`, `[sources.clean.filters.NAME]`). "
        "The ledger gives the reason for whatever is removed as `NAME.KEY`: the key that would have to change to keep it."
    )
    for title, section, registry in (("Rewriters", "rewrite", REWRITERS), ("Filters", "filters", FILTERS)):
        yield from ("", f"## {title}")
        for name in registry.names():
            kind = registry.get(name)
            about = inspect.getdoc(inspect.getmodule(kind)) or ""
            yield from (
                "",
                f"### {section}.{name}",
                "",
                f"{about.partition(chr(10) * 2)[0]} {inspect.getdoc(kind) or ''}",
                "",
            )
            yield from _table(kind)
    yield from ("", "## Presets", "", 'A source takes one by name: `clean = "clinical"`.')
    for name, settings in PRESETS.items():
        yield from ("", f"### {name}", "", "```toml", tomli_w.dumps(settings).rstrip(), "```")


def _metrics(kind: Kind) -> list[str]:
    """The metrics of a kind of task, from a score of one record against itself."""
    pairs: dict[str, Any] = {"pairs": (("A", "A"),)} if kind is Kind.RELATION else {}
    phi: dict[str, Any] = {"phi": "meddocan", "labels": ("CALLE",)} if kind is Kind.TAGGING else {"labels": ("A",)}
    values = {"name": "x", "title": "x", "kind": kind, "language": "es", "source": {"reader": "clinic"}}
    metric = "pearson" if kind is Kind.REGRESSION else "f1"
    repair = "b-anchored"  # the repair with the most metrics
    card = TaskCard(**values, **pairs, **phi, protocol="p", protocols={"p": {"metric": metric, "repair": repair}})
    label = card.labels[0]
    spans = (Span.at(0, 1, label, id="T1"), Span.at(2, 3, label, id="T2"))
    relations = (Relation(label, "T1", "T2"),)
    gold = [Document(str(n), "a b", spans, relations, (label,), float(n)) for n in range(3)]
    return list(score(card, card.protocol_named(), gold, gold).metrics)


def _records() -> Iterator[str]:
    yield from ("# Records: JSON Lines, predictions, annotations", "", MADE, "")
    yield (
        "A record is one example: a document (one text with its annotations) or a pair of texts. The format `jsonl` holds "
        "records without any loss, one JSON object per line in UTF-8. `osler convert` makes it from every "
        "[other format](../guide/formats.md), tasks can be prepared from it, and `osler annotate` writes it."
    )
    yield from ("", "```json", _json(LETTER), _json(PAIR), "```", "")
    yield from (
        "Offsets count characters (not bytes) from 0; the end is not included. An empty field is left out. Lines that are "
        "blank are skipped.",
        "",
    )
    for title, kind, text in (
        ("Document", Document, "An object with `text`."),
        ("Pair", TextPair, "An object with `first` and `second` and without `text`."),
        ("Span", Span, "One object of `spans`."),
        ("Relation", Relation, "One object of `relations`."),
    ):
        yield from (f"## {title}", "", text, "", "| key | type | needed | meaning |", "|---|---|---|---|")
        yield from _record_rows(kind)
        yield ""
    options = ", ".join(f"`{name}`" for name in ("id", "text", "first", "second", "label", "value"))
    yield from (
        "## What the reader also takes",
        "",
        "- A line without `id` gets its line number as id.",
        "- `label` (a string or a list of strings) stands for `labels`.",
        "- A key that is not in these tables goes to `meta` if its value is a string or a number. Anything else is reported "
        "as a defect.",
        f"- Other names of keys: {options} are options of the format (`--set read.text=note`, or `[source.options]` of a card).",
        "",
        "A line that is not a record is an error with file and line number, never with its text; with `--tolerant` it is "
        "counted and skipped.",
        "",
    )
    yield from _evaluation()
    yield from (
        "## Annotations",
        "",
        "`osler annotate` writes the same records: to standard output, to `annotations.jsonl` in `--out`, or as brat files "
        "(`--to brat`). What it adds to them:",
        "",
        "- every span and relation has a `score`, and each span has the head that found it in `attributes.head`;",
        "- `labels` of the whole text carry the name of their head, as in `department:surgery`, and `scores` has the "
        "probability of each;",
        "- the number of a regression head is in `meta`, under `value:HEAD`.",
        "",
        "```json",
        _json(ANNOTATED),
        "```",
    )


def _record_rows(kind: type) -> Iterator[str]:
    hints, docs = get_type_hints(kind), attribute_docs(kind)
    for field in dataclasses.fields(kind):
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.name == "fragments":
            yield "| `start`, `end` | integer | yes | First character, and the character after the last. |"
            meaning = f"Instead of `start` and `end`, if the mention is discontinuous: {_lower(docs['fragments'])}"
            yield f"| `fragments` | list of `[start, end]` | | {meaning} |"
            continue
        needed = "yes" if missing and field.name != "id" else ""
        yield f"| `{field.name}` | {_type(hints[field.name])} | {needed} | {docs[field.name]} |"


def _json(record: Record) -> str:
    """A record as its line, which must read back as the same record."""
    line = json.dumps(as_json(record), ensure_ascii=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records.jsonl")
        path.write_text(line + "\n", encoding="utf-8")
        assert list(get_format("jsonl").read(path)) == [record], line
    return line


def _evaluation() -> Iterator[str]:
    metrics = EvaluationMetrics(
        task="discharge-drugs",
        split="test",
        protocol="discharge-drugs/strict@v1",
        metric="f1",
        main=0.9,
        metrics={"f1": 0.9},
    )
    with tempfile.TemporaryDirectory() as folder:
        Evaluation.write(Path(folder), metrics, [ANNOTATED], pairs=False)
        [parquet] = Path(folder).glob("*.parquet")
        schema = pq.read_schema(parquet)
        [written] = Path(folder).glob("*.json")
    yield from (
        "## Predictions of an evaluation",
        "",
        f"`osler evaluate` writes `{parquet.name}`: the records of the split in their order, with predictions in place of gold. "
        "Python: `Evaluation.open(folder).predictions()`. The columns, for documents:",
        "",
        "| column | Parquet type |",
        "|---|---|",
    )
    # Without the names that pyarrow gives to elements, which differ between its versions.
    plain = {field.name: re.sub(r"\b(?:element|item): | \('\w+'\)", "", str(field.type)) for field in schema}
    yield from (f"| `{name}` | `{kind}` |" for name, kind in plain.items())
    yield from (
        "",
        "Pairs have `first` and `second` instead of `text`, `spans` and `relations`. `scores` is there if a head gives "
        "probabilities of labels.",
        "",
        f"`{written.name}` holds the scores:",
        "",
        "| key | type | meaning |",
        "|---|---|---|",
    )
    hints, docs = get_type_hints(EvaluationMetrics), attribute_docs(EvaluationMetrics)
    for field in dataclasses.fields(EvaluationMetrics):
        yield f"| `{field.name}` | {_type(hints[field.name])} | {docs[field.name]} |"
    yield ""


def _study() -> Iterator[str]:
    yield from ("# Study recipes", "", MADE, "")
    yield (
        "Every key of a study recipe. [The guide](../guide/studies.md) says what they are for. `finetune` and all settings take "
        "the keys of a [fine-tuning recipe](../api.md#finetunerecipe)."
    )
    titles = {StudyRecipe: "The recipe", StudyModel: "[models.NAME]", Refinement: "[models.NAME.refine]"}
    for kind, title in titles.items():
        yield from ("", f"## {title}", "", inspect.getdoc(kind) or "", "")
        yield from _table(kind, STUDY_EXAMPLES[kind.__name__], titles)


def _corpus() -> Iterator[str]:
    yield from ("# Corpus steps", "", MADE, "")
    yield (
        "The steps of `osler corpus build`, and every reader with its options. [Cleaning a corpus](cleaning.md) has the rewriters, "
        "filters and presets, [the guide](../guide/corpus.md) says what they are for, and [the API page](../api.md#corpusrecipe) "
        "lists the keys of the recipe itself."
    )
    yield from ("", "Documents pass the steps in this order; `osler corpus audit --step` takes their names:", "")
    yield from (f"{number}. `{step}`" for number, step in enumerate(STEPS, 1))
    text = (
        'A source names its reader (`reader = "NAME"`) if the file ending does not. Options are in `[sources.options]`.'
    )
    yield from ("", "## Readers", "", text)
    for name in READERS.names():
        yield from _reader(name, READERS.get(name))
    yield from ("", "## The ledger", "", "Columns of `ledger.parquet`:", "", "| column | Parquet type |", "|---|---|")
    yield from (f"| `{field.name}` | `{field.type}` |" for field in LEDGER_SCHEMA)


def _reader(name: str, reader: Any) -> Iterator[str]:
    yield from ("", f"### {name}", "", inspect.getdoc(type(reader)) or "")
    if reader.endings:
        yield from ("", f"File endings: {', '.join(f'`{ending}`' for ending in reader.endings)}.")
    if roots := getattr(reader, "roots", ()):
        yield from ("", f"Also `.xml` files with the root element {' or '.join(f'`{root}`' for root in roots)}.")
    if reader.options is not None:
        yield ""
        yield from _table(reader.options)


def _table(
    kind: type[Recipe], examples: Mapping[str, str] | None = None, links: Mapping[type, str] | None = None
) -> Iterator[str]:
    if examples is not None and set(examples) != set(kind.model_fields):
        raise SystemExit(f"examples of {kind.__name__}: {set(examples) ^ set(kind.model_fields)}")
    columns = ["key", "type", "default", "meaning", *(["example"] if examples else [])]
    yield from (f"| {' | '.join(columns)} |", "|---" * len(columns) + "|")
    for name, field in kind.model_fields.items():
        annotation, text = find_field(kind, name)
        if not text:
            raise SystemExit(f"{kind.__name__}.{name} has no description")
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        limits = _limits(annotation, field.metadata)
        meaning = _sentence(text) + (f" {limits}" if limits else "")
        row = f"| `{name}` | {_type(annotation, links)} | {default} | {_cell(meaning)} |"
        if examples:
            value = tomllib.loads(f"value = {examples[name]}")["value"]
            TypeAdapter(Annotated[annotation, field]).validate_python(value)
            row += f" `{_cell(examples[name])}` |"
        yield row


def _type(annotation: Any, links: Mapping[type, str] | None = None) -> str:
    """A type in the words of TOML and JSON."""
    origin, arguments = get_origin(annotation), [part for part in get_args(annotation) if part is not type(None)]
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part, links) for part in arguments)
    if origin is Annotated:
        return _type(arguments[0], links)
    if origin is tuple:
        parts = [part for part in arguments if part is not Ellipsis]
        if len(parts) < len(arguments):
            return f"list of {_plural(_type(parts[0], links))}"
        return f"list of {len(parts)} {_plural(_type(parts[0], links))}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"table of {_plural(_type(arguments[1], links))}"
    if links and annotation in links:
        return f"[{links[annotation]}](#{_anchor(links[annotation])})".replace("[[", "[\\[").replace("]]", "\\]]")
    if origin is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return "string"
    names = {str: "string", int: "integer", float: "number", bool: "boolean", Path: "path", Any: "value"}
    return names.get(annotation) or f"[{annotation.__name__}](#{annotation.__name__.lower()})"


def _plural(words: str) -> str:
    if words.startswith("["):
        return words
    first, *rest = words.split(" ")
    return " ".join([first if first.endswith("s") else f"{first}s", *rest])


def _anchor(title: str) -> str:
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.strip().replace(" ", "-")


def _limits(annotation: Any, metadata: list[Any]) -> str:
    """The allowed values, as a sentence."""
    values = _values(annotation)
    if values:
        return f"One of {', '.join(f'`{value}`' for value in values)}."
    signs = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than", "min_length": "items: at least"}
    limits = [
        f"{sign} {getattr(item, name):g}"
        for item in metadata
        for name, sign in signs.items()
        if getattr(item, name, None) is not None
    ]
    return f"{', '.join(limits).capitalize()}." if limits else ""


def _values(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(member.value) for member in annotation]
    return [value for part in get_args(annotation)[:1] for value in _values(part)]


def _default(value: Any) -> str:
    value = value.value if isinstance(value, Enum) else value
    if value is None or value == "":
        return ""
    if isinstance(value, dict | tuple | list):
        return (
            "empty"
            if not value
            else f"`{json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)}`"
        )
    return f"`{json.dumps(value) if isinstance(value, bool | str | int | float) else value}`"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    folder = Path(__file__).parent / "reference"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
