from __future__ import annotations

import re
import subprocess
import sys

from lxml import etree

from osler.report.bars import heatmap, histogram, stacked_bars

STACKED = {"notes": {"kept": 90.0, "filter": 10.0}, "web": {"kept": 100.0}}


def texts(svg: str) -> list[str]:
    tree = etree.fromstring(svg.encode())
    return ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]


def plots() -> list[str]:
    return [
        heatmap([[0.1, None], [-0.2, 0.0]], rows=["r1", "r2"], columns=["c1", "a long column"], diverging=True),
        heatmap([[1.0, 1.0]], rows=["r"], columns=["a", "b"], digits=0),
        stacked_bars(STACKED, xlabel="%", neutral="kept"),
        stacked_bars({"a": {str(n): 1e6 for n in range(9)}}, xlabel="tokens", title="Nine"),
        histogram({"a": [1, 2000]}, ["1", "2"], xlabel="tokens", ylabel="documents"),
        histogram({"a": [1, 2], "b": [0, 1]}, ["1", "2"], xlabel="tokens", ylabel="documents"),
        stacked_bars({"nothing": {"a": 0.0}}, xlabel="%"),
        histogram({"a": [0.0]}, ["1"], xlabel="tokens", ylabel="documents"),
    ]


def test_plots_are_svg_with_text_a_description_and_no_outside_references() -> None:
    for svg in plots():
        tree = etree.fromstring(svg.encode())
        assert tree.tag == "{http://www.w3.org/2000/svg}svg"
        assert tree.get("role") == "img"
        assert len(tree[0].text or "") > 10
        assert texts(svg)
        assert not re.findall(r'(?:href|src)="([^"]*)"', svg)
        assert all(f'id="{name}"' in svg for name in re.findall(r"url\(#([^)]*)\)", svg))
        assert "prefers-color-scheme:dark" in svg


def test_plots_do_not_load_matplotlib_and_are_the_same_in_another_process() -> None:
    code = (
        "import sys; from osler.report.bars import histogram;"
        "print(histogram({'a': [1, 2]}, ['1', '2'], xlabel='x', ylabel='y'), end='');"
        "assert 'matplotlib' not in sys.modules"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert other.decode() == histogram({"a": [1, 2]}, ["1", "2"], xlabel="x", ylabel="y")
    assert plots() == plots()


def test_names_are_shown_as_they_are_and_long_ones_without_their_middle() -> None:
    found = texts(stacked_bars({"a <b> & c": {"x": 1.0}, "long" * 20: {"x": 2.0}}, xlabel="%", title="<Title>"))
    assert {"a <b> & c", "<Title>", "longlonglonglon…nglonglonglong"} <= set(found)


def test_axes_have_round_numbers_up_to_the_largest_value() -> None:
    found = texts(stacked_bars({"a": {"x": 0.37}}, xlabel="%"))
    assert {"0", "0.05", "0.35"} <= set(found)
    assert "1 k" in texts(stacked_bars({"a": {"x": 5000.0}}, xlabel="%"))


def test_a_heatmap_prints_its_numbers() -> None:
    found = texts(heatmap([[0.1, None], [-0.2, -0.0001]], rows=["r1", "r2"], columns=["c1", "c2"], diverging=True))
    assert {"+0.10", "−0.20", "+0.00"} <= set(found)


def test_segments_keep_their_colour_whatever_else_a_plot_has() -> None:
    colours = ("filter", "copies")
    one = stacked_bars({"a": {"copies": 5}}, xlabel="%", colours=colours)
    both = stacked_bars({"a": {"filter": 5, "copies": 5}}, xlabel="%", colours=colours)
    fills = [set(re.findall(r"fill: (#[0-9a-f]{6})", svg)) for svg in (one, both)]
    assert "#d55e00" in fills[0] & fills[1]
    assert "#0072b2" in fills[1] - fills[0]


def test_stacked_bars_and_histograms_say_their_values_and_shorten_large_numbers() -> None:
    svg = stacked_bars(STACKED, xlabel="%", neutral="kept")
    assert "notes: kept 90, filter 10; web: kept 100" in svg
    svg = histogram({"a": [1, 2_000_000]}, ["1", "2"], xlabel="tokens", ylabel="documents")
    assert "a: 1 in 1, 2e+06 in 2" in svg
    assert "2 M" in texts(svg)
