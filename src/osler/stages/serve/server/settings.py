"""What the service is asked to do: which bundle, where to listen, who may ask, and how much."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from osler.core.config import Recipe, runtime
from osler.core.errors import InputError, RecipeError
from osler.core.models import BundleFolder
from osler.train.config import Precision

TOKEN_VARIABLE = "OSLER_TOKEN"
_MIN_TOKEN = 16


class ServeRecipe(Recipe):
    """Serve a bundle over HTTP."""

    bundle: BundleFolder = runtime(None, validate_default=True)
    """A bundle folder, or the name of an installed model; by default the only installed model."""
    host: str = runtime("127.0.0.1")
    """The address to listen on; by default 127.0.0.1, this machine alone. Beyond it a token is required."""
    port: int = Field(8000, ge=0, le=65_535)
    """The port to listen on; 8000 by default, 0 for one that the system chooses."""
    token_file: Path | None = None
    """A file with the bearer token that clients must send, or several, one per line; or set OSLER_TOKEN."""
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    precision: Precision = "auto"
    """How the encoder computes: fp32, or bf16; auto is bf16 on a GPU and fp32 on a CPU."""
    allow_host: tuple[str, ...] = ()
    """Names by which clients may call the service (the Host header). On this machine alone, localhost is always allowed."""
    allow_origin: tuple[str, ...] = ()
    """Web pages of other servers that may use the service (CORS), such as https://ward.example.org."""
    corrections: Path | None = None
    """A folder for the notes that are corrected on the page; without it, the page offers no corrections."""
    deid_key_file: Path | None = None
    """The secret that surrogates and date shifts depend on, as of osler deid; it is made if the file does not exist. By default
    it is random, and not kept."""
    batch_tokens: int | None = Field(None, ge=16)
    """Tokens computed at once, roughly; by default 2,048 on a CPU and 32,768 on a GPU."""
    queue: int = Field(256, ge=1)
    """Requests in progress or waiting; further ones are answered 429."""
    threads: int = Field(4, ge=1, le=512)
    """Requests with long texts that are worked on at once; those with short ones are annotated together and need no thread."""
    max_body: int = Field(16 * 2**20, ge=1024)
    """Bytes of a request; a larger one is answered 413."""
    max_text: int = Field(2_000_000, ge=1)
    """Characters of one text; a longer one is answered 413."""
    max_documents: int = Field(1_000, ge=1)
    """Documents or pairs of one request; more are answered 413."""
    read_seconds: float = Field(30.0, gt=0.0)
    """Time a client has to send its request; a slower one is answered 408."""
    answer_seconds: float = Field(600.0, gt=0.0)
    """Time after which the work on a request is given up and answered 503."""
    stop_seconds: int = Field(60, ge=1)
    """Time that requests in progress have to end when the service is stopped."""

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def tokens(self, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """The tokens that are accepted. Refuses weak ones, and to listen beyond this machine without any."""
        environment = os.environ if environment is None else environment
        if self.token_file is not None:
            try:
                lines = self.token_file.read_text(encoding="utf-8").split("\n")
            except (OSError, UnicodeDecodeError):
                raise InputError(
                    "the token file cannot be read", where=self.token_file, fix="Check the path and its permissions"
                ) from None
            found, where = tuple(line.strip() for line in lines if line.strip()), str(self.token_file)
            if not found:
                raise InputError("the token file is empty", where=where, fix=_MAKE_TOKEN)
        else:
            found, where = tuple(filter(None, [environment.get(TOKEN_VARIABLE, "").strip()])), TOKEN_VARIABLE
        if any(len(token) < _MIN_TOKEN or not token.isascii() or not token.isprintable() for token in found):
            raise InputError(
                f"a token is shorter than {_MIN_TOKEN} characters or not plain ASCII", where=where, fix=_MAKE_TOKEN
            )
        if not found and not self.local:
            raise RecipeError(
                f"other machines could reach {self.host}, and there is no token",
                fix=f"Give --token-file or set {TOKEN_VARIABLE}, or listen on 127.0.0.1. {_MAKE_TOKEN}",
            )
        return found


_MAKE_TOKEN = "A good token: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
