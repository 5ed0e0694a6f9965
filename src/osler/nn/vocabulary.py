"""Vocabulary tables of masked language models: padding for the hardware, and replacing the vocabulary.

A matrix product is fastest when its sides are multiples of 64, which a vocabulary rarely is. So the decoder multiplies with a padded
copy of its weights, made in every pass: the copy is part of the cast to half precision, which happens anyway. Parameters, optimiser
state, checkpoints and saved folders keep the vocabulary's own size. The scores of the padding are so low that they have no
probability, no loss and no gradient.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, linear, pad

from osler.core.errors import InputError
from osler.nn.folders import quiet, seeded
from osler.text.subwords import Origins

MULTIPLE = 64
CLOSED = -1e4
"""The score of padding. It is finite, because a divergence would turn infinities into NaN, and it fits into float16."""


class PaddedDecoder(nn.Linear):
    """A decoder that returns a multiple of 64 scores; the last ones are padding."""

    def __init__(self, decoder: nn.Linear) -> None:
        super().__init__(decoder.in_features, decoder.out_features, bias=decoder.bias is not None, device="meta")
        # Not copies: the parameters are tied to the embeddings.
        self.weight = decoder.weight
        self.bias = decoder.bias
        self.train(decoder.training)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return scores [..., V rounded up]."""
        more = -self.out_features % MULTIPLE
        bias = self.bias if self.bias is not None else self.weight.new_zeros(self.out_features)
        return linear(hidden, pad(self.weight, (0, 0, 0, more)), pad(bias, (0, more), value=CLOSED))


def pad_decoder(model: Any) -> None:
    """Make the decoder of a Hugging Face masked language model compute a multiple of 64 scores; parameters stay."""
    decoder = model.get_output_embeddings()
    if type(decoder) is nn.Linear and decoder.out_features % MULTIPLE:
        model.set_output_embeddings(PaddedDecoder(decoder))


def with_vocabulary(model: Any, origins: Origins, *, pad_id: int, begin_id: int | None, end_id: int | None) -> Any:
    """Return a copy of a Hugging Face masked language model with another vocabulary.

    Each new row is the mean of the old rows it comes from, or of all old rows if it comes from none.
    """
    config = copy.deepcopy(model.config)
    config.vocab_size = len(origins.rows)
    for role, number in {"bos": begin_id, "cls": begin_id, "eos": end_id, "sep": end_id}.items():
        if getattr(model.config, f"{role}_token_id", None) is not None:
            setattr(config, f"{role}_token_id", number)
    config.pad_token_id = pad_id
    old_table = _positions(model)
    follows = old_table is not None and old_table.padding_idx == model.config.pad_token_id
    if follows:
        config.max_position_embeddings += pad_id - old_table.padding_idx
    with seeded(0, "vocabulary"), quiet():  # every weight drawn here is replaced below
        made = type(model)(config)
    new_table = _positions(made)
    if follows and new_table.padding_idx != pad_id:
        raise InputError(
            f"{type(model).__name__} needs the padding token at id {new_table.padding_idx}, the tokenizer has it at {pad_id}",
            fix=f"Use a tokenizer whose padding token has the id {new_table.padding_idx}",
        )
    state = model.state_dict()
    embeddings, decoder = model.get_input_embeddings(), model.get_output_embeddings()
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter is embeddings.weight or parameter is decoder.weight:
            state[name] = _rows(parameter, origins)
        elif parameter is decoder.bias:
            state[name] = _rows(parameter[:, None], origins)[:, 0]
        elif follows and parameter is old_table.weight:
            # RoBERTa and its relatives count positions from the padding id on: the trained rows move with it.
            state[name] = torch.zeros_like(new_table.weight)
            state[name][pad_id + 1 :] = parameter.detach()[old_table.padding_idx + 1 :]
    for name, buffer in made.named_buffers():
        if name in state and state[name].shape != buffer.shape:  # position ids
            state[name] = buffer
    made.load_state_dict(state)
    made.tie_weights()
    return made.train(model.training)


def set_dropout(model: Any, rate: float) -> None:
    """Change the dropout of a loaded model, in its modules and in its configuration."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout")
    for name in (*names, "embedding_dropout", "mlp_dropout", "attention_dropout"):
        if isinstance(getattr(model.config, name, None), float):
            setattr(model.config, name, rate)


def _positions(model: Any) -> Any:
    """Return the table of learned positions, if the padding id decides its first row."""
    table = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    return table if isinstance(table, nn.Embedding) and table.padding_idx is not None else None


@torch.no_grad()
def _rows(table: Tensor, origins: Origins) -> Tensor:
    counts = torch.tensor([len(places) for places in origins.rows])
    flat = torch.tensor([place for places in origins.rows for place in places], dtype=torch.long)
    rows = embedding_bag(flat, table.detach(), torch.cumsum(counts, 0) - counts, mode="mean")
    rows[counts == 0] = table.detach()[: origins.old_size].mean(0)
    return rows
