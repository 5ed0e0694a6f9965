from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
from encoders import preset_lm, scores_at
from tokenizers import Tokenizer, models, pre_tokenizers

from osler.artifacts.tokenizer import Tokenizer as TokenizerFolder
from osler.core.config import load_recipe
from osler.core.errors import ArtifactError, InputError, RecipeError
from osler.nn.encoder import load_encoder
from osler.nn.masking import MaskingVocabulary
from osler.nn.mlm import MaskedLM
from osler.nn.packing import pack
from osler.stages.pretrain.config import PretrainRecipe
from osler.stages.pretrain.model import check_start, make_model


def recipe(tokenizer: Path, **options) -> PretrainRecipe:
    values = {"corpus": "corpus", "tokenizer": tokenizer, "preset": "tiny", "max_length": 64, **options}
    return load_recipe(PretrainRecipe, options=values)


def made(recipe: PretrainRecipe) -> MaskedLM:
    vocabulary = MaskingVocabulary.of(TokenizerFolder.open(recipe.tokenizer))
    if recipe.start_from:
        check_start(recipe, recipe.start_from, vocabulary)
    return make_model(recipe, vocabulary)


@pytest.fixture(scope="module")
def checkpoint(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with its tokenizer beside it."""
    folder = tmp_path_factory.mktemp("checkpoint")
    made(recipe(tokenizer_folder)).save(folder)
    shutil.copy(tokenizer_folder / "tokenizer.json", folder)
    return folder


@pytest.fixture(scope="module")
def other_tokenizer(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same number of entries, two of them with each other's number."""
    spec = json.loads((tokenizer_folder / "tokenizer.json").read_text())
    vocabulary = spec["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    folder = tmp_path_factory.mktemp("other")
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    return folder


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WordPiece vocabulary in BERT's manner, with its padding at 0."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "aspirin", "fever", "##er", ".", "日"]
    tokenizer = Tokenizer(models.WordPiece({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(names[:5])
    from tokenizers.processors import BertProcessing

    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    folder = tmp_path_factory.mktemp("words")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_a_new_model_has_the_preset_s_shape_but_for_what_the_recipe_changes(tokenizer_folder):
    shape = {"layers": 1, "width": 64, "heads": 4, "inner": 96, "dropout": 0.2}
    config = made(recipe(tokenizer_folder, preset="small", shape=shape)).config
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (1, 64, 4)
    assert (config.intermediate_size, config.mlp_dropout) == (96, 0.2)
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (1, 0, 2)
    assert made(recipe(tokenizer_folder, preset="small", shape={"layers": 1})).config.hidden_size == 256


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "base"}, "no encoder preset 'base'. Did you mean 'roberta-base'"),
        ({"preset": "roberta-lage"}, "Did you mean 'roberta-large'"),
        ({"preset": "compact", "shape": {"heads": 5}}, "5 heads do not divide a width of 384"),
        ({"swap_vocabulary": True}, "name the checkpoint in start_from"),
        ({"new_head": True}, "name the checkpoint in start_from"),
    ],
)
def test_mistakes_are_told_when_the_recipe_is_read(options, message):
    with pytest.raises(RecipeError, match=message):
        recipe(Path("tokenizer"), **options)


def test_a_checkpoint_goes_on_as_it_was(checkpoint, tokenizer_folder):
    model = made(recipe(tokenizer_folder, start_from=checkpoint))
    expected = MaskedLM.load(checkpoint).state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())


def test_an_encoder_without_a_head_gets_a_new_one_if_the_recipe_says_so(checkpoint, tokenizer_folder, tmp_path):
    bare = shutil.copytree(checkpoint, tmp_path / "bare")
    load_encoder(checkpoint).save(bare)
    with pytest.raises(ArtifactError, match=r"no head that predicts masked tokens.*--set new_head=true"):
        made(recipe(tokenizer_folder, start_from=bare))
    first, again = (made(recipe(tokenizer_folder, start_from=bare, new_head=True)).state_dict() for _ in range(2))
    expected = MaskedLM.load(checkpoint).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    changed = {name for name, value in first.items() if not torch.equal(value, expected[name])}
    assert changed
    assert all(name.startswith(("model.head.", "model.decoder.")) for name in changed)
    other = made(recipe(tokenizer_folder, start_from=bare, new_head=True, train={"seed": 2})).state_dict()
    assert any(not torch.equal(other[name], first[name]) for name in changed)


