"""Pipelines that read and decode text exactly as osler does, for an exported head in plain transformers.

`osler export --to hf` writes this module into the exported folder, together with all the osler code that it uses. There it only needs
numpy, tokenizers, torch and transformers, and reads its settings from the same folder. You import it yourself, so `trust_remote_code`
is not needed:

    import sys
    from transformers import pipeline

    sys.path.insert(0, FOLDER)
    from osler_pipeline import OslerTokenClassification

    find = pipeline("token-classification", model=FOLDER, pipeline_class=OslerTokenClassification)
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers.pipelines.base import ChunkPipeline

from osler.tasks.instances.base import Confidence, softmax
from osler.tasks.instances.chains import best_paths, marginals
from osler.text.sentences import SentenceSplitter, SentenceWords
from osler.text.subwords import SubwordTokenizer
from osler.text.tags import Repair, Scheme, chunks, transitions
from osler.text.windows import Window, windows
from osler.text.words import Range, line_ranges, word_of_subword, words

SETTINGS = "osler_pipeline.json"
_TENSORS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Piece:
    """A text as the model reads it: words, sub-words with their words, and the first word of each sentence."""

    words: list[Range]
    owners: list[int | None]
    ids: list[int]
    starts: list[int]


class HeadReader:
    """Settings of a head, and how it reads text."""

    def __init__(self, folder: str | Path) -> None:
        folder = Path(folder)
        self.settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        self.tokens = SubwordTokenizer(Tokenizer.from_file(str(folder / "tokenizer.json")))
        self.labels: list[str] = self.settings["outputs"]
        self.confidence = Confidence(**self.settings["confidence"])

    def sentences(self, text: str) -> list[Range]:
        """Split text into sentences as in training."""
        if self.settings["sentences"] == "lines":
            return [(start, end) for start, end in line_ranges(text) if text[start:end].strip()]
        known = {kind: frozenset(listed) for kind, listed in self.settings["sentence_words"].items()}
        return SentenceSplitter(text, SentenceWords(**known)).split()

    def piece(self, text: str, sentences: Sequence[Range] = ()) -> Piece:
        """Split a text into words and sub-words. If `sentences` are given, mentions do not cross their borders."""
        [encoding] = self.tokens.encode([text])
        found = words(text)
        begins = [start for start, _ in found]
        starts = {bisect_left(begins, start) for start, _ in sentences}
        owners = word_of_subword(found, encoding.offsets)
        return Piece(found, owners, encoding.ids, sorted({0, *(start for start in starts if start < len(found))}))

    def windows(self, piece: Piece, *, by_sentence: bool) -> Iterator[Window]:
        """Yield windows of a text, cut between words."""
        owners = piece.owners
        cuts = [i for i in range(1, len(owners)) if owners[i] is None or owners[i] != owners[i - 1]]
        size = self.settings["max_length"] - self.tokens.overhead
        for start, end in pairwise(self._borders(piece) if by_sentence else [0, len(piece.ids)]):
            inside = [cut - start for cut in cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]]
            for window in windows(end - start, size, self.settings["overlap"], inside) or [Window(0, 0, 0, 0)]:
                yield window.moved(start)

    def _borders(self, piece: Piece) -> list[int]:
        """First sub-words of the units that the model reads one by one, and the end of the text."""
        first: list[int] = []
        for start, end in pairwise([*piece.starts, len(piece.words)]):
            first += range(start, end, self.settings["max_words"] or max(1, end - start))
        owners = [(word, place) for place, word in enumerate(piece.owners) if word is not None]
        found = (bisect_left(owners, (word, 0)) for word in first[1:])
        places = {owners[border][1] for border in found if border < len(owners)}
        return sorted({0, len(piece.ids), *places}) if piece.ids else [0, 0]


class OslerPipeline(ChunkPipeline):
    """Base of both pipelines: loads the settings beside this file, and runs the model on one window at a time."""

    _load_processor: Any = False
    _load_image_processor: Any = False
    _load_feature_extractor: Any = False
    _load_tokenizer: Any = True

    def __init__(self, *arguments: Any, folder: str | Path | None = None, **named: Any) -> None:
        self.reader = HeadReader(folder or Path(__file__).parent)
        super().__init__(*arguments, **named)

    def inputs(self, ids: np.ndarray, types: np.ndarray | None = None) -> dict[str, Any]:
        """Create the tensors that the model reads."""
        row = torch.from_numpy(ids.astype(np.int64))[None]
        made = {"input_ids": row, "attention_mask": torch.ones_like(row)}
        if self.reader.settings["segments"]:
            made["token_type_ids"] = (
                torch.zeros_like(row) if types is None else torch.from_numpy(types.astype(np.int64))[None]
            )
        return made

    def _forward(self, input_tensors: dict[str, Any], **parameters: Any) -> Any:
        tensors = {name: value for name, value in input_tensors.items() if name in _TENSORS}
        others = {name: value for name, value in input_tensors.items() if name not in _TENSORS}
        return {"logits": self.model(**tensors)["logits"], **others}


class OslerTokenClassification(OslerPipeline):
    """Mentions of a text: `entity_group`, `score`, `word`, and the characters `start` to `end`."""

    def _sanitize_parameters(self, **unknown: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if unknown:
            raise TypeError(f"{', '.join(unknown)}: windows and aggregation are part of this pipeline; leave it out")
        return {}, {}, {}

    def preprocess(self, input_: str, **parameters: Any) -> Any:
        """Split a text into windows."""
        text, reader = input_, self.reader
        by_sentence = reader.settings["unit"] == "sentence"
        piece = reader.piece(text, reader.sentences(text) if by_sentence else ())
        found = list(reader.windows(piece, by_sentence=by_sentence))
        for window in found:
            model_inputs = self.inputs(reader.tokens.wrap(piece.ids[window.start : window.end]))
            yield {**model_inputs, "piece": piece, "window": window, "text": text, "is_last": window is found[-1]}

    def postprocess(self, model_outputs: Any, **parameters: Any) -> list[dict[str, Any]]:
        """Decode the words, each in the window where it has the most context."""
        settings, labels = self.reader.settings, self.reader.labels
        piece, text = model_outputs[0]["piece"], model_outputs[0]["text"]
        logits = np.zeros((len(piece.ids), len(labels)), dtype=np.float32)
        for output in model_outputs:
            window = output["window"]
            rows = output["logits"][0].float().numpy()
            shift = len(self.reader.tokens.prefix) - window.start
            logits[window.core_start : window.core_end] = rows[window.core_start + shift : window.core_end + shift]
        read: dict[int, int] = {}
        for token, word in enumerate(piece.owners):
            if word is not None and (settings["read"] == "last" or word not in read):
                read[word] = token
        order = sorted(read)
        borders = np.searchsorted(np.array(order, dtype=np.int64), piece.starts[1:])
        path, likely = self._paths(np.split(logits[[read[word] for word in order]], borders))
        tags, scores = ["O"] * len(piece.words), [1.0] * len(piece.words)
        for word, label, row in zip(order, path, likely, strict=True):
            tags[word] = labels[label]
            scores[word] = float(row[label]) if label else 1.0
        scheme, repair = Scheme(settings["scheme"]), Repair(settings["repair"])
        mentions = []
        for first, last in pairwise([*piece.starts, len(tags)]):
            for start, end, label in chunks(tags[first:last], scheme, repair):
                begin, stop = piece.words[first + start][0], piece.words[first + end - 1][1]
                score = self.reader.confidence.mention(sum(scores[first + start : first + end]) / (end - start))
                mention = {"entity_group": label, "score": score, "word": text[begin:stop], "start": begin, "end": stop}
                mentions.append(mention)
        return mentions

    def _paths(self, rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the tag of each word, and the probability of every tag. The temperature only changes the probabilities."""
        settings, scale = self.reader.settings, self.reader.confidence.temperature
        tempered = [row / np.float32(scale) for row in rows]
        legal = transitions(self.reader.labels, Scheme(settings["scheme"]))
        rules = (np.array(legal.allowed), np.array(legal.start), np.array(legal.end))
        if settings["transitions"] is not None:
            steps = np.array(settings["transitions"], dtype=np.float32)
            paths, likely = best_paths(rows, *rules, steps), marginals(tempered, *rules, steps / scale)
            return np.concatenate(paths), np.concatenate(likely)
        likely = [softmax(row) if len(row) else row for row in tempered]
        if settings["constrained"]:
            plain = [np.log(softmax(row) + 1e-12) if len(row) else row for row in rows]
            return np.concatenate(best_paths(plain, *rules)), np.concatenate(likely)
        return np.concatenate([row.argmax(axis=1) for row in rows]), np.concatenate(likely)


