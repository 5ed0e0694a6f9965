from __future__ import annotations

from osler.stages.corpus.rewriters import Removal, Rewritten
from osler.stages.corpus.rewriters.repeated_lines import RepeatedLines

LINE = "Confidential: for the treating team only."


def test_the_first_copy_stays() -> None:
    text = f"Note 1\n{LINE}\nStable.\n  {LINE}\nNote 2\n{LINE}"
    removed = (Removal("min_characters", len(LINE) + 2), Removal("min_characters", len(LINE)))
    assert RepeatedLines().rewrite(text, None) == Rewritten(f"Note 1\n{LINE}\nStable.\nNote 2", removed)


def test_short_lines_may_repeat() -> None:
    text = "Culture:\nnegative\n\nUrine:\nnegative\n\n"
    assert RepeatedLines().rewrite(text, None) == Rewritten(text)
    assert RepeatedLines(min_characters=8).rewrite(text, None).text == "Culture:\nnegative\n\nUrine:\n\n"


def test_a_document_without_repeats_is_not_touched() -> None:
    assert RepeatedLines().rewrite("one\r\ntwo ", None) == Rewritten("one\r\ntwo ")
