"""Export a bundle as a bundle that runs without torch: one ONNX graph with the encoder and all heads, in float32 or int8."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.onnx_runner import GraphDetails, GraphHead, OnnxRunner
from osler.artifacts.task_folder import TaskFolder
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import console
from osler.core.errors import RecipeError
from osler.core.extras import require
from osler.core.files import write_atomic
from osler.core.models import bundle_title
from osler.nn.shared_weights import SharedWeight, write_scales
from osler.stages.serve.config import ExportRecipe
from osler.stages.serve.verify import Agreement, DevScore, agreement, dev_score, open_tasks

if TYPE_CHECKING:
    from osler.nn.multihead import MultiHeadModel

_TOLERANCE = 1e-4
_MEGABYTE = 1e6


def plan(recipe: ExportRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    _, spec, tasks = _open(recipe)
    lines = [
        f"export the encoder and all heads of {bundle_title(recipe.bundle)} as one {_words(recipe)}: {', '.join(spec.heads)}"
    ]
    if tasks:
        named = ", ".join(task.card.name for task in tasks)
        lines.append(f"score both on the dev split of {named}; refuse a change of more than {recipe.max_loss:g} points")
    else:
        lines.append("compare outputs and predictions with the bundle's on built-in texts")
    return [*lines, f"write a bundle that runs without torch to {out}"]


def run(recipe: ExportRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the exported bundle, or raise an error if it does not behave like the original."""
    artifact, spec, tasks = _open(recipe)
    parents: dict[str, str | Artifact] = {"bundle": artifact}
    parents |= {f"task {task.card.name}": task.artifact for task in tasks}

    def build(work: Workspace) -> None:
        from osler.nn.onnx_graph import marks_of, to_onnx

        bundle = Bundle.load(recipe.bundle, "cpu")
        model = _with_weights(bundle.model, work.path) if recipe.weights else bundle.model
        heads = {}
        for name in spec.heads:
            steps = model.head(name).steps()
            heads[name] = GraphHead(model.head(name).level, None if steps is None else steps.tolist())
        # The model may hold heads that the bundle does not name; the graph has an output for each.
        graph = to_onnx(model, [GraphDetails.output(name) for name in model.heads])
        if recipe.to == "onnx-int8":
            from osler.nn.onnx_int8 import quantise

            graph = quantise(graph)
        shared: dict[str, SharedWeight] = {}
        if recipe.weights:
            from osler.nn.onnx_int8 import share

            base = model.encoder.model.base_model.state_dict()
            graph, shared, scales = share(graph, {name: tensor.numpy() for name, tensor in base.items()})
            write_scales(work.path, scales)
        details = GraphDetails(
            precision="int8" if recipe.to == "onnx-int8" else "fp32",
            pad_id=model.encoder.config.pad_token_id or 0,
            max_length=model.encoder.max_length,
            token_types="token_type_ids" in _inputs(graph),
            marks=marks_of(model),
            heads=heads,
            shared=shared,
        )
        write_atomic(OnnxRunner.graph(work.path), graph)
        OnnxRunner.write(work.path, details)
        spec.save(work.path)
        bundle.calibration.save(work.path)
        Tokenizer.open(recipe.bundle).copy_to(work.path)
        export = Bundle.load(work.path)
        found = agreement(bundle, export)
        scores = [dev_score(task, bundle, export) for task in tasks]
        _check(recipe, found, scores)
        card = Bundle.read_card(recipe.bundle).rstrip("\n")
        Bundle.write_card(work.path, f"{card}\n\n{_section(recipe, found, scores, len(graph))}".lstrip("\n"))
        work.counts.update(heads=len(heads), megabytes=round(len(graph) / _MEGABYTE, 1))
        work.counts.update({f"change on {score.task}": round(score.change, 2) for score in scores})

    return produce(out, kind="bundle", recipe=recipe, parents=parents, build=build, force=force)


def _with_weights(model: MultiHeadModel, folder: Path) -> MultiHeadModel:
    """Write encoder (in bfloat16) and heads, and return the model with the rounded weights."""
    import torch

    rounded = copy.deepcopy(model)
    rounded.encoder.to(torch.bfloat16)
    rounded.save(folder)
    rounded.encoder.float()
    return rounded


def _open(recipe: ExportRecipe) -> tuple[Artifact, BundleSpec, list[TaskFolder]]:
    """Open and check everything that a recipe names."""
    artifact = Artifact.open(recipe.bundle, kind="bundle")
    spec = BundleSpec.load(recipe.bundle)
    if OnnxRunner.is_in(recipe.bundle):
        raise RecipeError(
            "this bundle is an export already", where=recipe.bundle, fix="Give the bundle that it was exported from"
        )
    if recipe.weights and recipe.to != "onnx-int8":
        raise RecipeError("weights = true is for onnx-int8", fix="Set it to false, or export to onnx-int8")
    if recipe.head is not None:
        raise RecipeError(
            "an ONNX export holds every head", fix="Leave --head out; osler annotate --head chooses later"
        )
    for module, extra in (("torch", "train"), ("onnx", "export")):
        require(module, extra)
    return artifact, spec, open_tasks(recipe.tasks, spec)


def _inputs(graph: bytes) -> list[str]:
    import onnx

    return [item.name for item in onnx.load_from_string(graph).graph.input]


def _words(recipe: ExportRecipe) -> str:
    return "ONNX graph in int8" if recipe.to == "onnx-int8" else "ONNX graph"


def _check(recipe: ExportRecipe, found: Agreement, scores: Sequence[DevScore]) -> None:
    """Raise an error for an export that does not behave like the bundle."""
    for score in scores:
        if abs(score.change) > recipe.max_loss:
            raise RecipeError(
                f"{score.metric} on the dev split of {score.task} changes from {score.bundle:.2f} to {score.export:.2f}, "
                f"more than {recipe.max_loss:g} points",
                where=recipe.bundle,
                fix="Export to onnx (float32), or allow more with --max-loss",
            )
    if recipe.to != "onnx-int8" and (
        found.difference > _TOLERANCE * max(1.0, found.scale) or found.same != found.either
    ):
        raise RecipeError(
            f"the graph does not give what the bundle gives: logits differ by up to {found.difference:.2g}",
            where=recipe.bundle,
            fix="Serve this bundle with osler and torch, and report its architecture",
        )
    if recipe.to == "onnx-int8" and not scores:
        console().print(
            "[bold yellow]![/] int8 was not scored. Give task folders (--task) to measure what it changes on their dev splits."
        )


def _section(recipe: ExportRecipe, found: Agreement, scores: Sequence[DevScore], size: int) -> str:
    """Section of the card about the export."""
    lines = [
        "## Export",
        "",
        f"One {_words(recipe)} ({size / _MEGABYTE:.1f} MB) with the encoder and all heads. It runs with onnxruntime, without torch:",
        "`osler annotate note.txt --bundle FOLDER`.",
        "",
        f"Compared with the bundle on built-in texts: logits up to {found.scale:.3g} differ by at most {found.difference:.2g}; "
        f"{found.same:,} of {found.either:,} predictions (spans, labels, relations) are the same.",
    ]
    if scores:
        lines += [
            "",
            "| task | records of dev | metric | bundle | export | change |",
            "|---|---|---|---|---|---|",
            *(
                f"| {s.task} | {s.records:,} | {s.metric} | {s.bundle:.2f} | {s.export:.2f} | {s.change:+.2f} |"
                for s in scores
            ),
        ]
    elif recipe.to == "onnx-int8":
        lines += ["", "No score was measured: no task folder was given."]
    return "\n".join(lines) + "\n"
