"""The Python API: `osler.load` for annotation, and one function per command.

Most functions take a recipe (a shipped name such as "demo/pretrain", a path, or a recipe object) and return the artifact they
made. Keyword arguments override fields of the recipe; a section is a dictionary:

    osler.finetune(model="encoder", tasks=["tasks/bc5cdr-chem"], out="bundle", epochs=3, train={"lr": 3e-5})

If `out` already holds an artifact made from the same recipe and inputs, it is reused; `force=True` replaces it.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from osler.core.config import Recipe, find_recipe, merged, read_toml, validate
from osler.core.errors import OslerError, RecipeError, alternatives
from osler.core.extras import explain_missing

if TYPE_CHECKING:
    from osler.artifacts.bundle import Bundle
    from osler.artifacts.corpus import Corpus
    from osler.artifacts.deidentified import Deidentified
    from osler.artifacts.encoder import Encoder
    from osler.artifacts.evaluation import Evaluation
    from osler.artifacts.task_folder import TaskFolder
    from osler.artifacts.tokenizer import Tokenizer
    from osler.core.artifact import Artifact
    from osler.stages.prepare.check import CheckReport
    from osler.stages.prepare.convert import Conversion
    from osler.stages.serve.annotator import Annotator
    from osler.stages.serve.pairs import PairInference, PairSimilarity
    from osler.stages.vocab.figures import TokenizerComparison
    from osler.tasks.card import TaskCard
    from osler.text.document import TextPair
    from osler.train.config import Precision

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=Recipe)
AnyPath = str | Path
AnyRecipe = str | Path | Recipe | None


def _public(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a public function so that its errors name Python arguments instead of CLI options, and the extra to install."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        _check_arguments(signature, function.__name__, arguments, named)
        try:
            return function(*arguments, **named)
        except OslerError as error:
            # No chaining: the message is complete, and the original error may quote a document.
            raise _in_python(error) from None
        except ModuleNotFoundError as error:
            missing = explain_missing(error)
            if missing is None:
                raise
            raise missing from None

    return call


def _check_arguments(
    signature: inspect.Signature, name: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> None:
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        known = signature.parameters
        open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
        unknown = None if open_ended else next((key for key in named if key not in known), None)
        if unknown is None:
            raise RecipeError(f"osler.{name}: {error}", fix=f"See help(osler.{name})") from None
        raise RecipeError(f"osler.{name} has no argument {unknown!r}", fix=alternatives(unknown, known)) from None


_OPTION = re.compile(r"--(?:set )?([a-z][a-z-]*)(?: (latin-1|utf-16|[A-Z]{2,}|en|es|fr)\b)?")

_ARGUMENTS = {
    "force": "force=True",
    "text-column": "text_columns",
    "cased": "cased=True",
    "uncased": "cased=False",
    "allow-pickle": "allow_pickle=True",
}


def _in_python(error: OslerError) -> OslerError:
    """Return the error with Python arguments in place of command-line options: force=True for --force."""

    def argument(found: re.Match[str]) -> str:
        name = _ARGUMENTS.get(found[1], found[1].replace("-", "_"))
        return f"{name}={found[2]!r}" if found[2] else name

    problem, fix = (_OPTION.sub(argument, part) if part else part for part in (error.problem, error.fix))
    return type(error)(problem or "", where=error.where, fix=fix)


@_public
def load(
    bundle: AnyPath | None = None,
    *,
    device: str = "auto",
    precision: Precision = "auto",
    heads: Sequence[str] = (),
    language: str | None = None,
    min_score: float | None = None,
    thresholds: Mapping[str, float] | None = None,
    target_recall: float | None = None,
    attributes: str = "both",
) -> Annotator:
    """Load a bundle for annotation from a folder, an installed model (by name) or a hub id (needs network access).

    Without a bundle, the only installed model is used. The encoder runs in the given `precision`: "fp32", "bf16", or "auto" (bf16 on
    a GPU, fp32 on a CPU).

    `heads` and `language` select heads; `language="all"` selects those of every language. By default, each text is read by the heads
    for its own language, the one that at least two in three of its common words belong to, or by all heads if the bundle has none
    for it.

    `min_score` drops entities and relations with a lower score, `thresholds` does so per label. `target_recall` sets the operating
    point that reached this recall on the dev split; `costs` of the returned annotator lists what it costs in precision there.

    `attributes` says how to detect that an entity is negated, possible, hypothetical, historical or someone else's: with "rules",
    with a "head", with "both", or not at all ("off").
    """
    from osler.artifacts.bundle import Bundle
    from osler.core.models import default_model, find_model
    from osler.stages.serve.annotator import Annotator
    from osler.stages.serve.config import AnnotateOptions

    asked = {"min_score": min_score, "thresholds": thresholds, "target_recall": target_recall, "attributes": attributes}
    options = _resolve(AnnotateOptions, None, asked)
    folder = default_model() if bundle is None else find_model(str(bundle)) or bundle
    return Annotator(Bundle.load(folder, device, precision), heads, language, options)


@_public
def corpus(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Corpus:
    """Build a clean corpus from raw files, as `osler corpus build` does. Settings: `CorpusRecipe`."""
    from osler.stages.corpus.config import CorpusRecipe
    from osler.stages.corpus.run import run

    return run(_resolve(CorpusRecipe, recipe, settings), Path(out), force=force)


@_public
def vocab(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Tokenizer:
    """Train a tokenizer on a corpus, as `osler vocab train` does. Settings: `VocabRecipe`."""
    from osler.artifacts.tokenizer import Tokenizer
    from osler.stages.vocab.config import VocabRecipe
    from osler.stages.vocab.run import run

    return Tokenizer.open(run(_resolve(VocabRecipe, recipe, settings), Path(out), force=force).path)


@_public
def vocab_compare(recipe: AnyRecipe = None, **settings: Any) -> TokenizerComparison:
    """Compare tokenizers on a corpus, as `osler vocab compare` does. Settings: `CompareRecipe`."""
    from osler.stages.vocab.compare import measure
    from osler.stages.vocab.config import CompareRecipe

    return measure(_resolve(CompareRecipe, recipe, settings))


@_public
def pretrain(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Encoder:
    """Pretrain an encoder with masked language modelling, as `osler pretrain` does. Settings: `PretrainRecipe`."""
    from osler.artifacts.encoder import Encoder
    from osler.stages.pretrain.config import PretrainRecipe
    from osler.stages.pretrain.run import run

    return Encoder.open(run(_resolve(PretrainRecipe, recipe, settings), Path(out), force=force).path)


@_public
def distill(
    recipe: AnyRecipe = None, *, teacher: AnyPath | None = None, out: AnyPath, force: bool = False, **settings: Any
) -> Encoder:
    """Distil a teacher into a smaller encoder, as `osler distill` does. Settings: `PretrainRecipe`."""
    if teacher is not None:
        settings = merged(settings, {"distill": {"teacher": teacher}})
    values = merged(_values(recipe), settings)
    if "teacher" not in values.get("distill", {}):
        raise RecipeError("no teacher is named", fix="Give teacher=FOLDER, or set distill.teacher in the recipe")
    settings["tokenizer"] = values.get("tokenizer") or teacher
    return pretrain(recipe, out=out, force=force, **settings)


@_public
def tasks_list() -> list[TaskCard]:
    """Return the cards of all tasks, as `osler tasks list` shows them."""
    from osler.tasks.catalogue import all_cards

    return list(all_cards())


@_public
def tasks_info(task: AnyPath) -> TaskCard:
    """Return the card of a task, given its name or path, as `osler tasks info` shows it."""
    from osler.tasks.catalogue import load_card

    return load_card(str(task))


@_public
def tasks_new(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> TaskCard:
    """Write a card for your own data, as `osler tasks new` does. Settings: `DiscoverRecipe`."""
    from osler.core.files import write_atomic
    from osler.stages.prepare.config import DiscoverRecipe
    from osler.stages.prepare.discover import check_card_path, discover

    check_card_path(Path(out), force=force)
    found = discover(_resolve(DiscoverRecipe, recipe, settings))
    write_atomic(Path(out), found.text)
    return found.card


@_public
def tasks_prepare(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> TaskFolder:
    """Prepare a task from its official files, as `osler tasks prepare` does. Settings: `PrepareRecipe`."""
    from osler.artifacts.task_folder import TaskFolder
    from osler.stages.prepare.config import PrepareRecipe
    from osler.stages.prepare.run import run

    return TaskFolder.open(run(_resolve(PrepareRecipe, recipe, settings), Path(out), force=force).path)


@_public
def tasks_check(folders: Iterable[AnyPath]) -> CheckReport:
    """Check the counts and offsets of prepared tasks and look for shared records, as `osler tasks check` does."""
    from osler.artifacts.task_folder import TaskFolder
    from osler.stages.prepare.check import check

    return check([TaskFolder.open(Path(folder)) for folder in folders])


@_public
def tasks_synthesize(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Write a synthetic distribution in a task's official format, as `osler tasks synthesize` does. Settings: `SynthesizeRecipe`."""
    from osler.clinic.synthesize import SynthesizeRecipe, run

    return run(_resolve(SynthesizeRecipe, recipe, settings), Path(out), force=force)


