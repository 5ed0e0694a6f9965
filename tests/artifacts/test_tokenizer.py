from __future__ import annotations

import json

import pytest
from transformers import AutoTokenizer

from osler.artifacts.tokenizer import Tokenizer
from osler.core.errors import ArtifactError


@pytest.mark.parametrize(("stated", "written"), [(512, 30), (30, 30), (16, 16), (None, 30), (10**30, 30)])
def test_the_copy_allows_no_longer_texts_than_the_model_reads(tmp_path, tokenizer_folder, stated, written):
    source = tmp_path / "tokenizer"
    source.mkdir()
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"} | ({"model_max_length": stated} if stated else {})
    (source / "tokenizer_config.json").write_text(json.dumps(settings))
    (source / "tokenizer.json").write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    (tmp_path / "model").mkdir()
    Tokenizer.open(source).copy_to(tmp_path / "model", 30)
    stock = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert stock.model_max_length == written
    assert len(stock("fever and pain " * 60, truncation=True).input_ids) == written
    assert json.loads((source / "tokenizer_config.json").read_text()) == settings


def test_a_tokenizer_of_one_file_stays_one(tmp_path, tokenizer_folder):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "tokenizer.json").write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    (tmp_path / "model").mkdir()
    Tokenizer.open(str(tmp_path / "bare")).copy_to(tmp_path / "model", 30)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["tokenizer.json"]


def test_a_folder_without_a_tokenizer_and_a_broken_one_are_named(tmp_path):
    with pytest.raises(ArtifactError, match=r"there is no tokenizer\.json in this folder"):
        Tokenizer.open(tmp_path)
    with pytest.raises(ArtifactError, match="nowhere: no such folder"):
        Tokenizer.open(tmp_path / "nowhere")
    (tmp_path / "tokenizer.json").write_text('{"model":')
    with pytest.raises(ArtifactError, match=r"tokenizer\.json: not a valid tokenizer description"):
        Tokenizer.open(tmp_path)
