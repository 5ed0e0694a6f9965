"""The plots of studies: directed graphs, critical differences, learning curves."""

from __future__ import annotations

import pytest
from lxml import etree

from osler.core.errors import InputError
from osler.report.diagrams import Edge, EdgeKind, critical_difference, directed_graph
from osler.report.plots import CurvePoint, learning_curves
from osler.report.tables import Column, Table, shown_rows

KINDS = {"nothing": EdgeKind("grey", 0.8), "hurts": EdgeKind("vermilion", dashed=True), "helps": EdgeKind("green")}


def plots() -> list[str]:
    return [
        directed_graph(
            ["a & b", "c", "d"], [Edge("a & b", "c", "helps", "+1.0"), Edge("c", "d", "nothing")], kinds=KINDS
        ),
        critical_difference({"x": 1.2, "y": 2.0, "z": 2.8}, [("x", "y"), ("y", "z")], difference=0.9, title="Ranks"),
        learning_curves({"m": [CurvePoint(0.1, 50, 45, 55), CurvePoint(1, 80)]}, xlabel="share", ylabel="f1"),
    ]


def test_plots_are_the_same_each_time_and_describe_themselves() -> None:
    first = plots()
    assert first == plots()
    said = [etree.fromstring(svg.encode())[0].text for svg in first]
    assert "a & b to c: helps +1.0; c to d: nothing" in said[0]
    assert (
        "Average ranks: x 1.20; y 2.00; z 2.80. Critical difference 0.90. Not told apart: x and y; y and z" in said[1]
    )
    assert "m: 50 at 0.1, 80 at 1" in said[2]


def test_the_graph_names_only_kinds_that_occur() -> None:
    tree = etree.fromstring(plots()[0].encode())
    shown = ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a & b", "c", "d", "+1.0", "helps", "nothing"} <= set(shown)
    assert "hurts" not in shown


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InputError, match="two nodes"):
        directed_graph(["a"], [], kinds=KINDS)
    with pytest.raises(InputError, match="no node or kind"):
        directed_graph(["a", "b"], [Edge("a", "x", "helps")], kinds=KINDS)
    with pytest.raises(InputError, match="two systems"):
        critical_difference({"a": 1.0}, [], difference=1.0)
    with pytest.raises(InputError, match="one point"):
        learning_curves({}, xlabel="x", ylabel="y")


def test_the_best_of_a_section() -> None:
    table = Table(
        ["m", Column("s", digits=0, best="max")],
        [["a", 1.0], ["b", 2.0], ["a", 9.0], ["b", 8.0]],
        headings={0: "first", 2: "second"},
        best_along="section",
    )
    assert [row[1].best for row in shown_rows(table)] == [False, True, True, False]
