"""`osler serve`: serve a bundle over HTTP."""

from __future__ import annotations

import typer

from osler.cli.common import Invocation, announce, recipe_command
from osler.stages.serve.server.settings import ServeRecipe

app = typer.Typer(add_completion=False)


@app.command()
@recipe_command(
    ServeRecipe,
    out=None,
    options={
        "bundle": "--bundle -b",
        "host": "",
        "port": "",
        "token_file": "",
        "device": "",
        "precision": "",
        "allow_host": "",
        "allow_origin": "",
        "corrections": "",
    },
    makes=False,
)
def serve(call: Invocation) -> None:
    """Serve a bundle over HTTP: a web page to annotate and correct notes, and an API for programs.

    Prints the address once it accepts requests. SIGTERM or Ctrl-C stops it after the requests in progress.
    """
    from osler.core.extras import require

    recipe = call.resolve()
    require("fastapi", "serve")
    require("uvicorn", "serve")
    from osler.stages.serve.server.run import calm_threads, plan, run

    calm_threads()
    announce(plan(recipe), dry_run=call.dry_run)
    if not call.dry_run:
        # The address goes to standard output, so that scripts can read it.
        run(recipe, ready=typer.echo)
