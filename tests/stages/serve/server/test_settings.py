"""Who may ask: tokens, and what listens beyond this machine."""

from __future__ import annotations

import pytest

from osler.core.errors import InputError, RecipeError
from osler.stages.serve.server.settings import ServeRecipe

TOKEN = "correct-horse-battery"


def recipe(**settings) -> ServeRecipe:
    return ServeRecipe(bundle="b", **settings)


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("ward.example.org", False),
        ("", False),
    ],
)
def test_what_only_this_machine_reaches(host, local):
    assert recipe(host=host).local == local
    if local:
        assert recipe(host=host).tokens({}) == ()
    else:
        with pytest.raises(RecipeError, match="there is no token"):
            recipe(host=host).tokens({})
        assert recipe(host=host).tokens({"OSLER_TOKEN": TOKEN}) == (TOKEN,)


def test_tokens_of_a_file(tmp_path):
    path = tmp_path / "token.txt"
    path.write_text(f"{TOKEN}\n\n  another-long-token  \n")
    assert recipe(token_file=path).tokens({"OSLER_TOKEN": "x"}) == (TOKEN, "another-long-token")


@pytest.mark.parametrize("content", [b"", b"\n \n", b"short\n", b"correct-horse-battery\nshort", b"\xff\xfe" * 20])
def test_weak_or_broken_tokens_are_refused(tmp_path, content):
    path = tmp_path / "token.txt"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        recipe(token_file=path).tokens({})
    assert "short" not in str(error.value).replace("shorter", "")
    with pytest.raises(InputError):
        recipe(token_file=tmp_path / "none").tokens({})


def test_a_weak_token_of_the_environment_is_refused():
    with pytest.raises(InputError, match="OSLER_TOKEN"):
        recipe().tokens({"OSLER_TOKEN": "short"})
