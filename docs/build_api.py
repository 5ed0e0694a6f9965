"""Write docs/api.md from the docstrings and the recipes: python docs/build_api.py"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import osler
from osler.core.artifact import Artifact
from osler.core.config import Recipe, find_field

ARTIFACTS = {
    "corpus": "Corpus",
    "tokenizer": "Tokenizer",
    "token_shards": "TokenShards",
    "encoder": "Encoder",
    "task_folder": "TaskFolder",
    "bundle": "Bundle",
    "evaluation": "Evaluation",
    "run": "Run",
}
RECIPES = {
    "osler.corpus": "osler.stages.corpus.config:CorpusRecipe",
    "osler.vocab": "osler.stages.vocab.config:VocabRecipe",
    "osler.vocab_compare": "osler.stages.vocab.config:CompareRecipe",
    "osler.pretrain, osler.distill": "osler.stages.pretrain.config:PretrainRecipe",
    "osler.convert_model": "osler.stages.pretrain.config:ConvertModelRecipe",
    "osler.tasks_prepare": "osler.stages.prepare.config:PrepareRecipe",
    "osler.tasks_synthesize": "osler.clinic.synthesize:SynthesizeRecipe",
    "osler.finetune": "osler.stages.finetune.config:FinetuneRecipe",
    "osler.evaluate": "osler.stages.evaluate.config:EvaluateRecipe",
    "osler.study": "osler.stages.study.recipe:StudyRecipe",
    "osler.annotate": "osler.stages.serve.config:AnnotateRecipe",
    "osler.corrections": "osler.stages.serve.corrections:CorrectionsRecipe",
    "osler.serve": "osler.stages.serve.server.settings:ServeRecipe",
    "osler.export": "osler.stages.serve.config:ExportRecipe",
    "osler.convert": "osler.stages.prepare.config:ConvertRecipe",
}


def page() -> str:
    """The page as Markdown."""
    from osler import api

    functions = [name for name in osler.__all__ if inspect.isfunction(getattr(osler, name))]
    lines = [
        "# Python API",
        "",
        "<!-- Made by docs/build_api.py from the docstrings. -->",
        "",
        inspect.getdoc(api) or "",
    ]
    lines += ["", "## Annotate", "", *_function("osler.load", osler.load), *_class("osler.Annotator", osler.Annotator)]
    lines += ["## One function per command", ""]
    for name in functions:
        if name != "load":
            lines += _function(f"osler.{name}", getattr(osler, name))
    lines += ["## Records", ""]
    for kind in (osler.Document, osler.Span, osler.Relation, osler.TextPair):
        lines += _class(f"osler.{kind.__name__}", kind)
    lines += ["## Artifacts", ""]
    for module, name in ARTIFACTS.items():
        lines += _class(
            f"osler.artifacts.{module}.{name}", getattr(importlib.import_module(f"osler.artifacts.{module}"), name)
        )
    lines += ["## Recipes", "", "The settings of each function, which are also the keys of its TOML recipe.", ""]
    for users, target in RECIPES.items():
        module, _, name = target.partition(":")
        kind = getattr(importlib.import_module(module), name)
        lines += [f"### {name}", "", f"{inspect.getdoc(kind)} For `{users}`.", ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|", *_rows(kind), ""]
    return "\n".join(lines).rstrip() + "\n"


def _function(name: str, function: Any) -> list[str]:
    return [
        f"### {name}",
        "",
        "```python",
        f"{name}{_signature(function)}",
        "```",
        "",
        inspect.getdoc(function) or "",
        "",
    ]


def _class(name: str, kind: type) -> list[str]:
    lines = [f"### {name}", "", inspect.getdoc(kind) or "", ""]
    if dataclasses.is_dataclass(kind):
        lines += [f"- `{field.name}`: `{field.type}`" for field in dataclasses.fields(kind)]
    inherited = vars(Artifact) if issubclass(kind, Artifact) else {}
    for member, value in {**inherited, **vars(kind)}.items():
        target = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        attribute = isinstance(target, property) or hasattr(target, "attrname")
        if (member.startswith("_") and member != "__call__") or not (attribute or inspect.isfunction(target)):
            continue
        text = (inspect.getdoc(target) or "").partition("\n\n")[0].replace("\n", " ")
        shown = member if attribute else f"{'' if member == '__call__' else member}{_signature(target, bound=True)}"
        lines.append(f"- `{shown}`" + (f": {text}" if text else ""))
    return [*lines, ""]


def _signature(function: Any, *, bound: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    # Annotations are strings here; the quotes around them go, those of default values stay.
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature.replace(parameters=parameters)))
    return text.replace("AnyPath", "str | Path").replace("AnyRecipe", "str | Path | Recipe | None")


def _rows(kind: type[Recipe], prefix: str = "") -> list[str]:
    rows = []
    for name, field in kind.model_fields.items():
        annotation, text = find_field(kind, name)
        section = next((part for part in _models(annotation)), None)
        default = "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)!r}`"
        if section is not None:
            text = text or (inspect.getdoc(section) or "").partition("\n")[0]
            default = "" if field.is_required() or not isinstance(field.default, Recipe) else "see below"
        rows.append(f"| `{prefix}{name}` | `{_type(annotation)}` | {default} | {text} |".replace("||", "|\\|"))
        if section is not None:
            rows += _rows(section, f"{prefix}{name}.")
    return rows


def _models(annotation: Any) -> list[type[Recipe]]:
    from typing import get_args

    if isinstance(annotation, type) and issubclass(annotation, Recipe):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _type(annotation: Any) -> str:
    text = inspect.formatannotation(annotation) if not isinstance(annotation, str) else annotation
    text = re.sub(r"Annotated\[([^,\[\]]+|\w+\[[^\]]*\]), (?:[^\[\]]|\[[^\]]*\])*\]", r"\1", text)
    return re.sub(r"\b(?:typing|pathlib|osler(?:\.\w+)*|collections\.abc)\.", "", text).replace("|", "\\|")


if __name__ == "__main__":
    (Path(__file__).parent / "api.md").write_text(page(), encoding="utf-8")
