"""Official files found wherever they lie and read into splits, on made-up files in official formats."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from osler.core.errors import InputError, RecipeError
from osler.formats.registry import get_format
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import all_cards, load_card
from osler.tasks.records import RecordReducer
from osler.tasks.sources import open_source
from osler.tasks.sources.files import FilesMissingError
from osler.text.document import Document, Record, Span

CDR = ["CDR_TrainingSet.PubTator.txt", "CDR_DevelopmentSet.PubTator.txt", "CDR_TestSet.PubTator.txt"]


def abstracts(count: int, first: int = 1) -> list[Document]:
    """Documents with a chemical and a disease each."""
    found = []
    for number in range(first, first + count):
        text = f"Aspirin number {number} causes ulcers."
        at = text.index("ulcers")
        spans = (Span.at(0, 7, "Chemical", id="T1"), Span.at(at, at + 6, "Disease", id="T2"))
        found.append(Document(str(number), text, spans))
    return found


def cdr(folder: Path, sizes: tuple[int, int, int] = (6, 3, 2)) -> Path:
    first = 1
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in zip(CDR, sizes, strict=True):
        get_format("pubtator").write(abstracts(size, first), folder / name)
        first += size
    return folder


def read(card: TaskCard | str, source: Path | None, **more: bool) -> tuple[dict[str, list[Record]], dict[str, object]]:
    loaded = card if isinstance(card, TaskCard) else load_card(card)
    splits: dict[str, list[Record]] = {}
    reducer = RecordReducer(loaded)
    with open_source(loaded, source, **more) as opened:
        for split, record in opened.records():
            splits.setdefault(split, []).append(reducer(record))
        return splits, opened.facts() | {"left_out": dict(reducer.left_out)}


def brat_card(tmp_path: Path, source: str, extra: str = "") -> TaskCard:
    path = tmp_path / "mine.toml"
    path.write_text(
        f'name = "mine"\ntitle = "t"\nkind = "tagging"\nlanguage = "en"\nlabels = ["Chemical"]\n{extra}'
        'protocol_family = "ner"\nprotocol = "strict"\n'
        f'[source]\nreader = "files"\nformat = "brat"\n{source}'
    )
    return load_card(path)


def pack_zip(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder.parent))
    return path


def pack_tar(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, folder.name)
    return path


def test_files_are_found_plain_zipped_and_nested_and_read_the_same(tmp_path):
    plain = cdr(tmp_path / "plain" / "deep" / "CDR.Corpus")
    zipped = pack_zip(plain, tmp_path / "CDR_Data.zip")
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "inner.zip").write_bytes(zipped.read_bytes())
    nested = pack_tar(tmp_path / "outer", tmp_path / "all.tar.gz")
    results = [read("bc5cdr-chem", source) for source in (plain, tmp_path / "plain", zipped, nested)]
    assert {split: len(records) for split, records in results[0][0].items()} == {"train": 6, "dev": 3, "test": 2}
    assert all(result == results[0] for result in results[1:])
    assert results[0][1]["left_out"] == {"Disease": 11}
    labels = {span.label for records in results[0][0].values() for d in records for span in d.spans}
    assert labels == {"Chemical"}


def test_missing_files_are_named_exactly_and_so_is_the_way_to_get_them(tmp_path):
    folder = cdr(tmp_path / "cdr")
    (folder / CDR[2]).unlink()
    with pytest.raises(FilesMissingError, match=rf"missing: test: {CDR[2]}.*biocreative") as caught:
        read("bc5cdr-chem", folder)
    assert caught.value.found
    (tmp_path / "empty").mkdir()
    with pytest.raises(FilesMissingError) as caught:
        read("bc5cdr-chem", tmp_path / "empty")
    assert not caught.value.found
    with pytest.raises(InputError, match=rf"{CDR[0]}.*--from"):
        read("bc5cdr-chem", None)


def test_a_second_copy_counts_once_and_another_version_is_an_error_that_names_both(tmp_path):
    first = cdr(tmp_path / "a")
    alone = read("bc5cdr-chem", first)[0]
    cdr(tmp_path / "b")
    assert read("bc5cdr-chem", tmp_path)[0] == alone
    cdr(tmp_path / "b", (5, 4, 2))
    with pytest.raises(InputError, match=r"2 folders .* differ: a \(1 file\), b \(1 file\)\..*--from"):
        read("bc5cdr-chem", tmp_path)


def brat(folder: Path, count: int, first: int = 1) -> None:
    get_format("brat").write([d.only(["Chemical"]) for d in abstracts(count, first)], folder)


def test_a_sample_beside_the_whole_is_passed_over(tmp_path):
    for part, size in (("whole", 5), ("sample", 2)):
        brat(tmp_path / part / "train", size)
        brat(tmp_path / part / "test", size, 50)
    card = brat_card(
        tmp_path,
        'splits.train.files = ["train/*.txt", "train/*.ann"]\nsplits.test.files = ["test/*.txt", "test/*.ann"]\n',
    )
    splits, _ = read(card, tmp_path)
    assert [len(splits[name]) for name in ("train", "test")] == [5, 5]


def test_a_sample_that_differs_from_the_whole_is_another_distribution(tmp_path):
    brat(tmp_path / "whole" / "train", 5)
    brat(tmp_path / "sample" / "train", 2)
    (tmp_path / "sample" / "train" / "2.ann").write_text("")
    card = brat_card(tmp_path, 'splits.train.files = ["train/*.txt", "train/*.ann"]\n')
    with pytest.raises(InputError, match=r"differ: sample \(4 files\), whole \(10 files\)"):
        read(card, tmp_path)


def chemdner(folder: Path, scheme: str) -> Path:
    """A made-up BC4CHEMD release."""
    folder.mkdir(parents=True)
    for name in ("train", "devel", "test"):
        (folder / f"{name}.tsv").write_text(f"Aspirin\t{scheme}-Chemical\n{name}\tO\n.\tO\n\n")
    return folder


def test_sibling_folders_that_match_one_pattern_are_listed_and_never_read_together(tmp_path):
    plain = chemdner(tmp_path / "all" / "BC4CHEMD", "B")
    alone = read("bc4chemd", tmp_path / "all")[0]
    assert {split: len(records) for split, records in alone.items()} == {"train": 1, "dev": 1, "test": 1}
    chemdner(tmp_path / "all" / "BC4CHEMD-IOBES", "S")
    with pytest.raises(InputError) as caught:
        read("bc4chemd", tmp_path / "all")
    assert "2 folders have files of split 'train' of task bc4chemd" in str(caught.value)
    assert "BC4CHEMD (1 file), BC4CHEMD-IOBES (1 file). Give one of them with --from" in str(caught.value)
    assert read("bc4chemd", plain)[0] == alone  # the folder itself, as the message says
    shutil.rmtree(tmp_path / "all" / "BC4CHEMD-IOBES")
    pack_zip(plain, tmp_path / "all" / "BC4CHEMD.zip")
    assert read("bc4chemd", tmp_path / "all")[0] == alone  # the archive beside its unpacked folder


def invented(tmp_path: Path, card: TaskCard, mark: str, content: str) -> None:
    """A file for every pattern of a card; `mark` takes the place of the stars."""
    for split in card.source.splits.values():
        for pattern in (*split.files, *([split.listed.file] if split.listed else [])):
            path = tmp_path / (card.source.folder or ("",))[0].replace("*", mark) / pattern.replace("**", "deep")
            path = Path(str(path).replace("*", mark))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content} {pattern}")


@pytest.mark.parametrize("name", [card.name for card in all_cards() if card.source.reader == "files"])
def test_no_card_reads_two_distributions_as_one(tmp_path, name):
    card = load_card(name)
    card = card.at_fold(1) if card.folds else card
    invented(tmp_path / "a", card, "x", "one")
    with open_source(card, tmp_path) as source:
        found = source.facts()["files"]
    invented(tmp_path / "b", card, "x", "one")  # a copy
    with open_source(card, tmp_path) as source:
        files = source.facts()["files"]
    if name == "ictusnet":  # all texts below a folder, wherever they are: the reader reports ids that occur twice
        return
    assert files == found
    invented(tmp_path / "b", card, "x", "two")
    with pytest.raises(InputError, match="and they differ: "), open_source(card, tmp_path):
        pass
    shutil.rmtree(tmp_path / "b")
    invented(tmp_path / "a", card, "x-2", "two")
    folders = [pattern.rpartition("/")[0] for split in card.source.splits.values() for pattern in split.files]
    if any("*" in folder for folder in (*card.source.folder, *folders)):
        with pytest.raises(InputError, match="and they differ: "), open_source(card, tmp_path):
            pass


def test_a_named_folder_is_required_only_where_many_corpora_lie_together(tmp_path):
    brat(tmp_path / "other" / "train", 3)
    card = brat_card(tmp_path, 'folder = ["MyCorpus*"]\nsplits.train.files = ["train/*.txt", "train/*.ann"]\n')
    assert len(read(card, tmp_path / "other")[0]["train"]) == 3
    with pytest.raises(FilesMissingError, match=r"in MyCorpus\*"):
        read(card, tmp_path, anywhere=False)
    brat(tmp_path / "MyCorpus-1.0" / "train", 2)
    assert len(read(card, tmp_path, anywhere=False)[0]["train"]) == 2
    assert len(read(card, tmp_path / "MyCorpus-1.0", anywhere=False)[0]["train"]) == 2


def test_ids_and_digest_do_not_depend_on_where_the_files_lie(tmp_path):
    card = load_card("e3c-en")
    results, digests = [], []
    for place in ("here", "elsewhere/and/deeper"):
        folder = tmp_path / place / "layer1" / "English"
        folder.mkdir(parents=True)
        for split in ("train", "test"):
            lines = "".join(f"Word{n} B-ety\nnext O\n\n" for n in range(20 if split == "train" else 5))
            (folder / f"{split}.txt").write_text(lines)
        with open_source(card, tmp_path / place) as source:
            digests.append(source.digest)
            results.append(list(source.records()))
    assert results[0] == results[1]
    assert digests[0] == digests[1]
    assert [split for split, _ in results[0]].count("dev") == 2
    # The tail of the file, not a draw: neighbouring sentences stay together.
    assert [record.id for split, record in results[0] if split == "dev"] == ["English/train-19", "English/train-20"]


RELEASED = """
splits.train.files = ["train/**/*.txt", "train/**/*.ann"]
[paper]
source = "p"
splits.train = { documents = 3 }
[releases.small]
title = "one hospital"
[releases.large]
title = "two hospitals"
marks = ["train/B/*.txt"]
[releases.large.paper]
source = "p"
splits.train = { documents = 7 }
[releases.table]
title = "as one file"
splits.train.files = ["train.ann", "train.txt"]
"""


def release(tmp_path: Path, source: Path, **more: str) -> str:
    card = brat_card(tmp_path, RELEASED, 'release = "small"\n')
    facts = read(card.at_release(more["chosen"]) if more else card, source)[1]
    return str(facts["release"])


def test_a_release_is_recognised_by_its_files_then_by_the_number_of_records(tmp_path):
    brat(tmp_path / "few" / "train" / "A", 3)
    assert release(tmp_path, tmp_path / "few") == "small"
    brat(tmp_path / "many" / "train" / "A", 7)
    assert release(tmp_path, tmp_path / "many") == "large"
    brat(tmp_path / "marked" / "train" / "A", 2)
    brat(tmp_path / "marked" / "train" / "B", 1, 10)
    assert release(tmp_path, tmp_path / "marked") == "large"
    # Neither number: the card's own release.
    brat(tmp_path / "other" / "train" / "A", 5)
    assert release(tmp_path, tmp_path / "other") == "small"
    assert release(tmp_path, tmp_path / "other", chosen="large") == "large"


def test_a_release_in_other_files_is_read_where_the_first_is_not_there(tmp_path):
    brat(tmp_path / "both", 1)
    for suffix in ("txt", "ann"):
        (tmp_path / "both" / f"1.{suffix}").rename(tmp_path / "both" / f"train.{suffix}")
    assert release(tmp_path, tmp_path / "both") == "table"
    brat(tmp_path / "both" / "train" / "A", 3)
    assert release(tmp_path, tmp_path / "both") == "small"
    assert release(tmp_path, tmp_path / "both", chosen="table") == "table"
    (tmp_path / "empty").mkdir()
    with pytest.raises(FilesMissingError, match=r"train/\*\*/\*\.txt"):
        release(tmp_path, tmp_path / "empty")
    with pytest.raises(RecipeError, match=r"no release 'big'.*small, large, table"):
        release(tmp_path, tmp_path / "both", chosen="big")


CARVED = 'splits.train.files = ["train/*.txt", "train/*.ann"]\nsplits.dev.carve = {{ of = "train", share = {share}{more} }}\n'


def ids(records: list[Record]) -> set[str]:
    return {record.id for record in records}


def test_carving_takes_the_stated_share_is_repeatable_and_agrees_between_corpora_that_share_documents(tmp_path):
    brat(tmp_path / "x" / "train", 40)
    splits, _ = read(brat_card(tmp_path, CARVED.format(share=0.25, more="")), tmp_path / "x")
    assert len(splits["dev"]) == 10
    assert len(splits["train"]) == 30
    assert not ids(splits["dev"]) & ids(splits["train"])
    assert read(brat_card(tmp_path, CARVED.format(share=0.25, more="")), tmp_path / "x")[0] == splits
    other, _ = read(brat_card(tmp_path, CARVED.format(share=0.25, more=", seed = 7")), tmp_path / "x")
    assert ids(other["dev"]) != ids(splits["dev"])
    # Half of the documents again: what was dev in the larger corpus comes first in the smaller one too.
    brat(tmp_path / "y" / "train", 20)
    smaller, _ = read(brat_card(tmp_path, CARVED.format(share=0.25, more="")), tmp_path / "y")
    known = {str(n) for n in range(1, 21)} & ids(splits["dev"])
    assert ids(smaller["dev"]) <= known or known <= ids(smaller["dev"])


def test_records_of_one_patient_are_never_parted(tmp_path):
    notes = [d.with_(id=f"{n // 3:03d}-{n % 3}") for n, d in enumerate(d.only(["Chemical"]) for d in abstracts(30))]
    get_format("brat").write(notes, tmp_path / "x" / "train")
    card = brat_card(tmp_path, CARVED.format(share=0.3, more=", pattern = '^(\\d+)-'"))
    splits, _ = read(card, tmp_path / "x")
    patients = {split: {record.id.split("-")[0] for record in records} for split, records in splits.items()}
    assert len(patients["dev"]) == 3
    assert not patients["dev"] & patients["train"]


def test_two_carved_splits_are_disjoint(tmp_path):
    brat(tmp_path / "x" / "train", 100)
    source = CARVED.format(share=0.16, more="") + 'splits.test.carve = { of = "train", share = 0.2 }\n'
    splits, _ = read(brat_card(tmp_path, source), tmp_path / "x")
    assert {name: len(records) for name, records in splits.items()} == {"train": 64, "dev": 16, "test": 20}


def test_lists_of_members_and_a_table_of_keys_make_splits(tmp_path):
    documents = [
        d.with_(id=f"species{n:03d}", spans=(Span.at(0, 7, "Species", id="T1"),) if n % 2 else ())
        for n, d in enumerate(abstracts(6), 1)
    ]
    get_format("s800").write(documents, tmp_path / "s800" / "original-data")
    (tmp_path / "s800" / "original-data" / "pubmedid.tsv").write_text(
        "".join(f"species{n:03d}\tPMID:{n}00\tx\n" for n in range(1, 7))
    )
    for folder, lists in (("s800", {"train": "135", "devel": "2", "test": "46"}), ("linnaeus", {"train": "9"})):
        (tmp_path / folder / "split_lists").mkdir(parents=True)
        for name, members in lists.items():
            (tmp_path / folder / "split_lists" / f"{name}.txt").write_text("".join(f"{m}00\n" for m in members))
    splits, _ = read("s800", tmp_path)
    assert {name: sorted(ids(records)) for name, records in splits.items()} == {
        "train": ["species001", "species003", "species005"],
        "dev": ["species002"],
        "test": ["species004", "species006"],
    }
    (tmp_path / "s800" / "split_lists" / "devel.txt").unlink()
    with pytest.raises(FilesMissingError, match=r"split_lists/devel\.txt"):
        read("s800", tmp_path)


def test_defects_a_card_does_not_know_are_refused_with_their_place_and_known_ones_are_counted(tmp_path):
    brat(tmp_path / "x" / "train", 4)
    file = tmp_path / "x" / "train" / "2.ann"
    file.write_text("T1\tChemical 0 7\tAspirim\n")
    source = 'splits.train.files = ["train/*.txt", "train/*.ann"]\n'
    with pytest.raises(
        InputError, match=r"2\.ann:1: split 'train' has 1 defects of kind 'text-mismatch', the card allows 0"
    ):
        read(brat_card(tmp_path, source), tmp_path / "x")
    known = source + "[known_problems]\ntrain = { text-mismatch = 1 }\n"
    splits, facts = read(brat_card(tmp_path, known), tmp_path / "x")
    assert len(splits["train"]) == 4
    assert facts["problems"] == {"train": {"text-mismatch": 1}}
    tolerant = brat_card(tmp_path, source, extra='tolerated = ["text-mismatch"]\n')
    assert read(tolerant, tmp_path / "x")[1]["problems"] == {"train": {"text-mismatch": 1}}


def test_an_optional_split_may_be_missing_and_is_said_to_be(tmp_path):
    brat(tmp_path / "x" / "train", 4)
    source = 'splits.train.files = ["train/*.txt", "train/*.ann"]\nsplits.test = { files = ["test/*.txt"], optional = true }\n'
    splits, facts = read(brat_card(tmp_path, source), tmp_path / "x")
    assert list(splits) == ["train"]
    assert facts["absent"] == ["test"]


def test_each_fold_is_a_task_of_its_own(tmp_path):
    for fold in (1, 2):
        folder = tmp_path / "GAD" / str(fold)
        folder.mkdir(parents=True)
        rows = [f"@GENE$ in {fold} and {n} for @DISEASE$ as such\t{n % 2}" for n in range(20)]
        (folder / "train.tsv").write_text("".join(f"{row}\n" for row in rows))
        (folder / "test.tsv").write_text("index\tsentence\tlabel\n" + f"0\t@GENE$ {fold} @DISEASE$\t1\n")
    card = load_card("gad")
    first, second = (read(card.at_fold(fold), tmp_path)[0] for fold in (1, 2))
    assert card.at_fold(2).name == "gad-fold2"
    assert [r.text for r in second["test"]] == ["@GENE$ 2 @DISEASE$"]
    assert {split: len(records) for split, records in first.items()} == {"train": 18, "dev": 2, "test": 1}
    with pytest.raises(RecipeError, match="no fold 11"):
        card.at_fold(11)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('splits.dev.carve = { of = "train", share = 0.1 }\n', "does not exist or has no files"),
        ("splits.train = {}\n", "either files or carve"),
        ("", "needs a format and splits"),
        ('splits.train = { files = ["a"], carve = { of = "a", share = 0.5 } }\n', "either files or carve"),
        ('splits.train.files = ["a"]\nsplits.dev.carve = { of = "train", share = 0.1, pattern = "x" }\n', "one group"),
        (
            'splits.train.files = ["a"]\nsplits.dev.carve = { of = "train", share = 0.1, by = "name" }\n',
            "must be id, text, first, meta:NAME or table:NAME",
        ),
    ],
)
def test_cards_whose_splits_make_no_sense_are_refused(tmp_path, source, message):
    with pytest.raises(RecipeError, match=message):
        brat_card(tmp_path, source)


def test_an_unknown_family_of_protocols_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('protocol_family = "nerr"\n')
    with pytest.raises(RecipeError, match=r"no protocol_family 'nerr'.*ner"):
        load_card(path)
