"""Export one head with its encoder as a stock Hugging Face folder, for people who do not run osler."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from osler.core.errors import InputError
from osler.nn.encoder import Layout
from osler.nn.folders import quiet, saving, seeded
from osler.nn.heads.base import Head
from osler.nn.multihead import MultiHeadModel
from osler.nn.packing import pack

_PROBLEMS = {
    "classification": "single_label_classification",
    "multilabel": "multi_label_classification",
    "regression": "regression",
}
# Layers of the stock classifier, and the layers of our head that have the same place.
_TOKEN = {"classifier": "classifier"}
_ROBERTA = {"classifier.dense": "dense", "classifier.out_proj": "out_proj"}
_SEQUENCE = {
    "bert": {"base_model.pooler.dense": "dense", "classifier": "out_proj"},
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "mpnet": _ROBERTA,
    "albert": {"base_model.pooler": "dense", "classifier": "out_proj"},
}
# For heads with one linear layer. ModernBERT's other layers can be made an identity; BERT's and RoBERTa's tanh cannot.
_LINEAR = {"modernbert": {"classifier": "out_proj"}}
_TOLERANCE = 1e-4


def to_hf(model: MultiHeadModel, head: str, labels: Sequence[str] | None, folder: Path) -> None:
    """Write the encoder and one head for `AutoModelForTokenClassification` or `AutoModelForSequenceClassification`.

    The stock model gives the same logits as the head. If the stock class of the architecture cannot, nothing is written. The
    transition scores of a CRF have no place in a stock model; to decode its logits you need them too.
    """
    module, spec = model.head(head), model.specs[head]
    names = list(labels or spec.labels) or [f"LABEL_{number}" for number in range(spec.num_labels)]
    if len(names) != spec.num_labels:
        raise InputError(
            f"{len(names)} labels for {spec.num_labels} outputs", where=f"head {head}", fix="Give one label per output"
        )
    if module.level != "token" and spec.kind not in _PROBLEMS:
        raise InputError(
            f"Hugging Face has no stock model for a {spec.kind} head", where=f"head {head}", fix="Export another head"
        )
    config = copy.deepcopy(model.encoder.config)
    config.id2label = dict(enumerate(names))
    config.label2id = {name: number for number, name in enumerate(names)}
    if hasattr(config, "classifier_dropout"):
        config.classifier_dropout = spec.dropout
    if module.level != "token":
        config.problem_type = _PROBLEMS[spec.kind]
    module = copy.deepcopy(module).cpu().float().eval()
    stock = _build(model.encoder.model, config, module)
    _verify(stock, module)
    with saving(folder), quiet():
        stock.save_pretrained(folder)


def _build(encoder: nn.Module, config: Any, head: Head) -> Any:
    from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

    token = head.level == "token"
    auto: Any = AutoModelForTokenClassification if token else AutoModelForSequenceClassification
    known = _LINEAR if getattr(head, "layers", "") == "linear" else _SEQUENCE
    layers = _TOKEN if token else known.get(config.model_type)
    if layers is None:
        raise InputError(
            f"the stock sequence classifier of {config.model_type} does not have the shape of osler's head",
            fix="Export a head for entities, fine-tune an encoder of another architecture "
            f"({', '.join(known)}), or annotate with osler",
        )
    modern = config.model_type == "modernbert"
    if modern:
        config.classifier_activation = "linear"
        config.classifier_pooling = "cls"
    with seeded(0, "export"), quiet():
        stock = auto.from_config(config, attn_implementation="eager").float().eval()
    weights = {name: tensor.detach().cpu().float() for name, tensor in encoder.state_dict().items()}
    stock.base_model.load_state_dict(weights, strict=False)
    with torch.no_grad():
        if modern:
            _cancel_extra_layers(stock)
        for target, source in layers.items():
            ours: Any = getattr(head, source)
            theirs: nn.Linear = attrgetter(target)(stock)
            theirs.weight.copy_(ours.weight)
            theirs.bias.copy_(ours.bias)
    return stock


def _cancel_extra_layers(stock: Any) -> None:
    """Make the dense layer and the norm before ModernBERT's token or sequence classifier an identity.

    The dense layer undoes the scale of the encoder's final norm, and the extra norm restores it.
    """
    final, extra = stock.base_model.final_norm, stock.head
    scale = final.weight
    if final.bias is not None or extra.dense.bias is not None or bool((scale.abs() < 1e-3).any()):
        raise InputError(
            "the extra layers of this ModernBERT's stock classifier cannot be made an identity",
            fix="Serve this model with osler, or export an encoder of another architecture",
        )
    extra.dense.weight.copy_(torch.diag(1.0 / scale))
    extra.norm.weight.copy_(scale)


@torch.no_grad()
def _verify(stock: Any, head: Head) -> None:
    """Compare the stock logits with the head's own on the same hidden states."""
    layout = Layout.of(stock.base_model)
    tokens = torch.arange(min(11, layout.max_length)) * 7919 % min(stock.config.vocab_size, 997)
    tokens[tokens == layout.pad_id] += 1
    hidden: Tensor = stock.base_model(input_ids=tokens[None])[0].squeeze(0)
    expected = head(hidden, pack([tokens.numpy()], pad_id=layout.pad_id))
    found = stock(input_ids=tokens[None]).logits.reshape(expected.shape)
    scale = expected.abs().max().clamp(min=1.0)
    if bool((found - expected).abs().max() > _TOLERANCE * scale):
        raise InputError(
            f"the stock classifier of {stock.config.model_type} does not give the logits of this head",
            fix="Serve this model with osler, or export an encoder of another architecture",
        )
