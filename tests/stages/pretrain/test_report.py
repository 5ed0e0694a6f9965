"""What a run leaves for people: the page with curves, the model card, the speed apart from both, and the line while it runs."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from osler.artifacts.corpus import Corpus
from osler.artifacts.encoder import EncoderWriter
from osler.core.artifact import produce
from osler.core.config import Recipe
from osler.core.console import duration, flop_count, flop_rate, training_status
from osler.nn.masking import Masking
from osler.stages.pretrain.config import Distillation, PretrainRecipe, PretrainSettings
from osler.stages.pretrain.progress import measure_peak, shown_on
from osler.stages.pretrain.report import FinishedPretraining, model_card, report_page, speed_page, write_reports
from osler.train.config import TrainConfig
from osler.train.loop import StepReport

SOURCES = {
    "abstracts": {"language": "en", "licence": "CC-BY-4.0", "documents": 10, "words": 1000},
    "notes": {"language": "es", "licence": None, "documents": 3, "words": 500},
}


def history(steps: int = 50, **more: float) -> list[dict[str, object]]:
    records: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        values = {
            "loss": 8 - step / steps,
            "lr": 1e-3,
            "grad_norm": 1.0,
            "tokens": 100 * step,
            "skipped": int(step > 20),
        }
        records.append({"kind": "train", "step": step, **values, **more})
        if step % 10 == 0:
            records.append({"kind": "eval", "step": step, "validation_loss": 9 - step / steps, "perplexity": 1000.0})
    return records


@pytest.fixture
def corpus(tmp_path) -> Corpus:
    def build(work):
        (work.path / "card.json").write_text(json.dumps({"sources": SOURCES}))
        work.counts.update(documents=13, words=1500)

    return Corpus.open(produce(tmp_path / "corpus", kind="corpus", recipe=Recipe(), parents={}, build=build).path)


@pytest.fixture
def outcome(corpus, tmp_path) -> FinishedPretraining:
    recipe = PretrainRecipe(
        corpus=corpus.path,
        tokenizer=tmp_path / "tokenizer",
        preset="tiny",
        source_weights={"notes": 2.5},
        masking=Masking(rate=0.3, unit="word"),
        train=PretrainSettings(steps=50),
    )
    config = SimpleNamespace(
        model_type="modernbert", num_hidden_layers=2, hidden_size=128, num_attention_heads=2, intermediate_size=192
    )
    tokens = {"train_documents": 12, "train_tokens": 2000, "validation_documents": 1, "validation_tokens": 100}
    counts = {
        "parameters": 811_680,
        "steps": 50,
        "best_step": 40,
        "tokens_seen": 5000,
        "validation_loss": 8.2,
        "perplexity": 3640.95,
    }
    return FinishedPretraining(recipe, config, 2000, corpus, tokens, counts, history(), 2e6, epoch_tokens=4000)


def figures(html: str) -> list[str]:
    return [base64.b64decode(found).decode() for found in re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", html)]


def test_the_page_has_the_curves_and_what_they_are_about(outcome):
    html = report_page(outcome).render()
    titles = [re.search(r"<desc>(.*?)</desc>", svg)[1] for svg in figures(html)]
    assert [title.split(" over ")[0] for title in titles] == ["loss", "learning rate", "gradient norm"]
    assert "training ends at 7; validation ends at 8" in titles[0]
    assert "Steps skipped: <strong>1</strong> (1 up to step 21)" in html
    for piece in ("811,680", "5,000", "step <strong>40</strong>", "CC-BY-4.0", "x 2.5", "whole words", "10 GFLOP"):
        assert piece in html, piece
    # Logarithmic axes are labelled with numbers, not with markup.
    assert "mathdefault" not in "".join(figures(html))


def test_the_same_run_gives_the_same_bytes_whatever_the_clock_said(outcome, tmp_path):
    for name, speed in (("one", 1000.0), ("two", 77.0)):
        logs = tmp_path / name / "logs"
        logs.mkdir(parents=True)
        clock = {"tokens_per_second": speed, "flops_per_second": 2e6 * speed, "step_seconds": 1.0}
        records = [{"kind": "train", "step": step, "clock": clock} for step in (1, 2)]
        (logs / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        write_reports(EncoderWriter(tmp_path / name), outcome)
    for file in ("README.md", "report.html", "history.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert "1,000" in (tmp_path / "one" / "logs" / "speed.html").read_text()
    assert "77" in (tmp_path / "two" / "logs" / "speed.html").read_text()


def test_places_on_disk_are_in_neither(outcome, tmp_path):
    moved = outcome.recipe.changed(start_from=tmp_path / "somewhere", tokenizer=tmp_path / "elsewhere")
    written = report_page(replace(outcome, recipe=moved)).render() + model_card(replace(outcome, recipe=moved))
    assert str(tmp_path) not in written
    assert "from a checkpoint" in written


def test_the_card_says_what_the_model_is_and_where_it_is_from(outcome):
    card = model_card(outcome)
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: fill-mask\nlanguage: [en, es]\n")
    for piece in (
        "| abstracts | en | CC-BY-4.0 | 10 | 1,000 | x 1 |",
        "| notes | es | not stated | 3 | 500 | x 2.5 |",
        "| vocabulary | 2,000 entries |",
        "| compute | 10 GFLOP, 2 MFLOP per token |",
        # Not 5,000 of the 2,000 in the shards: an epoch also has special tokens, and sources that are read more than once.
        "| tokens seen | 5,000 in 50 steps, 1.2 times the training text |",
        "step 40 of 50, chosen by validation loss",
        "| steps skipped | 1 (loss not finite, or a gradient spike) |",
        "chosen as whole words",
        "## Intended use",
        "## Limits",
        "## Confidentiality",
        "from random weights",
    ):
        assert piece in card, piece
    assert "distillation" not in card


def test_the_card_carries_the_licences_of_the_documents(outcome):
    path = outcome.corpus.path / "card.json"
    licences = {f"licence {n}": 10 - n for n in range(7)}
    path.write_text(
        json.dumps({"of_patients": 3, "sources": {"abstracts": {**SOURCES["abstracts"], "licences": licences}}})
    )
    card = model_card(replace(outcome, recipe=outcome.recipe.changed(source_weights={})))
    assert (
        "| abstracts | en | licence 0 (10); licence 1 (9); licence 2 (8); licence 3 (7); licence 4 (6); and 2 more |"
        in card
    )
    assert "chosen by a hash of their patient, or of their text where no patient is known, and never trained on" in card


def test_with_a_teacher_the_three_parts_are_shown(outcome, tmp_path):
    distilled = replace(
        outcome,
        recipe=outcome.recipe.changed(distill=Distillation(teacher=tmp_path / "teacher", cosine=1.0)),
        history=history(**{"loss/mlm": 6.0, "loss/kl": 2.0, "loss/cosine": 0.5}),
    )
    parts = figures(report_page(distilled).render())[1]
    for name in ("masked tokens ends at 6", "divergence from the teacher ends at 2", "alignment ends at 0.5"):
        assert name in parts
    # The weighted sum does not compare with validation, so the page shows the masked tokens beside it.
    assert "training ends at 6;" in figures(report_page(distilled).render())[0]
    assert "5 x masked tokens + 2 x divergence from the teacher at temperature 2" in model_card(distilled)


def test_a_corpus_without_a_card_is_no_obstacle(outcome):
    (outcome.corpus.path / "card.json").unlink()
    assert "its sources are not known" in model_card(outcome)
    assert "Sources of the text" not in report_page(outcome).render()


def test_a_long_run_is_thinned(outcome):
    short, long = (len(report_page(replace(outcome, history=history(steps))).render()) for steps in (400, 4000))
    assert long < 1.5 * short


def test_no_log_no_speed_page(tmp_path):
    assert speed_page(EncoderWriter(tmp_path).read_log(), None) is None


def test_the_line_while_it_runs():
    line = training_status(5.1234, 603_000, 4.12e14, 7.35e14, 754)
    assert line == "loss 5.123  603,000 tokens/s  412 TFLOP/s (56% of peak)  12 min left"
    assert training_status(None, None) == ""
    assert training_status(1.0, 20) == "loss 1.000  20 tokens/s"  # what fine-tuning shows


@pytest.mark.parametrize(
    ("seconds", "said"), [(59.4, "59 s"), (60, "1 min"), (3599, "59 min"), (5400, "1 h 30 min"), (300_000, "3.5 days")]
)
def test_durations(seconds, said):
    assert duration(seconds) == said


def test_units_of_work():
    assert [flop_rate(value) for value in (5.37e10, 9.5e11, 4.12e14)] == ["53.7 GFLOP/s", "950 GFLOP/s", "412 TFLOP/s"]
    assert [flop_count(value) for value in (2.31e6, 6.02e8, 1.26e21)] == ["2.31 MFLOP", "602 MFLOP", "1.26e+21 FLOP"]


class Shown:
    def update(self, **values):
        self.values = values


def test_the_bar_counts_steps_or_percent_of_the_time():
    bar = Shown()
    shown_on(bar, 1e12)(StepReport(7, 10, 1e-3, loss=2.0, flops_per_second=5e11))
    assert bar.values == {"completed": 7, "total": 10, "status": "loss 2.000  500 GFLOP/s (50% of peak)"}
    shown_on(bar, None)(StepReport(7, None, 1e-3, fraction=0.256))
    assert (bar.values["completed"], bar.values["total"]) == (26, 100)


def test_the_peak_of_several_processes_is_the_sum(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setattr("osler.stages.pretrain.progress.matmul_peak", lambda device, threads: 1e9)
    peak = measure_peak(TrainConfig(device="cpu"))
    assert (peak.devices, peak.flops_per_second) == (4, 4e9)
    EncoderWriter(tmp_path).write_peak(peak)
    assert EncoderWriter(tmp_path).read_peak() == peak
