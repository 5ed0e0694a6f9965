"""A small official-format distribution of every task of the five papers, and of those that the guide and the pages of results prepare.

Access-controlled corpora are made by `osler tasks synthesize`. For public ones, which nobody has to wait for, the synthetic clinic's
abstracts, notes and pairs are written here with the file names and formats of the release.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from osler.clinic import abstracts, entailment_pairs, notes, similarity_pairs
from osler.clinic.distributions.rewriting import contiguous, edited, relabelled
from osler.clinic.labels import Language, Split
from osler.clinic.synthesize import SynthesizeRecipe
from osler.clinic.synthesize import run as synthesize
from osler.formats.output import output_file
from osler.formats.registry import get_format
from osler.tasks.catalogue import load_card
from osler.text.document import Document, Record, Relation, Span
from osler.text.sentences import sentences

NUMBERS: dict[Split, int] = {"train": 6, "dev": 3, "test": 3}
RESTRICTED = {
    "bc4chemd": 12,
    "clinicalsts-2018": 40,
    "i2b2-2010": 4,
    "i2b2-2012": 4,
    "i2b2-2014": 4,
    "ictusnet": 8,
    "mednli": 40,
    "n2c2-2018": 4,
    "n2c2-2019-sts": 40,
    "share-clef-2013": 5,
}
"""Records in training of each distribution that nobody may pass on."""

Labels = dict[str, str]
"""Clinic label to the label of the corpus; what is not there is left out."""


def write_official_files(data: Path, *names: str) -> None:
    """Write the distributions of these names below `data`; without names, those of the papers."""
    for name in names or (*PUBLIC, *RESTRICTED):
        if name in RESTRICTED:
            synthesize(SynthesizeRecipe(task=name, n=RESTRICTED[name]), data / name)
        else:
            (PUBLIC | OTHERS)[name](data)


def _documents(corpus: str, split: Split, labels: Labels, relations: Labels | None = None) -> list[Document]:
    """Abstracts with the labels of a corpus; no two corpora and no two splits share a text."""
    language: Language = "es" if load_card(corpus).language == "es" else "en"
    source = notes if load_card(corpus).domain == "clinical" else abstracts
    seed = sum(corpus.encode())
    found = source(NUMBERS[split], language=language, seed=seed, split=split)
    return [_renamed(document, number, labels, relations or {}) for number, document in enumerate(found, 1)]


def _renamed(document: Document, number: int, labels: Labels, relations: Labels) -> Document:
    kept = relabelled(contiguous(document), lambda span: labels.get(span.label), lambda link: link.label in relations)
    links = tuple(replace(link, label=relations[link.label], attributes={}) for link in kept.relations)
    offset = {"train": 10_000, "dev": 20_000, "test": 30_000}[document.meta["split"]]
    return kept.with_(id=str(offset + number), relations=links, labels=(), value=None, meta={})


def _save(form: str, records: Iterable[Record], path: Path) -> None:
    get_format(form).write(records, path)


def _one_file_a_split(corpus: str, form: str, files: dict[Split, str], labels: Labels) -> Callable[[Path], None]:
    def write(data: Path) -> None:
        for split, name in files.items():
            _save(form, _documents(corpus, split, labels), data / corpus / name)

    return write


def _brat(corpus: str, places: dict[Split, list[str]], labels: Labels) -> Callable[[Path], None]:
    """Several places of one split share its documents: CANTEMIST has two dev sets."""

    def write(data: Path) -> None:
        for split, folders in places.items():
            documents = _documents(corpus, split, labels)
            for number, folder in enumerate(folders):
                _save("brat", documents[number :: len(folders)], data / folder)

    return write


def _bc2gm(data: Path) -> None:
    for split in ("train", "test"):
        every = list(_sentences(_documents("bc2gm", split, {"DRUG": "GENE"})))
        named = [each.with_(id=f"P{number:08}T0000") for number, each in enumerate(every, split == "test" and 500)]
        _save("bc2gm", named, data / "bc2gm" / split)


def _sentences(documents: Iterable[Document]) -> Iterator[Document]:
    for document in documents:
        for start, end in sentences(document.text, "en"):
            inside = [span for span in document.spans if start <= span.start and span.end <= end]
            spans = tuple(Span.at(s.start - start, s.end - start, s.label) for s in inside)
            yield Document(f"{document.id}-{start}", document.text[start:end].replace("\n", " "), spans)


def _s800(data: Path) -> None:
    place = data / "S800-1.0"
    parts = {split: _documents("s800", split, {"DRUG": "Species"}) for split in NUMBERS}
    _save("s800", [document for part in parts.values() for document in part], place)
    rows = [f"{document.id}\tPMID:{document.id}\n" for part in parts.values() for document in part]
    (place / "pubmedid.tsv").write_text("".join(rows))
    (place / "split_lists").mkdir()
    for split, documents in parts.items():
        name = "devel" if split == "dev" else split
        (place / "split_lists" / f"{name}.txt").write_text("".join(f"{document.id}\n" for document in documents))


def _hoc(data: Path) -> None:
    hallmarks = load_card("hoc").labels
    records = []
    for split in NUMBERS:
        for number, document in enumerate(_documents("hoc", split, {})):
            lines = [document.text[start:end].replace("\n", " ") for start, end in sentences(document.text, "en")]
            mark = hallmarks[number % len(hallmarks)]
            held = Span.at(0, len(lines[0]), mark)
            records.append(Document(document.id, "\n".join(lines), (held,), labels=(mark,)))
    _save("hoc", records, data / "Hallmarks-of-Cancer-master")


def _chemprot(data: Path) -> None:
    groups = {"TrAP": "CPR:3", "TrIP": "CPR:4", "TrWP": "CPR:5", "TrCP": "CPR:6", "TrNAP": "CPR:9"}
    names: dict[Split, str] = {"train": "training", "dev": "development", "test": "test"}
    for split, name in names.items():
        place = data / "ChemProt_Corpus" / f"chemprot_{name}"
        _save("chemprot", _documents("chemprot", split, {"DRUG": "CHEMICAL", "PROBLEM": "GENE-Y"}, groups), place)
        for table in list(place.iterdir()) if split == "test" else ():
            table.rename(table.with_name(f"{table.stem}_gs.tsv"))


def _ddi(data: Path) -> None:
    types = {"DDI-advise": "advise", "DDI-effect": "effect", "DDI-mechanism": "mechanism", "DDI-int": "int"}
    folders: list[tuple[Split, str]] = [("train", "Train")]
    folders += [("test", f"Test/Test for {part} task") for part in ("DDI Extraction", "DrugNER")]
    for split, folder in folders:
        documents = _documents("ddi2013", split, {"DRUG": "drug"}, types)
        for number, part in enumerate(("DrugBank", "MedLine")):
            _save("ddi_xml", documents[number::2], data / "DDICorpus" / folder / part)


def _folds(corpus: str, folder: str) -> Callable[[Path], None]:
    def masked() -> Iterator[tuple[str, str]]:
        """Sentences with one drug as the gene and one problem as the disease; related is positive."""
        for document in abstracts(40, language="en", seed=sum(corpus.encode()), split="train"):
            for start, end in sentences(document.text, "en"):
                inside = [span for span in document.spans if start <= span.start and span.end <= end]
                pair = [next((s for s in inside if s.label == label), None) for label in ("DRUG", "PROBLEM")]
                if pair[0] is None or pair[1] is None or pair[0].discontinuous or pair[1].discontinuous:
                    continue
                related = any({link.head, link.tail} == {pair[0].id, pair[1].id} for link in document.relations)
                names = {pair[0].start: "@GENE$", pair[1].start: "@DISEASE$"}
                edits = [(s.start, s.end, names[s.start]) for s in sorted((pair[0], pair[1]), key=lambda s: s.start)]
                if edits[0][1] <= edits[1][0]:
                    text = edited(Document("", document.text), [(0, start, ""), *edits, (end, len(document.text), "")])
                    yield text.text.replace("\n", " "), str(int(related))

    def write(data: Path) -> None:
        rows = list(islice(masked(), 40))
        for fold in range(10):
            place = data / "REdata" / folder / str(fold + 1)
            with output_file(place / "train.tsv") as stream:
                stream.writelines(
                    f"{text}\t{label}\n".encode() for k, (text, label) in enumerate(rows) if k % 10 != fold
                )
            with output_file(place / "test.tsv") as stream:
                stream.write(b"index\tsentence\tlabel\n")
                stream.writelines(f"{k}\t{text}\t{label}\n".encode() for k, (text, label) in enumerate(rows[fold::10]))

    return write


def _medrqe(data: Path) -> None:
    files: dict[Split, str] = {"train": "TrainingSet-AMIA2016", "test": "ValidationSet-AMIA2016"}
    for split, name in files.items():
        pairs = entailment_pairs(40 if split == "train" else 20, language="en", seed=77, split=split)
        known = [p.with_(labels=("true" if "entailment" in p.labels else "false",), value=None, meta={}) for p in pairs]
        _save("medrqe", known, data / "MEDIQA_Task2_RQE" / f"MEDIQA2019-Task2-RQE-{name}.xml")


def _biosses(data: Path) -> None:
    pairs = [pair.with_(meta={}) for pair in similarity_pairs(40, language="en", seed=78, split="train")]
    _save("biosses", pairs, data / "biosses" / "biosses.tsv")


def _e3c(data: Path) -> None:
    """Attributes of events in three languages. The cards name every file of the release, so every one is written."""
    attributes = ({"polarity": "NEG"}, {"contextualModality": "HEDGED"}, {"contextualModality": "HYPOTHETICAL-IF"}, {})
    for language in ("en", "es", "fr"):
        for split in load_card(f"e3c-attributes-{language}").source.splits.values():
            for file in map(Path, split.files):
                text, spans = f"{file.stem}:", []
                for word, held in zip(("fever", "pneumonia", "relapse", "cough"), attributes, strict=True):
                    spans.append(Span.at(len(text) + 1, len(text) + 1 + len(word), "EVENT", attributes=held))
                    text += f" {word}."
                _save("webanno_xmi", [Document(file.stem, text, tuple(spans))], data / "e3c" / file.parent / file.stem)
                (data / "e3c" / file.parent / file.stem / file.name).rename(data / "e3c" / file)


def _nubes(data: Path) -> None:
    """Ten samples, in which a cue points to what it negates or makes possible."""
    for sample in range(1, 11):
        documents = []
        for number in range(3):
            text = f"Paciente {sample}{number} sin fiebre. Posible neumonía."
            cue, maybe = text.index("sin"), text.index("Posible")
            spans = (
                Span.at(cue, cue + 3, "NegSynMarker", id="T1"),
                Span.at(cue + 4, cue + 10, "DISO", id="T2"),
                Span.at(maybe, maybe + 7, "UncertSynMarker", id="T3"),
                Span.at(maybe + 8, maybe + 16, "DISO", id="T4"),
            )
            scopes = (Relation("Scope", "T1", "T2", id="R1"), Relation("Scope", "T3", "T4", id="R2"))
            documents.append(Document(f"S{sample:03}-{number}", text, spans, scopes))
        _save("brat", documents, data / "NUBes" / f"SAMPLE-{sample:03}")


def _e3c_entities(data: Path) -> None:
    for language, name in (("en", "English"), ("es", "Spanish"), ("fr", "French")):
        for split in ("train", "test"):
            found = _sentences(_documents(f"e3c-{language}", split, {"PROBLEM": "ety"}))
            _save("conll", found, data / "e3c" / "layer1" / name / f"{split}.txt")


def _nli4ct(data: Path) -> None:
    place, trials = data / "nli4ct", data / "nli4ct" / "CT json"
    trials.mkdir(parents=True)
    files: dict[Split, str] = {"train": "train", "dev": "dev", "test": "Gold_test"}
    for split, name in files.items():
        known = []
        for number, pair in enumerate(entailment_pairs(12, language="en", seed=79, split=split)):
            label = "Entailment" if "entailment" in pair.labels else "Contradiction"
            where = {"section": "Results", "primary": f"NCT-{split}-{number}"}
            known.append(pair.with_(labels=(label,), value=None, meta=where))
        _save("nli4ct", known, place / split)
        (place / split / "statements.json").rename(place / f"{name}.json")
        for trial in (place / split / "CT json").iterdir():
            trial.rename(trials / trial.name)


def _pubmedqa(data: Path) -> None:
    answers = load_card("pubmedqa").labels
    pairs = entailment_pairs(40, language="en", seed=80, split="train")
    asked = [p.with_(id=str(k), labels=(answers[k % 3],), value=None, meta={}) for k, p in enumerate(pairs)]
    _save("pubmedqa", asked, data / "pubmedqa" / "ori_pqal.json")
    truth = {pair.id: pair.labels[0] for pair in asked[:10]}
    (data / "pubmedqa" / "test_ground_truth.json").write_text(json.dumps(truth))


def _codiesp(data: Path) -> None:
    """As the early release: no codes of the test set."""
    for split in ("train", "dev"):
        cases = enumerate(_documents("codiesp", split, {}))
        coded = [case.with_(labels=(f"D:r{50 + k % 2}", f"P:0{k % 2}")) for k, case in cases]
        _save("codiesp", coded, data / "codiesp" / split)


_GENIA = {"DRUG": "protein", "PROBLEM": "DNA", "TEST": "cell_line", "PROCEDURE": "cell_type", "STRENGTH": "RNA"}
_UMLS = {"DRUG": "CHEM", "PROBLEM": "DISO", "PROCEDURE": "PROC", "TEST": "PHEN"}
_CDR: dict[Split, str] = {
    "train": "CDR_TrainingSet.PubTator.txt",
    "dev": "CDR_DevelopmentSet.PubTator.txt",
    "test": "CDR_TestSet.PubTator.txt",
}
_NCBI: dict[Split, str] = {
    "train": "NCBItrainset_corpus.txt",
    "dev": "NCBIdevelopset_corpus.txt",
    "test": "NCBItestset_corpus.txt",
}


def _places(pattern: str, **folders: str) -> dict[Split, list[str]]:
    splits: tuple[Split, ...] = ("train", "dev", "test")
    return {split: [pattern.format(name) for name in folders[split].split()] for split in splits if split in folders}


PUBLIC: dict[str, Callable[[Path], None]] = {
    "bc5cdr": _one_file_a_split("bc5cdr", "pubtator", _CDR, {"DRUG": "Chemical", "PROBLEM": "Disease"}),
    "ncbi-disease": _one_file_a_split("ncbi-disease", "pubtator", _NCBI, {"PROBLEM": "SpecificDisease"}),
    "jnlpba": _brat("jnlpba", _places("jnlpba/standoff/{}", train="train", test="test"), _GENIA),
    "linnaeus": _brat(
        "linnaeus", _places("LINNAEUS_GSC_brat/{}", train="train", dev="valid", test="test"), {"DRUG": "LIVB"}
    ),
    "pharmaconer": _brat(
        "pharmaconer",
        _places("PharmaCoNERCorpus/{}", train="train", dev="valid", test="test"),
        {"DRUG": "NORMALIZABLES", "TEST": "PROTEINAS"},
    ),
    "cantemist": _brat(
        "cantemist",
        _places("cantemist/{}/cantemist-ner", train="train-set", dev="dev-set1 dev-set2", test="test-set"),
        {"PROBLEM": "MORFOLOGIA_NEOPLASIA"},
    ),
    "quaero-emea": _brat("quaero-emea", _places("QUAERO/{}/EMEA", train="train", dev="dev", test="test"), _UMLS),
    "bc2gm": _bc2gm,
    "s800": _s800,
    "hoc": _hoc,
    "chemprot": _chemprot,
    "ddi2013": _ddi,
    "gad": _folds("gad", "GAD"),
    "euadr": _folds("euadr", "euadr"),
    "medrqe": _medrqe,
    "biosses": _biosses,
}
"""Tasks of the papers that anyone may download."""

_PHI = {
    "PATIENT": "NOMBRE_SUJETO_ASISTENCIA",
    "DOCTOR": "NOMBRE_PERSONAL_SANITARIO",
    "DATE": "FECHAS",
    "HOSPITAL": "HOSPITAL",
    "CITY": "TERRITORIO",
}
OTHERS: dict[str, Callable[[Path], None]] = {
    "meddocan": _brat("meddocan", _places("meddocan/{}/brat", train="train", dev="dev", test="test"), _PHI),
    "e3c-attributes": _e3c,
    "nubes-attributes": _nubes,
    "e3c-entities": _e3c_entities,
    "nli4ct": _nli4ct,
    "pubmedqa": _pubmedqa,
    "codiesp": _codiesp,
    "quaero-medline": _brat(
        "quaero-medline", _places("QUAERO/{}/MEDLINE", train="train", dev="dev", test="test"), _UMLS
    ),
}
"""Further tasks that the guide and the pages of results prepare."""
