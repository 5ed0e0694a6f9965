"""The Python front door: `osler.load` for annotation, and one function per command.

Every function takes a recipe (a shipped name such as "demo/pretrain", a path, or a recipe object), recipe fields as keyword
arguments on top of it, and returns the typed artifact it made. Sections of a recipe are dictionaries:

    osler.finetune(model="encoder", tasks=["tasks/bc5cdr-chem"], out="bundle", epochs=3, train={"lr": 3e-5})

A finished artifact at `out` is reused when recipe and inputs are the same; `force=True` replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from osler.core.config import Recipe, find_recipe, merged, read_toml, validate

if TYPE_CHECKING:
    from osler.artifacts.bundle import Bundle
    from osler.artifacts.corpus import Corpus
    from osler.artifacts.encoder import Encoder
    from osler.artifacts.evaluation import Evaluation
    from osler.artifacts.task_folder import TaskFolder
    from osler.artifacts.tokenizer import Tokenizer
    from osler.core.artifact import Artifact
    from osler.stages.prepare.check import CheckReport
    from osler.stages.prepare.convert import Conversion
    from osler.stages.vocab.figures import TokenizerComparison
    from osler.tasks.card import TaskCard
    from osler.text.document import Document

R = TypeVar("R", bound=Recipe)
AnyPath = str | Path
AnyRecipe = str | Path | Recipe | None


class Annotator:
    """A loaded bundle: text in, documents with spans, relations, labels and scores out."""

    def __init__(self, bundle: Bundle, heads: Sequence[str] = (), language: str | None = None) -> None:
        self.bundle = bundle
        self.heads = bundle.spec.document_heads(heads, language)

    def __call__(self, text: str) -> Document:
        """Annotate one text."""
        return next(self.pipe([text]))

    def pipe(self, texts: Iterable[str | Document], batch_size: int = 64) -> Iterator[Document]:
        """Annotate many texts in input order, one batch at a time, so that memory does not grow with their number."""
        from osler.text.document import Document

        numbered = (
            text if isinstance(text, Document) else Document(str(number), text)
            for number, text in enumerate(texts, start=1)
        )
        while batch := list(islice(numbered, batch_size)):
            yield from self.bundle.annotate(batch, self.heads)


def load(bundle: AnyPath, *, device: str = "auto", heads: Sequence[str] = (), language: str | None = None) -> Annotator:
    """Load a bundle for annotation: a folder, or a hub id where there is a network.

    `heads` and `language` choose among the heads that read documents. By default all of them are used.
    """
    from osler.artifacts.bundle import Bundle

    return Annotator(Bundle.load(bundle, device=device), heads, language)


def corpus(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Corpus:
    """Build a clean corpus from raw files, as `osler corpus build` does. Settings: `CorpusRecipe`."""
    from osler.stages.corpus.config import CorpusRecipe
    from osler.stages.corpus.run import run

    return run(_resolve(CorpusRecipe, recipe, settings), Path(out), force=force)


def vocab(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Tokenizer:
    """Train a tokenizer on a corpus, as `osler vocab train` does. Settings: `VocabRecipe`."""
    from osler.artifacts.tokenizer import Tokenizer
    from osler.stages.vocab.config import VocabRecipe
    from osler.stages.vocab.run import run

    return Tokenizer.open(run(_resolve(VocabRecipe, recipe, settings), Path(out), force=force).path)


def vocab_compare(recipe: AnyRecipe = None, **settings: Any) -> TokenizerComparison:
    """Compare tokenizers on a corpus, as `osler vocab compare` does. Settings: `CompareRecipe`."""
    from osler.stages.vocab.compare import measure
    from osler.stages.vocab.config import CompareRecipe

    return measure(_resolve(CompareRecipe, recipe, settings))


def pretrain(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Encoder:
    """Pretrain an encoder with masked language modelling, as `osler pretrain` does. Settings: `PretrainRecipe`."""
    from osler.artifacts.encoder import Encoder
    from osler.stages.pretrain.config import PretrainRecipe
    from osler.stages.pretrain.run import run

    return Encoder.open(run(_resolve(PretrainRecipe, recipe, settings), Path(out), force=force).path)


def distill(
    recipe: AnyRecipe = None, *, teacher: AnyPath | None = None, out: AnyPath, force: bool = False, **settings: Any
) -> Encoder:
    """Distil a teacher into a smaller encoder, as `osler distill` does: `pretrain` with a teacher. Settings: `PretrainRecipe`."""
    from osler.core.errors import RecipeError

    if teacher is not None:
        settings = merged(settings, {"distill": {"teacher": teacher}})
    values = merged(_values(recipe), settings)
    if "teacher" not in values.get("distill", {}):
        raise RecipeError("no teacher is named", fix="Give teacher=FOLDER, or set distill.teacher in the recipe")
    settings["tokenizer"] = values.get("tokenizer") or teacher
    return pretrain(recipe, out=out, force=force, **settings)


def tasks_list() -> list[TaskCard]:
    """The cards of all tasks, as `osler tasks list` shows them."""
    from osler.tasks.catalogue import all_cards

    return list(all_cards())


def tasks_info(task: AnyPath) -> TaskCard:
    """The card of one task by name or path, as `osler tasks info` shows it."""
    from osler.tasks.catalogue import load_card

    return load_card(str(task))


def tasks_new(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> TaskCard:
    """Write a card for your own data, as `osler tasks new` does. Settings: `DiscoverRecipe`."""
    from osler.core.files import write_atomic
    from osler.stages.prepare.config import DiscoverRecipe
    from osler.stages.prepare.discover import check_card_path, discover

    check_card_path(Path(out), force=force)
    found = discover(_resolve(DiscoverRecipe, recipe, settings))
    write_atomic(Path(out), found.text)
    return found.card


def tasks_prepare(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> TaskFolder:
    """Prepare a task from its official files, as `osler tasks prepare` does. Settings: `PrepareRecipe`."""
    from osler.artifacts.task_folder import TaskFolder
    from osler.stages.prepare.config import PrepareRecipe
    from osler.stages.prepare.run import run

    return TaskFolder.open(run(_resolve(PrepareRecipe, recipe, settings), Path(out), force=force).path)


def tasks_check(folders: Iterable[AnyPath]) -> CheckReport:
    """Check prepared tasks, as `osler tasks check` does: counts, offsets, and records shared between splits and tasks."""
    from osler.artifacts.task_folder import TaskFolder
    from osler.stages.prepare.check import check

    return check([TaskFolder.open(Path(folder)) for folder in folders])


def tasks_synthesize(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Write a synthetic distribution in a task's official format, as `osler tasks synthesize` does. Settings: `SynthesizeRecipe`."""
    from osler.clinic.synthesize import SynthesizeRecipe, run

    return run(_resolve(SynthesizeRecipe, recipe, settings), Path(out), force=force)


