"""Kinds, categories and labels; findings united."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from osler.metrics.deid import MAPS, categories, phi_labels
from osler.stages.serve.deid.kinds import PhiFinding, category_title, is_removed, kind_of, kinds, phi_map, united
from osler.tasks.catalogue import load_card


def test_every_label_of_the_known_tasks_has_a_kind_of_its_category() -> None:
    for name in MAPS:
        for label, category in phi_labels(name).safe_harbor.items():
            kind = kind_of(label)
            assert kinds()[kind] == category or kind in ("ID", "MEDICALRECORD", "LICENSE", "HEALTHPLAN"), (name, label)
            assert is_removed(kind, "95", "safe-harbor"), (name, label)
        for label in phi_labels(name).beyond:
            assert kind_of(label) != "ID"


def test_every_kind_has_one_of_the_eighteen_categories_and_every_category_a_kind() -> None:
    assert set(kinds().values()) == set(categories())
    assert category_title("NAME") == "Names"


def test_scope() -> None:
    assert is_removed("NAME", "Ana", "safe-harbor")
    assert is_removed("HOSPITAL", "La Paz", "safe-harbor")
    assert not is_removed("COUNTRY", "Spain", "safe-harbor")
    assert is_removed("COUNTRY", "Spain", "everything")
    assert not is_removed("AGE", "89 years", "safe-harbor")
    assert is_removed("AGE", "90 years", "safe-harbor")
    assert is_removed("AGE", "ninety-two", "safe-harbor")
    assert is_removed("AGE", "40", "everything")


def test_a_task_for_de_identification_is_recognised_by_its_card_or_its_labels() -> None:
    for name, known in (("meddocan", "meddocan"), ("clinic-phi-en", "clinic"), ("clinic-phi-es", "clinic")):
        card = load_card(name)
        assert card.phi == phi_map(card) == phi_map(card.changed(phi=None)) == known
    assert phi_map(load_card("ncbi-disease")) is None


def test_an_unknown_label_has_the_kind_of_its_category(tmp_path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[safe_harbor]\nHUISARTS = "telephone"\n')
    assert kind_of("HUISARTS", str(path)) == "PHONE"
    assert kind_of("HUISARTS") == "ID"


FINDINGS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 9),
        st.sampled_from(["NAME", "DATE", "ID"]),
        st.sampled_from(["rule", "head"]),
    ).map(lambda item: PhiFinding(item[0], item[0] + item[1], item[2], item[3]))
)


@given(FINDINGS)
def test_the_union_covers_every_character_of_both_and_no_other(findings: list[PhiFinding]) -> None:
    made = united(findings)
    covered = {place for finding in made for place in range(finding.start, finding.end)}
    assert covered == {place for finding in findings for place in range(finding.start, finding.end)}
    assert all(one.end <= other.start for one, other in pairwise(made))


def test_the_longest_finding_names_the_union() -> None:
    made = united(
        [
            PhiFinding(0, 4, "CITY"),
            PhiFinding(2, 12, "NAME", "head"),
            PhiFinding(20, 22, "ID"),
            PhiFinding(20, 22, "SSN", "head"),
        ]
    )
    assert made == [PhiFinding(0, 12, "NAME", "head"), PhiFinding(20, 22, "SSN", "head")]


def test_what_rules_find_as_a_name_stays_one_whatever_a_head_calls_it() -> None:
    name = PhiFinding(0, 6, "NAME")
    assert united([name, PhiFinding(0, 6, "MEDICALRECORD", "head")]) == [PhiFinding(0, 6, "NAME", "head")]
    assert united([name, PhiFinding(0, 12, "HOSPITAL", "head")]) == [PhiFinding(0, 12, "NAME", "head")]
    assert united([name, PhiFinding(0, 20, "STREET", "head")]) == [PhiFinding(0, 20, "STREET", "head")]
    assert united([name, PhiFinding(0, 12, "HOSPITAL")]) == [PhiFinding(0, 12, "HOSPITAL")]
