"""Documents wrapped in a form, to train on in addition to plain ones.

Clinical notes begin with patient details and end with a signature; the texts of most corpora do not. A head whose training
documents have no form may find nothing near one: PharmaCoNER's head found one drug in four in notes with a form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osler.artifacts.task_folder import TaskFolder
from osler.core.errors import RecipeError
from osler.core.seeding import generator
from osler.tasks.card import Kind, TaskCard
from osler.text.document import Document, Record, has_tokens

_LONGEST_LINE = 120
"""Maximum length of a form line in characters; a longer line is running text."""
_FEWEST_LINES = 3

Form = tuple[str, str]
"""The lines before a text and the lines after it."""


def forms_of(documents: Sequence[Record]) -> list[Form]:
    """Extract the forms of documents: the short lines at the top, and the last line if it contains an annotation."""
    found = []
    for document in documents:
        if not isinstance(document, Document):
            continue
        opening = ""
        for line in document.text.splitlines(keepends=True):
            if len(line) > _LONGEST_LINE:
                break
            opening += line
        start = document.text.rstrip().rfind("\n") + 1
        signed = start > len(opening) and any(span.start >= start for span in document.spans)
        if opening.count("\n") >= _FEWEST_LINES and len(opening) < len(document.text):
            found.append((opening, "\n" + document.text[start:] if signed else ""))
    return found


def with_forms(
    form_task: TaskFolder, records: Mapping[str, Sequence[Record]], cards: Mapping[str, TaskCard], seed: int
) -> dict[str, list[Record]]:
    """Add form-wrapped copies of about half of the documents of each tagging task in the language of `form_task`.

    Tasks that annotate identifiers are left unchanged, because a form contains mentions for them to find.
    """
    forms = forms_of(form_task.read("train"))
    if not forms:
        raise RecipeError(
            f"no document of {form_task.card.name} begins with a form: at least {_FEWEST_LINES} lines of up to {_LONGEST_LINE} characters",
            fix="Set forms to a task whose documents do, or remove it",
        )
    made = {name: list(found) for name, found in records.items()}
    for name, card in cards.items():
        if card.kind is Kind.TAGGING and card.language == form_task.card.language and not card.phi:
            draws = generator(seed, "forms", name)
            made[name] += [
                in_form(record, forms[draws.integers(len(forms))])
                for record in records[name]
                if isinstance(record, Document) and not has_tokens(record) and draws.random() < 0.5
            ]
    return made


def in_form(document: Document, form: Form) -> Document:
    """Wrap a document in a form and shift its mentions."""
    opening, closing = form
    spans = tuple(span.moved(len(opening)) for span in document.spans)
    return Document(f"{document.id}/form", f"{opening}{document.text}{closing}", spans=spans)
