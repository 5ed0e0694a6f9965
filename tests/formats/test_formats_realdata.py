"""The counts of the public corpora, pinned: documents, mentions, relations, and the defects known to be in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from osler.formats.base import Problems, configure
from osler.formats.registry import get_format
from osler.formats.sources import SourceTree
from osler.text.document import Document, TextPair

pytestmark = pytest.mark.realdata


class Corpus(NamedTuple):
    name: str
    path: str
    patterns: tuple[str, ...]
    documents: int
    mentions: int = 0
    relations: int = 0
    discontinuous: int = 0
    defects: Mapping[str, int] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})


def _splits(name: str, path: str, pattern: str, counts: dict[str, tuple[int, ...]], **more: Any) -> list[Corpus]:
    return [
        Corpus(name, path.format(s), tuple(p.format(s) for p in pattern.split(",") if p), *n, **more)
        for s, n in counts.items()
    ]


CORPORA = [
    *_splits(
        "pubtator",
        "bc5cdr/pubtator/CDR_{}Set.PubTator.txt.xz",
        "",
        {"Training": (500, 9385, 1038), "Development": (500, 9591, 1012), "Test": (500, 9809, 1066)},
    ),
    Corpus("bioc", "bc5cdr/bioc_sample/CDR_sample.gold.BioC.xml", (), 50, 945, 123, 6, {"text-mismatch": 1}),
    Corpus(
        "pubtator",
        "ncbi_disease/original/NCBItrainset_corpus.txt.xz",
        (),
        593,
        5145,
        defects={"text-mismatch": 1, "duplicate-document": 1},
    ),
    Corpus("pubtator", "ncbi_disease/original/NCBIdevelopset_corpus.txt.xz", (), 100, 787),
    Corpus("pubtator", "ncbi_disease/original/NCBItestset_corpus.txt.xz", (), 100, 960),
    *_splits("brat", "jnlpba/standoff.tar.xz", "*/{}/*", {"train": (2000, 51301), "test": (404, 8662)}),
    *_splits(
        "brat", "linnaeus/linnaeus_brat.tar.xz", "*/{}/*", {"train": (60, 2609), "valid": (11, 479), "test": (29, 1171)}
    ),
    Corpus("brat", "pharmaconer/PharmaCoNERCorpus.tar.xz", ("*/train/*",), 500, 3822, defects={"text-mismatch": 5}),
    *_splits("brat", "pharmaconer/PharmaCoNERCorpus.tar.xz", "*/{}/*", {"valid": (250, 1926), "test": (250, 1876)}),
    *_splits(
        "brat",
        "cantemist/cantemist.tar.xz",
        "*/{}/cantemist-ner/*",
        {"train-set": (501, 6396), "dev-set1": (250, 3341), "dev-set2": (250, 2660), "test-set": (300, 3633)},
    ),
    *_splits(
        "brat",
        "cantemist/cantemist.tar.xz",
        "*/{0}/cantemist-ner/*.txt,*/{0}/cantemist-norm/*.ann",
        {"test-set": (300, 3635)},
    ),
    *_splits(
        "brat",
        "meddocan/meddocan.tar.xz",
        "*/{}/brat/*",
        {"train": (500, 11333), "dev": (250, 5801), "test": (250, 5661)},
    ),
    *_splits(
        "meddocan_xml",
        "meddocan/meddocan.tar.xz",
        "*/{}/xml/*",
        {"train": (500, 11333), "dev": (250, 5801), "test": (250, 5661)},
    ),
    *_splits(
        "brat",
        "quaero/QUAERO_FrenchMed.tar.xz",
        "*/{}/*",
        {
            "train/EMEA": (11, 2695, 0, 27),
            "dev/EMEA": (12, 2260, 0, 15),
            "test/EMEA": (15, 2204, 0, 42),
            "train/MEDLINE": (833, 2994, 0, 13),
            "dev/MEDLINE": (832, 2977, 0, 21),
            "test/MEDLINE": (833, 3103, 0, 23),
        },
    ),
    Corpus("brat", "spaccc/spaccc_split.tar.xz", (), 1000, 15824),
    *_splits(
        "conll",
        "bc5cdr/iob/BC5CDR-IOB/{}.tsv.xz",
        "",
        {"train": (4560, 9385), "devel": (4581, 9593), "test": (4797, 9809)},
    ),
    *_splits(
        "conll", "bc2gm/iob/{}.tsv.xz", "", {"train": (12574, 15197), "devel": (2519, 3061), "test": (5038, 6325)}
    ),
    *_splits(
        "conll", "ncbi_disease/iob/{}.tsv.xz", "", {"train": (5424, 5134), "devel": (923, 787), "test": (940, 960)}
    ),
    *_splits(
        "conll", "linnaeus/iob/{}.tsv.xz", "", {"train": (11935, 2119), "devel": (4078, 711), "test": (7142, 1433)}
    ),
    *_splits("conll", "s800/iob/{}.tsv.xz", "", {"train": (5733, 2557), "devel": (830, 384), "test": (1630, 767)}),
    Corpus("conll", "jnlpba/iob_derived/train.tsv.xz", (), 1800, 46750),
    Corpus("conll", "jnlpba/iob/devel.tsv.xz", (), 200, 4551),
    Corpus("conll", "jnlpba/iob/devel.tsv.xz", (), 1739, 4551, options={"unit": "sentence"}),
    Corpus("conll", "jnlpba/original/test/Genia4EReval1.iob2.xz", (), 3856, 8662),
    *_splits(
        "conll",
        "e3c/clinical_entities/layer1/{}.txt",
        "",
        {
            "English/train": (669, 437),
            "English/test": (851, 516),
            "French/train": (504, 569),
            "French/test": (605, 695),
            "Spanish/train": (455, 509),
            "Spanish/test": (679, 800),
        },
    ),
    Corpus(
        "ddi_xml",
        "ddi2013/DDICorpus-2013.tar.xz",
        ("*/Train/*",),
        714,
        14765,
        4021,
        38,
        {"text-mismatch": 4, "empty-label": 1},
    ),
    Corpus("ddi_xml", "ddi2013/DDICorpus-2013.tar.xz", ("*ddi extraction*",), 191, 3040, 979, 9),
    Corpus("ddi_xml", "ddi2013/DDICorpus-2013.tar.xz", ("*drugner*",), 112, 686, 0, 2),
    *_splits(
        "chemprot",
        "chemprot/chemprot_{}",
        "",
        {"training": (1020, 25752, 6437), "development": (612, 15567, 3558), "test_gs": (800, 20828, 5744)},
    ),
    Corpus("bc2gm", "bc2gm/original/train", (), 15000, 18265, defects={"text-mismatch": 1}),
    Corpus("bc2gm", "bc2gm/original/test", (), 5000, 6331),
    Corpus("bc2gm", "bc2gm/original/test", (), 5000, 6331 + 5068, options={"alternatives": True}),
    Corpus("s800", "s800/s800_original.tar.xz", (), 800, 3708),
    Corpus("hoc", "hoc/hallmarks_of_cancer.tar.xz", (), 1852, 5505),
    Corpus("biosses", "biosses/biosses.tsv", (), 100),
    Corpus("medrqe", "medrqe/MEDIQA2019-Task2-RQE-TrainingSet-AMIA2016.xml.xz", (), 8588, defects={"empty-text": 1}),
    Corpus("medrqe", "medrqe/MEDIQA2019-Task2-RQE-ValidationSet-AMIA2016.xml", (), 302),
    Corpus("medrqe", "medrqe/MEDIQA2019-Task2-RQE-TestSet-wLabels.xml", (), 230),
    Corpus("pubmedqa", "pubmedqa", ("*.json",), 1000),
    *_splits(
        "nli4ct",
        "nli4ct/nli4ct_complete.tar.xz",
        "*/{}.json,*CT json/*",
        {"train": (1700,), "dev": (200,), "Gold_test": (500,)},
    ),
    *_splits(
        "gad_euadr",
        "gad_euadr/biobert_re_gad_euadr_10fold.tar.xz",
        "{}/*/test.tsv",
        {"GAD": (5330,), "euadr": (355,)},
    ),
    *_splits(
        "codiesp",
        "codiesp/codiesp_train_dev.tar.xz",
        "*/{}/*",
        {"train": (500, 9181, 0, 1787)},
        defects={"text-mismatch": 4, "empty-fragment": 2},
    ),
    *_splits(
        "codiesp",
        "codiesp/codiesp_train_dev.tar.xz",
        "*/{}/*",
        {"dev": (250, 4477, 0, 966)},
        defects={"text-mismatch": 2, "empty-fragment": 2},
    ),
]


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda c: f"{c.name}:{c.path}:{'+'.join(c.patterns)}")
def test_counts(corpus: Corpus, data_dir: Path) -> None:
    problems = Problems()
    counts: Counter[str] = Counter()
    with SourceTree.open(data_dir / corpus.path) as tree:
        selected = tree.view({name: name for name in tree.names(*corpus.patterns)}) if corpus.patterns else tree
        for record in configure(get_format(corpus.name), corpus.options).read(selected, problems=problems):
            counts["documents"] += 1
            if isinstance(record, Document):
                counts["mentions"] += len(record.spans)
                counts["relations"] += len(record.relations)
                counts["discontinuous"] += sum(span.discontinuous for span in record.spans)
    found = tuple(counts[key] for key in ("documents", "mentions", "relations", "discontinuous"))
    assert found == (corpus.documents, corpus.mentions, corpus.relations, corpus.discontinuous)
    assert problems.counts == corpus.defects


def _documents(data_dir: Path, name: str, path: str, *patterns: str) -> list[Any]:
    with SourceTree.open(data_dir / path) as tree:
        selected = tree.view({file: file for file in tree.names(*(patterns or ("*",)))})
        return list(get_format(name).read(selected, problems=Problems()))


def test_bc5cdr_has_the_mentions_of_its_paper(data_dir: Path) -> None:
    labels = Counter(span.label for d in _documents(data_dir, "pubtator", "bc5cdr/pubtator") for span in d.spans)
    assert labels == {"Chemical": 15935, "Disease": 12850}


def test_chemprot_evaluated_relations_equal_the_gold_standard(data_dir: Path) -> None:
    for split, expected in (("training", 4157), ("development", 2416), ("test_gs", 3458)):
        folder = f"chemprot/chemprot_{split}"
        full = _documents(data_dir, "chemprot", folder)
        gold = _documents(data_dir, "chemprot", folder, "*abstracts*", "*entities*", "*gold_standard*")
        # A pair with two fine types of one group has two rows among the relations and one in the gold standard.
        evaluated = [{r.key for r in d.relations if r.attributes["evaluated"] == "Y"} for d in full]
        assert sum(map(len, evaluated)) == expected
        assert evaluated == [{r.key for r in d.relations} for d in gold]
        assert sum(len(d.relations) for d in gold) == expected


def test_ddi_pairs_that_are_not_read_are_all_other_pairs(data_dir: Path, tmp_path: Path) -> None:
    documents = _documents(data_dir, "ddi_xml", "ddi2013/DDICorpus-2013.tar.xz", "*/Train/*")
    get_format("ddi_xml").write(documents, tmp_path / "out")
    assert sum(file.read_text().count("<pair ") for file in (tmp_path / "out").iterdir()) == 27792
    assert Counter(r.label for d in documents for r in d.relations)["untyped"] == 1


def test_hoc_labels(data_dir: Path) -> None:
    documents = _documents(data_dir, "hoc", "hoc/hallmarks_of_cancer.tar.xz")
    labels = {label for document in documents for label in document.labels}
    assert len({label.split("--")[0] for label in labels} - {"NULL"}) == 10
    assert len(labels) == 37
    assert sum(len(document.text.split("\n")) for document in documents) == 17464
    assert sum("NULL" in document.labels for document in documents) == 11
    assert sum(len({span.start for span in document.spans}) for document in documents) == 4454
    assert sum(bool(document.labels) for document in documents) == 1582


def test_labels_of_pairs(data_dir: Path) -> None:
    def labels(records: list[Any]) -> Counter[str]:
        return Counter(label for record in records if isinstance(record, TextPair) for label in record.labels)

    assert labels(_documents(data_dir, "medrqe", "medrqe", "*TrainingSet*")) == {"true": 4655, "false": 3933}
    questions = _documents(data_dir, "pubmedqa", "pubmedqa")
    assert labels(questions) == {"yes": 552, "no": 338, "maybe": 110}
    assert sum(pair.meta.get("split") == "test" for pair in questions) == 500
    statements = _documents(data_dir, "nli4ct", "nli4ct/nli4ct_complete.tar.xz")
    assert labels(statements) == {"Entailment": 1200, "Contradiction": 1200}


def test_codes_of_codiesp(data_dir: Path) -> None:
    for split, expected in (("train", {"D": 5639, "P": 1550}), ("dev", {"D": 2677, "P": 817})):
        documents = _documents(data_dir, "codiesp", "codiesp/codiesp_train_dev.tar.xz", f"*/{split}/*")
        assert Counter(label[0] for document in documents for label in document.labels) == expected


def test_meddocan_reads_the_same_from_brat_and_xml(data_dir: Path) -> None:
    brat = _documents(data_dir, "brat", "meddocan/meddocan.tar.xz", "*/dev/brat/*")
    xml = _documents(data_dir, "meddocan_xml", "meddocan/meddocan.tar.xz", "*/dev/xml/*")
    assert [(d.id, d.text, sorted(s.key for s in d.spans)) for d in brat] == [
        (d.id, d.text, sorted(s.key for s in d.spans)) for d in xml
    ]


@pytest.mark.parametrize(
    ("name", "path", "pattern"),
    [
        ("brat", "quaero/QUAERO_FrenchMed.tar.xz", "*/dev/*"),
        ("pubtator", "bc5cdr/pubtator/CDR_TestSet.PubTator.txt.xz", "*"),
        ("ddi_xml", "ddi2013/DDICorpus-2013.tar.xz", "*ddi extraction*"),
        ("conll", "jnlpba/iob/devel.tsv.xz", "*"),
        ("bc2gm", "bc2gm/original/test", "*"),
        ("s800", "s800/s800_original.tar.xz", "*"),
        ("hoc", "hoc/hallmarks_of_cancer.tar.xz", "*"),
        ("chemprot", "chemprot/chemprot_sample", "*"),
        ("codiesp", "codiesp/codiesp_train_dev.tar.xz", "*/dev/*"),
        ("bioc", "bc5cdr/bioc_sample/CDR_sample.gold.BioC.xml", "*"),
        ("meddocan_xml", "meddocan/meddocan.tar.xz", "*/dev/xml/*"),
        ("nli4ct", "nli4ct/nli4ct_complete.tar.xz", "*/dev.json *CT json/*"),
    ],
)
def test_a_real_corpus_survives_writing_and_reading(
    name: str, path: str, pattern: str, data_dir: Path, tmp_path: Path
) -> None:
    format_ = get_format(name)
    records = _documents(data_dir, name, path, *([pattern] if "CT" not in pattern else ["*/dev.json", "*CT json/*"]))
    target = tmp_path / ("out" if format_.layout == "folder" else f"out{format_.suffixes[0]}")
    loss = format_.write(records, target)
    again = list(format_.read(target, problems=Problems()))
    assert not {reason for reason in loss.counts if reason != "ids renamed"}
    by_id = {record.id: record for record in again}
    for record in records if name != "conll" else ():
        if isinstance(record, Document):
            assert by_id[record.id].text == record.text
            assert [span.key for span in by_id[record.id].spans] == [span.key for span in record.spans]
            assert len(by_id[record.id].relations) == len(record.relations)
        else:
            assert by_id[record.id] == record
    assert len(again) == len(records)
