from __future__ import annotations

from pathlib import Path

import pytest

from osler.core.errors import InputError
from osler.text.terms import TermList, read_terms


def test_reading_a_list(tmp_path: Path) -> None:
    path = tmp_path / "terms.txt"
    path.write_text("\ufeffasma\n\n# drugs\n  ácido   fólico \nasma\n", encoding="utf-8")
    assert read_terms(path) == ["asma", "ácido fólico"]
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match="has no terms"):
        read_terms(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_terms(path)
    with pytest.raises(InputError, match="is a folder"):
        read_terms(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_terms(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "density"),
    [
        ("Diabetes mellitus, then FEVER", 0.75),
        ("no terms here", 0.0),
        ("fiebre (fever) and Fièvre", 0.5),
        # Words of overlapping terms count once.
        ("type 2 diabetes mellitus", 1.0),
        ("type 2\ndiabetes - mellitus with acute onset of very high blood sugar levels today", 13 / 14),
        ("type 2 diabetes mellitus with acute onset of very low blood sugar levels", 4 / 13),
        ("", 0.0),
        ("... !", 0.0),
    ],
)
def test_density_is_the_share_of_words_in_terms(text: str, density: float) -> None:
    long = "type 2 diabetes mellitus with acute onset of very high blood sugar levels"
    terms = TermList(["fever", "fièvre", "Diabetes mellitus", "type 2 diabetes", "high", "---", long])
    assert terms.density([text])[0] == pytest.approx(density)


def test_texts_do_not_run_into_each_other() -> None:
    terms = TermList(["renal failure", "a b c d e"])
    assert terms.density(["renal", "failure", "renal failure", "a b c", "d e"]).tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert terms.density([]).tolist() == []


def test_a_list_of_nothing_finds_nothing() -> None:
    assert TermList([]).density(["some text"]).tolist() == [0.0]
