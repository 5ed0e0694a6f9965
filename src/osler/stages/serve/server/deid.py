"""De-identification over HTTP: the engine of `osler deid`, its passes shared with those of other requests."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from osler.stages.serve.deid.config import DeidOptions
from osler.stages.serve.deid.engine import DeidEngine, DeidNote, Failure
from osler.stages.serve.deid.kinds import phi_map
from osler.stages.serve.deid.rules import LANGUAGES
from osler.stages.serve.deid.run import read_key
from osler.stages.serve.deid.surrogates import Keyed, check_faker
from osler.stages.serve.server import schemas
from osler.stages.serve.server.batcher import CancelledRequestError, Ticket
from osler.stages.serve.server.guard import RefusedError
from osler.stages.serve.server.service import AnnotationService
from osler.text.document import Document

_AT_ONCE = 32


class RequestDeidOptions(DeidOptions):
    """The options of `osler deid`."""

    model_config = ConfigDict(json_schema_extra=schemas.describing(DeidOptions))

    _no_files = model_validator(mode="after")(schemas.refuse_files)


class PatientNote(BaseModel):
    """A note to de-identify."""

    model_config = ConfigDict(extra="forbid")

    id: schemas.Name | None = Field(
        None, description="Comes back with the answer; by default the number in the request."
    )
    text: schemas.Text
    patient: schemas.Name | None = Field(
        None,
        description="Whose note it is. Notes of one patient get the same surrogates and the same shift of dates; by default the id "
        "of the note, and without one a patient of its own.",
    )


class OnePatientNote(PatientNote):
    """One note."""

    options: RequestDeidOptions = RequestDeidOptions()

    @property
    def items(self) -> list[PatientNote]:
        return [self]


class ManyPatientNotes(BaseModel):
    """Many notes, answered in the same order."""

    model_config = ConfigDict(extra="forbid")

    documents: list[PatientNote]
    options: RequestDeidOptions = RequestDeidOptions()

    @property
    def items(self) -> list[PatientNote]:
        return self.documents


PatientNotes = Annotated[
    Annotated[OnePatientNote, Tag("one")] | Annotated[ManyPatientNotes, Tag("many")],
    Discriminator(schemas.one_or_many("documents")),
]
DEID_FIELDS = {n for kind in (RequestDeidOptions, OnePatientNote, ManyPatientNotes) for n in kind.model_fields}


class ReplacedPassage(BaseModel):
    """What was replaced, by code points of the text as it was sent."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)
    kind: str = Field(examples=["NAME"])
    by: str = Field(description="rule, or the name of a head.")


class DeidentifiedNote(BaseModel):
    """A de-identified note."""

    id: str
    text: str = Field(description="The new text.")
    language: str
    replaced: list[ReplacedPassage]
    offsets: dict[str, Any] = Field(
        description="Lengths of both texts, and for each replaced passage its start and end in the old text and in the new one."
    )


class RefusedNote(BaseModel):
    """A note that could not be de-identified: no text is given."""

    id: str
    problem: str


class DeidentifiedNotes(BaseModel):
    """Notes in the order of the request."""

    documents: list[DeidentifiedNote | RefusedNote]


@dataclass(frozen=True)
class _Deidentifier:
    """De-identifies the notes of one request in a thread."""

    service: AnnotationService
    key: bytes

    def run(self, notes: list[PatientNote], options: DeidOptions, ticket: Ticket) -> list[dict[str, Any]]:
        engine = self._engine(options)
        documents = [Document(note.id or str(number), note.text) for number, note in enumerate(notes, start=1)]
        made: list[dict[str, Any]] = []
        for start in range(0, len(notes), _AT_ONCE):
            if ticket.cancelled:
                raise CancelledRequestError
            batch = documents[start : start + _AT_ONCE]
            for note, document, found in zip(notes[start:], batch, engine.find(batch), strict=False):
                keyed = Keyed(self.key, note.patient or note.id or secrets.token_hex(16))
                try:
                    done = found if isinstance(found, Failure) else engine.deidentify(document, found, keyed)
                except Exception:  # it may quote the note
                    done = Failure("what was found could not be replaced", "")
                made.append(_answer(document.id, done))
        return made

    def _engine(self, options: DeidOptions) -> DeidEngine:
        """Rules and, if the bundle has heads for it or the request names some, those heads."""
        loaded = self.service.engine
        able = options.heads or any(phi_map(head.card) for head in loaded.bundle.spec.heads.values())
        folder: Path | None = self.service.settings.bundle if able else None
        return DeidEngine(options, folder).load(loaded)


def _answer(name: str, done: DeidNote | Failure) -> dict[str, Any]:
    if isinstance(done, Failure):
        return {"id": name, "problem": done.problem}
    replaced = [{"start": f.start, "end": f.end, "kind": f.kind, "by": f.by} for f in done.findings]
    lists = {"language": done.language, "replaced": replaced, "offsets": done.offsets.as_lists()}
    return {"id": name, "text": done.text, **lists}


def add_deid(
    app: FastAPI, service: AnnotationService, problems: Callable[..., dict[int | str, dict[str, Any]]]
) -> None:
    """Add the route for de-identification."""
    settings = service.settings
    # Without a file, surrogates and shifts are those of this process and of no other.
    worker = _Deidentifier(service, read_key(settings.deid_key_file) or secrets.token_bytes(32))

    @app.post(
        "/v1/deid",
        summary="De-identify one note or many",
        tags=["annotation"],
        response_class=Response,
        responses={
            200: {"model": DeidentifiedNote | DeidentifiedNotes, "description": "The new text, and what was replaced."},
            **problems(400, 401, 403, 408, 413, 421, 422, 429, 503),
        },
    )
    async def deid(request: Request, body: Annotated[PatientNotes, Body(openapi_examples=_EXAMPLES)]) -> Response:
        """Replace protected health information, as `osler deid` does: the findings of the rules and of the bundle's heads united.

        A note that cannot be processed is refused, and its text is not given back: 422 for one note, `problem` in place of `text`
        among many.
        """
        schemas.check_size(body.items, settings, "documents")
        options = DeidOptions(**{name: getattr(body.options, name) for name in body.options.model_fields_set})
        spec = service.engine.bundle.spec
        schemas.check_heads(spec, options.heads)
        if options.language not in (None, *LANGUAGES):
            schemas.check_language(spec, options.language)
        if options.style == "surrogate":
            check_faker()
        size = sum(len(note.text) for note in body.items)
        made = await service.perform(lambda ticket: worker.run(body.items, options, ticket), size, request.receive)
        service.metrics.add("osler_records_total", len(made))
        if isinstance(body, ManyPatientNotes):
            return Response(json.dumps({"documents": made}, ensure_ascii=False) + "\n", media_type="application/json")
        if "problem" in made[0]:
            message = f"The note could not be de-identified: {made[0]['problem']}."
            raise RefusedError(422, "not_deidentified", message)
        return Response(json.dumps(made[0], ensure_ascii=False) + "\n", media_type="application/json")


_NOTE = "Mrs. Jane Roe was seen on 03/04/2019, phone 617-555-0199."
_EXAMPLES: Any = {
    "one": {"summary": "One note", "value": {"text": _NOTE, "options": {"style": "tag"}}},
    "many": {
        "summary": "Notes of one patient, with surrogates and shifted dates",
        "value": {
            "documents": [{"text": _NOTE, "patient": "p1"}, {"text": "Seen again on 03/11/2019.", "patient": "p1"}],
            "options": {"style": "surrogate", "dates": "shift"},
        },
    },
}
