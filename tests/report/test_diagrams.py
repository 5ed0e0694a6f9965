from __future__ import annotations

from lxml import etree

from osler.report.diagrams import Edge, EdgeKind, critical_difference, directed_graph

KINDS = {"nothing": EdgeKind("grey", 0.8), "hurts": EdgeKind("vermilion", dashed=True), "helps": EdgeKind("green")}


def plots() -> list[str]:
    return [
        directed_graph(
            ["a & b", "c", "d"], [Edge("a & b", "c", "helps", "+1.0"), Edge("c", "d", "nothing")], kinds=KINDS
        ),
        critical_difference({"x": 1.2, "y": 2.0, "z": 2.8}, [("x", "y"), ("y", "z")], difference=0.9),
    ]


def test_plots_are_the_same_each_time_and_describe_themselves() -> None:
    first = plots()
    assert first == plots()
    descriptions = [etree.fromstring(svg.encode())[0].text for svg in first]
    assert "a & b to c: helps +1.0; c to d: nothing" in descriptions[0]
    assert (
        "Average ranks: x 1.20; y 2.00; z 2.80. Critical difference 0.90. Not significantly different: x and y; y and z"
        in descriptions[1]
    )


def test_the_graph_names_only_kinds_that_occur() -> None:
    tree = etree.fromstring(plots()[0].encode())
    shown = ["".join(node.itertext()) for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a & b", "c", "d", "+1.0", "helps", "nothing"} <= set(shown)
    assert "hurts" not in shown
