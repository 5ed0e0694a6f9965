"""Requests and responses of the service, as described by OpenAPI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from osler.artifacts.bundle_spec import BundleSpec
from osler.core.config import R, Recipe, find_field
from osler.core.errors import InputError, nearest
from osler.stages.serve.config import AnnotateOptions
from osler.stages.serve.deid.config import DeidOptions
from osler.stages.serve.server.guard import RefusedError
from osler.stages.serve.server.settings import ServeRecipe
from osler.text.document import Document, TextPair, check_text, split_meta


def _storable(text: str) -> str:
    try:
        return check_text(text, where="")
    except InputError as error:
        raise ValueError(error.problem) from None


Text = Annotated[
    str,
    AfterValidator(_storable),
    Field(
        description="Any Unicode text without NUL characters. It is never altered.",
        examples=["He was given aspirin 81 mg for chest pain."],
    ),
]
Name = Annotated[str, AfterValidator(_storable), Field(max_length=256)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


def describing(kind: type[Recipe]) -> Callable[[dict[str, Any]], None]:
    """Give each option of a request the help text of the command line."""

    def describe(schema: dict[str, Any]) -> None:
        for name, value in schema["properties"].items():
            _, text = find_field(kind, name)
            value["description"] = " ".join(text.split())

    return describe


def refuse_files(options: R) -> R:
    """Reject options that name files on the server."""
    if any(isinstance(getattr(options, name), Path) for name in type(options).model_fields):
        raise ValueError("files cannot be named in a request")
    return options


def exact_types(kind: type[Recipe], given: Any) -> Any:
    """Reject values that only the command line accepts: "0.5" or true for a number, LABEL=0.8 for a threshold."""
    for name, field in kind.model_fields.items():
        if isinstance(given, dict) and name in given and not _exact(field.annotation, given[name]):
            raise ValueError(f"{name} has the wrong type")
    return given


def _exact(annotation: Any, value: Any) -> bool:
    """Whether a JSON value has the type itself, without conversion."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _exact(parts[0], value)
    if origin in (Union, UnionType):
        return any(_exact(part, value) for part in parts)
    if origin in (tuple, list):
        return isinstance(value, list) and all(_exact(parts[0], item) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_exact(parts[1], item) for item in value.values())
    if annotation in (int, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, annotation) if annotation in (str, bool, type(None)) else True


class RequestOptions(AnnotateOptions):
    """The options of `osler annotate`, all of them."""

    model_config = ConfigDict(json_schema_extra=describing(AnnotateOptions))

    _no_files = model_validator(mode="after")(refuse_files)

    @model_validator(mode="before")
    @classmethod
    def _exact_types(cls, given: Any) -> Any:
        return exact_types(cls, given)


class Note(_Body):
    """A document to annotate."""

    id: Name | None = Field(None, description="Comes back with the answer; by default the number in the request.")
    text: Text
    meta: dict[Name, Name] = Field(default_factory=dict, description="Comes back with the answer.")

    def record(self, number: int) -> Document:
        return Document(self.id or str(number), self.text, meta=_meta(self.meta))


class Pair(_Body):
    """Two texts to compare."""

    id: Name | None = Field(None, description="Comes back with the answer; by default the number in the request.")
    first: Text
    second: Text
    meta: dict[Name, Name] = Field(default_factory=dict, description="Comes back with the answer.")

    def record(self, number: int) -> TextPair:
        return TextPair(self.id or str(number), self.first, self.second, meta=_meta(self.meta))


def _meta(given: dict[str, str]) -> dict[str, str]:
    """Metadata as the command line reads it from JSON Lines."""
    meta, _ = split_meta({key: value for key, value in given.items() if value})
    return meta


class OneNote(Note):
    """One document."""

    options: RequestOptions = RequestOptions()

    @property
    def items(self) -> list[Note]:
        return [self]


class ManyNotes(_Body):
    """Many documents, answered in the same order."""

    documents: list[Note]
    options: RequestOptions = RequestOptions()

    @property
    def items(self) -> list[Note]:
        return self.documents


