"""Every task of the five papers, prepared once from synthetic official files, and a tiny encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
from official_files import write_official_files

from osler.artifacts.tokenizer import BEGIN, END, SPECIAL_TOKENS, UNKNOWN
from osler.stages.prepare.run import jobs, run_all


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory, tokenizer_folder: Path) -> Path:
    """A folder as a user has it before a study: `tasks/` with every task of the papers, and `encoder/`."""
    folder = tmp_path_factory.mktemp("papers")
    write_official_files(folder / "data")
    outcomes = list(run_all(folder / "data", jobs(folder / "tasks"), workers=1))
    assert not {outcome.job.name: outcome.message for outcome in outcomes if outcome.status == "failed"}
    _tiny_encoder(folder / "encoder", tokenizer_folder)
    return folder


@pytest.fixture(scope="session")
def long_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder whose window holds any sentence, and to which every word is one unknown token: whole corpora are cut quickly."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(SPECIAL_TOKENS)}, UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.RobertaProcessing((END, 2), (BEGIN, 0))
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    words = tmp_path_factory.mktemp("words")
    tokenizer.save(str(words / "tokenizer.json"))
    folder = tmp_path_factory.mktemp("long") / "encoder"
    _tiny_encoder(folder, words, positions=8192)
    return folder


def _tiny_encoder(folder: Path, tokenizer: Path, positions: int = 160) -> None:
    import torch
    from transformers import RobertaConfig, RobertaModel

    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=400,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    RobertaModel(config).save_pretrained(folder)  # with a pooler, which some of the papers' heads start from
    (folder / "tokenizer.json").write_bytes((tokenizer / "tokenizer.json").read_bytes())
