"""The command as torchrun starts it, with shards: the loss curve of one process, and an encoder that stock transformers loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from osler.clinic.raw import raw_texts
from osler.core.config import load_recipe
from osler.nn.mlm import MaskedLM
from osler.stages.corpus.config import CorpusRecipe
from osler.stages.corpus.run import run as build_corpus
from osler.stages.pretrain import run as stage
from osler.stages.pretrain.config import PretrainRecipe

SETS = (
    *("preset=tiny", "max_length=32", "batch_tokens=256", "accumulate=3", "validation_share=0.2"),
    *("validation_tokens=300", "train.steps=4", "train.lr=0.001", "train.eval_every=2", "train.log_every=1"),
    *("train.device=cpu", "train.checkpoint_every=2", "train.threads=1"),
)


def losses(folder: Path) -> list[float]:
    history = json.loads((folder / "history.json").read_text())
    return [record.get("loss", record.get("validation_loss")) for record in history]


@pytest.mark.e2e
def test_two_processes_with_shards_make_the_encoder_of_one(tokenizer_folder, tmp_path):
    from transformers import AutoModelForMaskedLM

    (tmp_path / "raw.jsonl").write_text("".join(json.dumps(record) + "\n" for record in raw_texts(60, "en", 1)))
    corpus = build_corpus(CorpusRecipe(sources=[{"files": [str(tmp_path / "raw.jsonl")]}]), tmp_path / "corpus").path
    given = {"corpus": corpus, "tokenizer": tokenizer_folder, "tokens": tmp_path / "tokens"}
    one = stage.run(load_recipe(PretrainRecipe, None, SETS, given), tmp_path / "one")
    sets = (*SETS, f"tokens={tmp_path / 'tokens'}", "train.parallel=fsdp")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "osler"]
    command += ["pretrain", str(corpus), "-t", str(tokenizer_folder), "-o", str(tmp_path / "two")]
    command += [part for value in sets for part in ("--set", value)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "OSLER_LOG": "info"}
    two = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert two.returncode == 0, two.stderr
    assert '"event": "train.sharded", "ranks": 2, "layers": 2' in two.stderr
    assert losses(tmp_path / "two") == pytest.approx(losses(one.path), abs=1e-5)
    assert json.loads((tmp_path / "two" / "manifest.json").read_text())["identity"] == one.manifest.identity
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "two")
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    expected = dict(MaskedLM.load(one.path).model.named_parameters())
    for name, parameter in model.named_parameters():
        assert (parameter - expected[name]).abs().max() < 1e-5, name
