"""Tokenizers from vocabulary files: the same sub-words as transformers, and a casing that nobody guesses."""

from __future__ import annotations

import json
from pathlib import Path

import checkpoints
import pytest

from osler.artifacts.tokenizer_files import read_tokenizer, read_vocabulary, sample_texts
from osler.core.errors import ArtifactError, InputError


def published(folder: Path, *, cased: bool, **files: dict) -> Path:
    """A vocab.txt with small JSON files beside it, `__` in their names for dots."""
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(checkpoints.wordpieces(cased=cased)) + "\n", encoding="utf-8")
    for name, values in files.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


@pytest.mark.parametrize("cased", [True, False])
def test_wordpiece_gives_the_sub_words_of_transformers(tmp_path, cased):
    from transformers import BertTokenizer

    folder = published(tmp_path / "model", cased=cased, tokenizer_config={"do_lower_case": not cased})
    found = read_tokenizer(folder, "bert")
    stock = BertTokenizer(vocab=str(folder / "vocab.txt"), do_lower_case=not cased)
    assert (found.casing, found.reason) == ("cased" if cased else "uncased", "as tokenizer_config.json says")
    assert found.size == len(checkpoints.wordpieces(cased=cased))
    assert found.pad_id == 0
    for text in sample_texts():
        assert found.tokenizer.encode(text).ids == stock(text)["input_ids"]
    pair = found.tokenizer.encode("No fever", "Chest pain")
    assert (pair.ids, pair.type_ids) == tuple(
        stock("No fever", "Chest pain")[name] for name in ("input_ids", "token_type_ids")
    )
    assert (found.tokenizer.encode("Aspirin").ids == found.tokenizer.encode("aspirin").ids) == (not cased)


def test_byte_level_bpe_gives_the_sub_words_of_transformers(tmp_path, tokenizer_folder):
    from transformers import RobertaTokenizer

    folder = checkpoints.roberta_folder(tmp_path / "model", tokenizer_folder / "tokenizer.json")
    found = read_tokenizer(folder, "roberta")
    stock = RobertaTokenizer(vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"))
    assert (found.casing, found.reason) == ("cased", "byte-level BPE has no lower-casing")
    for text in sample_texts():
        assert found.tokenizer.encode(text).ids == stock(text)["input_ids"]
    # The mask takes the space before it, as in the tokenizer.json of roberta-base.
    mask = found.tokenizer.token_to_id("<mask>")
    assert found.tokenizer.encode("pain <mask>").ids == [*found.tokenizer.encode("pain").ids[:-1], mask, 2]
    with pytest.raises(InputError, match="--uncased was given"):
        read_tokenizer(folder, "roberta", cased=False)
    (folder / "merges.txt").write_text("#version: 0.2\nnot there\n")
    with pytest.raises(InputError, match="do not fit together"):
        read_tokenizer(folder, "roberta")


def test_casing_that_no_file_states_is_asked_for(tmp_path):
    for cased, option in ((True, "--cased"), (False, "--uncased")):
        folder = published(tmp_path / option, cased=cased)
        with pytest.raises(InputError, match=f"no file says whether the model is cased; .* suggests {option}") as error:
            read_tokenizer(folder, "bert")
        assert "--cased or --uncased" in error.value.fix
        assert read_tokenizer(folder, "bert", cased=cased).casing == option.removeprefix("--")


@pytest.mark.parametrize(
    ("vocabulary", "stated", "given", "piece"),
    [
        (True, False, False, r"tokenizer_config\.json says cased, but --uncased was given"),
        (True, None, False, r"--uncased was given, but \d+ of \d+ entries of the vocabulary have capital"),
        (False, None, True, "--cased was given, but 0 of"),
        (True, True, None, r"tokenizer_config\.json says uncased, but \d+ of \d+ entries"),
    ],
)
def test_contradictions_are_refused(tmp_path, vocabulary, stated, given, piece):
    files = {} if stated is None else {"tokenizer_config": {"do_lower_case": stated}}
    with pytest.raises(InputError, match=piece):
        read_tokenizer(published(tmp_path / "model", cased=vocabulary, **files), "bert", cased=given)


def test_a_tokenizer_json_must_agree_with_the_vocabulary(tmp_path):
    folder = published(tmp_path / "model", cased=True)
    read_tokenizer(folder, "bert", cased=True).tokenizer.save(str(folder / "tokenizer.json"))
    found = read_tokenizer(folder, "bert")
    assert (found.casing, found.reason) == ("cased", "as tokenizer.json says")
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    (folder / "vocab.txt").write_text("\n".join([*lines[:-2], lines[-1], lines[-2]]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer\.json and vocab\.txt differ in 2 entries"):
        read_tokenizer(folder, "bert")


def test_special_and_added_tokens_are_those_of_the_files(tmp_path):
    size = len(checkpoints.wordpieces(cased=True))
    mask = {"content": "[unused1]", "lstrip": False}
    folder = published(
        tmp_path / "model",
        cased=True,
        special_tokens_map={"mask_token": mask, "unk_token": "[UNK]"},
        added_tokens={"[PHI]": size, "[DATE]": size + 1},
    )
    found = read_tokenizer(folder, "bert", cased=True)
    assert found.roles["mask_token"] == "[unused1]"
    assert found.size == size + 2
    assert found.tokenizer.encode("no [DATE] pain", add_special_tokens=False).ids[1] == size + 1
    assert {path.name for path in found.files} == {"vocab.txt", "special_tokens_map.json", "added_tokens.json"}
    (folder / "added_tokens.json").write_text(json.dumps({"[PHI]": size + 5}))
    with pytest.raises(InputError, match=f"the id {size + 5}"):
        read_tokenizer(folder, "bert", cased=True)
    (folder / "added_tokens.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"mask_token": "[MASK]"}))
    with pytest.raises(InputError, match="name another mask_token"):
        read_tokenizer(folder, "bert", cased=True)


def test_tokenizers_that_split_in_another_way_are_refused(tmp_path):
    japanese = {"tokenizer_class": "BertJapaneseTokenizer", "do_lower_case": False}
    with pytest.raises(ArtifactError, match="BertJapaneseTokenizer"):
        read_tokenizer(published(tmp_path / "a", cased=True, tokenizer_config=japanese), "bert")
    folder = published(tmp_path / "b", cased=True)
    (folder / "bpe.codes").write_text("")
    with pytest.raises(ArtifactError, match=r"bpe\.codes"):
        read_tokenizer(folder, "bert", cased=True)
    with pytest.raises(ArtifactError, match="of a roberta model"):
        read_tokenizer(published(tmp_path / "c", cased=True), "roberta", cased=True)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match="no tokenizer here"):
        read_tokenizer(tmp_path, "bert")
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"sentencepiece model \(sentencepiece\.bpe\.model\)"):
        read_tokenizer(tmp_path, "xlm-roberta")


def test_damaged_vocabularies_name_file_and_line(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\r\nµg\r\n\u2028\r\n".encode())
    assert read_vocabulary(path) == {"[PAD]": 0, "µg": 1, "\u2028": 2}
    path.write_text("a\nb\na\n")
    with pytest.raises(InputError, match="twice") as error:
        read_vocabulary(path)
    assert error.value.where == f"{path}:3"
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(InputError, match="not UTF-8") as error:
        read_vocabulary(path)
    assert error.value.where == f"{path}:2"
    path.write_text("a\nb\n")
    with pytest.raises(ArtifactError, match=r"has no '\[UNK\]'"):
        read_tokenizer(tmp_path, "bert", cased=False)
