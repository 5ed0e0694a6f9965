"""Routes of the page: its files, settings, downloads, and corrections."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.staticfiles import StaticFiles

from osler.core.errors import InputError, UnknownNameError
from osler.formats.base import Format
from osler.formats.jsonl import from_json
from osler.formats.registry import get_format
from osler.report.colours import label_colours, palette_css
from osler.stages.serve.corrections import CHANGES, CorrectionLog, check_annotator, check_note
from osler.stages.serve.server import schemas
from osler.stages.serve.server.guard import RefusedError
from osler.text.document import Document, check_record

if TYPE_CHECKING:
    from osler.stages.serve.server.service import AnnotationService

_STATIC = Path(__file__).parent / "static"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_DEID = "/v1/deid"


class DownloadFormat(BaseModel):
    """A format in which the page offers a note."""

    name: str
    title: str
    suffix: str = Field(description="How the name of the file ends; .zip if the format is a folder.")


class PageSettings(BaseModel):
    """What the page needs to know about the bundle and the service."""

    bundle: str = Field(description="Name of the bundle, with its version if it is an installed model.")
    model: str = Field(description="Digest of the bundle.")
    heads: list[schemas.HeadDescription] = Field(description="Heads that annotate documents.")
    colours: dict[str, str] = Field(description="Classes of each label in the page's style sheet.")
    corrections: bool = Field(description="Whether corrections can be saved.")
    deid: list[str] = Field(description="Styles of de-identification; empty if the service has none.")
    formats: list[DownloadFormat]


class _Given(BaseModel):
    """Part of a request. Unknown fields are rejected, and no types are converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class GivenSpan(_Given):
    """A mention, as returned by `/v1/annotate`."""

    start: int | None = Field(None, ge=0)
    end: int | None = Field(None, ge=1)
    fragments: list[Annotated[list[int], Field(min_length=2, max_length=2)]] | None = Field(None, min_length=1)
    label: str
    id: str | None = None
    score: float | None = Field(None, ge=0, le=1)
    attributes: dict[str, str] = Field(default_factory=dict)


class GivenRelation(_Given):
    """A relation, as returned by `/v1/annotate`."""

    head: str
    tail: str
    label: str
    id: str | None = None
    score: float | None = Field(None, ge=0, le=1)
    attributes: dict[str, str] = Field(default_factory=dict)


class GivenText(_Given):
    """A text that could be annotated."""

    text: str


class TextLanguage(BaseModel):
    """The language whose heads read a text."""

    language: str | None = Field(description="One of the bundle's languages; null if all heads read the text.")


class ReviewedDocument(_Given):
    """A text with its entities as the annotator left them. The attributes of each entity contain the name of its head."""

    text: str
    spans: list[GivenSpan] = Field(default_factory=list)
    relations: list[GivenRelation] = Field(default_factory=list)


class GivenDocument(ReviewedDocument):
    """An annotated document, as returned by `/v1/annotate`."""

    id: str = "note"
    labels: list[str] = Field(default_factory=list)
    value: float | None = None
    scores: dict[str, float] = Field(default_factory=dict)
    meta: dict[str, str] = Field(default_factory=dict)


class EntityChanges(_Given):
    """How many entities the annotator accepted, relabelled, removed and added."""

    accepted: int = Field(0, ge=0, le=10**6)
    relabelled: int = Field(0, ge=0, le=10**6)
    removed: int = Field(0, ge=0, le=10**6)
    added: int = Field(0, ge=0, le=10**6)


class CorrectionRequest(_Given):
    """One note that a person has reviewed."""

    annotator: str = Field(description="Lower-case letters, digits and hyphens.", examples=["ana"])
    model: str = Field("", description="Digest of the bundle that predicted; refused if another one answers by now.")
    heads: list[str] = Field(min_length=1, description="Heads whose entities are complete and correct in this note.")
    changes: EntityChanges = EntityChanges()
    document: ReviewedDocument


class CorrectionAnswer(BaseModel):
    """Counts of what an annotator has saved so far."""

    annotator: str
    notes: int
    entities: int
    changes: int = Field(description="Entities relabelled, removed or added.")


_TITLES = {
    "jsonl": "JSON Lines (osler)",
    "entities_csv": "CSV, a row per entity",
    "brat": "brat",
    "bioc": "BioC XML",
    "pubtator": "PubTator",
    "conll": "CoNLL",
    "label_studio": "Label Studio",
    "fhir": "FHIR bundle",
    "omop": "OMOP NOTE_NLP",
    "html": "HTML page",
}
PAGE_FIELDS = {
    name
    for kind in (CorrectionRequest, EntityChanges, GivenDocument, GivenRelation, GivenSpan)
    for name in kind.model_fields
}
"""Names of fields that an error may repeat."""


