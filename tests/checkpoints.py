"""Model folders as they were published: pickled weights, vocabulary files, old and TensorFlow names."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]

_WORDS = ["the", "patient", "given", "aspirin", "for", "fever", "chest", "pain", "daily", "no", "dolor", "fiebre"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,;:/()+-%áéíóúñ"


def wordpieces(*, cased: bool) -> list[str]:
    """Entries of a small vocab.txt; with capital letters if it is cased."""
    letters = _LETTERS + _LETTERS.upper() if cased else _LETTERS
    words = [*_WORDS, *(word.capitalize() for word in _WORDS)] if cased else _WORDS
    special = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return list(dict.fromkeys([*special, *letters, *(f"##{letter}" for letter in letters), *words]))


def bert_state(size: int, **shape: Any) -> tuple[Any, State]:
    """Configuration and weights of a small BERT with pooler, language-model and next-sentence heads."""
    from transformers import BertConfig, BertForPreTraining

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = BertConfig(vocab_size=size, max_position_embeddings=40, **{**small, **shape})
    return config, _randomised(BertForPreTraining(config))


def roberta_state(size: int) -> tuple[Any, State]:
    """Configuration and weights of a small RoBERTa with its language-model head."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    config = RobertaConfig(
        vocab_size=size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=42,
        type_vocab_size=1,
        pad_token_id=1,
    )
    return config, _randomised(RobertaForMaskedLM(config))


def _randomised(model: Any) -> State:
    """Weights far from their start, so that a swap of two of them shows."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return dict(model.state_dict())


def bert_folder(
    folder: Path,
    *,
    cased: bool = True,
    rename: Callable[[State], State] = dict,
    tokenizer_config: dict[str, Any] | None = None,
    config_name: str = "config.json",
    legacy: bool = True,
    **shape: Any,
) -> Path:
    """A BERT as BioBERT, BlueBERT, ClinicalBERT and SciBERT are published."""
    folder.mkdir()
    entries = wordpieces(cased=cased)
    config, state = bert_state(len(entries), **shape)
    settings = config.to_dict()
    if config_name == "bert_config.json":  # Google's file
        settings = {
            name: settings[name]
            for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
        } | {"max_position_embeddings": config.max_position_embeddings, "type_vocab_size": 2, "hidden_act": "gelu"}
    (folder / config_name).write_text(json.dumps(settings))
    (folder / "vocab.txt").write_text("\n".join(entries) + "\n", encoding="utf-8")
    if tokenizer_config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    # Files of 2019 are in torch's older format.
    torch.save(rename(state), folder / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    return folder


def roberta_folder(folder: Path, tokenizer_json: Path) -> Path:
    """A RoBERTa as the BSC's are published: vocab.json and merges.txt, taken from a tokenizer.json of byte-level BPE."""
    folder.mkdir()
    description = json.loads(tokenizer_json.read_text(encoding="utf-8"))
    entries = description["model"]["vocab"]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in description["model"]["merges"]]
    (folder / "vocab.json").write_text(json.dumps(entries), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
    config, state = roberta_state(len(entries))
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    torch.save(state, folder / "pytorch_model.bin")
    return folder


def old_names(state: State) -> State:
    """LayerNorm's names until 2019."""
    return {
        re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name)): value
        for name, value in state.items()
    }


def bare_names(state: State) -> State:
    """The encoder and pooler alone, without their prefix."""
    return {name.removeprefix("bert."): value for name, value in state.items() if name.startswith("bert.")}


def tensorflow_names(state: State) -> State:
    """The variables of a TensorFlow checkpoint, matrices input first, with its optimiser."""
    variables = {"global_step": torch.tensor(1_000_000)}
    for name, value in state.items():
        if "decoder" in name:
            continue
        new = re.sub(r"layer\.(\d+)", r"layer_\1", old_names({name: value}).popitem()[0])
        new = new.removesuffix(".weight") if "_embeddings" in new else new
        matrix = new.endswith(".weight") and "seq_relationship" not in new
        new = re.sub(r"dense\.weight$|(query|key|value)\.weight$", lambda found: found[0][:-6] + "kernel", new)
        new = new.replace("cls.predictions.bias", "cls.predictions.output_bias")
        new = new.replace("seq_relationship.weight", "seq_relationship.output_weights")
        new = new.replace("seq_relationship.bias", "seq_relationship.output_bias").replace(".", "/")
        variables[new] = value.T.contiguous() if matrix else value
        if "seq_relationship" not in new:
            variables[f"{new}/adam_m"] = torch.zeros_like(value)
    return variables


def shard(folder: Path) -> Path:
    """Cut pytorch_model.bin into two files with an index."""
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    (folder / "pytorch_model.bin").unlink()
    names = sorted(state)
    places = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"pytorch_model-0000{number}-of-00002.bin"
        torch.save({name: state[name] for name in part}, folder / file)
        places |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return folder


def copied(folder: Path, target: Path) -> Path:
    return Path(shutil.copytree(folder, target))