class OslerTextClassification(OslerPipeline):
    """Labels of a text or of a pair of texts, best first: `label` and `score`. A regression has one label, `value`.

    Texts are strings, and pairs are dictionaries with `text` and `text_pair`, as in `pipeline("text-classification")`. Long texts are read
    in windows whose outputs are pooled.
    """

    def _sanitize_parameters(self, **unknown: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        if unknown:
            raise TypeError(f"{', '.join(unknown)}: truncation and labels are part of this pipeline; leave it out")
        return {}, {}, {}

    def preprocess(self, input_: str | dict[str, str], **parameters: Any) -> Any:
        """Yield the windows of a text, or of a pair in both orders if the order has no meaning."""
        text, reader = input_, self.reader
        made: list[dict[str, Any]] = []
        if isinstance(text, dict):
            for swapped in reader.settings["orders"]:
                names = ("text_pair", "text") if swapped else ("text", "text_pair")
                [first], [second] = (reader.tokens.encode([text[name]]) for name in names)
                made.append(self.inputs(*reader.tokens.pair(first, second, reader.settings["max_length"])))
        else:
            parts = [text]
            if reader.settings["unit"] == "sentence":
                parts = [text[start:end] for start, end in reader.sentences(text)] or [text]
            for piece in map(reader.piece, parts):
                for window in reader.windows(piece, by_sentence=False):
                    made.append(self.inputs(reader.tokens.wrap(piece.ids[window.start : window.end])))
        for number, model_inputs in enumerate(made, 1):
            yield {**model_inputs, "is_last": number == len(made)}

    def postprocess(self, model_outputs: Any, **parameters: Any) -> list[dict[str, Any]]:
        """Pool the windows, and return every label with its probability."""
        rows = np.stack([output["logits"][0].float().numpy().reshape(-1) for output in model_outputs])
        problem, scale = self.reader.settings["problem"], self.reader.confidence.temperature
        if problem == "multilabel":
            scores = 1.0 / (1.0 + np.exp(-rows.max(axis=0) / scale))
        else:
            scores = rows.mean(axis=0) if problem == "regression" else softmax(rows.mean(axis=0) / scale)
        order = np.argsort(-scores, kind="stable")
        return [{"label": self.reader.labels[place], "score": float(scores[place])} for place in order]
