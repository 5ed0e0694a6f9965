"""The engine: rules united with heads, styles and dates, and notes that fail closed."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bundles import make_bundle
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.artifacts.bundle import Bundle
from osler.core.errors import RecipeError
from osler.stages.serve.deid.config import DeidOptions
from osler.stages.serve.deid.engine import DeidEngine, DeidNote, Failure, PhiHeads
from osler.stages.serve.deid.surrogates import Keyed
from osler.text.document import Document, Span
from osler.text.language import LanguageGuess

KEYED = Keyed(b"k" * 32, "patient")
NOTE = "Mr. Ruiz (MRN: 1234567) was seen on 03/04/2017 and 03/14/2017 by Zoltan Qwix, born 1950. He is 45 years old."


def deid(text: str, bundle: Path | None = None, **options: Any) -> DeidNote:
    made = DeidEngine(DeidOptions(**{"language": "en", **options}), bundle)(Document("n", text), KEYED)
    assert isinstance(made, DeidNote)
    return made


@pytest.fixture(scope="module")
def bundle(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("drugs", "deid", "deid-es", "entailment")
    return make_bundle(tmp_path_factory.mktemp("deid") / "bundle", tokenizer_folder, names)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A bundle that finds Zoltan Qwix and fails on notes with a crash; returns the heads of every call."""
    calls: list[tuple[str, ...]] = []

    def annotate(self: Bundle, documents: list[Document], heads: Any) -> list[Document]:
        calls.append(tuple(heads))
        assert not any("crash" in document.text for document in documents)
        return [
            document.with_(spans=(Span.at(start, start + 11, "NAME", score=0.9),))
            if (start := document.text.find("Zoltan Qwix")) >= 0
            else document
            for document in documents
        ]

    monkeypatch.setattr(Bundle, "annotate", annotate)
    return calls


def test_style_and_dates_are_two_switches() -> None:
    end = "by Zoltan Qwix, born 1950. He is 45 years old."
    assert deid(NOTE).text == f"Mr. [NAME] (MRN: [MEDICALRECORD]) was seen on 2017 and 2017 {end}"
    assert deid(NOTE, style="mask").text == f"Mr. *** (MRN: ***) was seen on 2017 and 2017 {end}"
    masked = deid(NOTE, style="mask", dates="mask").text
    assert masked.startswith("Mr. *** (MRN: ***) was seen on *** and ***")
    for style in ("mask", "tag", "surrogate"):
        for dates in ("keep-year", "shift", "mask"):
            made = deid(NOTE, style=style, dates=dates).text
            assert not any(word in made for word in ("Ruiz", "1234567", "03/04", "03/14")), (style, dates)


def test_shifted_dates_keep_their_interval_and_surrogates_their_shape() -> None:
    made = deid(NOTE, style="surrogate", dates="shift")
    words = made.text.replace("(", "").replace(")", "").split()
    assert len(words[3]) == 7
    assert words[3].isdigit()
    first, second = (datetime.strptime(word, "%m/%d/%Y") for word in (words[7], words[9]))
    assert (second - first).days == 10
    assert (first - datetime(2017, 3, 4)).days == KEYED.shift


def test_dates_keep_their_interval_in_a_note_that_does_not_tell_its_language() -> None:
    made = deid("NHC: 123456\nIngreso: 04/03/2025\nAlta: 13/03/2025\n", dates="shift", language=None)
    first, second = (datetime.strptime(line[-10:], "%d/%m/%Y") for line in made.text.splitlines()[1:])
    assert (first - datetime(2025, 3, 4)).days == (second - datetime(2025, 3, 13)).days == KEYED.shift


def test_a_weekday_goes_with_its_date() -> None:
    text = "The patient was seen on Tuesday, March 4, 2025 and will be back on Friday 14 March."
    assert deid(text).text == "The patient was seen on 2025 and will be back on [DATE]."
    first, second = (date(2025, 3, day) + timedelta(KEYED.shift) for day in (4, 14))
    expected = f"The patient was seen on {first:%A, %B %-d, %Y} and will be back on {second:%A %-d %B}."
    assert deid(text, dates="shift").text == expected


def test_what_is_no_readable_date_is_masked() -> None:
    text = "Seen March 3-5, 2020 and on 5/6."
    assert deid(text, dates="shift").text.startswith("Seen [DATE] and on ")
    assert deid(text, dates="keep-year").text == "Seen [DATE] and on [DATE]."


def test_a_birth_year_that_tells_an_age_over_89_is_masked_and_so_is_the_age() -> None:
    text = "DOB 03/31/1925. Seen 09/07/2015, a 90-year-old woman with a son of 60 years."
    made = deid(text).text
    assert made == "DOB [DATE]. Seen 2015, a [AGE]-year-old woman with a son of 60 years."
    assert "1925" not in deid(text, dates="shift").text
    assert "90+-year-old" in deid(text, style="surrogate").text


