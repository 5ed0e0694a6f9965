"""The `osler` command line. Each command has its own module, imported only when the command runs."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from osler import __version__
from osler.cli.common import metavar
from osler.core.errors import OslerError, explain_system_error, nearest, place_of

COMMANDS = {
    "corpus": "Build a clean corpus from raw text, and inspect it.",
    "vocab": "Train a tokenizer on a corpus, and compare tokenizers.",
    "pretrain": "Pretrain an encoder on a corpus with masked language modelling.",
    "distill": "Distil an encoder into a smaller one: pretraining with a teacher.",
    "convert-model": "Convert a published checkpoint to an encoder that every command opens.",
    "tasks": "Task cards and task data: list, prepare, check, show, new.",
    "finetune": "Fine-tune one encoder on one or more tasks.",
    "evaluate": "Score a bundle on a task under a named protocol.",
    "study": "Compare models over many tasks and seeds in one table.",
    "annotate": "Annotate raw text with the heads of a bundle for its language.",
    "serve": "Serve a bundle over HTTP.",
    "corrections": "Turn notes corrected on the page of osler serve into tasks.",
    "deid": "De-identify notes: masks, tags or surrogates, and how well that works.",
    "similar": "Score the similarity of each pair of texts.",
    "infer": "Classify pairs of texts, such as premise and hypothesis.",
    "export": "Export a bundle to Hugging Face, ONNX or spaCy.",
    "convert": "Convert annotations between formats.",
    "demo": "Run every stage on embedded synthetic notes, then query the service.",
}
"""Every command in workflow order, with its line in the help. The module `osler.cli.NAME` (`_` for `-`) has its `app`."""

EXAMPLES = {
    "": (
        "osler demo --fast",
        "osler corpus build notes/ --out corpus",
        "osler annotate note.txt --bundle demo/fast/bundle",
    ),
    "corpus": (
        "osler corpus build notes/ --out corpus",
        "osler corpus show corpus",
        "osler corpus explain corpus note-17",
    ),
    "corpus build": (
        "osler corpus build notes/ --language es --out corpus --dry-run",
        "osler corpus build 'notes/*.txt' abstracts.jsonl.gz --out corpus",
        "osler corpus build notes/ --set filters.length.min_words=20 --out corpus",
    ),
    "corpus show": ("osler corpus show corpus",),
    "corpus explain": (
        "osler corpus explain corpus note-17",
        "osler corpus explain corpus note-17 --diff --text",
    ),
    "corpus audit": (
        "osler corpus audit corpus --step near-duplicates --n 20",
        "osler corpus audit corpus --step filter --source web --text",
    ),
    "vocab": ("osler vocab train corpus --out tokenizer",),
    "vocab train": (
        "osler vocab train corpus --size 16000 --out tokenizer",
        "osler vocab train corpus --algorithm wordpiece --out tokenizer",
    ),
    "vocab compare": (
        "osler vocab compare tokenizer other-tokenizer --on corpus",
        "osler vocab compare tokenizer other-tokenizer --on corpus --out figures",
    ),
    "pretrain": (
        "osler pretrain corpus -t tokenizer --recipe laptop/pretrain --dry-run",
        "osler pretrain corpus -t tokenizer --recipe laptop/pretrain --out encoder",
        "osler pretrain corpus -t tokenizer --steps 1000 --set train.lr=5e-4",
    ),
    "distill": (
        "osler distill corpus --teacher encoder --layers even --steps 1000",
        "osler distill corpus --teacher encoder --preset tiny --budget 30m --dry-run",
    ),
    "convert-model": (
        "osler convert-model biobert --cased --allow-pickle --out encoder --dry-run",
        "osler convert-model biobert --cased --allow-pickle --out encoder",
    ),
    "tasks": (
        "osler tasks list --language es",
        "osler tasks prepare clinic-phi-en --out tasks/phi",
        "osler tasks new my-task --from my-data/",
    ),
    "tasks list": ("osler tasks list", "osler tasks list --language es --kind tagging"),
    "tasks info": ("osler tasks info ncbi-disease", "osler tasks info ncbi-disease --toml"),
    "tasks prepare": (
        "osler tasks prepare clinic-phi-en --out tasks/phi",
        "osler tasks prepare ncbi-disease --from downloads/ --out tasks/ncbi",
        "osler tasks prepare --all --from downloads/ --out tasks",
    ),
    "tasks new": (
        "osler tasks new my-task --from my-data/",
        "osler tasks new triage --format csv --from t.csv --set options.text=note",
    ),
    "tasks synthesize": ("osler tasks synthesize i2b2-2010 --out fake",),
    "tasks check": ("osler tasks check tasks", "osler tasks check tasks/phi --strict --json -"),
    "tasks show": (
        "osler tasks show clinic-phi-en -n 2",
        "osler tasks show tasks/phi --split dev --label DATE --html examples.html",
    ),
    "finetune": (
        "osler finetune tasks/phi --model encoder --out bundle --dry-run",
        "osler finetune tasks/phi tasks/ncbi --model encoder --out bundle",
        "osler finetune tasks/phi --model encoder --epochs 5 --lr 1e-4",
    ),
    "evaluate": (
        "osler evaluate bundle --task tasks/phi --out scores",
        "osler evaluate bundle --task tasks/phi --split dev --errors --out scores",
    ),
    "study": (
        "osler study run my-study.toml --out study --dry-run",
        "osler study run my-study.toml --out study",
        "osler study status study",
    ),
    "study run": (
        "osler study run my-study.toml --out study --dry-run",
        "osler study run my-study.toml --set seeds=1,2,3 --out study",
    ),
    "study resume": ("osler study resume study", "osler study resume study --retry-failed"),
    "study status": ("osler study status study",),
    "study report": ("osler study report study",),
    "study page": (
        "osler study page study --out study.md",
        "osler study page results.json --about about.md --out study.md",
    ),
    "study pairwise": ("osler study pairwise my-study.toml --out pairs",),
    "annotate": (
        "osler annotate note.txt --bundle bundle > annotations.jsonl",
        "osler annotate notes/*.txt --bundle bundle --to brat --out annotated",
        "osler annotate note.txt --bundle bundle --head clinic-phi-en",
        "osler annotate notes/ --bundle bundle --language all",
        "osler annotate notes/ --bundle bundle --target-recall 0.99 --dry-run",
        "osler annotate notes/ --bundle bundle --min-score 0.5 --threshold DRUG=0.8",
    ),
    "similar": (
        "osler similar pairs.tsv --bundle bundle",
        "osler similar pairs.jsonl --bundle bundle --out similar.tsv",
    ),
    "infer": (
        "osler infer pairs.tsv --bundle bundle",
        "osler infer pairs.jsonl --bundle bundle --format jsonl > labels.jsonl",
    ),
    "export": (
        "osler export bundle --head clinic-phi-en --out hf-model",
        "osler export bundle --to onnx-int8 --task tasks/clinic-phi-en --out light",
    ),
    "deid": (
        "osler deid notes/ --out new",
        "osler deid notes/ --bundle bundle --style surrogate --dates shift --out new",
        "osler deid evaluate --task tasks/phi --out scores",
    ),
    "deid notes": (
        "osler deid notes/ --out new",
        "osler deid notes/ --bundle bundle --style surrogate --dates shift --out new",
        "osler deid notes.csv --patient-column patient --key-file key --out new",
        "osler deid evaluate --task tasks/phi --out scores",
    ),
    "deid evaluate": (
        "osler deid evaluate --task tasks/phi --out scores",
        "osler deid evaluate --task tasks/phi --bundle bundle --out scores",
    ),
    "serve": (
        "osler serve --bundle bundle",
        "osler serve --bundle bundle --host 0.0.0.0 --token-file token.txt",
        "osler serve --bundle bundle --corrections corrections",
    ),
    "corrections": (
        "osler corrections corrections --out corrected --dry-run",
        "osler corrections corrections --annotator ana --out corrected",
    ),
    "convert": (
        "osler convert notes/ --from brat --to conll --out notes.conll",
        "osler convert table.csv --to jsonl --set read.text=note --out table.jsonl",
        "osler convert --list",
    ),
    "demo": ("osler demo --fast", "osler demo --out my-demo"),
}
"""Examples at the end of each command's help."""