def test_dropout_of_the_recipe_applies_to_a_checkpoint_too(checkpoint, tokenizer_folder):
    model = made(recipe(tokenizer_folder, start_from=checkpoint, shape={"dropout": 0.3}))
    assert model.config.mlp_dropout == 0.3
    assert 0.3 in {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}


def test_another_vocabulary_of_the_same_size_is_refused_and_the_switch_named(checkpoint, other_tokenizer):
    with pytest.raises(ArtifactError, match=r"2 of [\d,]+ tokens .* set swap_vocabulary = true"):
        made(recipe(other_tokenizer, start_from=checkpoint))


def test_a_checkpoint_without_tokenizer_cannot_be_swapped(checkpoint, other_tokenizer, tmp_path):
    bare = shutil.copytree(checkpoint, tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    with pytest.raises(ArtifactError, match=r"no tokenizer\.json here"):
        made(recipe(other_tokenizer, start_from=bare, swap_vocabulary=True))
    assert made(recipe(other_tokenizer, start_from=bare)).vocab_size > 0, (
        "nothing to compare with: the user's word counts"
    )


def test_a_context_longer_than_the_checkpoint_s_is_refused(checkpoint, tokenizer_folder):
    with pytest.raises(RecipeError, match="the checkpoint reads 64 tokens, max_length is 65"):
        made(recipe(tokenizer_folder, start_from=checkpoint, max_length=65))


def test_a_shape_that_is_not_the_checkpoint_s_is_refused(checkpoint, tokenizer_folder):
    with pytest.raises(RecipeError, match=r"shape\.layers is 3, the checkpoint's is 2"):
        made(recipe(tokenizer_folder, start_from=checkpoint, shape={"layers": 3}))
    assert made(recipe(tokenizer_folder, start_from=checkpoint, shape={"layers": 2}))


def test_a_missing_checkpoint_is_told(tokenizer_folder, tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        made(recipe(tokenizer_folder, start_from=tmp_path / "nothing"))


def test_rows_beyond_the_tokenizer_are_kept_and_saved(tokenizer_folder, checkpoint, tmp_path):
    size = TokenizerFolder.open(tokenizer_folder).tokenizer.get_vocab_size()
    larger = preset_lm("tiny", vocab_size=size + 7, pad_token_id=1, max_length=64, seed=1)
    larger.save(tmp_path / "larger")
    shutil.copy(tokenizer_folder / "tokenizer.json", tmp_path / "larger")
    model = made(recipe(tokenizer_folder, start_from=tmp_path / "larger"))
    model.save(tmp_path / "saved")
    assert MaskedLM.load(tmp_path / "saved").vocab_size == size + 7


@torch.no_grad()
def test_a_swapped_vocabulary(checkpoint, tokenizer_folder, words, tmp_path, caplog):
    from transformers import AutoModelForMaskedLM

    with caplog.at_level(logging.INFO, logger="osler"):
        model = made(recipe(words, start_from=checkpoint, swap_vocabulary=True))
    [event] = [json.loads(record.message) for record in caplog.records if "vocabulary_swapped" in record.message]
    assert (event["special"], event["unknown"]) == (5, 0)
    assert event["kept"] + event["composed"] == 5
    old = MaskedLM.load(checkpoint).model.get_input_embeddings().weight
    new = model.model.get_input_embeddings().weight
    assert (model.vocab_size, model.config.pad_token_id, model.config.cls_token_id) == (10, 0, 2)
    assert torch.equal(new[[0, 2, 3, 4]], old[[1, 0, 2, 4]])
    pieces = TokenizerFolder.open(tokenizer_folder).tokenizer.encode(" fever", add_special_tokens=False).ids
    torch.testing.assert_close(new[6], old[pieces].mean(0))
    model.save(tmp_path)
    ids = [2, 5, 6, 8, 3]
    stock = AutoModelForMaskedLM.from_pretrained(tmp_path)(input_ids=torch.tensor([ids])).logits[0]
    torch.testing.assert_close(scores_at(model, pack([ids], pad_id=0), torch.arange(5)), stock, rtol=0, atol=2e-5)


def test_the_digest_changes_with_the_checkpoint_s_tokenizer(checkpoint, tokenizer_folder, tmp_path):
    wanted = recipe(tokenizer_folder, start_from=checkpoint)
    vocabulary = MaskingVocabulary.of(TokenizerFolder.open(tokenizer_folder))
    bare = shutil.copytree(checkpoint, tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    assert check_start(wanted, checkpoint, vocabulary) == check_start(wanted, checkpoint, vocabulary)
    assert check_start(wanted, checkpoint, vocabulary) != check_start(wanted, bare, vocabulary)
