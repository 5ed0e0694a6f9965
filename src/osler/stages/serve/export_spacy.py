"""Export a bundle as a spaCy pipeline: a folder that `spacy.load` opens, with the bundle inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from osler.artifacts.bundle_spec import BundleSpec
from osler.core.artifact import Artifact, Workspace, produce
from osler.core.errors import RecipeError
from osler.core.extras import require
from osler.core.files import write_atomic
from osler.core.models import bundle_title
from osler.stages.serve.config import AnnotateOptions, ExportRecipe
from osler.stages.serve.engine import AnnotationEngine
from osler.stages.serve.verify import SAMPLE_TEXTS
from osler.text.document import Document


def plan(recipe: ExportRecipe, out: Path) -> list[str]:
    """Describe what `run` will do."""
    _, heads = _open(recipe)
    return [
        f"export {', '.join(heads)} of {bundle_title(recipe.bundle)} as a spaCy pipeline",
        "compare its annotations with osler's on built-in texts",
        f"write it to {out}",
    ]


def run(recipe: ExportRecipe, out: Path, *, force: bool = False) -> Artifact:
    """Make the exported folder."""
    spec, heads = _open(recipe)
    artifact = Artifact.open(recipe.bundle, kind="bundle")
    language = _language(spec, heads)

    def build(work: Workspace) -> None:
        import spacy

        from osler.stages.serve import spacy_component

        nlp = spacy.blank(language)
        chosen = [recipe.head] if recipe.head else []
        component: Any = nlp.add_pipe(spacy_component.KEY, config={"heads": chosen})
        component.use(recipe.bundle)
        nlp.meta["name"] = "osler"
        nlp.meta["description"] = f"Heads of an osler bundle: {', '.join(heads)}"
        nlp.to_disk(work.path)
        count = _verify(work.path, recipe.bundle, AnnotateOptions(heads=tuple(chosen)))
        write_atomic(work.path / "README.md", _card(heads, count))
        work.counts.update(heads=len(heads))

    return produce(out, kind="spacy", recipe=recipe, parents={"bundle": artifact}, build=build, force=force)


def _open(recipe: ExportRecipe) -> tuple[BundleSpec, list[str]]:
    """Return the bundle's spec and its heads for documents. Heads for pairs have no place in a spaCy pipeline."""
    Artifact.open(recipe.bundle, kind="bundle")
    require("spacy", "spacy")
    spec = BundleSpec.load(recipe.bundle)
    return spec, spec.document_heads([recipe.head] if recipe.head else ())


def _language(spec: BundleSpec, heads: list[str]) -> str:
    """Language of spaCy's tokenizer: that of the heads, or xx if there are several."""
    found = {spec.heads[name].card.language for name in heads}
    return found.pop() if len(found) == 1 and found <= {"en", "es", "fr"} else "xx"


def _verify(folder: Path, bundle: Path, options: AnnotateOptions) -> int:
    """Compare the annotations of the spaCy pipeline with those of the bundle, and return how many are equal."""
    import spacy

    expected = AnnotationEngine.load(bundle, options, "cpu").annotate(
        [Document(str(number), text) for number, text in enumerate(SAMPLE_TEXTS)]
    )
    nlp = spacy.load(folder, config={"components": {"osler": {"device": "cpu"}}})
    count = 0
    for doc, record in zip(nlp.pipe(SAMPLE_TEXTS), expected, strict=True):
        assert isinstance(record, Document)
        wanted, found = record.to_dict(), doc._.osler
        if any(found[name] != wanted[name] for name in found) or len(doc.spans["osler"]) != len(record.spans):
            raise RecipeError(
                "the spaCy pipeline does not give what the bundle gives", where=bundle, fix="Annotate with osler"
            )
        count += len(record.spans) + len(record.relations) + len(record.labels)
    return count


def _card(heads: list[str], count: int) -> str:
    return f"""# An osler bundle as a spaCy pipeline

Heads: {", ".join(heads)}. It needs `pip install "osler[spacy]"`, and `osler[train]` unless the bundle in it is an ONNX bundle.

```python
import spacy

nlp = spacy.load("THIS_FOLDER")
doc = nlp("Text")
for span in doc.ents:
    print(span.text, span.label_, span._.score, span._.attributes)
```

`doc.ents` has the best-scored of overlapping mentions and `doc.spans["osler"]` all of them. spaCy's spans consist of whole spaCy tokens;
`span._.osler` has the exact characters of a mention. `doc.cats` has labels of the whole text, and `doc._.relations` the relations.

Compared with the bundle on built-in texts when it was made: all {count:,} annotations are the same.
"""