class OnePair(Pair):
    """One pair of texts."""

    options: RequestOptions = RequestOptions()

    @property
    def items(self) -> list[Pair]:
        return [self]


class ManyPairs(_Body):
    """Many pairs of texts, answered in the same order."""

    pairs: list[Pair]
    options: RequestOptions = RequestOptions()

    @property
    def items(self) -> list[Pair]:
        return self.pairs


def one_or_many(key: str) -> Callable[[Any], str]:
    """Return a function that tells requests for one item from those for many, which have a list under this key."""
    return lambda body: "many" if (key in body if isinstance(body, dict) else hasattr(body, key)) else "one"


Notes = Annotated[
    Annotated[OneNote, Tag("one")] | Annotated[ManyNotes, Tag("many")], Discriminator(one_or_many("documents"))
]
Pairs = Annotated[
    Annotated[OnePair, Tag("one")] | Annotated[ManyPairs, Tag("many")], Discriminator(one_or_many("pairs"))
]


class AnnotatedSpan(BaseModel):
    """A mention. Offsets count Unicode code points of the text as it was sent, from 0, the end not included."""

    start: int | None = Field(
        None, ge=0, description="First code point. In JavaScript use [...text], not UTF-16 units."
    )
    end: int | None = Field(None, ge=1, description="The code point after the last.")
    fragments: list[tuple[int, int]] | None = Field(None, description="Instead of start and end, if discontinuous.")
    label: str
    id: str | None = None
    score: float | None = Field(None, ge=0, le=1, description="Probability.")
    attributes: dict[str, str] = Field(default_factory=dict)


class AnnotatedRelation(BaseModel):
    """A directed link between two mentions, by their ids."""

    head: str
    tail: str
    label: str
    id: str | None = None
    score: float | None = Field(None, ge=0, le=1, description="Probability.")
    attributes: dict[str, str] = Field(default_factory=dict)


class AnnotatedDocument(BaseModel):
    """A document as `osler annotate` prints it; fields without content are left out."""

    id: str
    text: str
    spans: list[AnnotatedSpan] = Field(default_factory=list)
    relations: list[AnnotatedRelation] = Field(default_factory=list)
    labels: list[str] = Field(default_factory=list, description="Labels of the document, as head:label.")
    value: float | None = None
    scores: dict[str, float] = Field(default_factory=dict, description="Probability of each label.")
    meta: dict[str, str] = Field(default_factory=dict)


class AnnotatedDocuments(BaseModel):
    """Documents in the order of the request."""

    documents: list[AnnotatedDocument]


class ComparedPair(BaseModel):
    """A pair of texts as `osler annotate` prints it; fields without content are left out."""

    id: str
    first: str
    second: str
    labels: list[str] = Field(default_factory=list, description="Labels of the pair, as head:label.")
    value: float | None = Field(None, description="The number of the only head that gives one.")
    scores: dict[str, float] = Field(default_factory=dict, description="Probability of each label.")
    meta: dict[str, str] = Field(default_factory=dict)


class ComparedPairs(BaseModel):
    """Pairs in the order of the request."""

    pairs: list[ComparedPair]


class RequestDeidOptions(DeidOptions):
    """The options of `osler deid`."""

    model_config = ConfigDict(json_schema_extra=describing(DeidOptions))

    _no_files = model_validator(mode="after")(refuse_files)

    @model_validator(mode="before")
    @classmethod
    def _exact_types(cls, given: Any) -> Any:
        return exact_types(cls, given)


