"""Settings of the service: the bundle, the address, access, and limits."""

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
    """Address to listen on; by default 127.0.0.1, this machine alone. Listening beyond it requires a token."""
    port: int = Field(8000, ge=0, le=65_535)
    """Port to listen on; 8000 by default, 0 for one chosen by the system."""
    token_file: Path | None = None
    """File with the bearer token that clients must send, or several, one per line. Alternatively, set OSLER_TOKEN."""
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    precision: Precision = "auto"
    """Precision of the encoder: fp32, bf16, or auto (bf16 on a GPU, fp32 on a CPU)."""
    allow_host: tuple[str, ...] = ()
    """Host names that clients may use (the Host header). localhost is always allowed if only this machine can reach the
    service."""
    allow_origin: tuple[str, ...] = ()
    """Origins of other web pages that may use the service (CORS), such as https://ward.example.org."""
    corrections: Path | None = None
    """Folder for notes corrected on the page. Without it, the page offers no corrections."""
    deid_key_file: Path | None = None
    """File with the secret that surrogates and date shifts depend on, as in osler deid; created if it does not exist. By
    default, the secret is random and not kept."""
    batch_tokens: int | None = Field(None, ge=16)
    """Approximate number of tokens to compute at once; by default 1,024 for each CPU core, at least 2,048, and 32,768 on a GPU."""
    queue: int = Field(256, ge=1)
    """Maximum number of requests in progress or waiting; more are answered with 429."""
    threads: int = Field(4, ge=1, le=512)
    """Number of requests with long texts to work on at once. Those with short ones are annotated together and need no
    thread."""
    max_body: int = Field(16 * 2**20, ge=1024)
    """Maximum bytes of a request; a larger one is answered with 413."""
    max_text: int = Field(2_000_000, ge=1)
    """Maximum characters of one text; a longer one is answered with 413."""
    max_documents: int = Field(1_000, ge=1)
    """Maximum documents or pairs of one request; more are answered with 413."""
    read_seconds: float = Field(30.0, gt=0.0)
    """Seconds that a client has to send its request; a slower one is answered with 408."""
    answer_seconds: float = Field(600.0, gt=0.0)
    """Seconds after which the work on a request is cancelled and answered with 503."""
    stop_seconds: int = Field(60, ge=1)
    """Seconds that requests in progress have to finish when the service is stopped."""

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
        """Return the accepted tokens. Raises an error for weak tokens, and for listening beyond this machine without any."""
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
