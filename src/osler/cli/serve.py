"""`osler serve`: a bundle behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from osler.cli.common import DryRunOption, SetOption, announce

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    bundle: Annotated[Path | None, typer.Option("--bundle", "-b", help="A bundle folder.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 by default.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 for any that is free; 8000 by default.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that clients must send; or set OSLER_TOKEN.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name by which clients may call the service. Repeat for several.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A web server whose pages may use the service. Repeat for several.")
    ] = None,
    corrections: Annotated[
        Path | None, typer.Option(help="A folder for notes corrected on the page; see osler corrections.")
    ] = None,
    sets: SetOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Serve a bundle over HTTP: a page to annotate and correct notes, and the same for programs.

    Prints the address when it takes requests. SIGTERM or Ctrl-C stops it after the requests in progress.
    """
    from osler.core.config import load_recipe
    from osler.core.extras import require
    from osler.stages.serve.server.settings import ServeRecipe

    options = {
        "bundle": bundle,
        "host": host,
        "port": port,
        "token_file": token_file,
        "device": device,
        "allow_host": allow_host or None,
        "allow_origin": allow_origin or None,
        "corrections": corrections,
    }
    flags = {key: f"--{key.replace('_', '-')}" for key in options}
    recipe = load_recipe(ServeRecipe, None, sets or (), options, flags)
    require("fastapi", "serve")
    require("uvicorn", "serve")
    from osler.stages.serve.server.run import calm_threads, plan, run

    calm_threads()
    announce(plan(recipe), dry_run=dry_run)
    if not dry_run:
        # The address goes to standard output, so that a script can read it.
        run(recipe, ready=typer.echo)
