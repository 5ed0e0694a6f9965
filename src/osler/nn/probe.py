"""Find out whether a model really runs packed.

Some architectures (DeBERTa-v2, MPNet) ignore the registered attention without a word, and sequences of one batch would
see each other. The only safe answer is to try: two short sequences packed must give what the stock model gives for each
alone.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from osler.nn import attention
from osler.nn.layout import Layout
from osler.nn.packing import pack
from osler.nn.quiet import quiet

_TOLERANCE = 1e-4
_known: dict[type, bool] = {}


def honours_registration(model: Any) -> bool:
    """Whether this Hugging Face base model gives right results packed; tried once for each class."""
    kind = type(model)
    if kind not in _known:
        _known[kind] = _probe(model)
    return _known[kind]


def _probe(model: Any) -> bool:
    # In half precision a leak could hide in the rounding.
    if next(model.parameters()).dtype != torch.float32:
        model = copy.deepcopy(model).float()
    layout = Layout.of(model)
    # Longer than the local window, so that a window passed on wrongly shows as well.
    window = getattr(model.config, "sliding_window", None) or 0
    lengths = (min(window + 9, layout.max_length), min(7, layout.max_length))
    tokens = torch.arange(sum(lengths)) * 7919 % min(model.config.vocab_size, 997)
    tokens[tokens == layout.pad_id] += 1
    sequences = [part.numpy() for part in tokens.split(lengths)]
    device = next(model.parameters()).device
    together = pack(sequences, pad_id=layout.pad_id).to(device)
    alone = [row[None].to(device) for row in tokens.split(lengths)]

    before, training = model.config._attn_implementation, model.training
    model.eval()
    attention.register()
    with torch.no_grad(), quiet():
        try:
            model.set_attn_implementation("eager")
            # Without position ids, so that the model's own count of positions is the reference too.
            expected = torch.cat([model(input_ids=row)[0].squeeze(0) for row in alone])
            model.set_attn_implementation(attention.NAME)
            if model.config._attn_implementation != attention.NAME:
                return False
            found = model(**layout.packed_inputs(together))[0].squeeze(0)
        except (TypeError, ValueError, RuntimeError, NotImplementedError):
            # Packing is an optimisation: a model that cannot take it runs padded, where a real fault would show again.
            return False
        finally:
            model.set_attn_implementation(before)
            model.train(training)
    scale = expected.abs().max().clamp(min=1.0)
    return bool((found - expected).abs().max() <= _TOLERANCE * scale)