class _Stopped(OslerError):
    """Ctrl-C, which typer would not report."""

    exit_code = 130


class _Commands(TyperGroup):
    """Imports a command's module only when that command is used."""

    listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_params(self, ctx: Any) -> Any:
        return _name_values(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self.listing = True
        return super().shell_complete(ctx, incomplete)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            if ctx is None or ctx.resilient_parsing:
                return None
            close = nearest(cmd_name, COMMANDS)
            ctx.fail(f"No such command {cmd_name!r}. " + (f"Did you mean {close!r}?" if close else ""))
        if self.listing:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        module = import_module(f"osler.cli.{cmd_name.replace('-', '_')}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return _dress(command, cmd_name, ctx)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Stopped("stopped", fix="Run the same command again to continue") from None


def _dress(command: Any, name: str, ctx: Any) -> Any:
    """Add examples and metavars to the help of a command and its subcommands."""
    command.epilog = _examples(name)
    _name_values(command.get_params(ctx) if ctx else command.params)
    for child, inner in getattr(command, "commands", {}).items():
        _dress(inner, f"{name} {child}", ctx)
    return command


def _name_values(parameters: Any) -> Any:
    """Set the metavar of each option: none for flags, PATH for typer's `list[Path]`."""
    for parameter in parameters:
        if parameter.param_type_name == "option" and parameter.metavar is None:
            type_ = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
            parameter.metavar = "" if getattr(parameter, "is_flag", False) else metavar(type_)
    return parameters


def _examples(name: str) -> str | None:
    lines = "\n".join(f"  {line}" for line in EXAMPLES.get(name, ()))
    return f"Examples:\n{lines}" if lines else None


app = typer.Typer(
    name="osler",
    cls=_Commands,
    help="Raw biomedical and clinical text to a language model you can evaluate, publish and serve.",
    epilog=_examples(""),
    no_args_is_help=True,
    # Typer's own tracebacks print local variables, which may contain documents.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"osler {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log events to standard error (never document text).")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No plan and no progress: only results, warnings and errors.")
    ] = False,
) -> None:
    from osler.core.logs import configure

    if quiet:
        os.environ["OSLER_QUIET"] = "1"
    configure(verbose)


_UsageError: Any = typer.BadParameter.__base__  # from click or from typer's copy of click, depending on the version


def main() -> None:
    """Run the command line. Every failure ends in one message that never quotes a document."""
    try:
        code = app(prog_name="osler", standalone_mode=False)
    except OslerError as error:
        _fail(str(error), error.exit_code)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help is already printed
            sys.exit(error.exit_code)
        _fail(_explain_usage(error), error.exit_code)
    except typer.Abort:
        _fail("stopped", 130)
    except Exception as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        if os.environ.get("OSLER_DEBUG"):
            raise
        _fail(*_explain(error))
    sys.exit(code if isinstance(code, int) else 0)


def _explain_usage(error: Any) -> str:
    """Describe a wrong command, option or value in one line."""
    from pydantic import ValidationError

    from osler.core.mistakes import mistakes

    hint = f" Run `{error.ctx.command_path} --help` for the options and examples." if error.ctx else ""
    parameter: Any = getattr(error, "param", None)
    name = _flag(parameter) if parameter is not None else ""
    close = nearest(getattr(error, "option_name", ""), getattr(error, "possibilities", None) or ())
    if close:
        return f"no such option: {error.option_name}. Did you mean {close}?{hint}"
    if type(error).__name__ == "MissingParameter" and name:
        return f"{name} is required.{hint}"
    if isinstance(error.__cause__, ValidationError) and name:
        wrong = mistakes(parameter.type_descriptor.annotation, error.__cause__)
        return f"{name} {wrong[0].text}.{hint}"
    message = error.format_message().strip()
    message = f"{message[:1].lower()}{message[1:]}"
    return message + ("" if message.endswith((".", "?")) else ".") + hint


def _flag(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"the argument {(parameter.metavar or parameter.name).upper().removesuffix('...')}"
    return str(max(parameter.opts, key=len))


def _explain(error: Exception) -> tuple[str, int]:
    """Return the message and exit code for an error that is not an OslerError."""
    from osler.core.extras import explain_missing

    known = explain_missing(error) if isinstance(error, ModuleNotFoundError) else explain_system_error(error)
    if known is not None:
        return str(known), known.exit_code
    # The message of an unexpected error (from a parser, for example) may quote a document, so it is not shown.
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    command = next((name for name in (" ".join(words[:2]), *words[:1]) if name in EXAMPLES), "no command")
    return (
        f"internal error. Please report it with this line: osler {__version__}, {command}, "
        f"{type(error).__name__} at {place_of(error)}. The error's own message is hidden because it may quote a document; "
        "OSLER_DEBUG=1 shows it.",
        1,
    )


def _fail(message: str, code: int) -> NoReturn:
    typer.secho(f"error: {message}", fg=typer.colors.RED, err=True)
    sys.exit(code)
