"""brat stand-off: `X.txt` with its annotations in `X.ann`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path

from osler.formats.base import SourceReading, StandOffFormat
from osler.formats.draft import Draft, pair_files
from osler.formats.output import ATTRIBUTES, DISCONTINUOUS, RELATIONS, SPANS, OutputFolder, distinct_ids, documents
from osler.formats.sources import SourceTree
from osler.text.document import YES, Document, Record, Relation, Span

_MENTION = re.compile(r"(\S+) (-?\d+ -?\d+(?:;-?\d+ -?\d+)*)")
_TARGETS = re.compile(r"\S+:\S+")
_MENTION_ID = re.compile(r"T\d+")
_RELATION_ID = re.compile(r"R\d+")
# Ids that the reader assigns to relations of events and equivalences.
_GENERATED = re.compile(r"(E\d+|\*\d+)\.\d+")
_WORD = re.compile(r"[^\s:;]+")
_BREAKS = re.compile(r"[\t\n\r]")
_COUNTED = re.compile(r"(.+)#\d+")
# A shorter text could match any word.
_SHORTEST = 4
_FIRST = re.compile(r"\w+")
# Attributes that the reader adds and the writer converts back into structure.
_SPECIAL = {"roles", "event", "target", "equiv"}


@dataclass(frozen=True)
class Brat(StandOffFormat):
    """brat stand-off. `label_prefix` is removed from labels that have it (ICTUSnet marks suggestions with "_SUG_").

    `configuration`: write an `annotation.conf`, without which brat shows every annotation as an error.

    Two options are for corpora that mark cues and their scopes, such as NUBes. `cues` is a list of `LABEL=ATTRIBUTE`, where `*`
    matches any characters: a mention that a cue points to gets the attribute, and so do the mentions inside it. `repeated` is a list
    of labels: wherever the text of such a mention occurs again outside all mentions of a document, a mention is added. It is in no
    scope, so it has no attribute.
    """

    label_prefix: str = ""
    configuration: bool = True
    cues: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()

    def _detect(self, tree: SourceTree) -> bool:
        names = tree.names("*.ann")
        heads = (tree.head(name, 1) for name in names)
        # If nothing is annotated, all .ann files are empty.
        first = next((head[0] for head in heads if head), "T")
        return bool(names) and first[:1] in "TREAMN#*"

    def _read(self, reading: SourceReading) -> Iterator[Document]:
        found = (_scoped(document, self.cues) for document in self._annotated(reading))
        yield from _with_repeated(list(found), self.repeated) if self.repeated else found

    def _annotated(self, reading: SourceReading) -> Iterator[Document]:
        for text_name, annotation_name in pair_files(reading, ".ann"):
            stem = text_name.rsplit("/", 1)[-1].removesuffix(".txt").removesuffix(".utf8")
            reading.check_new(stem, text_name)
            draft = Draft(reading, stem, reading.tree.text(text_name), annotation_name or text_name)
            annotations = _Annotations(draft, self.label_prefix)
            for number, line in reading.tree.lines(annotation_name) if annotation_name else ():
                if line and not line.isspace():
                    annotations.add(number, line)
            yield annotations.document()

    def _write(self, records: Iterable[Record], path: Path, losses: Counter[str]) -> None:
        folder = OutputFolder(path, losses)
        types = _Types()
        for document in documents(records, losses, holds={SPANS, DISCONTINUOUS, RELATIONS, ATTRIBUTES}):
            stem = folder.stem(document.id)
            lines = list(_lines(document, losses))
            folder.write(f"{stem}.txt", document.text)
            folder.write(f"{stem}.ann", "".join(f"{line}\n" for line in lines))
            types.add(lines)
        if self.configuration:
            folder.write("annotation.conf", types.configuration())


class _Annotations:
    """Parses one .ann file. Lines that refer to others are resolved once all are read."""

    def __init__(self, draft: Draft, label_prefix: str) -> None:
        self._draft = draft
        self._prefix = label_prefix
        self._attributes: list[tuple[int, str, str, str]] = []
        self._events: dict[str, tuple[int, str, str, list[tuple[str, str]]]] = {}
        self._equivalences = 0

    def add(self, number: int, line: str) -> None:
        kind, columns = line[0], line.split("\t", 2)
        if len(columns) < 2:
            return self._malformed(number)
        if kind == "T":
            match = _MENTION.fullmatch(columns[1])
            if match is None:
                return self._malformed(number)
            offsets = self._draft.numbers(re.split("[ ;]", match[2]), number)
            if offsets is None:
                return None
            fragments = zip(offsets[::2], offsets[1::2], strict=True)
            expected = columns[2] if len(columns) > 2 else None
            label = match[1].removeprefix(self._prefix)
            self._draft.span(fragments, label, span_id=columns[0], expected=expected, line=number)
        elif kind == "R":
            self._relation(number, columns)
        elif kind in "AMN#":
            target = columns[1].split(" ", 2)
            if len(target) < 2:
                return self._malformed(number)
            value = columns[2] if kind == "#" and len(columns) > 2 else " ".join(target[2:])
            if kind == "N" and len(columns) > 2:
                value = f"{value}\t{columns[2]}"
            self._attributes.append((number, target[1], target[0], value))
        elif kind == "E":
            parts = columns[1].split()
            if not parts or not all(_TARGETS.fullmatch(part) for part in parts):
                return self._malformed(number)
            label, trigger = parts[0].rsplit(":", 1)
            arguments = [(role, target) for role, target in (part.rsplit(":", 1) for part in parts[1:])]
            self._events[columns[0]] = (number, label, trigger, arguments)
        elif kind == "*":
            label, *members = columns[1].split()
            self._equivalences += 1
            for index, member in enumerate(members[1:], 1):
                equivalence = {"equiv": str(self._equivalences)}
                name = f"*{self._equivalences}.{index}"
                self._draft.relation(label, members[0], member, relation_id=name, attributes=equivalence, line=number)
        else:
            self._malformed(number)
        return None

    def document(self) -> Document:
        for event, (number, label, trigger, arguments) in self._events.items():
            self._attributes.append((number, trigger, f"event:{event}", label))
            for index, (role, target) in enumerate(arguments, 1):
                more = {"event": event}
                if target in self._events:
                    more["target"] = target
                    target = self._events[target][2]
                name = f"{event}.{index}"
                self._draft.relation(role, trigger, target, relation_id=name, attributes=more, line=number)
        spans, relations = self._draft.spans, self._draft.relations
        gathered: dict[str, dict[str, str]] = {}
        repeats: Counter[tuple[str, str]] = Counter()
        for number, target, name, value in self._attributes:
            target = self._events[target][2] if target in self._events else target
            if target not in spans and target not in relations:
                self._draft.dangling(number)
                continue
            mine = gathered.setdefault(target, {})
            key = name
            while key in mine:
                repeats[target, name] += 1
                key = f"{name}#{repeats[target, name] + 1}"
            mine[key] = value
        for target, found in gathered.items():
            if target in spans:
                spans[target] = replace(spans[target], attributes=found)
            if target in relations:
                relation, line = relations[target]
                relations[target] = replace(relation, attributes={**relation.attributes, **found}), line
        return self._draft.document()

    def _relation(self, number: int, columns: list[str]) -> None:
        parts = columns[1].split()
        if len(parts) != 3 or not all(_TARGETS.fullmatch(part) for part in parts[1:]):
            return self._malformed(number)
        (role1, head), (role2, tail) = (part.split(":", 1) for part in parts[1:])
        if (role1, role2) == ("Arg2", "Arg1"):
            role1, head, role2, tail = role2, tail, role1, head
        roles = {} if (role1, role2) == ("Arg1", "Arg2") else {"roles": f"{role1} {role2}"}
        self._draft.relation(parts[0], head, tail, relation_id=columns[0], attributes=roles, line=number)
        return None

    def _malformed(self, number: int) -> None:
        self._draft.report("malformed-line", "not a brat line", number)


def _scoped(document: Document, cues: Sequence[str]) -> Document:
    """Add the attribute of each cue to the mentions in its scope."""
    kinds = [tuple(cue.partition("=")[::2]) for cue in cues]
    label = {span.id: span.label for span in document.spans}
    scopes: dict[str, list[Span]] = {}
    for relation in document.relations:
        for pattern, name in kinds:
            if fnmatchcase(label[relation.head], pattern) and not fnmatchcase(label[relation.tail], pattern):
                scopes.setdefault(name, []).append(document.span(relation.tail))
    if not scopes:
        return document
    spans = []
    for span in document.spans:
        held = [
            name
            for name, found in scopes.items()
            if any(scope.start <= span.start and span.end <= scope.end for scope in found)
        ]
        spans.append(replace(span, attributes={**span.attributes, **dict.fromkeys(held, YES)}))
    return document.with_(spans=tuple(spans))


def _with_repeated(found: Sequence[Document], labels: Sequence[str]) -> Iterator[Document]:
    """Add mentions where the text of a mention occurs again outside all mentions. The longest text wins."""
    kinds: dict[str, Counter[str]] = {}
    for document in found:
        for span in document.spans:
            text = document.text[span.start : span.end].casefold()
            if span.label in labels and not span.discontinuous and len(text) >= _SHORTEST and text[0].isalnum():
                kinds.setdefault(text, Counter())[span.label] += 1
    # Index by first word: a single pattern of thousands of texts would be tried at every word.
    texts: dict[str, list[str]] = {}
    for text in sorted(kinds, key=lambda text: (-len(text), text)):
        texts.setdefault(_FIRST.findall(text)[0], []).append(re.escape(text))
    patterns = {word: re.compile(rf"(?:{'|'.join(own)})(?!\w)", re.IGNORECASE) for word, own in texts.items()}
    for document in found:
        taken = sorted((span.start, span.end) for span in document.spans)
        ends = list(accumulate((end for _, end in taken), max))
        more: list[Span] = []
        for word in _FIRST.finditer(document.text):
            pattern = patterns.get(word.group().casefold())
            match = pattern.match(document.text, word.start()) if pattern else None
            if match is None or (more and match.start() < more[-1].end):
                continue
            before = bisect_left(taken, (match.end(), 0))
            if (not before or ends[before - 1] <= match.start()) and (kind := kinds.get(match.group().casefold())):
                more.append(Span.at(*match.span(), kind.most_common(1)[0][0], id=f"repeated{len(more) + 1}"))
        yield document.with_(spans=(*document.spans, *more))


class _Types:
    """Collects the types in .ann lines for `annotation.conf`."""

    def __init__(self) -> None:
        self._entities: set[str] = set()
        self._relations: dict[str, dict[str, set[str]]] = {}
        self._equivalences: set[str] = set()
        self._events: dict[str, set[str]] = {}
        self._attributes: dict[str, set[str]] = {}

    def add(self, lines: Iterable[str]) -> None:
        """Add the types of one document. Mentions must come before lines that refer to them."""
        labels: dict[str, str] = {}
        for name, content, *_ in (line.split("\t") for line in lines):
            first, *rest = content.split(" ")
            targets = [part.split(":", 1) for part in rest if ":" in part]
            if name[0] == "T":
                labels[name] = first
                self._entities.add(first)
            elif name[0] == "R":
                for role, target in targets:
                    self._relations.setdefault(first, {}).setdefault(role, set()).add(labels.get(target, "<ENTITY>"))
            elif name[0] == "*":
                self._equivalences.add(first)
            elif name[0] == "E":
                roles = self._events.setdefault(first.split(":", 1)[0], set())
                roles.update(role.rstrip("0123456789") for role, _ in targets)
            elif name[0] == "A":
                self._attributes.setdefault(first, set()).update(rest[1:2])

    def configuration(self) -> str:
        relations = [
            f"{label}\t" + ", ".join(f"{role}:{'|'.join(sorted(found))}" for role, found in roles.items())
            for label, roles in sorted(self._relations.items())
        ]
        entities = "Arg1:<ENTITY>, Arg2:<ENTITY>"
        relations += [f"{label}\t{entities}, <REL-TYPE>:symmetric-transitive" for label in sorted(self._equivalences)]
        relations.append(f"<OVERLAP>\t{entities}, <OVL-TYPE>:<ANY>")  # mentions may nest
        events = [
            "\t".join([label, ", ".join(f"{role}*:<ANY>" for role in sorted(roles))]).rstrip()
            for label, roles in sorted(self._events.items())
        ]
        attributes = [
            f"{name}\tArg:<ANY>" + (f", Value:{'|'.join(sorted(values))}" if values else "")
            for name, values in sorted(self._attributes.items())
        ]
        sections = {
            "entities": sorted(self._entities - self._events.keys()),
            "relations": relations,
            "events": events,
            "attributes": attributes,
        }
        return "\n".join(f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections.items())


def _lines(document: Document, losses: Counter[str]) -> Iterator[str]:
    """Yield the .ann lines: mentions, each followed by its attributes, then relations, events and equivalences."""
    numbers: Counter[str] = Counter()
    names = _ids(document.spans, "T", losses)
    by_id: dict[str, str] = {}
    events: dict[str, list[str]] = {}
    for span, name in zip(document.spans, names, strict=True):
        by_id.setdefault(span.id, name)
        offsets = ";".join(f"{start} {end}" for start, end in span.fragments)
        shown = " ".join(span.text_in(document.text).splitlines()).replace("\t", " ")
        yield f"{name}\t{_word(span.label, losses)} {offsets}\t{shown}"
        yield from _attribute_lines(name, span.attributes, numbers, losses)
        for key, label in span.attributes.items():
            if key.startswith("event:"):
                events[key.removeprefix("event:")] = [f"{_word(label, losses)}:{name}"]
    equivalences: dict[str, list[str]] = {}
    plain: list[Relation] = []
    for relation in document.relations:
        head, tail = by_id[relation.head], by_id[relation.tail]
        if relation.attributes.get("event", "") in events:
            target = relation.attributes.get("target", tail)
            events[relation.attributes["event"]].append(f"{_word(relation.label, losses)}:{target}")
        elif "equiv" in relation.attributes:
            group = equivalences.setdefault(relation.attributes["equiv"], [_word(relation.label, losses), head])
            group.append(tail)
        else:
            plain.append(relation)
    for relation, name in zip(plain, _ids(tuple(plain), "R", losses), strict=True):
        role1, role2 = relation.attributes.get("roles", "Arg1 Arg2").split(" ", 1)
        arguments = f"{role1}:{by_id[relation.head]} {role2}:{by_id[relation.tail]}"
        yield f"{name}\t{_word(relation.label, losses)} {arguments}"
        yield from _attribute_lines(name, relation.attributes, numbers, losses)
    for event, parts in events.items():
        yield f"{event}\t{' '.join(parts)}"
    for members in equivalences.values():
        yield f"*\t{' '.join(members)}"


def _word(name: str, losses: Counter[str]) -> str:
    """Rewrite a label as one word, as brat requires."""
    if _WORD.fullmatch(name):
        return name
    losses["labels rewritten"] += 1
    return re.sub(r"[\s:;]+", "_", name) or "_"


def _ids(items: Sequence[Span | Relation], letter: str, losses: Counter[str]) -> list[str]:
    pattern = _MENTION_ID if letter == "T" else _RELATION_ID
    # Ids that the reader generated for events and equivalences are no loss if they change.
    own = [replace(item, id="") if _GENERATED.fullmatch(item.id) else item for item in items]
    return distinct_ids(own, letter, losses, pattern.fullmatch)


def _attribute_lines(
    target: str, attributes: Mapping[str, str], numbers: Counter[str], losses: Counter[str]
) -> Iterator[str]:
    def numbered(letter: str) -> str:
        numbers[letter] += 1
        return f"{letter}{numbers[letter]}"

    for key, value in attributes.items():
        if key in _SPECIAL or key.startswith("event:"):
            continue
        counted = _COUNTED.fullmatch(key)
        name = counted[1] if counted and counted[1] in attributes else key
        if not _WORD.fullmatch(name):
            losses[ATTRIBUTES] += 1
        elif name == "Reference" and re.fullmatch(r"\S+(\t[^\t\n\r]*)?", value):
            reference, _, shown = value.partition("\t")
            yield f"{numbered('N')}\t{name} {target} {reference}" + (f"\t{shown}" if shown else "")
        elif _BREAKS.search(value):
            losses[ATTRIBUTES] += 1
        elif name == "AnnotatorNotes" or re.search(r"\s", value):
            yield f"{numbered('#')}\t{name} {target}\t{value}"
        else:
            yield f"{numbered('A')}\t{name} {target}{' ' if value else ''}{value}"


FORMAT = Brat("brat", "brat stand-off: X.txt and X.ann", (".ann", ".txt"), "folder")
