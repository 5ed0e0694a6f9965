"""What all formats share: the collector of defects."""

from __future__ import annotations

from osler.formats.base import Problems


def test_the_first_defect_of_each_kind_is_kept_however_many_of_another_came_before() -> None:
    problems = Problems(keep=3)
    for number in range(5):
        problems.report("bad-span", "x", where=f"a:{number}")
    problems.report("missing-text", "x", where="b:1")
    problems.report("missing-text", "x", where="b:2")
    assert [problem.where for problem in problems.examples] == ["a:0", "a:1", "a:2", "b:1"]
    assert problems.counts == {"bad-span": 5, "missing-text": 2}
