"""What a user does, in processes of their own, on one fast demo: all stages, kills, the page, annotation, export, several processes.

One file on purpose: the tests share one demo, and a file is what a worker of the parallel run takes whole.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forked import run_code

from osler.core.artifact import Artifact

pytestmark = pytest.mark.e2e

STAGES = {
    "corpus": "corpus",
    "tokenizer": "tokenizer",
    "encoder": "encoder",
    "bundle": "bundle",
    "study": "study",
    "annotations": "annotations",
}


def digests(folder: Path) -> dict[str, str]:
    return {name: Artifact.open(folder / name, kind=kind).manifest.digest for name, kind in STAGES.items()}


def test_every_stage_leaves_a_whole_artifact_and_a_page(demo):
    for name, kind in STAGES.items():
        Artifact.open(demo / name, kind=kind).verify()
    page = (demo / "report.html").read_text()
    assert "<table" in page
    assert "data:image/svg+xml" in page
    results = json.loads((demo / "study" / "results.json").read_text())
    assert {cell["model"] for cell in results["cells"]} == {"random weights", "pretrained"}
    assert all(cell["protocol"].endswith("@v1") for cell in results["cells"])


def test_a_second_run_reuses_everything(osler, demo, demo_command):
    before = digests(demo)
    done = osler(*demo_command, cwd=demo.parent.parent)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("reused)") == 6
    assert digests(demo) == before


@pytest.mark.browser
def test_the_report_opens_in_a_browser_and_shows_the_highlighted_note(demo):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: sudo apt-get install chromium")
    from playwright.sync_api import sync_playwright

    problems: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on(
            "console", lambda message: problems.append(message.text) if message.type in {"error", "warning"} else None
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else problems.append(request.url),
        )
        page.goto(f"file://{demo / 'report.html'}")
        marks = page.locator("mark")
        assert marks.count() > 3
        assert marks.first.is_visible()
        assert page.locator("table").count() >= 3
        assert page.locator("img").count() >= 2
        for image in page.locator("img").all():
            assert image.evaluate("image => image.naturalWidth") > 0
        browser.close()
    assert problems == []


CANARY = "Zyxwvut Qqqqfred"


def test_annotate_gives_offsets_into_the_very_text(osler, demo, tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("Mrs. Ann Élan takes aspirin 81 mg daily.\r\n\r\nNo fever 😀. " * 40, encoding="utf-8", newline="")
    done = osler("annotate", str(note), "--bundle", str(demo / "bundle"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (found,) = [json.loads(line) for line in done.stdout.splitlines()]
    text = note.read_bytes().decode()
    assert found["text"] == text
    for span in found.get("spans", []):
        assert text[span["start"] : span["end"]].strip() == text[span["start"] : span["end"]]
        assert 0 < span["score"] <= 1
    ids = {span["id"] for span in found.get("spans", [])}
    assert all({relation["head"], relation["tail"]} <= ids for relation in found.get("relations", []))


def test_annotate_takes_json_lines_and_writes_brat(osler, demo, tmp_path):
    from osler.formats.registry import get_format

    lines = tmp_path / "notes.jsonl"
    lines.write_text(
        "".join(json.dumps({"id": f"n{i}", "text": f"Note {i}: aspirin for pain."}) + "\n" for i in range(3))
    )
    done = osler("annotate", str(lines), "-b", str(demo / "bundle"), "-f", "brat", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    read = list(get_format("brat").read(tmp_path / "out" / "brat"))
    assert [document.id for document in read] == ["n0", "n1", "n2"]


def test_an_empty_note_and_no_note_at_all_are_fine(osler, demo, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "blank.txt").write_text(" \n ")
    done = osler("annotate", "empty.txt", "blank.txt", "-b", str(demo / "bundle"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line).get("spans", []) for line in done.stdout.splitlines()] == [[], []]


@pytest.mark.parametrize(
    ("content", "piece"),
    [(b"Patient " + CANARY.encode() + b" \x00 seen", "NUL"), (CANARY.encode() + b" \xff\xfe", "not UTF-8 at byte")],
)
def test_unreadable_notes_name_the_file_and_place_but_never_the_text(osler, demo, tmp_path, content, piece):
    (tmp_path / "bad.txt").write_bytes(content)
    done = osler("annotate", "bad.txt", "-b", str(demo / "bundle"), cwd=tmp_path)
    assert done.returncode == 2
    assert piece in done.stderr
    assert "bad.txt" in done.stderr
    assert CANARY not in done.stderr


def test_evaluate_prints_its_protocol_and_refuses_what_is_not_there(osler, demo, tmp_path):
    task = str(demo / "tasks" / "clinic-phi-en")
    done = osler("evaluate", str(demo / "bundle"), "--task", task, "-o", "ev", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "ev" / "metrics.json").read_text())
    assert metrics["protocol"] == "clinic-phi-en/strict@v1"
    assert metrics["split"] == "test"
    for options, piece in (
        (["--head", "clinic-phy-en"], "Did you mean 'clinic-phi-en'"),
        (["--protocol", "x"], "no protocol 'x'"),
        (["--split", "x"], "no split"),
    ):
        bad = osler("evaluate", str(demo / "bundle"), "--task", task, "-o", "bad", *options, cwd=tmp_path)
        assert bad.returncode == 2
        assert piece in bad.stderr
        assert not (tmp_path / "bad").exists()


def test_the_encoder_loads_with_stock_automodel_and_one_head_with_equal_logits(osler, demo, tmp_path):
    import torch
    from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForTokenClassification, AutoTokenizer

    from osler.artifacts.bundle import Bundle
    from osler.nn.packing import pack

    bundle = Bundle.load(demo / "bundle", "cpu")
    bundle.model.eval()
    tokenizer = AutoTokenizer.from_pretrained(demo / "bundle")
    ids = tokenizer("Aspirin 81 mg for chest pain.", return_tensors="pt")["input_ids"]
    batch = pack([ids[0].numpy()], pad_id=1)
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(demo / "bundle").eval()(ids).last_hidden_state[0]
        torch.testing.assert_close(hidden, bundle.model.encoder(batch), atol=1e-5, rtol=1e-5)
        done = osler("export", str(demo / "bundle"), "--head", "clinic-phi-en", "--to", "hf", "-o", "hf", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        stock = AutoModelForTokenClassification.from_pretrained(tmp_path / "hf").eval()
        ours = bundle.model(batch, ["clinic-phi-en"])["clinic-phi-en"]
        torch.testing.assert_close(stock(ids).logits[0], ours, atol=1e-5, rtol=1e-5)
        assert stock.config.id2label[0] == "O"
        AutoModelForMaskedLM.from_pretrained(demo / "encoder")


def test_an_exported_head_scores_in_transformers_what_it_scores_in_osler(demo, tmp_path):
    """One head of the demo; tests/stages/serve/test_export_hf.py does it with three kinds."""
    from osler.stages.serve.config import ExportRecipe
    from osler.stages.serve.export import run

    task = "clinic-entities-es"
    made = run(ExportRecipe(bundle=demo / "bundle", head=task, tasks=(demo / "tasks" / task,)), tmp_path / "hf")
    measured = made.counts[f"dev of {task}/strict@v1"]
    assert measured["osler"] > 5
    assert abs(measured["osler"] - measured["own"]) <= 0.5


def test_no_text_of_a_note_appears_outside_the_artifacts(osler, demo, tmp_path):
    """Plant canaries in notes, go through every stage that reads them with full logging, and search all that was printed or left."""
    lines = [json.dumps({"id": str(i), "text": f"Patient {CANARY} number {i} takes aspirin. " * 8}) for i in range(60)]
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    (tmp_path / "note.txt").write_text(f"Seen: {CANARY}, aspirin 81 mg.")
    steps = [
        ["corpus", "build", "notes.jsonl", "-o", "corpus"],
        ["vocab", "train", "corpus", "-o", "tokenizer", "--size", "300"],
        [
            "pretrain",
            "corpus",
            "-t",
            "tokenizer",
            "-o",
            "encoder",
            "-r",
            "demo/pretrain",
            "--steps",
            "2",
            "--set",
            "batch_tokens=512",
            "--set",
            "validation_share=0.2",
        ],
        ["annotate", "note.txt", "-b", str(demo / "bundle"), "-o", "annotations"],
        ["annotate", "note.txt", "-b", str(demo / "corpus")],
        ["corpus", "build", "notes.jsonl", "-o", "corpus", "--set", "filters.length.min_characters=100000", "--force"],
    ]
    printed = ""
    for step in steps:
        done = osler("--verbose", *step, cwd=tmp_path, OSLER_LOG="info")
        printed += done.stderr + (done.stdout if "-o" in step else "")
    assert CANARY.split()[0] not in printed
    inside = {"corpus", "tokenizer", "encoder", "encoder.tokens", "annotations"}
    for path in tmp_path.rglob("*"):
        assert CANARY.split()[0] not in path.name
        top = path.relative_to(tmp_path).parts
        outside = top[0] not in inside and path.name not in {"notes.jsonl", "note.txt"}
        if path.is_file() and (outside or "logs" in top or path.name in {"manifest.json", "recipe.toml"}):
            assert CANARY.split()[0].encode() not in path.read_bytes(), path


def losses(folder):
    records = [json.loads(line) for line in (folder / "logs" / "log.jsonl").read_text().splitlines()]
    return [record.get("loss", record.get("validation_loss")) for record in records]


def test_two_processes_pretrain_as_one_does(osler, demo, tmp_path):
    arguments = ["pretrain", str(demo / "corpus"), "-t", str(demo / "tokenizer"), "-r", "demo/pretrain", "--steps", "6"]
    arguments += [
        "--set",
        "accumulate=2",
        "--set",
        "batch_tokens=512",
        "--set",
        "train.log_every=2",
        "--set",
        "validation_tokens=2000",
    ]
    done = osler(*arguments, "-o", "one", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "osler",
        *arguments,
    ]
    two = subprocess.run(
        [*command, "-o", "two"], capture_output=True, text=True, cwd=tmp_path, env=os.environ, check=False
    )
    assert two.returncode == 0, two.stderr
    assert losses(tmp_path / "one") == pytest.approx(losses(tmp_path / "two"), abs=1e-5)
    assert two.stderr.count("encoder made") == 1


def python_example_of_the_documentation(bundle_of: Path, folder: Path) -> str:
    """Run the Python example of the documentation's first page with the demo's bundle, and return what it prints."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "index.md").read_text(encoding="utf-8")
    blocks = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
    example = next(block for block in blocks if 'osler.load("bundle")' in block)
    (folder / "bundle").symlink_to(bundle_of / "bundle")
    done = run_code(example, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example_of_the_documentation_runs(demo, tmp_path):
    # The fast demo trains too little to tell a drug from a frequency, but it knows a strength.
    assert "STRENGTH 81 mg" in python_example_of_the_documentation(demo, tmp_path)


def test_the_python_example_of_the_documentation_finds_the_aspirin(root, tmp_path):
    made = Path(os.environ.get("OSLER_DEMO", root / "demo" / "full"))
    if not (made / "bundle" / "manifest.json").is_file():
        pytest.skip("needs a finished `make demo`; set OSLER_DEMO to its folder if it is elsewhere")
    shown = python_example_of_the_documentation(made, tmp_path)
    assert "DRUG aspirin" in shown
    assert "DRUG metformin" in shown
