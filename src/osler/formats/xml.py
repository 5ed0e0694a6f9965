"""Safe XML: no entities beyond the five built-in ones, nothing loaded from disk or network, bounded size.

A DOCTYPE that only names a DTD is accepted (BioC files have one) and the DTD is not read. A DOCTYPE that declares
entities is refused, which rules out both "billion laughs" and external entities.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from osler.core.errors import InputError
from osler.core.extras import require
from osler.formats.output import CHARACTERS

_OPTIONS = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
# Encodings with ASCII markup, so that an entity declaration cannot escape the check below.
_ENCODINGS = {b"utf-8", b"utf8", b"us-ascii", b"ascii", b"iso-8859-1", b"iso-8859-15", b"windows-1252", b"latin1"}
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_PROLOG = re.compile(rb"<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)
_HEAD = 1 << 16
_SPACED = frozenset("=<>≤≥≠≈≃≅≡∼~±∓+-−×⋅·→←↔⇒∈∝≪≫")


def root_tag(head: bytes) -> tuple[str, bytes]:
    """Return name and attributes of the root element, given the first bytes of a file; empty if there is none."""
    outside = _PROLOG.sub(b"", head)
    found = re.search(rb"<([A-Za-z_][\w.:-]*)([^>]*)", outside)
    return (found[1].decode("ascii", "replace"), found[2]) if found else ("", b"")


def parse(data: bytes, where: str) -> Any:
    """Parse a document and return its root element."""
    etree = _etree()
    _check_head(data[:_HEAD], where)
    parser = etree.XMLParser(**_OPTIONS, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise _broken(error, where) from None
    _check_doctype(root, where)
    _check_references(root, where)
    return root


def stream(source: BinaryIO, tag: str, where: str) -> Iterator[Any]:
    """Yield each element of this name when it ends, and free it after use to keep memory constant."""
    etree = _etree()
    buffered: Any = source
    _check_head(buffered.peek(_HEAD)[:_HEAD], where)
    first = True
    events = etree.iterparse(source, events=("end",), tag=tag, remove_comments=True, remove_pis=True, **_OPTIONS)
    try:
        for _, element in events:
            if first:
                _check_doctype(element, where)
                first = False
            _check_references(element, where)
            yield element
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise _broken(error, where) from None


def _etree() -> Any:
    return require("lxml.etree", "formats")


def _check_head(head: bytes, where: str) -> None:
    declared = _ENCODING.match(head.removeprefix(b"\xef\xbb\xbf"))
    if b"\x00" in head or (declared and declared[1].lower() not in _ENCODINGS):
        raise InputError("the encoding of this XML is not supported", where=where, fix="Convert the file to UTF-8")
    prolog = head[: found.start()] if (found := re.search(rb"<[A-Za-z_:]", head)) else head
    if b"<!ENTITY" in prolog:
        raise _entities(where)


def _entities(where: str) -> InputError:
    return InputError("XML that declares entities is not supported", where=where, fix="Remove the DOCTYPE")


def _check_doctype(root: Any, where: str) -> None:
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and next(dtd.iterentities(), None) is not None:
        raise _entities(where)


def _broken(error: Any, where: str) -> InputError:
    # The parser's own message may quote the document, so only its code and position are shown.
    line, column = error.position if getattr(error, "position", None) else (None, None)
    last = error.error_log.last_error if getattr(error, "error_log", None) else None
    code = last.type_name.lower().removeprefix("err_").replace("_", " ") if last is not None else "syntax error"
    place = f"{where}:{line}" if line else where
    detail = f" at column {column}" if column else ""
    return InputError(f"not well-formed XML ({code}){detail}", where=place, fix="Check that the file is complete")


def _check_references(root: Any, where: str) -> None:
    # An unresolved reference remains a separate node, and the text after it would be lost.
    for node in root.iter(_etree().Entity):
        place = f"{where}:{node.sourceline}"
        raise InputError("the XML uses an entity that is not built in", where=place, fix="Replace the entity")


def element_text(parent: Any, tag: str) -> str:
    """Return the text of a child element, or "" if there is none."""
    return parent.findtext(tag) or ""


def formula(element: Any) -> str:
    """Return MathML (without namespace) as a line of text: x2, 10^6, a/b, √3."""
    return " ".join(_formula(element).split())


def _formula(element: Any) -> str:
    tag = element.tag
    if tag in ("annotation", "annotation-xml"):  # the same formula in another notation
        return ""
    if tag == "mspace":
        return " "
    if not len(element):
        text = element.text or ""
        before = element.getprevious()
        is_sign = before is None or before.tag == "mo"  # as in = -1
        return f" {text} " if tag == "mo" and text.strip() in _SPACED and not is_sign else text
    parts = [_formula(inner) for inner in element]
    if tag in ("msub", "msup", "msubsup", "mover", "munder", "munderover"):
        base, *scripts = (part.strip() for part in parts)
        power = tag == "msup" and base[-1:].isdigit() and "".join(scripts).lstrip("-−").isdigit()
        return base + ("^" if power else "") + "".join(scripts)
    if tag == "mfrac":
        return "/".join(map(_bracketed, parts))
    if tag == "msqrt":
        return f"√{_bracketed(''.join(parts))}"
    if tag == "mfenced":
        return f"{element.get('open', '(')}{', '.join(parts)}{element.get('close', ')')}"
    return "".join(parts)


def _bracketed(part: str) -> str:
    part = part.strip()
    return part if part.replace(".", "").isalnum() else f"({part})"


def holdable(text: str, losses: Counter[str]) -> str:
    """Replace what XML cannot hold by spaces: control characters, and carriage returns, which parsers drop."""
    held, count = _FORBIDDEN.subn(" ", text)
    count += held.count("\r")
    if count:
        losses[CHARACTERS] += count
    return held.replace("\r", " ")


def encoded(text: str, losses: Counter[str]) -> str:
    """Escape element or attribute text, after `holdable`. Line breaks and tabs become references, to survive in attributes."""
    text = holdable(text, losses).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")


def cdata(text: str) -> str:
    """Wrap text in a CDATA section; the sequence `]]>` is split over two sections."""
    return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"
