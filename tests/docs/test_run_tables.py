"""Every command of every page is run or listed with a reason, nothing is listed that no page has, and a failure is seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_runs import NOT_RUN, REPLACED, SMALLER, WORKING_FOLDERS, PageRun, runnable, steps, why_not
from pages import PAGES, RECIPES, RESULTS, ROOT

RUN = [*PAGES, *(recipe for recipe in RECIPES if recipe.is_relative_to(RESULTS))]
"""Pages, and the recipes of results; tests/test_docs.py checks the commands at the head of the other recipes."""
STEPS = [step.strip() for page in RUN for block in runnable(page) for step in steps(block)]


def test_every_page_with_commands_is_run() -> None:
    with_commands = {page.relative_to(ROOT).as_posix() for page in RUN if runnable(page)}
    assert set(WORKING_FOLDERS) == with_commands


@pytest.mark.parametrize("begin", NOT_RUN)
def test_what_is_not_run_is_on_a_page(begin: str) -> None:
    assert any(step.startswith(begin) for step in STEPS)


@pytest.mark.parametrize("text", [*(f"osler {command}" for command in SMALLER), *REPLACED])
def test_what_is_made_smaller_is_on_a_page(text: str) -> None:
    assert any(text in step for step in STEPS if not why_not(step))


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("```bash\nosler convert missing --to jsonl --out a.jsonl\n```\n", "missing"),
        ("```bash\nosler --version | grep -q no-such-version\n```\n", "exit code 1"),
        ("```bash\nno-such-program --help\n```\n", "no-such-program"),
        ("```console\n$ osler --version\nerror: this fails\n```\n", "exit code 0"),
    ],
)
def test_a_command_that_does_not_do_what_the_page_shows_is_found(block: str, said: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(block)
    with pytest.raises(AssertionError, match=said):
        PageRun(str(page), tmp_path).run()


def test_a_python_block_that_fails_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nopen('missing.txt')\n```\n")
    with pytest.raises(FileNotFoundError):
        PageRun(str(page), tmp_path).run()


def test_the_shell_is_bash_and_files_of_the_page_are_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Save this as `note.jsonl`:\n\n```text\n" + '{"id": "1", "text": "No fever."}\n```\n\n'
        "```bash\nKIND='--to csv'\nfor name in one two; do\n"
        "  osler convert note.jsonl --from jsonl $KIND \\\n    --out $name.csv\ndone\n"
        "cat one.csv | osler --version | head -1 > version.txt\n```\n\n"
        "```python\nfound = sorted(path.name for path in __import__('pathlib').Path().glob('*.csv'))\n```\n"
    )
    run = PageRun(str(page), tmp_path)
    run.run()
    assert run.names["found"] == ["one.csv", "two.csv"]
    assert (tmp_path / "version.txt").read_text()