def test_a_birth_date_with_a_short_year_tells_an_age_too() -> None:
    assert deid("DOB 4/3/31, seen on 3/4/2025.").text == "DOB [DATE], seen on 2025."


def test_scope() -> None:
    text = "A 45 year old from Mexico, retired baker."
    assert deid(text).text == text
    assert deid(text, scope="everything").text == "A [AGE] year old from [COUNTRY], retired [PROFESSION]."


def test_offsets_lead_back_to_the_original() -> None:
    made = deid(NOTE)
    start = made.text.index("was seen")
    old = made.offsets.to_old(start, start + 8)
    assert NOTE[slice(*old)] == "was seen"
    assert NOTE[slice(*made.offsets.to_old(4, 10))] == "Ruiz"
    assert [NOTE[f.start : f.end] for f in made.findings] == ["Ruiz", "1234567", "03/04/2017", "03/14/2017"]
    assert made.counts() == {"Names": 1, "Medical record numbers": 1, "Dates and ages": 2}


def test_heads_and_rules_are_united(bundle: Path, reader: list[tuple[str, ...]]) -> None:
    made = deid(NOTE, bundle)
    assert "by [NAME], born 1950" in made.text
    assert "[MEDICALRECORD]" in made.text
    assert {f.by for f in made.findings} == {"rule", "deid"}
    assert reader == [("deid",)]
    alone = deid(NOTE, bundle, rules=False)
    assert alone.text == NOTE.replace("Zoltan Qwix", "[NAME]")
    # A name that a head finds is found again where it stands alone.
    assert deid("Zoltan Qwix came. Qwix left.", bundle).text == "[NAME] came. [NAME] left."


@settings(max_examples=30, deadline=None)
@given(spans=st.lists(st.tuples(st.integers(0, 90), st.integers(1, 15)), max_size=6))
def test_recall_is_never_below_rules_or_heads(spans: list[tuple[int, int]], bundle_factory: Any) -> None:
    places = [(start, min(start + size, len(NOTE))) for start, size in spans if start < len(NOTE)]
    engine = bundle_factory(tuple(Span.at(*place, "NAME") for place in places))
    [found] = engine.find([Document("n", NOTE)])
    assert not isinstance(found, Failure)
    covered = {place for f in found for place in range(f.start, f.end)}
    [rules] = DeidEngine(DeidOptions(language="en")).find([Document("n", NOTE)])
    assert not isinstance(rules, Failure)
    assert covered >= {place for f in rules for place in range(f.start, f.end)}
    assert covered >= {place for start, end in places for place in range(start, end)}


@pytest.fixture(scope="module")
def bundle_factory(bundle: Path) -> Any:
    """Engines whose bundle finds given spans."""

    class Reader:
        """Stands for the loaded bundle, with other options too."""

        def __init__(self, spans: tuple[Span, ...]) -> None:
            self.spans = spans

        def annotate(self, documents: list[Document]) -> list[Document]:
            return [document.with_(spans=self.spans) for document in documents]

    def make(spans: tuple[Span, ...]) -> DeidEngine:
        engine = DeidEngine(DeidOptions(language="en"), bundle)
        engine._loaded = engine._engines[("deid",)] = Reader(spans)
        return engine

    return make


def test_real_heads_run(bundle: Path) -> None:
    made = deid(NOTE, bundle, rules=False)
    assert all(f.by == "deid" for f in made.findings)


def test_a_note_that_the_model_cannot_read_fails_alone(bundle: Path, reader: list[tuple[str, ...]]) -> None:
    engine = DeidEngine(DeidOptions(language="en"), bundle)
    notes = [Document("a", NOTE), Document("b", "crash"), Document("c", "Mr. Bo came.")]
    first, second, third = engine.find(notes)
    assert first
    assert isinstance(second, Failure)
    assert "crash" not in "".join(second)
    assert third


def test_a_bundle_that_is_at_fault_ends_the_run(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Bundle, documents: list[Document], heads: Any) -> list[Document]:
        raise ValueError("no")

    monkeypatch.setattr(Bundle, "annotate", broken)
    with pytest.raises(ValueError, match="no"):
        DeidEngine(DeidOptions(language="en"), bundle).find([Document("a", NOTE)])


GERMAN = (
    "Der Patient wurde gestern wegen starker Schmerzen aufgenommen und klagt seit mehreren Wochen über Beschwerden. "
    * 5
)
SPANISH = (
    "La paciente fue vista por la Dra. Ruiz en la consulta, con dolor en los brazos y sin fiebre desde el día 3. " * 3
)


def test_a_note_in_another_language_is_not_written_unless_the_language_is_given() -> None:
    [found] = DeidEngine(DeidOptions()).find([Document("a", GERMAN)])
    assert isinstance(found, Failure)
    assert found.problem == "its language is not known"
    [found] = DeidEngine(DeidOptions(language="en")).find([Document("a", GERMAN)])
    assert not isinstance(found, Failure)


