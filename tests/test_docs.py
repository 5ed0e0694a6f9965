"""What the documentation shows is true: commands parse, settings exist, Python compiles, and made pages are current."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from pages import DOCS, FENCE, PAGES, RECIPES, ROOT, Block, blocks

import osler
from osler.cli import common
from osler.cli.main import app
from osler.core.config import Recipe, load_recipe, shipped_recipe, validate
from osler.core.errors import RecipeError
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.serve.server.settings import ServeRecipe
from osler.stages.study.recipe import StudyRecipe


def commands(block: Block) -> Iterator[list[str]]:
    """The arguments of every `osler …` in a shell block, its own variables filled in."""
    text = re.sub(r"\\\n\s*", " ", block.text)
    values = {name: " ".join(value.split()) for name, value in re.findall(r'^(\w+)="([^"]*)"$', text, re.MULTILINE)}
    for line in re.sub(r'^\w+="[^"]*"$', "", text, flags=re.MULTILINE).splitlines():
        filled = line.removeprefix("$ ")
        while found := re.search(r"\$\{?(\w+)\}?", filled):
            filled = filled.replace(found[0], values.get(found[1], "1"))
        if "…" not in filled and re.search(r"(^|\s)osler ", filled) and not filled.startswith("pip"):
            words = shlex.split(filled, comments=True)
            if "osler" in words:
                # What follows a pipe is another program's.
                yield list(takewhile(lambda word: word != "|", words[words.index("osler") + 1 :]))


def shell_blocks() -> list[Block]:
    found = [*blocks("bash", "console"), *(block for recipe in RECIPES for block in blocks("bash", page=recipe))]
    return [block for block in found if any(commands(block))]


class Called(Exception):
    """Carries the invocation of a command out of it."""


@pytest.fixture
def captured(monkeypatch):
    """Stop every command that is made from a recipe when its options are parsed."""

    def stop(**values):
        raise Called(values)

    monkeypatch.setattr(common, "Invocation", stop)


def parse(arguments: list[str]) -> Any:
    """Parse a command line without running it. Returns the context of the command."""
    command, above = typer.main.get_command(app), []
    while True:
        context = command.make_context(command.name or "osler", list(arguments), parent=above[-1] if above else None)
        if not hasattr(command, "resolve_command"):
            return context
        above.append(context)
        rest = [*context._protected_args, *context.args]
        if not rest:
            return context
        _, command, arguments = command.resolve_command(context, rest)
        assert command is not None


@pytest.mark.parametrize("block", shell_blocks(), ids=str)
def test_every_command_parses_and_its_settings_exist(block, captured):
    check_commands(block)


def check_commands(block: Block) -> None:
    for arguments in commands(block):
        try:
            context = parse(arguments)
        except (typer.Exit, SystemExit):  # --version, --show-completion
            continue
        except Exception as error:  # of the click inside typer
            pytest.fail(f"{block}: osler {shlex.join(arguments)}: {error}")
        values = context.params
        if context.info_name in ("run", "pairwise") and "recipe" in values:  # a study takes its recipe as an argument
            sets = values.get("sets") or ()
            check_settings(
                block, arguments, {"kind": StudyRecipe, "recipe": values["recipe"], "sets": sets, "options": {}}
            )
        elif context.info_name == "serve":  # makes nothing, so it has no --out and no --recipe
            options = {key: value for key, value in values.items() if key in ServeRecipe.model_fields and value != []}
            check_settings(
                block,
                arguments,
                {"kind": ServeRecipe, "recipe": None, "sets": values["sets"] or (), "options": options},
            )
        elif {"sets", "dry_run"} <= values.keys() and context.info_name != "demo":  # made from a recipe
            with pytest.raises(Called) as call:
                context.command.invoke(context)
            check_settings(block, arguments, call.value.args[0])


def check_settings(block: Block, arguments: list[str], call: dict[str, object]) -> None:
    """Resolve the recipe of a command line; only values that the page leaves open may be missing."""
    name = call["recipe"]
    if str(name).endswith(".toml"):
        path = next((file for file in (ROOT / str(name), block.page.parent / str(name)) if file.exists()), None)
    else:
        path = shipped_recipe(str(name)) if name and "/" in str(name) else None
    given = {key: value for key, value in dict(call["options"]).items() if value is not None}
    try:
        load_recipe(call["kind"], path, call["sets"], given)
    except RecipeError as error:
        others = [part for part in error.problem.split("; ") if "missing" not in part]
        if others and bool(path) == bool(name):  # the settings of a file that is not here are not known
            pytest.fail(f"{block}: osler {shlex.join(arguments)}: {error}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("osler pretrain corpus --stepz 3", "--stepz"),
        ("osler pretrian corpus", "pretrian"),
        ("osler pretrain corpus --set train.lrr=1", "train.lrr"),
        ("torchrun -m osler finetune a --model b \\\n  --set epochs=many", "epochs"),
        ("SAME='--steps 3'\nosler study run demo/study --set sedes=1", "sedes"),
    ],
)
def test_a_wrong_command_is_found(line, said, captured):
    block = Block(DOCS / "index.md", 1, "bash", line + "\n")
    with pytest.raises(pytest.fail.Exception, match=said):
        check_commands(block)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"{recipe.parent.name}/{recipe.stem}")
def test_the_commands_at_the_head_of_a_recipe_use_it(recipe):
    shown = "".join(block.text for block in blocks("bash", page=recipe))
    assert not shown or re.search(rf"(^|\s|/)({recipe.parent.name}/{recipe.stem}|{recipe.name})\s", shown)


def settings_of_papers() -> Iterator[tuple[str, str]]:
    """Every `--set …` in a paper's section of the guide, with the recipe that the section begins with."""
    text = (DOCS / "guide" / "papers.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        if re.match(r"[a-z]+20\d\d\n", section):
            recipe = re.search(r"`([a-z]+20\d\d/[\w-]+)`", section)
            assert recipe is not None
            for code in re.findall(r"`(--set [^`]+)`", section):
                yield recipe[1], code


@pytest.mark.parametrize(("recipe", "code"), list(settings_of_papers()))
def test_settings_that_select_another_choice_of_a_paper_exist(recipe, code):
    from osler.tasks.catalogue import load_card

    words = shlex.split(code)
    sets = words[1::2]
    assert words[::2] == ["--set"] * len(sets)
    block = Block(DOCS / "guide" / "papers.md", 1, "bash", code)
    check_settings(block, words, {"kind": StudyRecipe, "recipe": recipe, "sets": sets, "options": {}})
    for key, value in (assignment.split("=", 1) for assignment in sets):
        if key.startswith("protocols."):
            load_card(key.removeprefix("protocols.")).protocol_named(value)


def test_commands_are_in_blocks_that_are_checked():
    for block in blocks(""):
        assert not re.match(r"(\$ )?(osler|torchrun) ", block.text), (
            f"{block}: label the block bash (console with output)"
        )


@pytest.mark.parametrize("block", [block for block in blocks("python") if block.page.name != "api.md"], ids=str)
def test_python_examples_use_what_exists(block):
    tree = ast.parse(block.text, str(block))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("osler"):
            # The file that an exported folder holds is this module.
            name = "osler.stages.serve.hf_pipeline" if node.module == "osler_pipeline" else node.module or ""
            module = import_module(name)
            assert all(hasattr(module, name.name) for name in node.names), f"{block}: {ast.unparse(node)}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "osler":
            assert hasattr(osler, node.attr), f"{block}: osler.{node.attr}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _recipes():
            known = {*_recipes()[ast.unparse(node.func)].model_fields}
            known |= {*inspect.signature(getattr(osler, node.func.attr)).parameters}
            assert {str(word.arg) for word in node.keywords} <= known, f"{block}: {ast.unparse(node)}"


def _recipes() -> dict[str, type[Recipe]]:
    """The recipe of every function of the front door."""
    found = {}
    for names, target in runpy.run_path(str(DOCS / "build_api.py"))["RECIPES"].items():
        module, _, name = target.partition(":")
        for function in names.split(", "):
            found[function] = getattr(import_module(module), name)
    return found


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_toml_examples_are_toml(block):
    tomllib.loads(block.text)


def test_the_recipes_of_the_corpus_guide_are_valid():
    recipes = [block for block in blocks("toml") if block.page == DOCS / "guide" / "corpus.md"]
    assert len(recipes) >= 2
    for block in recipes:
        # Some show only the section of one step.
        validate(CorpusRecipe, {"sources": ["notes"]} | tomllib.loads(block.text), where=str(block))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            found = Path(
                os.path.normpath(page.parent / target)
            )  # not resolved: the model card is a link that stays in docs/
            assert found.exists(), target
            # The site has the pages of docs/ alone: `mkdocs build --strict` refuses a link that leaves it.
            assert found.is_relative_to(DOCS if page.is_relative_to(DOCS) else ROOT), target


def test_the_reference_pages_are_current():
    made = runpy.run_path(str(DOCS / "build_reference.py"))["pages"]()
    assert {path.name for path in (DOCS / "reference").glob("*.md")} == set(made)
    for name, text in made.items():
        assert (DOCS / "reference" / name).read_text(encoding="utf-8") == text, "run: python docs/build_reference.py"


def test_the_pages_of_studies_are_made_from_their_results():
    made = runpy.run_path(str(DOCS / "build_results.py"))["pages"]()
    assert {path.with_suffix("") for path in made} == {path.with_suffix("") for path in DOCS.glob("results/*/*.json")}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python docs/build_results.py"


def test_the_page_about_speed_is_made_from_kept_figures():
    script = runpy.run_path(str(ROOT / "benchmarks" / "bench.py"))
    text, plot = script["page"](json.loads((ROOT / "benchmarks" / "results" / "bench.json").read_text()))
    assert (script["PAGE"].read_text(encoding="utf-8"), script["PLOT"].read_text(encoding="utf-8")) == (text, plot)


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert {page for page in pages if not page.startswith("results/2")} <= listed


def test_descriptions_are_no_part_of_an_identity():
    class Plain(Recipe):
        size: int = 1

    class Described(Recipe):
        size: int = 1
        """How large it is."""

    assert Plain().identity() == Described().identity()
