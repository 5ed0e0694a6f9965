"""Weights of older layouts: read without running code, renamed, and refused if they do not fit."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import checkpoints
import pytest
import torch
from safetensors.torch import save_file

from osler.core.errors import ArtifactError, InputError
from osler.nn.checkpoints import WeightFiles, fit, modern_name, read_config


@pytest.fixture(scope="module")
def bert():
    return checkpoints.bert_state(60)


@pytest.mark.parametrize("legacy", [True, False])
def test_a_pickle_of_tensors_is_read_in_another_process(tmp_path, bert, legacy):
    torch.save(bert[1], tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    found = WeightFiles.find(tmp_path)
    assert found.pickled
    read = found.read(tmp_path)
    assert read.keys() == bert[1].keys()
    assert all(torch.equal(read[name], bert[1][name]) for name in read)


class Touch:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("way", ["torch", "torch-legacy", "pickle"])
def test_code_in_a_pickle_does_not_run(tmp_path, bert, way):
    marker, path = tmp_path / "it-ran", tmp_path / "pytorch_model.bin"
    state = {**bert[1], "bert.extra": Touch(marker)}
    if way == "pickle":
        path.write_bytes(pickle.dumps(state["bert.extra"]))
    else:
        torch.save(state, path, _use_new_zipfile_serialization=way == "torch")
    with pytest.raises(ArtifactError, match=r"more than tensors|damaged") as error:
        WeightFiles.find(tmp_path).read(tmp_path)
    assert not marker.exists()
    assert way == "pickle" or "posix.system" in error.value.problem
    # The file is as dangerous as it claims to be: torch's full loader runs it.
    if way == "torch":
        torch.load(path, weights_only=False)
        assert marker.exists()


@pytest.mark.parametrize(("value", "said"), [([1, 2], "list"), ({"epoch": 3}, "int under 'epoch'")])
def test_a_pickle_that_is_no_state_dict_is_refused(tmp_path, value, said):
    torch.save(value, tmp_path / "pytorch_model.bin")
    with pytest.raises(ArtifactError, match=said):
        WeightFiles.find(tmp_path).read(tmp_path)


@pytest.mark.parametrize("legacy", [True, False])
def test_a_truncated_file_is_damaged(tmp_path, bert, legacy):
    path = tmp_path / "pytorch_model.bin"
    torch.save(bert[1], path, _use_new_zipfile_serialization=not legacy)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ArtifactError, match="damaged or incomplete") as error:
        WeightFiles.find(tmp_path).read(tmp_path)
    assert error.value.where == str(path)


def test_parts_must_be_complete_and_hold_what_the_index_says(tmp_path, bert):
    torch.save(bert[1], tmp_path / "pytorch_model.bin")
    checkpoints.shard(tmp_path)
    found = WeightFiles.find(tmp_path)
    assert len(found.files) == 2
    assert found.read(tmp_path).keys() == bert[1].keys()
    index = json.loads(found.index.read_text())
    index["weight_map"]["bert.ghost"] = found.files[0].name
    found.index.write_text(json.dumps(index))
    with pytest.raises(ArtifactError, match=r"1 differ, 'bert\.ghost' first"):
        found.read(tmp_path)
    index["weight_map"]["bert.ghost"] = "../elsewhere.bin"
    found.index.write_text(json.dumps(index))
    with pytest.raises(ArtifactError, match="elsewhere"):
        WeightFiles.find(tmp_path)
    found.index.write_text("[]")
    with pytest.raises(ArtifactError, match="not a valid index"):
        WeightFiles.find(tmp_path)


def test_safetensors_are_preferred_and_need_no_other_process(tmp_path, bert):
    save_file({name: value.clone() for name, value in bert[1].items()}, tmp_path / "model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    found = WeightFiles.find(tmp_path)
    assert not found.pickled
    assert found.read(tmp_path / "no-folder").keys() == bert[1].keys()


@pytest.mark.parametrize(
    ("names", "problem", "fix"),
    [
        (
            ("bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"),
            "only TensorFlow can read",
            "PyTorch version",
        ),
        (("weights.tar.gz",), r"an archive \(weights.tar.gz\)", "Unpack"),
        ((), "no weights here", "complete folder"),
    ],
)
def test_a_folder_without_weights_says_what_to_do(tmp_path, names, problem, fix):
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ArtifactError, match=problem) as error:
        WeightFiles.find(tmp_path)
    assert fix in error.value.fix


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bert/encoder/layer_11/attention/self/query/kernel", "bert.encoder.layer.11.attention.self.query.weight"),
        ("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight"),
        ("bert/embeddings/LayerNorm/gamma:0", "bert.embeddings.LayerNorm.weight"),
        ("bert.encoder.layer.0.output.LayerNorm.beta", "bert.encoder.layer.0.output.LayerNorm.bias"),
        ("cls/predictions/output_bias", "cls.predictions.bias"),
        ("cls/seq_relationship/output_weights", "cls.seq_relationship.weight"),
        ("module.roberta.embeddings.LayerNorm.weight", "roberta.embeddings.LayerNorm.weight"),
        ("lm_head.layer_norm.weight", "lm_head.layer_norm.weight"),
    ],
)
def test_old_names_become_todays(old, new):
    assert modern_name(old) == new


@pytest.mark.parametrize("rename", [dict, checkpoints.old_names, checkpoints.tensorflow_names])
def test_every_naming_gives_the_same_weights(bert, rename):
    config, state = bert
    fitted = fit(rename(state), config, Path("model"))
    assert fitted.parts == ("encoder", "pooler", "language-model head", "head of the second objective")
    assert fitted.stock.__name__ == "BertForPreTraining"
    assert fitted.tensorflow == fitted.transposed == (rename is checkpoints.tensorflow_names)
    assert fitted.weights.keys() == state.keys() - {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert all(torch.equal(value, state[name]) for name, value in fitted.weights.items())
    assert bool(fitted.renamed) == (rename is not dict)


def test_tensorflow_names_with_matrices_already_turned(bert):
    config, state = bert
    turned = checkpoints.tensorflow_names(state)
    turned = {name: value.T.contiguous() if name.endswith("kernel") else value for name, value in turned.items()}
    fitted = fit(turned, config, Path("model"))
    assert not fitted.transposed
    assert all(torch.equal(value, state[name]) for name, value in fitted.weights.items())


def test_square_matrices_cannot_tell_how_they_are_stored():
    config, state = checkpoints.bert_state(60, intermediate_size=32)
    with pytest.raises(ArtifactError, match="either way round"):
        fit(checkpoints.tensorflow_names(state), config, Path("model"))


def test_an_encoder_without_prefix_and_heads(bert):
    config, state = bert
    fitted = fit(checkpoints.bare_names(state), config, Path("model"))
    assert fitted.parts == ("encoder", "pooler")
    assert fitted.stock.__name__ == "BertModel"
    assert all(name.startswith("bert.") for name in fitted.weights)


def test_known_extras_are_dropped_with_their_reason(bert):
    config, state = bert
    extra = {
        "bert.embeddings.position_ids": torch.arange(40)[None],
        "classifier.weight": torch.zeros(3, 32),
        "bert.pooler.dense.weight.adam_m": torch.zeros(3),
    }
    fitted = fit(state | extra, config, Path("model"))
    assert set(fitted.dropped) == {*extra, "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    assert fitted.dropped["classifier.weight"] == "a fine-tuned head"
    assert not extra.keys() & fitted.weights.keys()


def changed(state, **changes):
    """The weights with some replaced, by names with __ for dots; None removes one."""
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in {**state, **given}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "piece"),
    [
        ({"bert__encoder__layer__1__output__dense__bias": None}, "1 weights of the encoder are missing"),
        ({"bert__pooler__dense__bias": None}, "1 weights of the pooler are missing"),
        ({"cls__predictions__transform__dense__bias": None}, "of the language-model head are missing"),
        ({"bert__encoder__layer__2__output__dense__bias": torch.zeros(32)}, "layer.2.output.dense.bias' is not part"),
        ({"bert__adapter__weight": torch.zeros(2)}, "is not part of a bert model"),
        ({"bert__embeddings__LayerNorm__weight": torch.zeros(31)}, "has the shape 31, the configuration asks for 32"),
        (
            {"bert__embeddings__word_embeddings__weight": torch.zeros(61, 32)},
            "61 x 32, the configuration asks for 60 x 32",
        ),
        ({"bert__embeddings__LayerNorm__gamma": torch.zeros(32)}, "two weights are both"),
        ({"bert__embeddings__LayerNorm__weight": torch.full((32,), torch.nan)}, "not numbers"),
        ({"cls__predictions__decoder__weight": torch.zeros(60, 32)}, "differ, but the architecture has one weight"),
    ],
)
def test_weights_that_do_not_fit_are_refused(bert, changes, piece):
    config, state = bert
    with pytest.raises(ArtifactError, match=piece):
        fit(changed(state, **changes), config, Path("model"))


def test_a_tied_copy_stands_for_a_missing_original(bert):
    config, state = bert
    fitted = fit(changed(state, cls__predictions__bias=None), config, Path("model"))
    assert torch.equal(fitted.weights["cls.predictions.bias"], state["cls.predictions.decoder.bias"])


def test_the_configuration_of_google_and_of_old_transformers(tmp_path, bert):
    settings = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 60}
    (tmp_path / "bert_config.json").write_text(json.dumps(settings))
    config, path = read_config(tmp_path)
    assert (config.model_type, config.vocab_size, path.name) == ("bert", 60, "bert_config.json")
    (tmp_path / "config.json").write_text(json.dumps({**settings, "vocab_size": 61}))
    with pytest.raises(InputError, match=r"config\.json and bert_config\.json differ in vocab_size"):
        read_config(tmp_path)
    (tmp_path / "bert_config.json").unlink()
    with pytest.raises(InputError, match="does not say which architecture"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**settings, "architectures": ["RobertaForMaskedLM"]}))
    assert read_config(tmp_path)[0].model_type == "roberta"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(ArtifactError, match="a t5 model, not an encoder"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(InputError, match="not a valid configuration"):
        read_config(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(ArtifactError, match=r"no config\.json or bert_config\.json"):
        read_config(tmp_path)
