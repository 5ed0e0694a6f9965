"""Score predictions against gold under a protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from osler.core.errors import RecipeError
from osler.metrics.classification import score_classes, score_hoc, score_multilabel, score_ranking
from osler.metrics.correlation import decomposed_pearson, pearson, spearman
from osler.metrics.deid import score_deid
from osler.metrics.scores import Decomposed
from osler.metrics.spans import score_anchored, score_attributes, score_relations, score_spans, score_tokens
from osler.tasks.card import Kind, Protocol, TaskCard
from osler.text.document import Document, Record, Relation, documents_in
from osler.text.tags import Repair


@dataclass(frozen=True)
class Scored:
    """All metrics of one evaluation; `main` is the metric of the protocol."""

    main: float
    metrics: dict[str, float]
    details: dict[str, Any]
    documents: int
    """Number of records that were scored."""
    decomposed: Decomposed | None
    """`main` as a function of sums over documents; None if it is not one, such as a rank correlation."""


def score(
    card: TaskCard, protocol: Protocol, gold: Sequence[Record], predicted: Sequence[Record], *, main_only: bool = False
) -> Scored:
    """Score one task under one protocol. `main_only` skips metrics that take time and are not the main one."""
    if protocol.records == "labelled":
        pairs = [(want, have) for want, have in zip(gold, predicted, strict=True) if want.labels]
        gold, predicted = [want for want, _ in pairs], [have for _, have in pairs]
    card = card.under(protocol)
    gold, predicted = ([protocol.relabelled(record) for record in side] for side in (gold, predicted))
    if main_only and card.kind is Kind.TAGGING and protocol.metric in _BY_MENTION:
        metrics, details, decompositions = _mentions(card, gold, predicted)
    else:
        metrics, details, decompositions = _SCORERS[card.kind](card, gold, predicted)
    if card.kind is Kind.TAGGING and protocol.repair is Repair.B_ANCHORED:
        # Only this repair records which predicted mentions do not begin with B-.
        anchored = score_anchored(documents_in(gold), documents_in(predicted), labels=card.labels)
        metrics["b_anchored_f1"], decompositions["b_anchored_f1"] = anchored.micro.f1, anchored.f1("micro")
        details["b_anchored"] = anchored.as_dict()
    if protocol.metric not in metrics:
        raise RecipeError(
            f"metric {protocol.metric!r} is not supported for a {card.kind} task",
            where=f"task {card.name}",
            fix=f"Use one of: {', '.join(metrics)}",
        )
    main = metrics[protocol.metric]
    return Scored(main, metrics, details, len(gold), decompositions.get(protocol.metric))


_Result = tuple[dict[str, float], dict[str, Any], dict[str, Decomposed]]
_BY_MENTION = ("f1", "precision", "recall", "macro_f1", "b_anchored_f1")


def _mentions(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> _Result:
    scores = score_spans(documents_in(gold), documents_in(predicted), labels=card.labels)
    return _averages(scores), scores.as_dict(), scores.decomposed()


def _tagging(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> _Result:
    metrics, details, decomposed = _mentions(card, gold, predicted)
    partial = score_spans(documents_in(gold), documents_in(predicted), labels=card.labels, match="partial")
    tokens = score_tokens(documents_in(gold), documents_in(predicted), labels=card.labels)
    metrics |= {"partial_f1": partial.micro.f1, "token_f1": tokens.micro.f1}
    if card.phi:
        masking = score_deid(documents_in(gold), documents_in(predicted), card.phi)
        metrics["safe_harbor_recall"] = masking.safe_harbor_total.recall
        metrics["clean_share"] = masking.clean_share
        details["deid"] = masking.as_dict()
    return metrics, details, decomposed | {"partial_f1": partial.f1("micro"), "token_f1": tokens.f1("micro")}


def _relation(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> _Result:
    wanted, found = documents_in(gold), documents_in(predicted)
    if card.symmetric:
        wanted, found = [in_text_order(d) for d in wanted], [in_text_order(d) for d in found]
    scores = score_relations(wanted, found, labels=card.labels)
    return _averages(scores), scores.as_dict(), scores.decomposed()


def _classification(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> _Result:
    scores = score_classes(
        [r.labels[0] for r in gold], [r.labels[0] for r in predicted], labels=card.labels, ignore={card.negative}
    )
    decomposed = {"accuracy": scores.decomposed_accuracy()} | scores.decomposed()
    return {"accuracy": scores.accuracy} | _averages(scores), scores.as_dict(), decomposed


def _multilabel(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> _Result:
    wanted, found = [r.labels for r in gold], [r.labels for r in predicted]
    scores = score_multilabel(wanted, found, labels=card.labels)
    abstracts = score_hoc(wanted, found)
    # Scores are rounded; sorting is stable, so labels with equal scores keep the order they were predicted in.
    ranked = [sorted(r.scores, key=r.scores.__getitem__, reverse=True) or list(r.labels) for r in predicted]
    ranking = score_ranking(wanted, ranked)
    metrics = _averages(scores) | {"accuracy": scores.accuracy, "hoc_f1": abstracts.f1, "map": ranking.value}
    details = {**scores.as_dict(), "by_document": abstracts.as_dict()}
    decomposed = scores.decomposed() | {
        "accuracy": scores.decomposed_accuracy(),
        "hoc_f1": abstracts.decomposed_f1(),
        "map": ranking,
    }
    return metrics, details, decomposed


def _regression(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> _Result:
    wanted, found = [r.value or 0.0 for r in gold], [r.value or 0.0 for r in predicted]
    metrics = {"pearson": pearson(wanted, found), "spearman": spearman(wanted, found)}
    return metrics, dict(metrics), {"pearson": decomposed_pearson(wanted, found)}


def _attributes(card: TaskCard, gold: Sequence[Record], predicted: Sequence[Record]) -> _Result:
    scores, mentions = score_attributes(documents_in(gold), documents_in(predicted), labels=card.labels)
    metrics = _averages(scores) | {"accuracy": mentions.value}
    return metrics, {"accuracy": mentions.value, **scores.as_dict()}, scores.decomposed() | {"accuracy": mentions}


_SCORERS = {
    Kind.TAGGING: _tagging,
    Kind.RELATION: _relation,
    Kind.CLASSIFICATION: _classification,
    Kind.MULTILABEL: _multilabel,
    Kind.REGRESSION: _regression,
    Kind.ATTRIBUTES: _attributes,
}


def _averages(scores: Any) -> dict[str, float]:
    micro = scores.micro
    return {"f1": micro.f1, "precision": micro.precision, "recall": micro.recall, "macro_f1": scores.macro_f1}


def in_text_order(document: Document) -> Document:
    """Make the first argument in the text the head of each relation, for relations without a direction."""
    place = {span.id: (span.start, span.end, span.id) for span in document.spans}

    def ordered(relation: Relation) -> Relation:
        head, tail = sorted((relation.head, relation.tail), key=place.__getitem__)
        return Relation(relation.label, head, tail, relation.id, relation.score, relation.attributes)

    return document.with_(relations=tuple(ordered(relation) for relation in document.relations))
