from __future__ import annotations

import re

from osler.report.colours import DARK, HUES, LIGHT, LINES, dark_text_on, hex_colour, label_colours, palette_css
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


def test_every_class_of_a_label_and_every_variable_is_in_the_style_sheet():
    style = stylesheet()
    classes = {name for colour in label_colours(map(str, range(100))).values() for name in colour.css.split()}
    assert classes == {f"h-{hue}" for hue in HUES} | {f"l-{line}" for line in LINES}
    assert all(f".{name} {{" in style for name in classes)
    used = set(re.findall(r"var\(--([\w-]+)", style))
    assert used <= set(re.findall(r"--([\w-]+):", style))


def test_both_themes_give_every_variable_a_value():
    assert LIGHT.keys() == DARK.keys()
    assert f"--ink: {LIGHT['ink']};" in palette_css()
    assert palette_css().count(f"--ink: {DARK['ink']};") == 2  # what the system prefers, and what the reader chose
    assert not re.search(r"prefers-color-scheme|\.h-|\.l-(solid|dashed)", stylesheet().removeprefix(palette_css()))


def test_text_is_black_on_light_and_white_on_dark():
    assert dark_text_on((255, 255, 255))
    assert dark_text_on(HUES["yellow"])
    assert not dark_text_on((0, 0, 0))
    assert hex_colour("blue") == "#0072b2"
