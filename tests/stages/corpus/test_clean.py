from __future__ import annotations

import unicodedata

import ftfy
import pytest
from ftfy.badness import MOJIBAKE_CATEGORIES
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.core.errors import InputError
from osler.stages.corpus.clean import clean_part, plan_parts, repairer
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.inputs import find_inputs

REFERENCE = ftfy.TextFixerConfig(
    unescape_html=True,
    uncurl_quotes=False,
    fix_latin_ligatures=False,
    fix_character_width=False,
    normalization="NFC",
    explain=False,
)


def _members() -> str:
    found = set("aZ °\t\n.&;#x3é\u0301\u0302A<>\x00\x1b[\x85\u2028\ud83d\ude00\ud800\ufeffŒœÂÃ ")
    for pattern in MOJIBAKE_CATEGORIES.values():
        found.update(pattern.replace("-", ""))
    return "".join(sorted(found))


ODD_TEXT = st.text(st.sampled_from(_members()) | st.sampled_from("aeiou stn\n"), max_size=30)
MOJIBAKE = st.builds(
    lambda before, text, codec, after: before + text.encode().decode(codec, "ignore") + after,
    st.text("abc .\n", max_size=4),
    st.text("éñçüÉ–’“…≥µαβ°® ", min_size=1, max_size=5),
    st.sampled_from(["latin-1", "cp1252", "cp1251", "cp437", "mac-roman"]),
    st.text("abc .\n", max_size=4),
)
# The shapes that ftfy knows by their neighbours inside ASCII, put together at random.
SHAPES = st.lists(
    st.sampled_from(
        ["voil", "Ã", "Â", " ", "\n", "a", ".", "œ", "Œ", "Å“", "â€™", "Ã©", "Ø", "Ù", "à", "²", "°", "®", "é"]
    ),
    max_size=8,
).map("".join)


@settings(max_examples=600, deadline=None)
@given(ODD_TEXT | MOJIBAKE | SHAPES | st.text(max_size=30))
def test_skipping_clean_lines_never_changes_what_ftfy_would_do(text: str) -> None:
    text = text.replace("\r", "\n")
    assert repairer(True)(text) == ftfy.fix_text(text, REFERENCE)


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        ("HumiraÂ® 40 mg", "Humira® 40 mg"),
        ("exploraciÃ³n fÃ­sica", "exploración física"),
        ("p &lt; 0.05", "p < 0.05"),
        ("a\x00b\x08c\x1b[1md", "abcd"),
        ("one\r\ntwo\rthree\u2028four", "one\ntwo\nthree\nfour"),
        ("pe\u0301rdida", "pérdida"),
        ("\ud83d\ude00 \ud800", "😀 \ufffd"),
        ("etc\x85)", "etc…)"),
        ("voilÃ le travail", "voilà le travail"),
        ("he said â€œyesâ€\x9d", "he said “yes”"),
    ],
)
def test_repairs(broken: str, mended: str) -> None:
    assert repairer(True)(broken) == mended


@pytest.mark.parametrize(
    "text", ["10² cells/µL, ≥ 5 °C", "“quoted” – it’s", "eﬃcacy", "ＰＭ２.５", "l'œdème, cœur", "№ 5 × 10⁹"]
)
def test_correct_text_is_unchanged(text: str) -> None:
    assert repairer(True)(text) == unicodedata.normalize("NFC", text) == text


def test_html_entities_can_stay() -> None:
    assert repairer(False)("p &lt; 0.05, Ã©") == "p &lt; 0.05, é"


def test_a_file_that_is_gone_stops_the_run_and_is_not_skipped_as_unreadable(tmp_path, jsonl) -> None:
    path = jsonl(["The patient was given aspirin and went home after two days of rest"])
    recipe = CorpusRecipe(sources=[path])
    [part] = plan_parts(find_inputs(recipe.sources), recipe, tmp_path / "parts")
    path.unlink()
    with pytest.raises(InputError, match="missing or has changed"):
        clean_part(part)
    assert not part.kept.exists()