def test_the_language_of_each_note_chooses_rules_and_heads(bundle: Path, reader: list[tuple[str, ...]]) -> None:
    engine = DeidEngine(DeidOptions(), bundle)
    short = "Dra. Ruiz, Mr. Bo, Mme Petit"
    [spanish, unsure] = engine.find([Document("a", SPANISH), Document("b", short)])
    assert reader == [("deid-es",), ("deid", "deid-es")]
    assert isinstance(spanish, list)
    assert isinstance(unsure, list)
    assert [short[f.start : f.end] for f in unsure] == ["Ruiz", "Bo", "Petit"]


def test_all_languages_leave_no_rule_and_no_head_out(bundle: Path, reader: list[tuple[str, ...]]) -> None:
    text = SPANISH + "Mr. Bo, Mme Petit and Zoltan Qwix"
    assert DeidEngine(DeidOptions(), bundle).language_of(text) == "es"
    engine = DeidEngine(DeidOptions(language="all"), bundle)
    [found, other] = engine.find([Document("a", text), Document("b", GERMAN)])
    assert reader == [("deid", "deid-es")]
    assert isinstance(found, list)
    assert isinstance(other, list)  # a language without rules is not refused if all of them were asked for
    covered = {text[f.start : f.end] for f in found}
    assert {"Ruiz", "Bo", "Petit", "Zoltan Qwix"} <= covered
    [rules] = DeidEngine(DeidOptions(language="all")).find([Document("a", text)])
    assert isinstance(rules, list)
    assert {"Ruiz", "Bo", "Petit"} <= {text[f.start : f.end] for f in rules}


def test_heads_are_left_out_only_if_the_language_is_beyond_doubt(bundle: Path, reader: list[tuple[str, ...]]) -> None:
    leaning = "Dra. Ruiz vio a la paciente con dolor y fiebre."
    assert LanguageGuess.of([leaning]).likely == "es"
    DeidEngine(DeidOptions(), bundle).find([Document("a", leaning)])
    assert reader == [("deid", "deid-es")]


def test_a_head_that_was_trained_on_several_languages_reads_every_note() -> None:
    heads = PhiHeads({"deid": "en", "deid-es": "es", "both": "mul"}, {}, named=False)
    assert heads.reading("en") == ("deid", "both")
    assert heads.reading("all") == heads.reading(None) == ("deid", "deid-es", "both")


def test_a_language_without_a_head_fails_closed(tokenizer_folder: Path, tmp_path: Path) -> None:
    spanish = make_bundle(tmp_path / "es", tokenizer_folder, ("deid-es",))
    english = "The patient was seen by the doctor and the nurse in the clinic, and she had the test that was due. " * 3
    [found] = DeidEngine(DeidOptions(), spanish).find([Document("a", english)])
    assert isinstance(found, Failure)
    assert "'en'" in found.problem
    with pytest.raises(RecipeError, match="'en'"):
        DeidEngine(DeidOptions(language="en"), spanish)


@pytest.mark.parametrize(
    ("options", "heads", "message"),
    [
        ({"language": "de"}, None, "no rules for the language 'de'"),
        ({"rules": False}, None, "neither rules nor a bundle"),
        ({"target_recall": 0.99}, None, "target_recall: these are for the heads of a bundle"),
        ({"heads": ("deid",), "min_score": 0.5}, None, "heads, min_score: these are for the heads of a bundle"),
        ({}, ("drugs",), "no head of this bundle finds PHI"),
        ({"heads": ("entailment",)}, ("deid", "entailment"), "finds no entities"),
    ],
)
def test_what_cannot_work_is_refused(options, heads, message, tokenizer_folder: Path, tmp_path: Path) -> None:
    folder = make_bundle(tmp_path / "bundle", tokenizer_folder, heads) if heads else None
    with pytest.raises(RecipeError, match=message):
        DeidEngine(DeidOptions(**options), folder)


NASTY = [
    "",
    " ",
    "\r\n",
    "\u202eDr. Ruiz\u202c",
    "Dr. Ru\u0301iz 👩‍⚕️ MRN: 1234567",
    "\ufeffName: Ana Ruiz",
    "x" * 5000,
    "Dr. Ruiz\r\nDr. Bo\r\n",
]


@pytest.mark.parametrize("text", NASTY)
def test_nasty_notes_keep_every_other_character(text: str) -> None:
    made = deid(text)
    done, rest = 0, []
    for start, end, *_ in made.offsets.pairs:
        rest.append(text[done:start])
        done = end
    rest.append(text[done:])
    place = 0
    for piece in rest:
        place = made.text.index(piece, place) + len(piece)
    assert made.offsets.old_length == len(text)
    assert made.offsets.new_length == len(made.text)
