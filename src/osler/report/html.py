"""Jinja templates with autoescape on, so that no document text or name can become markup."""

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
    """Escape text and keep its carriage returns, which an HTML parser would turn into LF."""
    markup = require("markupsafe", "report")
    kept: str = markup.Markup(str(markup.escape(text)).replace("\r", "&#13;"))
    return kept


def render(template: str, **context: Any) -> str:
    """Render a template. To include the result in another template, mark it `safe` there."""
    return _environment().get_template(template).render(**context)


@cache
def stylesheet() -> str:
    """Return the style sheet that every page includes inline."""
    return palette_css() + _template_text("style.css")


@cache
def listing_script() -> tuple[str, str]:
    """Return the script of pages with a listing, and its hash for the page's content security policy."""
    script = _template_text("listing.js")
    return script, "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _template_text(name: str) -> str:
    return resources.files("osler.report").joinpath(f"templates/{name}").read_text("utf-8")
