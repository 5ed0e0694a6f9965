from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.clinic.labels import PHI_LABELS
from osler.core.errors import InputError, RecipeError, UnknownNameError
from osler.metrics.deid import MAPS, categories, phi_labels, score_deid
from osler.text.document import Document, Span

TEXT = "Ana Ruiz, seen 12/03/2020 by Dr. Vega in Soria. Has asthma."
ANA, DATE, VEGA, SORIA = (
    Span.at(0, 8, "PATIENT"),
    Span.at(15, 25, "DATE"),
    Span.at(33, 37, "DOCTOR"),
    Span.at(41, 46, "CITY"),
)
ASTHMA = Span.at(52, 58, "PROBLEM")


def doc(*spans: Span, name: str = "n") -> Document:
    return Document(name, TEXT, spans)


GOLD = [doc(ANA, DATE, VEGA, SORIA, ASTHMA)]


def test_covered_mentions_are_safe_whatever_the_label() -> None:
    scores = score_deid(GOLD, [doc(Span.at(0, 8, "DOCTOR"), DATE, VEGA, SORIA)], "clinic")
    assert scores.safe_harbor_total.recall == scores.total.recall == scores.clean_share == 1
    assert scores.ignored == {"PROBLEM": 1}
    assert scores.character_precision == 1
    assert list(scores.safe_harbor) == ["Names", "Places smaller than a state", "Dates and ages"]
    assert list(scores.beyond) == ["Staff names"]


def test_a_mention_covered_in_part_is_a_leak() -> None:
    scores = score_deid(GOLD, [doc(Span.at(0, 6, "PATIENT"), DATE, VEGA, SORIA)], "clinic")
    names = scores.safe_harbor["Names"]
    assert (names.mentions, names.leaked_mentions) == (1, 1)
    assert (names.characters, names.leaked_characters) == (7, 2)
    assert names.recall == 0
    assert names.character_recall == pytest.approx(5 / 7)
    assert scores.safe_harbor["Dates and ages"].recall == 1
    assert scores.safe_harbor_total.recall == pytest.approx(2 / 3)
    assert scores.clean_share == 0


def test_blanks_and_punctuation_left_over_do_not_leak() -> None:
    pieces = [
        Span.at(0, 3, "PATIENT"),
        Span.at(4, 8, "PATIENT"),
        *(Span.at(a, b, "DATE") for a, b in ((15, 17), (18, 20), (21, 25))),
    ]
    assert score_deid(GOLD, [doc(*pieces, VEGA, SORIA)], "clinic").clean_share == 1
    stars = Document("s", "name: ***", (Span.at(6, 9, "PATIENT"),))
    assert score_deid([stars], [stars.with_(spans=())], "clinic").total.recall == 0


def test_only_phi_predictions_mask() -> None:
    other = doc(Span.at(0, len(TEXT), "PROBLEM"))
    assert score_deid(GOLD, [other], "clinic").total.recall == 0


def test_masking_everything_is_seen_in_the_precision() -> None:
    scores = score_deid(GOLD, [doc(Span.at(0, len(TEXT), "PATIENT"))], "clinic")
    assert scores.total.recall == 1
    assert scores.character_precision < 0.6


def test_notes_without_phi_do_not_improve_the_share_of_clean_notes() -> None:
    gold = [doc(ANA), doc(ANA, name="m"), doc(ASTHMA, name="o")]
    scores = score_deid(gold, [doc(ANA), doc(name="m"), doc(name="o")], "clinic")
    assert scores.notes_with_phi == 2
    assert scores.clean_share == 0.5
    assert scores.safe_harbor_total.recall == 0.5
    assert score_deid([doc()], [doc()], "clinic").clean_share == 1


def test_staff_names_do_not_count_as_safe_harbor() -> None:
    scores = score_deid(GOLD, [doc(ANA, DATE, SORIA)], "clinic")
    assert scores.safe_harbor_total.recall == 1
    assert scores.total.recall == 0.75
    assert scores.as_dict()["beyond"] == {"Staff names": 0.0}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=6))
def test_more_masking_never_leaks_more(masks: list[tuple[int, int]]) -> None:
    spans = [Span.at(start, min(start + length, len(TEXT)), "DATE") for start, length in masks]
    recalls = [score_deid(GOLD, [doc(*spans[:n])], "clinic").total.character_recall for n in range(len(spans) + 1)]
    assert recalls == sorted(recalls)


def test_every_shipped_map_uses_known_categories_and_the_clinic_map_is_complete() -> None:
    assert len(categories()) == 18
    files = {Path(entry.name).stem for entry in resources.files("osler.metrics").joinpath("data").iterdir()}
    assert files == {*MAPS, "safe_harbor"}
    for name in MAPS:
        assert phi_labels(name).safe_harbor
    clinic = phi_labels("clinic")
    assert {*clinic.safe_harbor, *clinic.beyond} == set(PHI_LABELS)


@pytest.mark.realdata
def test_every_meddocan_label_is_mapped(data_dir: Path) -> None:
    known = phi_labels("meddocan")
    labels = {
        line.split("\t")[1].split(" ")[0]
        for path in (data_dir / "meddocan").rglob("*.ann")
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("T")
    }
    assert labels
    assert all(known.holds(label) for label in labels)


def test_a_map_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text('[safe_harbor]\nNAVN = "names"\n[beyond]\nYRKE = "Professions"\n')
    assert phi_labels(path).holds("YRKE")
    path.write_text('[safe_harbor]\nNAVN = "name"\n')
    with pytest.raises(InputError, match="'names'"):
        phi_labels(path)
    path.write_text('[safe_harbor]\nNAVN = "names"\n[beyond]\nNAVN = "x"\n')
    with pytest.raises(InputError, match="both"):
        phi_labels(path)
    path.write_text("= nonsense")
    with pytest.raises(RecipeError, match="TOML"):
        phi_labels(path)
    with pytest.raises(UnknownNameError, match="meddocan"):
        phi_labels("medocan")
