"""The demo: all stages, a page a person can read, nothing done twice, nothing lost by a kill, nothing leaked."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from osler.core.artifact import Artifact

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("demo")]

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


def test_a_second_run_reuses_everything(osler, demo):
    before = digests(demo)
    done = osler("demo", "--fast", "--out", demo.parent.name, cwd=demo.parent.parent)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("reused)") == 6
    assert digests(demo) == before


def test_killed_anywhere_the_same_command_ends_with_the_same_bytes(osler, demo, tmp_path):
    command = [sys.executable, "-m", "osler", "demo", "--fast", "--out", "made"]
    shutil.copytree(demo / "raw", tmp_path / "made" / "fast" / "raw")
    chance = random.Random(7)
    for _ in range(4):
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(chance.uniform(4, 14))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = osler("demo", "--fast", "--out", "made", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "made" / "fast"
    assert digests(made) == digests(demo)
    assert (made / "report.html").read_bytes() == (demo / "report.html").read_bytes()
    assert not list(made.rglob("*.partial"))


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
