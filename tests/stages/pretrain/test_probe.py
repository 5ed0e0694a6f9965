"""The probe trains for real, on this machine's CPU for a fraction of a second."""

from __future__ import annotations

import tempfile

import pytest
import torch

from osler.nn.masking import MaskingVocabulary
from osler.stages.pretrain import probe as module
from osler.stages.pretrain.config import PretrainRecipe, PretrainSettings
from osler.stages.pretrain.probe import probe, random_source
from osler.train.precision import device_name, matmul_peak

SMALL = MaskingVocabulary(100, pad_id=1, mask_id=4, special_ids=frozenset(range(5)), prefix=(0,), suffix=(2,))


def recipe(tmp_path, **options) -> PretrainRecipe:
    shape = {"preset": "tiny", "max_length": 32, "batch_tokens": 128, "accumulate": 2, **options}
    settings = PretrainSettings(steps=1000, device="cpu", eval_every=10, lr=5.0)
    return PretrainRecipe(corpus=tmp_path / "c", tokenizer=tmp_path / "t", train=settings, **shape)


def test_it_measures_speed_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = probe(recipe(tmp_path), SMALL, seconds=0.2, lengths=[5, 20, 32])
    assert found.tokens_per_second > 0
    assert found.flops_per_second / found.tokens_per_second > 1e5  # operations a token
    assert found.seconds >= 0.2
    assert 32 <= found.batch_tokens <= 128
    assert (found.memory, found.out_of_memory) == (None, False)
    assert list(tmp_path.iterdir()) == []


def test_where_a_micro_batch_takes_too_long_a_smaller_one_is_taken(tmp_path):
    found = probe(recipe(tmp_path, batch_tokens=1 << 22), SMALL, seconds=0.1)
    assert found.batch_tokens < 1 << 22
    assert found.batch_tokens % 32 == 0


def test_where_memory_is_short_a_smaller_one_is_taken(tmp_path, monkeypatch):
    real = module.train

    def short_of_memory(objective, source, *given, **named):
        if source.load(0).tokens > 32:
            raise torch.OutOfMemoryError
        return real(objective, source, *given, **named)

    monkeypatch.setattr(module, "train", short_of_memory)
    monkeypatch.setattr(module, "_affordable", lambda recipe, speed, seconds: (128, 1))
    found = probe(recipe(tmp_path), SMALL, seconds=0.05)
    assert (found.out_of_memory, found.batch_tokens) == (True, 32)


def test_random_batches_have_the_shape_of_the_recipe(tmp_path):
    source = random_source(recipe(tmp_path), SMALL, 90, [5, 20, 32], 128, 2)
    batches = [source.load(ref) for index in range(5) for ref in source.step(index)]
    assert len(batches) == 10
    assert {batch.tokens for batch in batches} == {128}
    assert {len(batch.payload.positions) for batch in batches} == {int(0.15 * 128)}
    assert len({batch.payload.batch.cu_seqlens.shape for batch in batches}) == 1
    for batch in batches:
        lengths = batch.payload.batch.lengths()
        assert int(lengths.sum()) == 128
        assert set(lengths[1:-1].tolist()) <= {5, 20, 32}
        assert not (batch.payload.batch.input_ids == SMALL.pad_id).any()
        assert int(batch.payload.batch.input_ids.max()) < 90  # a model with fewer entries than the vocabulary


def test_the_peak_is_measured_without_touching_the_generator_of_the_run():
    before = torch.get_rng_state()
    assert matmul_peak("cpu", seconds=0.01) > 1e8
    assert torch.equal(torch.get_rng_state(), before)
    threads = torch.get_num_threads()
    matmul_peak("cpu", seconds=0.0, threads=threads + 1)
    assert torch.get_num_threads() == threads
    assert device_name("cpu").startswith("CPU with")


@pytest.mark.gpu
def test_on_a_gpu_memory_is_measured_too(tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    wanted = recipe(tmp_path)
    wanted = wanted.changed(train=wanted.train.changed(device="cuda"))
    found = probe(wanted, SMALL, seconds=1.0)
    assert found.memory > 0
    assert found.batch_tokens == 128
    assert found.flops_per_second < found.peak
