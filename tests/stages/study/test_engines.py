"""How many runs fit on a machine, and which GPUs they may use."""

from __future__ import annotations

from osler.stages.study.engines import RunSlot, listed_gpus, room


def test_the_room_is_by_cores_without_a_gpu_and_by_memory_with_one(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("osler.stages.study.engines.cores", lambda: 8)
    monkeypatch.setattr("osler.stages.study.engines.visible_gpus", list)
    assert (room(0, runs=100).workers, room(0, runs=100).threads) == (4, 2)
    assert (room(0, runs=2).workers, room(0, runs=2).threads) == (2, 4)
    assert (room(8, runs=100).workers, room(8, runs=100).threads, room(8, runs=100).gated) == (8, 1, False)
    monkeypatch.setattr("osler.stages.study.engines.visible_gpus", lambda: [RunSlot("0", 1000), RunSlot("1", 1000)])
    assert room(0, runs=100, smallest=300).workers == 6
    assert [room(0, runs=runs, smallest=10).workers for runs in (1, 7, 8, 9, 20, 100)] == [1, 7, 8, 5, 7, 8]
    assert room(0, runs=100, cpu_only=True).slots[0].visible is None
    pairs = room(0, runs=100, processes=2, smallest=900)
    assert [slot.visible for slot in pairs.slots] == ["0,1"]


def test_the_threads_of_a_run_are_those_of_the_environment(monkeypatch):
    monkeypatch.setattr("osler.stages.study.engines.cores", lambda: 8)
    monkeypatch.setattr("osler.stages.study.engines.visible_gpus", list)
    for value, threads in (("1", 1), ("3,1", 3), ("0", 2), ("many", 2), ("", 2)):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert (room(0, runs=100).workers, room(0, runs=100).threads) == (4, threads)


def test_gpus_are_those_that_the_process_may_see():
    listing = "0, GPU-a, 1000\n1, GPU-b, 2000\n"
    assert listed_gpus(listing, None) == [RunSlot("0", 1000 << 20), RunSlot("1", 2000 << 20)]
    assert listed_gpus(listing, "1") == [RunSlot("1", 2000 << 20)]
    assert listed_gpus(listing, "GPU-b,0") == [RunSlot("1", 2000 << 20), RunSlot("0", 1000 << 20)]
