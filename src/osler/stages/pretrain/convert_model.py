"""Convert a published checkpoint into an encoder artifact, and verify that both give the same outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from osler.artifacts.encoder import EncoderWriter, describe_shape
from osler.artifacts.tokenizer import Tokenizer
from osler.artifacts.tokenizer_files import PublishedTokenizer, read_tokenizer, sample_texts
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.console import list_text
from osler.core.errors import ArtifactError, InputError, RecipeError
from osler.core.files import fingerprint, remove_tree, sha256
from osler.nn.checkpoints import FittedWeights, WeightFiles, Weights, fit
from osler.nn.encoder import load_encoder, max_length_of
from osler.nn.folders import quiet, read_published_config, saving, without_pooler
from osler.nn.packing import pack
from osler.report.tables import Cell, Table, markdown_table
from osler.stages.pretrain.config import ConvertModelRecipe

_SCRATCH = ".reading"
_TOLERANCE = 1e-4  # osler's attention sums in a different order from transformers'


@dataclass(frozen=True)
class PublishedModel:
    """A published model folder, read and checked except for the weights."""

    folder: Path
    config: Any
    config_file: Path
    tokenizer: PublishedTokenizer
    weights: WeightFiles

    @classmethod
    def open(cls, recipe: ConvertModelRecipe) -> PublishedModel:
        folder = recipe.folder.expanduser()
        if not folder.is_dir():
            raise InputError(
                "a model is a folder, this is a file" if folder.exists() else "no such folder",
                where=folder,
                fix="Give the folder of a published model",
            )
        weights = WeightFiles.find(folder)
        if weights.pickled and not recipe.allow_pickle:
            raise RecipeError(
                f"the weights are a pickle ({weights.files[0].name}), a kind of file that can hold code",
                where=folder,
                fix="If you trust where it comes from, add --allow-pickle: it is read in a process of its own that accepts "
                "tensors and runs no code",
            )
        config, config_file = read_published_config(folder)
        tokenizer = read_tokenizer(folder, config.model_type, recipe.cased)
        if tokenizer.size != config.vocab_size:
            raise InputError(
                f"the tokenizer has {tokenizer.size:,} entries, the model {config.vocab_size:,}",
                where=folder,
                fix="Check that vocabulary and weights belong together",
            )
        if tokenizer.pad_id != config.pad_token_id:
            raise InputError(
                f"the tokenizer pads with entry {tokenizer.pad_id}, the model with {config.pad_token_id}",
                where=folder,
                fix=f"Check that the vocabulary belongs to the model, or correct pad_token_id in {config_file.name}",
            )
        return cls(folder, config, config_file, tokenizer, weights)

    @property
    def files(self) -> tuple[Path, ...]:
        return (*self.weights.all, self.config_file, *self.tokenizer.files)

    @property
    def parents(self) -> dict[str, str]:
        return {
            "weights": fingerprint(self.weights.all),
            "config": sha256(self.config_file),
            "tokenizer": fingerprint(self.tokenizer.files),
        }


def plan(recipe: ConvertModelRecipe, out: Path) -> list[str]:
    """Describe what `run` will do. Raises its errors if the folder is incomplete."""
    model = PublishedModel.open(recipe)
    names = ", ".join(path.name for path in model.weights.files[:3]) + (", …" if len(model.weights.files) > 3 else "")
    how = "in a process of its own, without running code" if model.weights.pickled else "as safetensors"
    return [
        f"read {names} ({model.weights.size / 1e6:,.0f} MB) {how}",
        describe_shape(model.config),
        f"tokenizer: {model.tokenizer.size:,} entries, {model.tokenizer.casing} ({model.tokenizer.reason})",
        "compare the result with the original: hidden states, heads and sub-words must be the same",
        f"write the encoder to {out}",
    ]


def run(recipe: ConvertModelRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Convert the model. Nothing is left at `out` unless the result is verified."""
    model = PublishedModel.open(recipe)
    build = partial(_build, model)
    return produce(out, kind="encoder", recipe=recipe, parents=model.parents, build=build, force=force)


def _build(model: PublishedModel, work: Workspace) -> None:
    scratch = work.path / _SCRATCH
    try:
        scratch.mkdir(exist_ok=True)
        original = model.weights.read(scratch)
        fitted = fit(original, model.config, model.folder)
        _write(model, fitted, work.path)
        _verify(model, original, fitted, work.path)
        remove_tree(scratch)
    except BaseException:
        remove_tree(work.path)
        raise
    work.counts.update(
        parameters=sum(value.numel() for value in fitted.weights.values()),
        vocabulary=model.tokenizer.size,
        renamed=len(fitted.renamed),
        dropped=len(fitted.dropped),
    )
    EncoderWriter(work.path).write_conversion(_card(model, fitted), _record(model, fitted))


def _write(model: PublishedModel, fitted: FittedWeights, folder: Path) -> None:
    from safetensors.torch import save_file

    config, tokenizer = model.config, model.tokenizer
    config.architectures = [fitted.stock.__name__]
    with saving(folder), quiet():
        save_file(fitted.weights, folder / "model.safetensors", metadata={"format": "pt"})
        config.save_pretrained(folder)
    Tokenizer.write(
        folder,
        tokenizer.tokenizer,
        max_length_of(config),
        roles=tokenizer.roles,
        segments=getattr(config, "type_vocab_size", 0) > 1,
        settings={"do_lower_case": tokenizer.casing == "uncased"},
    )


