"""Prometheus' text format."""

from __future__ import annotations

from osler.stages.serve.server.metrics import Metrics, give_back_memory, resident_bytes


def test_counters_gauges_and_histograms():
    metrics = Metrics()
    metrics.counter("asked_total", "Asked.")
    metrics.gauge("waiting", "Waiting.", lambda: 3)
    metrics.histogram("seconds", "Time.", (0.1, 1.0))
    metrics.add("asked_total", route="/a", status="200")
    metrics.add("asked_total", 2, route="/a", status="200")
    metrics.observe("seconds", 0.5, route="/a")
    metrics.observe("seconds", 0.05, route="/a")
    metrics.observe("seconds", 7, route="/a")
    assert metrics.text() == (
        "# HELP asked_total Asked.\n# TYPE asked_total counter\n"
        'asked_total{route="/a",status="200"} 3\n'
        "# HELP waiting Waiting.\n# TYPE waiting gauge\nwaiting 3\n"
        "# HELP seconds Time.\n# TYPE seconds histogram\n"
        'seconds_bucket{route="/a",le="0.1"} 1\n'
        'seconds_bucket{route="/a",le="1"} 2\n'
        'seconds_bucket{route="/a",le="+Inf"} 3\n'
        'seconds_sum{route="/a"} 7.550000\n'
        'seconds_count{route="/a"} 3\n'
    )


def test_large_counts_are_exact():
    metrics = Metrics()
    metrics.counter("tokens_total", "Tokens.")
    metrics.add("tokens_total", 123_456_789)
    assert "tokens_total 123456789\n" in metrics.text()


def test_memory_of_this_process():
    assert resident_bytes() > 10_000_000
    give_back_memory()
    assert resident_bytes() > 10_000_000
