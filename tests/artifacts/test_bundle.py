"""A bundle's folder: what can be read of it without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from osler.artifacts.bundle import Bundle
from osler.artifacts.bundle_spec import BundleHead, BundleSpec, TrainedTask
from osler.core.errors import ArtifactError, RecipeError
from osler.tasks.card import TaskCard
from osler.text.language import LanguageGuess


def card(name: str, **more: object) -> TaskCard:
    values = {"name": name, "title": name, "kind": "tagging", "language": "en", "labels": ("DRUG",)}
    source = {"reader": "files", "format": "jsonl", "splits": {"test": {"files": ["x"]}}}
    protocols = {"strict": {"metric": "f1"}}
    return TaskCard.model_validate(values | {"source": source, "protocol": "strict", "protocols": protocols} | more)


SPEC = BundleSpec(
    max_length=64,
    overlap=8,
    heads={
        "drugs": BundleHead(card=card("drugs"), protocol="strict"),
        "joint": BundleHead(
            card=card("joint", language="es"), protocol="strict", members={"a": "strict", "b": "token"}
        ),
        "pairs": BundleHead(card=card("pairs", kind="classification", record="pair"), protocol="strict"),
    },
)


def test_the_light_part_does_not_import_torch():
    code = "import osler.artifacts.bundle, sys; assert not {'torch', 'transformers'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_spec_is_read_back_and_lists_its_tasks(tmp_path):
    SPEC.save(tmp_path)
    assert BundleSpec.load(str(tmp_path)) == SPEC
    assert SPEC.tasks == {
        "drugs": TrainedTask("drugs", "strict"),
        "a": TrainedTask("joint", "strict"),
        "b": TrainedTask("joint", "token"),
        "pairs": TrainedTask("pairs", "strict"),
    }


def test_only_heads_that_read_documents_annotate():
    assert SPEC.document_heads() == ["drugs", "joint"]
    assert SPEC.document_heads(language="es") == ["joint"]
    with pytest.raises(RecipeError, match="pairs can only read pairs of texts"):
        SPEC.document_heads(["pairs"])
    assert SPEC.pair_heads() == ["pairs"]
    with pytest.raises(RecipeError, match="drugs and joint can only read single texts"):
        SPEC.pair_heads(["drugs", "joint"])
    with pytest.raises(RecipeError, match="Did you mean 'drugs'"):
        SPEC.document_heads(["drug"])


def test_heads_of_several_languages_and_of_none_read_every_language():
    heads = {
        "drugs": card("drugs"),
        "farmacos": card("farmacos", language="es"),
        "joint": card("joint", language="mul"),
        "any": card("any", language=""),
        "negation": card("negation", language="fr", kind="attributes", labels=("negated",)),
        "pairs": card("pairs", kind="classification", record="pair", language="de"),
    }
    spec = BundleSpec(
        max_length=64, overlap=8, heads={n: BundleHead(card=c, protocol="strict") for n, c in heads.items()}
    )
    assert spec.document_heads(language="es") == ["farmacos", "joint", "any"]
    assert spec.document_heads(language="all") == spec.document_heads() == [*heads][:5]
    assert spec.languages == {"en", "es"}  # a head for attributes alone finds nothing
    english = LanguageGuess.of(["The test was normal and the patient was at home. " * 3])
    mismatch = spec.language_mismatch(english, [*heads])
    assert mismatch is not None
    assert "farmacos, negation and pairs were trained on Spanish and French and de." in mismatch.problem


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(ArtifactError, match=r"bundle\.json is missing"):
        BundleSpec.load(tmp_path)
    (tmp_path / "bundle.json").write_text('{"max_length": 64}')
    with pytest.raises(ArtifactError, match="damaged: overlap"):
        BundleSpec.load(str(tmp_path))
    assert Bundle.read_history(tmp_path) == []
    with pytest.raises(ArtifactError, match=r"manifest\.json is missing"):
        Bundle.read_counts(tmp_path)
