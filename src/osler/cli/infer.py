"""`osler infer`: label pairs of a premise and a hypothesis."""

from __future__ import annotations

import typer

from osler.cli.common import Invocation
from osler.cli.similar import answer, pairs_command

app = typer.Typer(add_completion=False)


@app.command()
@pairs_command
def infer(call: Invocation) -> None:
    """Label the second text of each pair given the first: entailed, contradicted, or another label of the head.

    Without --out, print one line per pair to standard output. Exit code 0: every pair was read. 2: nothing was done.
    3: some lines could not be read and were skipped.
    """
    answer(call, "infer")
