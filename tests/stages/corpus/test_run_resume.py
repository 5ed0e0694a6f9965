from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# One process that imports everything once and then forks a child for every run. A child told where to die
# kills itself (SIGKILL: no clean-up of any kind) just before the file of that name would appear.
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from osler.core.config import load_recipe
from osler.stages.corpus import clean as parts
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run

def build(raw, out, die=None, workers=1):
    parts.PART_BYTES = 200_000
    replace = os.replace

    def fatal(source, target):
        if Path(target).name == die:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(source, target)

    os.replace = fatal
    recipe = load_recipe(CorpusRecipe, None, [], {"sources": [raw], "workers": workers, "shard_megabytes": 1})
    run(recipe, Path(out))

def main():
    for options in json.loads(sys.argv[1]):
        if options.get("workers", 1) > 1:
            build(**options)
            continue
        child = os.fork()
        if child == 0:
            build(**options)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.jsonl"
    rows = [{"id": n, "text": f"note {n % 90}: " + "no acute distress, é " * 600} for n in range(120)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def _command(folder: Path, runs: list[dict[str, Any]]) -> list[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    return [sys.executable, str(script), json.dumps(runs)]


def _exit_codes(folder: Path, runs: list[dict[str, Any]]) -> list[int]:
    ended = subprocess.run(_command(folder, runs), check=True, capture_output=True, text=True)
    return [int(code) for code in ended.stdout.split()]


def test_repeated_kills_give_the_same_bytes(tmp_path: Path, raw: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    parts = ["removed-000000.parquet", "kept-000002.parquet", "kept-000007.parquet"]
    results = ["shard-00000.parquet", "shard-00001.parquet", "ledger.parquet", "report.html", "README.md", "card.json"]
    places = ["identity.json", *parts, *results, "recipe.toml", "manifest.json"]
    runs = [{"raw": str(raw), "out": str(out), "die": place} for place in places]
    codes = _exit_codes(tmp_path, [{"raw": str(raw), "out": str(whole)}, *runs, {"raw": str(raw), "out": str(out)}])
    assert codes == [0, *[-signal.SIGKILL] * len(places), 0]
    files = [
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (whole, out)
    ]
    assert files[0] == files[1]
    assert sorted(files[0]) == [
        "README.md",
        "card.json",
        "ledger.parquet",
        "manifest.json",
        "recipe.toml",
        "report.html",
        "shards/shard-00000.parquet",
        "shards/shard-00001.parquet",
    ]


def test_finished_work_is_not_repeated(tmp_path: Path, raw: Path) -> None:
    run = {"raw": str(raw), "out": str(tmp_path / "out")}
    parts = tmp_path / "out.partial" / "parts-2"
    assert _exit_codes(tmp_path, [{**run, "die": "kept-000003.parquet"}]) == [-signal.SIGKILL]
    done = {path: path.stat().st_mtime_ns for path in sorted(parts.glob("kept-*.parquet"))}
    assert [path.name for path in done] == [f"kept-{number:06d}.parquet" for number in range(3)]
    assert _exit_codes(tmp_path, [{**run, "die": "shard-00001.parquet"}]) == [-signal.SIGKILL]
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert len(list(parts.glob("kept-*.parquet"))) == 8
    assert not (tmp_path / "out").exists()


def test_workers_end_when_their_parent_is_killed(tmp_path: Path, raw: Path) -> None:
    run = {"raw": str(raw), "out": str(tmp_path / "out")}
    process = subprocess.Popen(_command(tmp_path, [{**run, "workers": 2}]), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while not list((tmp_path / "out.partial").glob("parts-*/kept-*.parquet")) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.002)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(_alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [child for child in children if _alive(child)] == []
    assert len(children) >= 2
    assert _exit_codes(tmp_path, [run]) == [0]


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
