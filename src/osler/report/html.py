"""Jinja templates with autoescape on: no document text or name can become markup."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from osler.core.extras import require
from osler.report.colours import palette_css

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment() -> Environment:
    jinja2 = require("jinja2", "report")
    environment: Environment = jinja2.Environment(
        loader=jinja2.PackageLoader("osler.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters["keep_returns"] = _keep_returns
    return environment


def _keep_returns(text: str) -> str:
    """Escape text whose every character must survive: an HTML parser turns a bare CR into LF."""
    markup = require("markupsafe", "report")
    kept: str = markup.Markup(str(markup.escape(text)).replace("\r", "&#13;"))
    return kept


def render(template: str, **context: Any) -> str:
    """Fill a template. Another template must mark the result `safe` to include it."""
    return _environment().get_template(template).render(**context)


@cache
def stylesheet() -> str:
    """The style sheet that every page holds inline."""
    return palette_css() + _template_text("style.css")


@cache
def listing_script() -> tuple[str, str]:
    """The script of pages with a listing, and its hash: the page lets the browser run this script and no other."""
    script = _template_text("listing.js")
    return script, "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _template_text(name: str) -> str:
    return resources.files("osler.report").joinpath(f"templates/{name}").read_text("utf-8")