def finetune(
    recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, data: AnyPath | None = None, **settings: Any
) -> Bundle:
    """Fine-tune one encoder on one or more tasks, as `osler finetune` does. Settings: `FinetuneRecipe`.

    Tasks are folders or names. A task that is not prepared yet is prepared from the official files in `data`.
    """
    from osler.artifacts.bundle import Bundle
    from osler.stages.finetune.config import FinetuneRecipe
    from osler.stages.finetune.run import run
    from osler.stages.prepare.run import task_folders

    if "tasks" in settings:
        settings["tasks"] = task_folders(settings["tasks"], Path(data) if data else None)
    return Bundle.load(run(_resolve(FinetuneRecipe, recipe, settings), Path(out), force=force).path)


def evaluate(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Evaluation:
    """Score a bundle on a split of a task, as `osler evaluate` does. Settings: `EvaluateRecipe`."""
    from osler.artifacts.evaluation import Evaluation
    from osler.stages.evaluate.config import EvaluateRecipe
    from osler.stages.evaluate.run import run
    from osler.stages.prepare.run import task_folders

    if "task" in settings:
        [settings["task"]] = task_folders([settings["task"]])
    return Evaluation.open(run(_resolve(EvaluateRecipe, recipe, settings), Path(out), force=force).path)


def study(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Run a study, or only what is missing of it, as `osler study run` does. Settings: `StudyRecipe`."""
    from osler.stages.study.recipe import StudyRecipe
    from osler.stages.study.run import run

    return run(_resolve(StudyRecipe, recipe, settings), Path(out), force=force)


def study_pairwise(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Find out which task helps which, as `osler study pairwise` does. Settings: `StudyRecipe`."""
    from osler.stages.study.recipe import StudyRecipe
    from osler.stages.study.run import run

    return run(_resolve(StudyRecipe, recipe, settings).in_pairs(), Path(out), force=force)


def annotate(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Annotate files, as `osler annotate --out` does. Settings: `AnnotateRecipe`. For texts in memory use `load`."""
    from osler.stages.serve.annotate import run
    from osler.stages.serve.config import AnnotateRecipe

    return run(_resolve(AnnotateRecipe, recipe, settings), Path(out), force=force)


def export(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Export one head as a stock Hugging Face model, as `osler export` does. Settings: `ExportRecipe`."""
    from osler.stages.serve.config import ExportRecipe
    from osler.stages.serve.export import run

    return run(_resolve(ExportRecipe, recipe, settings), Path(out), force=force)


def convert(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Conversion:
    """Convert annotation files to another format, as `osler convert` does. Settings: `ConvertRecipe`."""
    from osler.stages.prepare.config import ConvertRecipe
    from osler.stages.prepare.convert import run

    return run(_resolve(ConvertRecipe, recipe, settings), Path(out), force=force)


def _resolve(kind: type[R], recipe: AnyRecipe, settings: Mapping[str, Any]) -> R:
    """The recipe behind a call, validated as the command line validates it. A setting that is None is not given."""
    given = {name: value for name, value in settings.items() if value is not None}
    where = str(recipe) if isinstance(recipe, str | Path) else None
    names = {name: f"{name}=" for name in given}
    return validate(kind, merged(_values(recipe), given), where=where, given=names, ask=lambda key: f"{key}=")


def _values(recipe: AnyRecipe) -> dict[str, Any]:
    """The values that a recipe sets itself."""
    if isinstance(recipe, Recipe):
        return recipe.model_dump(exclude_unset=True)
    return read_toml(find_recipe(recipe)) if recipe else {}
