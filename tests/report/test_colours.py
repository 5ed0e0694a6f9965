from __future__ import annotations

from osler.report.colours import HUES, LINES, dark_text_on, hex_colour, label_colours
from osler.report.html import stylesheet


def test_labels_have_different_colours_that_do_not_depend_on_their_order():
    labels = [f"label {number}" for number in range(len(HUES) * len(LINES))]
    chosen = label_colours(labels)
    assert len(set(chosen.values())) == len(labels)
    assert label_colours(reversed(labels)) == chosen


def test_more_labels_than_colours_all_get_one():
    labels = [f"label {number}" for number in range(100)]
    assert label_colours(labels).keys() == set(labels)


def test_a_usual_label_keeps_its_colour_among_others():
    alone = label_colours(["DRUG"])["DRUG"]
    assert label_colours(["DRUG", "PROBLEM", "TEST", "something"])["DRUG"] == alone


def test_every_hue_and_line_is_in_the_style_sheet():
    style = stylesheet()
    assert all(f".h-{hue}" in style for hue in HUES)
    assert all(f".l-{line}" in style for line in LINES)


def test_text_is_black_on_light_and_white_on_dark():
    assert dark_text_on((255, 255, 255))
    assert dark_text_on(HUES["yellow"])
    assert not dark_text_on((0, 0, 0))
    assert hex_colour("blue") == "#0072b2"
