"""Thresholds and target recall: what they cost on dev, and how they are applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from osler.artifacts.bundle_spec import BundleSpec
from osler.artifacts.calibration import ALL, BundleCalibration, HeadCalibration, OperatingPoint
from osler.core.errors import RecipeError, nearest
from osler.stages.serve.config import AnnotateOptions
from osler.tasks.card import Kind
from osler.text.document import Document, Relation, Span

_COUNTED = {
    "mentions": "mentions (found if a part of them is, with the right label)",
    "characters": "characters of protected health information (whatever their label)",
    "relations": "relations (between the entities of the corpus)",
    "labels": "labels",
}
_SCORED = (Kind.TAGGING, Kind.RELATION)
"""Kinds of heads to whose predictions thresholds apply."""


@dataclass(frozen=True)
class Demands:
    """Thresholds and target recall of an annotation, applied to one bundle."""

    spec: BundleSpec
    calibration: BundleCalibration
    options: AnnotateOptions

    def biases(self, heads: Sequence[str]) -> dict[str, float]:
        """Bias of each head that reaches the target recall."""
        self._check_labels(heads)
        return {head: point.setting for head, point in self._points(heads).items()}

    def kept(self, document: Document) -> Document:
        """Drop spans and relations with a low score, and relations of dropped spans. Items without a score are kept."""
        limits, usual = self.options.thresholds, self.options.min_score
        if not limits and not usual:
            return document

        def high(item: Span | Relation) -> bool:
            return item.score is None or item.score >= limits.get(item.label, usual)

        spans = tuple(filter(high, document.spans))
        kept = {span.id for span in spans}
        relations = tuple(r for r in document.relations if high(r) and {r.head, r.tail} <= kept)
        return document.with_(spans=spans, relations=relations)

    def costs(self, heads: Sequence[str]) -> list[str]:
        """Lines that state what thresholds and target recall cost on dev, to print before the run."""
        self._check_labels(heads)
        lines = []
        for head, point in self._points(heads).items():
            known = self.calibration.heads[head]
            before = known.recall[ALL][0]
            cost = (
                f"precision {_was(before, point)}" if point != before else f"precision {point.precision:.3f} as it is"
            )
            lines.append(
                f"{head}: recall {point.recall:.3f} on dev, {cost}, of {_COUNTED[known.counted or 'mentions']}"
            )
        if self.options.target_recall is not None:
            others = [name for name in heads if name not in self.biases(heads)]
            if others:
                lines.append(f"target recall does not apply to {', '.join(others)}")
        if self.options.min_score or self.options.thresholds:
            for head in heads:
                lines += self._threshold_costs(head)
        return lines

    def _threshold_costs(self, head: str) -> list[str]:
        known = self.calibration.heads.get(head)
        if self.spec.heads[head].card.kind not in _SCORED:
            return []
        if known is None or not known.thresholds:
            return [f"{head}: its scores are not calibrated, so what a threshold costs is not known"]
        limits = {ALL: self.options.min_score} if self.options.min_score else {}
        limits |= {label: limit for label, limit in self.options.thresholds.items() if label in known.thresholds}
        return [_cost(head, known, label, limit) for label, limit in limits.items()]

    def _points(self, heads: Sequence[str]) -> dict[str, OperatingPoint]:
        """Point at which each head reaches the target recall. Raises an error if a head never does."""
        target = self.options.target_recall
        if target is None:
            return {}
        found: dict[str, OperatingPoint] = {}
        for head in heads:
            if self.spec.heads[head].card.kind not in (*_SCORED, Kind.MULTILABEL):
                continue
            known = self.calibration.heads.get(head)
            best = known.best_recall() if known else None
            if known is None or best is None:
                raise RecipeError(
                    f"no target recall for {head}: the bundle does not say what it finds on dev",
                    fix="Fine-tune it again (calibrate = true, on a task with a dev split), "
                    "or choose other heads with --head or --language",
                )
            point = known.at_recall(target)
            if point is None:
                raise RecipeError(
                    f"{head} does not reach recall {target:g}: at most {best.recall:.3f} on dev, "
                    f"with precision {_was(known.recall[ALL][0], best)}",
                    fix=f"Ask for {_floor(best.recall)} or less, or choose other heads with --head or --language",
                )
            found[head] = point
        if not found:
            raise RecipeError(
                "a target recall needs a head that finds something", fix="Remove --target-recall, or choose other heads"
            )
        return found

    def _check_labels(self, heads: Sequence[str]) -> None:
        known = dict.fromkeys(label for head in heads for label in self._labels(head))
        for label in self.options.thresholds:
            if label not in known:
                close = nearest(label, known)
                hint = f"Did you mean {close!r}? " if close else ""
                raise RecipeError(
                    f"no entity or relation has the label {label!r}", fix=f"{hint}Labels: {', '.join(known) or 'none'}"
                )

    def _labels(self, head: str) -> Sequence[str]:
        one = self.spec.heads[head]
        return one.card.under(one.card.protocol_named(one.protocol)).labels if one.card.kind in _SCORED else ()


def _cost(head: str, known: HeadCalibration, label: str, limit: float) -> str:
    before, after = known.thresholds[label][0], known.at_score(limit, label)
    assert after is not None
    name = "" if label == ALL else f" {label}"
    return (
        f"{head}:{name} from score {limit:g}, exact on dev: precision {_was(before, after)}, "
        f"recall {after.recall:.3f} instead of {before.recall:.3f}"
    )


def _was(before: OperatingPoint, after: OperatingPoint) -> str:
    return f"{after.precision:.3f} instead of {before.precision:.3f}"


def _floor(recall: float) -> str:
    return f"{int(recall * 1000) / 1000:g}"
