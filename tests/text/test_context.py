"""Attributes by rules. In a case, brackets enclose a mention, and what is expected of it follows after a stroke."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osler.text.context import ATTRIBUTES, attributes
from osler.text.document import Span

_MENTION = re.compile(r"\[([^\]|]+)(?:\|([a-z_ ]+))?\]")

ENGLISH = [
    "MRI is negative for [stroke|negated].",  # medspacy 232
    "[Fever|negated]: none\n[Cough]: yes\n[Rash|negated]: no",  # medspacy 49
    "Respiratory: denies [cough|negated]. GU: no [decreased urine|negated] or [pruritus|negated].",
    "Cardiac: negative for [orthopnea|negated].",
    "[Fever|negated]: no [Cough]: yes",
    "[Fever|negated]: none reported. [Rash|negated]: denies.",
    "No [fever|negated], [chills|negated] or [cough|negated], but has [headache].",
    "She denies [chest pain|negated], [dyspnea|negated], [nausea|negated].",
    "No evidence of [metastasis|negated]; [lesion] in the liver.",
    "Abdomen soft without [tenderness|negated]. [Edema] of both legs.",
    "[Pulmonary embolism|negated] was ruled out.",
    "[Infection|possible] cannot be ruled out.",
    "Possible [pneumonia|possible]; cannot exclude [pulmonary embolism|possible].",
    "Rule out [sepsis|possible].",
    "No [fever|negated], possible [pneumonia|possible].",
    "No signs suggestive of [ischemia|negated].",
    "History of [asthma|historical], presents with [wheezing].",
    "A woman with a history of [asthma|historical] who presented with three days of [fever].",
    "A 3 day history of [cough].",
    "No history of [stroke|negated].",
    "Return to the ED if you develop [fever|hypothetical] or [chest pain|hypothetical].",
    "His mother had [diabetes|someone_else].",
    "[Breast cancer|someone_else] in her mother.",
    "No family history of [cancer|negated someone_else].",
    "He was brought in by his mother for [fever].",
    "FAMILY HISTORY: father with [MI|someone_else]. [Gout|someone_else].\nSOCIAL HISTORY: smoker with [COPD].",
    "Past Medical History:\n- [HTN|historical]\n- [Diabetes|historical]\n\nHospital course: developed [pneumonia].",
    "No change in the [lesion]. Gram negative [sepsis]. Not only [pain] but [fever].",
    "A [mass] was seen.",
]
SPANISH = [
    "No presenta [fiebre|negated] ni [tos|negated]. Niega [disnea|negated].",
    "Sin [edemas|negated], pero con [dolor].",
    "Se descarta [neumonía|negated]. Probable [infección urinaria|possible].",
    "No se descarta [apendicitis|possible].",
    "SOSPECHA DE [TROMBOSIS|possible].",
    "Exploracion sin [adenopatias|negated].",  # written without accents
    "Madre con [cáncer de mama|someone_else]. Antecedentes de [asma|historical].",
    "Varón con antecedentes de [asma|historical] que acude por [fiebre].",
    "ANTECEDENTES FAMILIARES: padre con [infarto|someone_else].\nENFERMEDAD ACTUAL: [fiebre].",
    "Antecedentes personales:\n- [HTA|historical]\n- [Diabetes|historical]\nExploración: [soplo]",
    "Acudir a urgencias si [fiebre|hypothetical].",
    "[Fiebre|negated]: no\n[Tos]: sí",
    "Sin embargo, presenta [fiebre].",
]
FRENCH = [
    "Pas de [fièvre|negated] ni de [toux|negated]. Absence d'[adénopathie|negated].",
    "Le patient n\u2019a pas de [douleur|negated] mais une [dyspnée].",
    "L'[infarctus|negated] a été éliminé.",
    "Suspicion de [pneumonie|possible]. On ne peut pas exclure une [embolie pulmonaire|possible].",
    "Antécédents de [diabète|historical]. Sa mère a un [cancer du sein|someone_else].",
    "En cas de [fièvre|hypothetical], reconsulter.",
    "[Fièvre|negated] : non\n[Toux] : oui",
    "Antécédents familiaux : [HTA|someone_else] chez le père.\nExamen : [souffle].",
    "Le nouveau-né a une [détresse] respiratoire.",  # born is not the French not
]
CASES = [(language, case) for language, cases in (("en", ENGLISH), ("es", SPANISH), ("fr", FRENCH)) for case in cases]


def unmarked(case: str) -> tuple[str, list[Span], list[dict[str, str]]]:
    text, spans, expected, last = "", [], [], 0
    for match in _MENTION.finditer(case):
        text += case[last : match.start()]
        spans.append(Span.at(len(text), len(text) + len(match[1]), "X"))
        expected.append(dict.fromkeys((match[2] or "").split(), "yes"))
        text, last = text + match[1], match.end()
    return text + case[last:], spans, expected


@pytest.mark.parametrize(("language", "case"), CASES)
def test_cues_and_their_scopes(language, case):
    text, spans, expected = unmarked(case)
    assert attributes(text, spans, language) == expected


def test_a_mention_that_begins_with_the_cue_is_negated():
    text = "Exam: no palpable nodes"
    assert attributes(text, [Span.at(6, len(text), "X")], "en") == [{"negated": "yes"}]


def test_other_languages_and_texts_without_mentions_or_words_have_no_attributes():
    assert attributes("kein Fieber", [Span.at(5, 11, "X")], "de") == [{}]
    assert attributes("no fever", [], "en") == []
    assert attributes("  \n ", [Span.at(0, 1, "X")], "en") == [{}]


def test_attributes_come_in_one_order_and_an_answer_for_each_mention_in_theirs():
    text = "Possible stroke. No family history of cancer."
    spans = [Span.at(38, 44, "X"), Span.at(9, 15, "X")]
    assert [list(found) for found in attributes(text, spans, "en")] == [["negated", "someone_else"], ["possible"]]


@given(
    st.text(alphabet="no fever,.;:()?-\n\t'\u2019éÉİß😀\u0301\x00", max_size=80), st.sampled_from(["en", "es", "fr"])
)
@settings(max_examples=200, deadline=None)
def test_any_text_has_an_answer(text, language):
    spans = [Span.at(start, start + 1, "X") for start in range(len(text))]
    found = attributes(text, spans, language)
    assert len(found) == len(text)
    assert all(set(own) <= set(ATTRIBUTES) for own in found)
