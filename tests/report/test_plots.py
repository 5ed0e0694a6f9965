from __future__ import annotations

import re
import subprocess
import sys

from lxml import etree

from osler.report.plots import (
    Bar,
    CurvePoint,
    bars_with_intervals,
    curves,
    learning_curves,
)

CURVES = {"a <b> & $x^2$": [(0.0, 1.0), (1.0, 0.5)], "b": [(0.0, 2.0), (1.0, float("nan")), (2.0, 0.25)]}
BARS = [Bar("ner", 0.8, 0.75, 0.85, (0.79, 0.81), "one"), Bar("ner", 0.7, series="two"), Bar("sts", -0.1, series="one")]

LEARNING = {"m": [CurvePoint(0.1, 50, 45, 55), CurvePoint(1, 80)]}


def texts(svg: str) -> list[str]:
    tree = etree.fromstring(svg.encode())
    return ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]


def plots() -> list[str]:
    return [
        curves(CURVES, xlabel="updates", ylabel="loss", title="Training"),
        curves({"one": [(1, 10), (10, 1000)]}, xlabel="x", ylabel="y", log_y=True),
        bars_with_intervals(BARS, xlabel="score"),
        bars_with_intervals(BARS, xlabel="score", from_zero=False, title="Dots"),
        learning_curves(LEARNING, xlabel="share", ylabel="f1"),
    ]


def test_plots_are_svg_with_text_a_description_and_no_outside_references() -> None:
    for svg in plots():
        tree = etree.fromstring(svg.encode())
        assert tree.tag == "{http://www.w3.org/2000/svg}svg"
        assert tree.get("role") == "img"
        assert len(tree[0].text or "") > 10
        assert texts(svg)
        links = re.findall(r'(?:href|src)="([^"]*)"', svg)
        assert all(link.startswith("#") for link in links)
        assert "prefers-color-scheme:dark" in svg


def test_the_same_data_give_the_same_bytes_in_another_process() -> None:
    code = "from osler.report.plots import curves; print(curves({'a': [(0, 1)]}, xlabel='x', ylabel='y'), end='')"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert other.decode() == curves({"a": [(0, 1)]}, xlabel="x", ylabel="y")
    assert plots() == plots()


def test_names_are_shown_as_they_are() -> None:
    found = texts(curves(CURVES, xlabel="updates", ylabel="loss", title="Training"))
    for name in ("a <b> & $x^2$", "b", "updates", "loss", "Training"):
        assert name in found


def test_bars_show_rows_series_and_say_their_values() -> None:
    svg = bars_with_intervals(BARS, xlabel="score")
    found = texts(svg)
    assert {"ner", "sts", "one", "two", "score"} <= set(found)
    assert "ner one 0.8 (0.75 to 0.85)" in svg


def test_learning_curves_describe_their_points() -> None:
    assert "m: 50 at 0.1, 80 at 1" in learning_curves(LEARNING, xlabel="share", ylabel="f1")


def test_drawing_leaves_the_caller_s_settings_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    curves({"a": [(0, 1)]}, xlabel="x", ylabel="y")
    assert dict(matplotlib.rcParams) == before
