"""`python -m osler`: the same as the `osler` command."""

from osler.cli.main import main

main()