def _verify(model: PublishedModel, original: Weights, fitted: FittedWeights, folder: Path) -> None:
    """Compare the written folder with the original weights in stock models, and both copies of the tokenizer."""
    from transformers import AutoModel

    config, ids = model.config, _sample_ids(model.config)
    # transformers handles old names itself, but not TensorFlow names.
    given = fitted.weights
    if not fitted.tensorflow:
        given = {name.removeprefix("module."): value for name, value in original.items() if name not in fitted.dropped}
    auto: Any = AutoModel
    base = auto._model_mapping[type(config)]
    pooler = {} if "pooler" in fitted.parts else without_pooler(auto, config)
    expected = _outputs(base, None, ids, config=config, state_dict=given, **pooler)
    same = _equal(expected, _outputs(base, folder, ids, **pooler))
    if fitted.stock is not base:
        heads = _outputs(fitted.stock, None, ids, config=config, state_dict=given)
        same = same and _equal(heads, _outputs(fitted.stock, folder, ids))
    if not same:
        raise _unequal("the outputs of the converted model", model.folder)
    with torch.inference_mode():
        ours = load_encoder(folder)(pack([row.numpy() for row in ids], pad_id=config.pad_token_id or 0))
    hidden = expected[0].flatten(0, 1)
    if not torch.allclose(ours, hidden, rtol=0.0, atol=_TOLERANCE * max(1.0, float(hidden.abs().max()))):
        raise _unequal("the hidden states in osler", model.folder)
    _verify_tokenizer(folder, model.folder)


def _sample_ids(config: Any) -> torch.Tensor:
    """Return two sequences of ids spread over the vocabulary, without padding."""
    length = min(24, max_length_of(config))
    ids = torch.arange(2 * length) * 7919 % config.vocab_size
    ids[ids == config.pad_token_id] = (config.pad_token_id + 1) % config.vocab_size
    rows: torch.Tensor = ids.reshape(2, length)
    return rows


def _outputs(kind: Any, source: Path | None, ids: torch.Tensor, **given: Any) -> tuple[torch.Tensor, ...]:
    """Return all float32 outputs of a stock model. `given` holds its weights if there is no folder."""
    with quiet(), torch.inference_mode():
        model = kind.from_pretrained(source, dtype=torch.float32, **given).eval()
        return tuple(value for value in model(input_ids=ids).to_tuple() if isinstance(value, torch.Tensor))


def _equal(first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> bool:
    return len(first) == len(second) and all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def _verify_tokenizer(folder: Path, source: Path) -> None:
    from transformers import AutoTokenizer

    auto: Any = AutoTokenizer
    ours = [Tokenizer.open(folder).tokenizer.encode(text).ids for text in sample_texts()]
    with quiet():
        stock = auto.from_pretrained(folder)
        if [stock(text)["input_ids"] for text in sample_texts()] != ours:
            raise _unequal("the sub-words of the converted tokenizer in transformers", source)


def _unequal(what: str, where: Path) -> ArtifactError:
    return ArtifactError(
        f"not converted: {what} differ from the original",
        where=where,
        fix="Please report it with the name of the model",
    )


def _record(model: PublishedModel, fitted: FittedWeights) -> dict[str, Any]:
    return {
        "sources": {path.name: sha256(path) for path in model.files},
        "casing": model.tokenizer.casing,
        "casing_from": model.tokenizer.reason,
        "parts": list(fitted.parts),
        "transposed": fitted.transposed,
        "renamed": fitted.renamed,
        "dropped": fitted.dropped,
    }


def _card(model: PublishedModel, fitted: FittedWeights) -> str:
    """Render the README.md of the encoder folder."""
    sources: list[list[Cell]] = [[path.name, path.stat().st_size, sha256(path)] for path in model.files]
    example = next(iter(fitted.renamed.items()), None)
    renamed = f"{len(fitted.renamed):,} of {len(fitted.weights):,} weights"
    if example:
        renamed += f", such as `{example[0]}` to `{example[1]}`"
    if fitted.transposed:
        renamed += "; matrices transposed from TensorFlow's order to PyTorch's"
    reasons: dict[str, list[str]] = {}
    for name, reason in fitted.dropped.items():
        reasons.setdefault(reason, []).append(name)
    dropped = [f"- {reason}: {list_text([f'`{name}`' for name in names], 5)}" for reason, names in reasons.items()]
    heads = [part for part in ("pooler", "language-model head") if part not in fitted.parts]
    use = "AutoModelForMaskedLM" if "language-model head" in fitted.parts else "AutoModel"
    return f"""---
library_name: transformers
tags: [biomedical, clinical, osler]
---

# Encoder converted with osler

A published checkpoint, `{model.folder.name}`, with its own weights and vocabulary in today's files. Nothing was trained.
The licence and the card of its publisher apply.

| | |
|---|---|
| architecture | {describe_shape(model.config)} |
| parts | {", ".join(fitted.parts)}{f" (no {' and no '.join(heads)})" if heads else ""} |
| vocabulary | {model.tokenizer.size:,} entries |
| casing | {model.tokenizer.casing}, {model.tokenizer.reason} |
| renamed | {renamed} |

## Read from

{markdown_table(Table(["file", "bytes", "SHA-256"], sources))}
## Dropped

{chr(10).join(dropped) or "Nothing."}

`conversion.json` lists every renamed and dropped weight.

## Verified

The original weights in a stock transformers model and this folder gave the same numbers, bit for bit, and osler's encoder
the same to {_TOLERANCE:g}. The tokenizers of transformers and osler gave the same sub-words.

## Use

```python
from transformers import AutoTokenizer, {use}

model, tokenizer = {use}.from_pretrained("FOLDER"), AutoTokenizer.from_pretrained("FOLDER")
```

To train it on tasks, use `osler finetune TASK --model FOLDER`.
"""
