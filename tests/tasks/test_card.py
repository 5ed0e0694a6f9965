from __future__ import annotations

import pytest

from osler.artifacts.task_folder import read_records, write_records
from osler.core.errors import RecipeError, UnknownNameError
from osler.formats.registry import get_format
from osler.tasks.card import TaskCard
from osler.tasks.catalogue import all_cards, load_card
from osler.tasks.scoring import score
from osler.text.document import Document, Relation, Span, TextPair


def test_every_shipped_card_is_valid_and_named_like_its_file():
    cards = all_cards()
    assert len(cards) >= 16
    for card in cards:
        assert card.licence != "unknown"
        assert card.protocol_named().description


def test_a_card_can_be_the_users_own_file_and_mistakes_are_named(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ntitle = "x"\nkind = "taging"\nlanguage = "en"\nprotocol = "p"\n[source]\nreader = "clinic"\n'
    )
    with pytest.raises(RecipeError, match=r"mine\.toml.*'kind'.*tagging"):
        load_card(path)
    with pytest.raises(UnknownNameError, match="clinic-phi-"):
        load_card("clinic-phi-em")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "q"}, "default protocol"),
        ({"labels": ()}, "needs labels"),
        ({"kind": "relation"}, "needs pairs"),
        ({"record": "pair"}, "needs documents"),
        ({"name": "Has Blanks"}, "lower-case letters, digits and hyphens"),
        ({"releases": {"a": {"title": "t"}}}, "release must be one of: a"),
        ({"name": "mean"}, "'mean' cannot be the name of a task, because dev scores use it"),
    ],
)
def test_inconsistent_cards_are_refused(change, message):
    values = {
        "name": "t", "title": "t", "kind": "tagging", "language": "en", "labels": ("A",),
        "source": {"reader": "clinic"}, "protocol": "p", "protocols": {"p": {"metric": "f1"}},
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        TaskCard.model_validate(values | change)


def test_numbers_carry_their_protocol_and_an_unknown_metric_is_refused():
    card = load_card("clinic-phi-en")
    assert card.protocol_id() == "clinic-phi-en/strict@v1"
    with pytest.raises(RecipeError, match=r"no protocol 'strikt'.*strict"):
        card.protocol_named("strikt")
    protocol, documents = card.protocol_named().changed(metric="pearson"), [Document("d", "x")]
    with pytest.raises(RecipeError, match="metric 'pearson'"):
        score(card, protocol, documents, documents)


def test_records_survive_parquet_exactly(tmp_path):
    documents = [
        Document("1", "aé😀\r\nb", (Span(((0, 1), (3, 4)), "A", "T1", 0.5, {"k": "v"}),), (), ("l",), 1.5, {"m": "n"}),
        Document(
            "2",
            "ab",
            (Span.at(0, 1, "A", id="T1"), Span.at(1, 2, "B", id="T2")),
            (Relation("r", "T1", "T2", "R1", 0.1),),
        ),
        Document("3", ""),
    ]
    write_records(documents, tmp_path / "d.parquet")
    assert list(read_records(tmp_path / "d.parquet")) == documents
    pairs = [TextPair("1", "a", "b", ("x",), None, {}), TextPair("2", "", "", (), 2.0)]
    write_records(pairs, tmp_path / "p.parquet", pairs=True)
    assert list(read_records(tmp_path / "p.parquet")) == pairs


@pytest.mark.parametrize("kind", ["document", "pair"])
def test_scores_survive_parquet_and_json_lines_also_from_older_files(tmp_path, kind):
    plain = Document("1", "ab", labels=("b",)) if kind == "document" else TextPair("1", "a", "b", ("b",))
    record = plain.with_(meta={"m": "n"}, scores={"b": 0.900001, "a": 0.1})
    write_records([record], tmp_path / "new.parquet", pairs=kind == "pair", scores=True)
    (found,) = read_records(tmp_path / "new.parquet")
    assert found == record
    assert list(found.scores) == ["b", "a"]
    jsonl = get_format("jsonl")
    jsonl.write([record], tmp_path / "new.jsonl")
    assert list(jsonl.read(tmp_path / "new.jsonl")) == [record]
    older = plain.with_(meta={"m": "n", "score:b": "0.9000", "score:a": "0.1000"})
    write_records([older], tmp_path / "old.parquet", pairs=kind == "pair")
    jsonl.write([older], tmp_path / "old.jsonl")
    expected = record.with_(scores={"b": 0.9, "a": 0.1})
    assert list(read_records(tmp_path / "old.parquet")) == list(jsonl.read(tmp_path / "old.jsonl")) == [expected]


def test_a_card_without_releases_is_written_as_in_earlier_versions():
    assert "releases" not in load_card("clinic-phi-en").resolved()
    assert set(load_card("i2b2-2010-concepts").resolved()["releases"]) == {"public", "full"}