def add_page(
    app: FastAPI, service: AnnotationService, problems: Callable[..., dict[int | str, dict[str, Any]]]
) -> None:
    """Add the page and its routes. `problems` describes error responses."""
    settings, spec = service.settings, service.engine.bundle.spec
    model = service.about["digest"] or "unknown"
    log = CorrectionLog.create(settings.corrections, model, spec) if settings.corrections else None
    downloads = _downloads()
    writable = {item.name for item in downloads}

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_STATIC / "index.html", headers={"content-security-policy": _POLICY})

    @app.get("/static/palette.css", include_in_schema=False)
    async def palette() -> Response:
        return Response(palette_css(), media_type="text/css")

    app.mount("/static", StaticFiles(directory=_STATIC), name="static")

    @app.get("/v1/page", summary="What the page must know", tags=["page"], responses=problems(401, 403, 421))
    async def about(request: Request) -> PageSettings:
        """Heads, colours and formats."""
        heads = [head for head in schemas.HeadDescription.all_of(spec) if head.record == "document"]
        entities = {label for head in spec.heads.values() for label in head.card.entity_labels}
        entities |= {label for head in heads if head.kind == "tagging" for label in head.labels}
        deid = any(getattr(route, "path", "") == _DEID for route in request.app.routes)
        return PageSettings(
            bundle=f"{service.about['name']} {service.about['model_version']}".rstrip(),
            model=model,
            heads=heads,
            colours={label: colour.css for label, colour in label_colours(entities).items()},
            corrections=log is not None,
            deid=["mask", "tag", "surrogate"] if deid else [],
            formats=downloads,
        )

    @app.post(
        "/v1/language",
        summary="Which heads read a text",
        tags=["page"],
        responses=problems(400, 401, 403, 408, 413, 415, 421, 422, 429, 503),
    )
    def language(body: GivenText) -> TextLanguage:
        """The language that `/v1/annotate` chooses for a text, if the request names neither heads nor a language."""
        [chosen] = service.engine.languages([Document("note", body.text)])
        return TextLanguage(language=chosen)

    def document(found: dict[str, Any]) -> Document:
        if len(found["text"]) > settings.max_text:
            raise RefusedError(413, "too_large", f"A text may have {settings.max_text:,} characters.")
        made = from_json({"id": "note", **found}, where="document")
        assert isinstance(made, Document)
        check_record(made, where="document")
        return made

    @app.post(
        "/v1/convert",
        summary="Write annotations in another format",
        tags=["page"],
        response_class=Response,
        responses={
            200: {"description": "The file, or a zip file if the format is a folder.", "content": {"*/*": {}}},
            **problems(400, 401, 403, 408, 413, 415, 421, 422, 429, 503),
        },
    )
    async def convert(body: GivenDocument, to: str = "jsonl") -> Response:
        """Convert an annotated document, as returned by `/v1/annotate`, to one of the formats of `/v1/page`."""
        if to not in writable:
            raise InputError("the service does not write this format", fix="See /v1/page for those that it writes")
        note = document(body.model_dump(exclude_none=True))
        [content] = await service.perform(
            lambda notes: [_written(get_format(to), note) for note in notes], [note], [len(note.text)]
        )
        return Response(content, media_type="application/octet-stream")

    if log is None:
        return

    @app.post(
        "/v1/corrections",
        summary="Save a corrected note",
        tags=["page"],
        responses=problems(400, 401, 403, 408, 409, 413, 415, 421, 422, 429, 503),
    )
    async def save(body: CorrectionRequest) -> CorrectionAnswer:
        """Save a note that a person has corrected. `osler corrections` makes tasks from saved notes, to fine-tune on.

        If the same annotator saves a text again, it replaces the earlier one.
        """
        check_annotator(body.annotator)
        if body.model not in ("", model):
            raise RefusedError(409, "other_model", "Another model answers by now. Annotate the note again.")
        note = document(body.document.model_dump(exclude_none=True))
        if not note.text.strip():
            raise InputError("the text is empty", where="document")
        heads = list(dict.fromkeys(body.heads))
        check_note(spec, heads, note)
        changes = {key: getattr(body.changes, key) for key in CHANGES}
        await run_in_threadpool(log.add, body.annotator, model, heads, changes, note)
        return CorrectionAnswer(**(await run_in_threadpool(log.counts, body.annotator))._asdict())


def _downloads() -> list[DownloadFormat]:
    """Formats to offer, as far as they are installed."""
    found = []
    for name, title in _TITLES.items():
        with suppress(UnknownNameError):
            format_ = get_format(name)
            suffix = ".zip" if format_.layout == "folder" else format_.suffixes[0]
            found.append(DownloadFormat(name=name, title=title, suffix=suffix))
    return found


def _written(format_: Format, note: Document) -> bytes:
    """Return the bytes of the file, written in a temporary folder that only this process can read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("note" if format_.layout == "folder" else f"note{format_.suffixes[0]}")
        format_.write([note], path)
        if format_.layout == "file":
            return path.read_bytes()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(path.rglob("*")):
                if file.is_file():  # without the time of day, so that the same note gives the same bytes
                    archive.writestr(zipfile.ZipInfo(str(file.relative_to(path))), file.read_bytes())
        return packed.getvalue()
