"""Named encoder sizes for training from random weights. Imports neither torch nor transformers: recipes need it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from osler.core.errors import RecipeError, alternatives


@dataclass(frozen=True)
class Preset:
    """A shape of RoBERTa's architecture, of BERT's, or of ModernBERT's (rotary positions, local windows, gated layers, no biases)."""

    layers: int
    width: int
    heads: int
    inner: int
    modern: bool = False
    bert: bool = False
    """BERT's architecture: segment embeddings, a pooler, and next-sentence prediction beside masked tokens."""

    def changed(self, **numbers: int | None) -> Preset:
        """Return a copy with some of layers, width, heads and inner replaced; None keeps the preset's number."""
        changes: dict[str, Any] = {name: number for name, number in numbers.items() if number}
        shape = replace(self, **changes)
        if shape.width % shape.heads:
            raise RecipeError(
                f"{shape.heads} heads do not divide a width of {shape.width}",
                fix="Choose a width that is a multiple of the heads, usually 64 times",
            )
        if shape.modern and shape.width // shape.heads % 2:
            raise RecipeError(
                f"{shape.width // shape.heads} is an odd width for a head; rotary positions need an even one",
                fix="Choose a width that is an even multiple of the heads",
            )
        return shape


PRESETS: dict[str, Preset] = {
    # For short runs on little text ModernBERT's architecture trains well; RoBERTa's stays at the unigram entropy (docs/decisions.md).
    "tiny": Preset(layers=2, width=128, heads=2, inner=192, modern=True),
    "small": Preset(layers=4, width=256, heads=4, inner=640, modern=True),
    "compact": Preset(layers=12, width=384, heads=6, inner=896, modern=True),
    # Exactly as in Liu et al. 2019, carrino2022 (table 3) and lewis2020.
    "roberta-base": Preset(layers=12, width=768, heads=12, inner=3072),
    "roberta-large": Preset(layers=24, width=1024, heads=16, inner=4096),
    # As in Devlin et al. 2019, which wada2020 follows. Cased or uncased is a matter of the tokenizer.
    "bert-base": Preset(layers=12, width=768, heads=12, inner=3072, bert=True),
    "modernbert-base": Preset(layers=22, width=768, heads=12, inner=1152, modern=True),
    # As deep as roberta-base; three gated matrices of width 2,048 replace its two of 3,072.
    "modernbert-12": Preset(layers=12, width=768, heads=12, inner=2048, modern=True),
}

_FORMER = {"base": "roberta-base", "large": "roberta-large", "modern": "modernbert-base"}


def find_preset(name: str) -> Preset:
    """Return a preset by name. The error for an unknown name suggests the nearest."""
    if name not in PRESETS:
        raise RecipeError(f"no encoder preset {name!r}", fix=alternatives(_FORMER.get(name, name), PRESETS))
    return PRESETS[name]


def preset_config(
    shape: str | Preset,
    *,
    vocab_size: int,
    pad_token_id: int,
    max_length: int = 512,
    bos_token_id: int | None = None,
    eos_token_id: int | None = None,
    dropout: float | None = None,
) -> Any:
    """Return a Hugging Face configuration; `max_length` includes special tokens, `dropout` None keeps the default."""
    preset = find_preset(shape) if isinstance(shape, str) else shape
    common: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": preset.width,
        "num_hidden_layers": preset.layers,
        "num_attention_heads": preset.heads,
        "intermediate_size": preset.inner,
        "pad_token_id": pad_token_id,
        "bos_token_id": bos_token_id,
        "eos_token_id": eos_token_id,
    }
    if preset.modern:
        from transformers import ModernBertConfig

        rate = 0.0 if dropout is None else dropout
        return ModernBertConfig(
            **common,
            cls_token_id=bos_token_id,
            sep_token_id=eos_token_id,
            max_position_embeddings=max_length,
            embedding_dropout=rate,
            mlp_dropout=rate,
            attention_dropout=rate,
        )
    rate = 0.1 if dropout is None else dropout
    if preset.bert:
        from transformers import BertConfig

        # BERT has 512 positions also while it is trained on 128: a second phase can then read longer texts.
        return BertConfig(
            **common,
            max_position_embeddings=max(512, max_length),
            type_vocab_size=2,
            layer_norm_eps=1e-12,
            hidden_dropout_prob=rate,
            attention_probs_dropout_prob=rate,
        )
    from transformers import RobertaConfig

    return RobertaConfig(
        **common,
        # Positions start after the padding index: 514 rows for 512 tokens with RoBERTa's padding id 1.
        max_position_embeddings=max_length + pad_token_id + 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=rate,
        attention_probs_dropout_prob=rate,
    )