class PatientNote(_Body):
    """A note to de-identify."""

    id: Name | None = Field(None, description="Comes back with the answer; by default the number in the request.")
    text: Text
    patient: Name | None = Field(
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


class ManyPatientNotes(_Body):
    """Many notes, answered in the same order."""

    documents: list[PatientNote]
    options: RequestDeidOptions = RequestDeidOptions()

    @property
    def items(self) -> list[PatientNote]:
        return self.documents


PatientNotes = Annotated[
    Annotated[OnePatientNote, Tag("one")] | Annotated[ManyPatientNotes, Tag("many")],
    Discriminator(one_or_many("documents")),
]


class ReplacedPassage(BaseModel):
    """A replaced passage, with offsets in code points of the text as it was sent."""

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
    """A note that could not be de-identified, without text."""

    id: str
    problem: str


class DeidentifiedNotes(BaseModel):
    """Notes in the order of the request."""

    documents: list[DeidentifiedNote | RefusedNote]


class HeadDescription(BaseModel):
    """One head of the bundle."""

    name: str
    title: str
    kind: str = Field(description="tagging, relation, classification, multilabel or regression")
    record: str = Field(description="document, or pair for heads that compare two texts")
    language: str
    labels: list[str] = Field(description="what the head can find under its protocol")
    protocol: str

    @classmethod
    def all_of(cls, spec: BundleSpec) -> list[HeadDescription]:
        """Describe the heads of a bundle."""
        return [
            cls(
                name=name,
                title=head.card.title,
                kind=head.card.kind,
                record=head.card.record,
                language=head.card.language,
                labels=list(head.card.under(head.card.protocol_named(head.protocol)).labels),
                protocol=head.protocol,
            )
            for name, head in spec.heads.items()
        ]


class HeadDescriptions(BaseModel):
    """What the bundle can find."""

    heads: list[HeadDescription]
    languages: list[str]


class BundleCard(BaseModel):
    """The served bundle."""

    name: str = Field(description="Name of the installed model, or of the bundle's folder.")
    model_version: str = Field(description="Version of the installed model; empty for any other bundle.")
    version: str = Field(description="Version of osler.")
    digest: str = Field(description="Hash of the weights, the vocabulary and the heads.")
    heads: list[str]
    max_length: int = Field(description="Tokens in a window; longer documents are read in overlapping windows.")
    markdown: str = Field(description="The model card.")


class Health(BaseModel):
    """Whether the service is alive, or ready."""

    status: str = Field(examples=["ok"])


class RequestMistake(BaseModel):
    """One mistake in a request. It names the place, and never repeats the input."""

    where: str = Field(examples=["body.documents.3.text"])
    problem: str = Field(examples=["Input should be a valid string"])


class Problem(BaseModel):
    """Why a request was refused."""

    code: str = Field(examples=["too_large"])
    message: str = Field(examples=["The text has more than 2,000,000 characters."])
    mistakes: list[RequestMistake] = Field(default_factory=list)


def check_size(items: Sequence[BaseModel], settings: ServeRecipe, key: str) -> None:
    """Reject too many items, and texts that are too long."""
    if len(items) > settings.max_documents:
        raise RefusedError(413, "too_many", f"A request may have {settings.max_documents:,} {key}.")
    longest = max((len(getattr(item, name, "")) for item in items for name in ("text", "first", "second")), default=0)
    if longest > settings.max_text:
        raise RefusedError(413, "too_large", f"A text may have {settings.max_text:,} characters.")


def check_heads(spec: BundleSpec, heads: Sequence[str]) -> None:
    """Reject unknown heads without repeating them, because a request may contain anything anywhere."""
    unknown = [name for name in heads if name not in spec.heads]
    if unknown:
        close = nearest(unknown[0], spec.heads)
        hint = f"Did you mean {close!r}? " if close else ""
        raise RefusedError(422, "no_head", f"This bundle has no such head. {hint}Heads: {', '.join(spec.heads)}.")


def check_language(spec: BundleSpec, language: str | None) -> None:
    """Reject a language that no head is for, without repeating it."""
    if not spec.heads_for("document", (), language) and not spec.heads_for("pair", (), language):
        message = f"No head of this bundle is for that language. Languages: {', '.join(languages_of(spec))}."
        raise RefusedError(422, "no_head", message)


def languages_of(spec: BundleSpec) -> list[str]:
    """Languages of a bundle's heads."""
    return sorted({head.card.language for head in spec.heads.values()})
