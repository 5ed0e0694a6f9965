"""The page for a person to check: the original beside the new text."""

from __future__ import annotations

import re
from html import unescape

from osler.stages.serve.deid.config import DeidOptions
from osler.stages.serve.deid.engine import DeidEngine, DeidNote
from osler.stages.serve.deid.review import review_page
from osler.stages.serve.deid.surrogates import Keyed
from osler.text.document import Document


def test_both_texts_are_on_the_page_with_what_was_replaced() -> None:
    note = Document("secret-id", "Mr. Ruiz <b> & MRN: 1234567")
    made = DeidEngine(DeidOptions(language="en"))(note, Keyed(b"k" * 32, "p"))
    assert isinstance(made, DeidNote)
    page = review_page([(note, made)], 3)
    bodies = re.findall(r'<div class="note-text" dir="auto">(.*?)</div>', page, re.DOTALL)
    assert [unescape(re.sub(r"<[^>]+>", "", body)) for body in bodies] == [note.text, made.text]
    assert [len(re.findall("<mark", body)) for body in bodies] == [2, 2]
    assert "The first 1 of 3 notes" in page
    assert "Do not pass it on" in page
    assert "secret-id" not in page
    assert "http" not in page.replace("http-equiv", "")
