"""How hard the notes are: a list of the words seen in training does not solve them, context does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from clinic_labels import ENTITY_LABELS

from osler.clinic.labels import LANGUAGES, PHI_LABELS, Language, Split
from osler.text.document import Document

Made = Callable[[Language, Split], list[Document]]
Key = tuple[int, int, str]
Ranges = list[tuple[int, int]]

_WORD = re.compile(r"\w+|[^\w\s]")


def _ranges(text: str) -> Ranges:
    return [match.span() for match in _WORD.finditer(text)]


def _f1(pairs: Iterable[tuple[set[Key], set[Key]]]) -> float:
    right = gold_size = found_size = 0
    for gold, found in pairs:
        right += len(gold & found)
        gold_size += len(gold)
        found_size += len(found)
    return 2 * right / (gold_size + found_size)


def _gold(document: Document, labels: tuple[str, ...]) -> set[Key]:
    return {(span.start, span.end, span.label) for span in document.spans if span.label in labels}


class Lookup:
    """The best a word list can do: each phrase gets its most common label in training, or none if that is more common."""

    def __init__(self, documents: list[Document], labels: tuple[str, ...]) -> None:
        seen: dict[tuple[str, ...], Counter[str]] = {}
        for document in documents:
            for start, end, label in _gold(document, labels):
                phrase = tuple(_WORD.findall(document.text[start:end].lower()))
                seen.setdefault(phrase, Counter())[label] += 1
        self.longest = max(map(len, seen))
        occurrences: Counter[tuple[str, ...]] = Counter()
        for document in documents:
            words = _WORD.findall(document.text.lower())
            for size in range(1, self.longest + 1):
                grams = (tuple(words[place : place + size]) for place in range(len(words) - size + 1))
                occurrences.update(gram for gram in grams if gram in seen)
        commonest = {phrase: counts.most_common(1)[0] for phrase, counts in seen.items()}
        self.phrases = {key: label for key, (label, count) in commonest.items() if 2 * count >= occurrences[key]}

    def find(self, document: Document) -> set[Key]:
        ranges = _ranges(document.text)
        words = [document.text[start:end].lower() for start, end in ranges]
        found: set[Key] = set()
        place = 0
        while place < len(words):
            for size in range(min(self.longest, len(words) - place), 0, -1):
                label = self.phrases.get(tuple(words[place : place + size]))
                if label:
                    found.add((ranges[place][0], ranges[place + size - 1][1], label))
                    place += size
                    break
            else:
                place += 1
        return found


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("labels", "most"), [(ENTITY_LABELS, 0.72), (PHI_LABELS, 0.4)], ids=["entities", "phi"])
def test_a_list_of_seen_phrases_does_not_solve_the_notes(
    language: Language, labels: tuple[str, ...], most: float, made: Made
) -> None:
    lookup = Lookup(made(language, "train"), labels)
    test = made(language, "test")
    assert _f1((_gold(document, labels), lookup.find(document)) for document in test) < most


def _features(words: list[str], place: int) -> list[str]:
    found = []
    for offset in (-2, -1, 0, 1, 2):
        word = words[place + offset] if 0 <= place + offset < len(words) else ""
        shape = re.sub(r"\d", "0", re.sub(r"[a-zà-ÿ]", "a", re.sub(r"[A-ZÀ-Þ]", "A", word)))[:5]
        found += [f"{offset}={word.lower()}", f"{offset}~{shape}", f"{offset}-{word.lower()[-4:]}"]
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_context_and_word_endings_solve_more_than_a_word_list(language: Language, made: Made) -> None:
    """A linear model of neighbouring words and endings, on few notes, labels single words better than a list."""
    hashing = pytest.importorskip("sklearn.feature_extraction").FeatureHasher(2**16, input_type="string")
    model = pytest.importorskip("sklearn.linear_model").SGDClassifier(alpha=1e-5, max_iter=4, tol=None, random_state=0)
    kinds = (*ENTITY_LABELS, *PHI_LABELS)

    def words_and_labels(document: Document) -> tuple[list[str], list[str]]:
        ranges = _ranges(document.text)
        labels = ["O"] * len(document.text)
        for start, end, label in _gold(document, kinds):
            labels[start:end] = [label] * (end - start)
        return [document.text[start:end] for start, end in ranges], [labels[start] for start, _ in ranges]

    train = [words_and_labels(document) for document in made(language, "train")[:40]]
    test = [words_and_labels(document) for document in made(language, "test")[:20]]
    rows = [_features(words, place) for words, _ in train for place in range(len(words))]
    model.fit(hashing.transform(rows), [label for _, labels in train for label in labels])
    seen: dict[str, Counter[str]] = {}
    for words, labels in train:
        for word, label in zip(words, labels, strict=True):
            seen.setdefault(word.lower(), Counter())[label] += 1
    by_context = by_list = total = 0
    for words, labels in test:
        guesses = model.predict(hashing.transform([_features(words, place) for place in range(len(words))]))
        for word, label, guess in zip(words, labels, guesses, strict=True):
            if label != "O":
                total += 1
                by_context += guess == label
                by_list += word.lower() in seen and seen[word.lower()].most_common(1)[0][0] == label
    assert by_context / total > by_list / total + 0.1
    assert by_context / total > 0.75
