"""Remove web pages that are error messages."""

from __future__ import annotations

from osler.stages.corpus.documents import RepairedDocument
from osler.stages.corpus.filters import Filter

_HEAD = 200
_PHRASES = (
    "404 not found",
    "403 forbidden",
    "error 404",
    "erreur 404",
    "page not found",
    "page cannot be found",
    "access denied",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "robots.txt",
    "página no encontrada",
    "página no existe",
    "acceso denegado",
    "page non trouvée",
    "page introuvable",
    "accès refusé",
)


class ErrorPages(Filter):
    """Phrases that mark the head of an error page."""

    words: tuple[str, ...] = _PHRASES
    """Words or phrases to look for in the head, ignoring case. carrino2022's cleaner includes `found` and `error`, which also
    removes articles on medication errors."""
    first_line: bool = True
    """Use the first line as the head of a document without a title; otherwise such documents are kept."""

    def reason(self, document: RepairedDocument) -> str | None:
        head = document.title or ""
        if not head and self.first_line:
            head = document.text[:_HEAD].lstrip().partition("\n")[0]
        head = head.lower()
        return "words" if any(word.lower() in head for word in self.words) else None