@_public
def finetune(
    recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, data: AnyPath | None = None, **settings: Any
) -> Bundle:
    """Fine-tune one encoder on one or more tasks, as `osler finetune` does. Settings: `FinetuneRecipe`.

    `tasks` are folders or names. Tasks that are not prepared yet are prepared from the official files in `data`.
    """
    from osler.artifacts.bundle import Bundle
    from osler.stages.finetune.config import FinetuneRecipe
    from osler.stages.finetune.run import run
    from osler.stages.prepare.run import task_folders

    given = settings.get("tasks")
    tasks = [given] if isinstance(given, str | Path) else given
    if isinstance(tasks, list | tuple) and all(isinstance(task, str | Path) for task in tasks):
        settings["tasks"] = task_folders(tasks, Path(data) if data else None)
    return Bundle.load(run(_resolve(FinetuneRecipe, recipe, settings), Path(out), force=force).path)


@_public
def evaluate(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Evaluation:
    """Score a bundle on a split of a task, as `osler evaluate` does. Settings: `EvaluateRecipe`."""
    from osler.artifacts.evaluation import Evaluation
    from osler.stages.evaluate.config import EvaluateRecipe
    from osler.stages.evaluate.run import run
    from osler.stages.prepare.run import task_folders

    if isinstance(settings.get("task"), str | Path):
        [settings["task"]] = task_folders([settings["task"]])
    return Evaluation.open(run(_resolve(EvaluateRecipe, recipe, settings), Path(out), force=force).path)


@_public
def study(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Run a study, skipping the runs that are already done, as `osler study run` does. Settings: `StudyRecipe`."""
    from osler.stages.study.recipe import StudyRecipe
    from osler.stages.study.run import run

    return run(_resolve(StudyRecipe, recipe, settings), Path(out), force=force)


@_public
def study_pairwise(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Find out which task helps which, as `osler study pairwise` does. Settings: `StudyRecipe`."""
    from osler.stages.study.recipe import StudyRecipe
    from osler.stages.study.run import run

    return run(_resolve(StudyRecipe, recipe, settings).in_pairs(), Path(out), force=force)


@_public
def annotate(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Annotate files, as `osler annotate --out` does. Settings: `AnnotateRecipe`. For texts in memory, use `load`.

    Files and lines that cannot be read are skipped: `counts["skipped"]` is their number, `skipped.jsonl` says which and why.
    """
    from osler.stages.serve.annotate import run
    from osler.stages.serve.config import AnnotateRecipe

    artifact = run(_resolve(AnnotateRecipe, recipe, settings), Path(out), force=force)
    if count := artifact.counts.get("skipped"):
        warnings.warn(f"{count} inputs could not be read: see {artifact.path / 'skipped.jsonl'}", stacklevel=3)
    return artifact


@_public
def similar(
    pairs: Iterable[tuple[str, str] | TextPair],
    *,
    bundle: AnyPath,
    head: str | None = None,
    language: str | None = None,
    device: str = "auto",
) -> list[PairSimilarity]:
    """Score how similar the two texts of each pair are, as `osler similar` does. The order of the two texts does not matter.

    `head` or `language` selects one of the bundle's similarity heads. The bundle is loaded on every call; to load it once, use `load`.
    """
    from osler.stages.serve.annotator import pair_batches
    from osler.stages.serve.pairs import PairComparer

    comparer = PairComparer.load(bundle, "similar", head, language, device)
    return [answer for batch in pair_batches(pairs) for answer in comparer.similar(batch)]


@_public
def infer(
    pairs: Iterable[tuple[str, str] | TextPair],
    *,
    bundle: AnyPath,
    head: str | None = None,
    language: str | None = None,
    device: str = "auto",
) -> list[PairInference]:
    """Label the second text of each pair given the first (entailed, contradicted, …) and give its probability, as `osler infer` does.

    `head` or `language` selects one of the bundle's inference heads. The bundle is loaded on every call; to load it once, use `load`.
    """
    from osler.stages.serve.annotator import pair_batches
    from osler.stages.serve.pairs import PairComparer

    comparer = PairComparer.load(bundle, "infer", head, language, device)
    return [answer for batch in pair_batches(pairs) for answer in comparer.infer(batch)]


@_public
def deid(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Deidentified:
    """De-identify files, as `osler deid` does. Settings: `DeidRecipe`.

    Notes that cannot be processed are not written; `skipped()` of the result lists them with the reason.
    """
    from osler.artifacts.deidentified import Deidentified
    from osler.stages.serve.deid.config import DeidRecipe
    from osler.stages.serve.deid.run import run

    made = run(_resolve(DeidRecipe, recipe, settings), Path(out), force=force)
    if count := made.counts.get("skipped"):
        warnings.warn(f"{count} notes were not written: see {made.path / 'skipped.jsonl'}", stacklevel=3)
    return Deidentified(made.path, made.manifest, made.reused)


@_public
def deid_evaluate(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Measure de-identification on a task, as `osler deid evaluate` does. Settings: `DeidEvaluateRecipe`."""
    from osler.stages.prepare.run import task_folders
    from osler.stages.serve.deid.config import DeidEvaluateRecipe
    from osler.stages.serve.deid.evaluate import run

    if isinstance(settings.get("task"), str | Path):
        [settings["task"]] = task_folders([settings["task"]])
    return run(_resolve(DeidEvaluateRecipe, recipe, settings), Path(out), force=force)


@_public
def corrections(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> list[TaskFolder]:
    """Make tasks from notes corrected in the web page of `osler serve`, as `osler corrections` does. Settings: `CorrectionsRecipe`."""
    from osler.artifacts.task_folder import TaskFolder
    from osler.stages.serve.corrections import CorrectionsRecipe, run

    made = run(_resolve(CorrectionsRecipe, recipe, settings), Path(out), force=force)
    return [TaskFolder.open(artifact.path) for artifact in made]


@_public
def serve(recipe: AnyRecipe = None, **settings: Any) -> None:
    """Serve a bundle over HTTP and print its address. Blocks until SIGTERM or Ctrl-C. Settings: `ServeRecipe`."""
    from osler.stages.serve.server.run import run
    from osler.stages.serve.server.settings import ServeRecipe

    run(_resolve(ServeRecipe, recipe, settings), ready=functools.partial(print, flush=True))


@_public
def export(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Artifact:
    """Export a bundle to Hugging Face, ONNX or spaCy, as `osler export` does. Settings: `ExportRecipe`."""
    from osler.stages.serve.config import ExportRecipe
    from osler.stages.serve.export import run

    return run(_resolve(ExportRecipe, recipe, settings), Path(out), force=force)


@_public
def convert_model(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Encoder:
    """Convert a published checkpoint into an encoder, as `osler convert-model` does. Settings: `ConvertModelRecipe`."""
    from osler.artifacts.encoder import Encoder
    from osler.stages.pretrain.config import ConvertModelRecipe
    from osler.stages.pretrain.convert_model import run

    return Encoder.open(run(_resolve(ConvertModelRecipe, recipe, settings), Path(out), force=force).path)


@_public
def convert(recipe: AnyRecipe = None, *, out: AnyPath, force: bool = False, **settings: Any) -> Conversion:
    """Convert annotation files to another format, as `osler convert` does. Settings: `ConvertRecipe`."""
    from osler.stages.prepare.config import ConvertRecipe
    from osler.stages.prepare.convert import run

    return run(_resolve(ConvertRecipe, recipe, settings), Path(out), force=force)


def _resolve(kind: type[R], recipe: AnyRecipe, settings: Mapping[str, Any]) -> R:
    """Build and validate the recipe of a call. Settings that are None count as not given."""
    given = {name: value for name, value in settings.items() if value is not None}
    where = str(recipe) if isinstance(recipe, str | Path) else None
    names = {name: f"{name}=" for name in given}
    return validate(kind, merged(_values(recipe), given), where=where, given=names, ask=lambda key: f"{key}=")


def _values(recipe: AnyRecipe) -> dict[str, Any]:
    """Return the values that a recipe sets, without defaults."""
    if isinstance(recipe, Recipe):
        return recipe.model_dump(exclude_unset=True)
    return read_toml(find_recipe(recipe)) if recipe else {}
