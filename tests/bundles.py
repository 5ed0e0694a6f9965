"""Bundles with random weights: an English and a Spanish tagger, two heads for pairs of texts, two that de-identify, and
two for attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from encoders import preset_encoder

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleHead, BundleSpec
from osler.artifacts.tokenizer import Tokenizer
from osler.core.artifact import Workspace, produce
from osler.core.config import Recipe
from osler.nn.multihead import MultiHeadModel
from osler.tasks.card import TaskCard

HEADS: dict[str, dict[str, Any]] = {
    "drugs": {"kind": "tagging", "labels": ("DRUG", "DOSE")},
    "farmacos": {"kind": "tagging", "labels": ("FARMACO",), "language": "es"},
    "entailment": {"kind": "classification", "record": "pair", "labels": ("yes", "no")},
    "similarity": {"kind": "regression", "record": "pair", "symmetric": True, "labels": ()},
}
DEID_HEADS: dict[str, dict[str, Any]] = {
    "deid": {"kind": "tagging", "labels": ("NAME", "DATE"), "phi": "clinic"},
    "deid-es": {"kind": "tagging", "labels": ("NOMBRE",), "phi": "meddocan", "language": "es"},
}


ATTRIBUTE_HEADS: dict[str, dict[str, Any]] = {
    "negation": {"kind": "attributes", "labels": ("negated",)},
    "negacion": {"kind": "attributes", "labels": ("negado",), "language": "es"},
}
_KINDS = HEADS | DEID_HEADS | ATTRIBUTE_HEADS


class Made(Recipe):
    """Names of the heads."""

    heads: tuple[str, ...]


def make_bundle(out: Path, tokenizer: Path, names: tuple[str, ...]) -> Path:
    heads = {}
    for name in names:
        kind = _KINDS[name]["kind"]
        metric = {"tagging": "f1", "attributes": "f1", "classification": "accuracy", "regression": "pearson"}[kind]
        values = {
            "name": name,
            "title": name,
            "language": "en",
            "protocol": "plain",
            "protocols": {"plain": {"metric": metric}},
            "source": {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}},
        }
        heads[name] = BundleHead(card=TaskCard.model_validate(values | _KINDS[name]), protocol="plain")
    spec = BundleSpec(max_length=64, overlap=8, heads=heads)

    def build(work: Workspace) -> None:
        model = MultiHeadModel(preset_encoder("tiny", vocab_size=400, pad_token_id=1, seed=0, max_length=64))
        bundle = Bundle.of(model, Tokenizer.open(tokenizer), spec)
        for name, builder in bundle.builders.items():
            model.add_head(name, builder.head, len(builder.outputs), seed=0, labels=builder.outputs)
        bundle.save(work.path, tokenizer_from=tokenizer)

    return produce(out, kind="bundle", recipe=Made(heads=names), parents={}, build=build).path
