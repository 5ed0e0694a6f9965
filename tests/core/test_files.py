from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from osler.core.errors import OutputError
from osler.core.files import atomic, fingerprint, locked, remove_half_written, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def in_a_child(work) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_file_appears_when_it_is_complete(tmp_path):
    target = tmp_path / "new" / "a.txt"
    with atomic(target) as handle:
        handle.write(b"whole")
        assert not target.exists()
    assert target.read_bytes() == b"whole"
    assert names(target.parent) == ["a.txt"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    write_atomic(tmp_path / "a.txt", "old")
    with pytest.raises(ZeroDivisionError), atomic(tmp_path / "a.txt") as handle:
        handle.write(b"half" * (1 // 0))
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_what_a_killed_writer_left_is_overwritten_by_the_next(tmp_path):
    def die_half_way() -> None:
        with atomic(tmp_path / "a.txt") as handle:
            handle.write(b"a long half-written text")
            handle.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(die_half_way) == -signal.SIGKILL
    assert names(tmp_path) == [".a.txt.tmp"]
    write_atomic(tmp_path / "a.txt", "short")
    assert (tmp_path / "a.txt").read_text() == "short"
    assert names(tmp_path) == ["a.txt"]


def test_writers_of_one_file_take_turns(tmp_path):
    target, started, done = tmp_path / "a.txt", threading.Barrier(9), []

    def write(text: str) -> None:
        started.wait()
        for _ in range(20):
            write_atomic(target, text * 10_000)
            done.append(len(set(target.read_text())))

    writers = [threading.Thread(target=write, args=(text,)) for text in "abcdefgh"]
    for writer in writers:
        writer.start()
    started.wait()
    for writer in writers:
        writer.join()
    assert done == [1] * 160  # never a mixture
    assert names(tmp_path) == ["a.txt"]


def test_only_half_written_files_are_swept(tmp_path):
    (tmp_path / "inside").mkdir()
    for name in (".a.txt.tmp", "b.tmp", ".hidden", "inside/.c.tmp"):
        (tmp_path / name).write_text("")
    remove_half_written(tmp_path)
    assert names(tmp_path) == [".hidden", "b.tmp", "inside"]
    assert names(tmp_path / "inside") == []


def test_a_lock_is_held_by_one_and_gone_afterwards(tmp_path):
    lock = tmp_path / ".a.lock"
    with locked(lock, tmp_path / "a"):
        with pytest.raises(OutputError, match="another osler process"), locked(lock, tmp_path / "a"):
            pass
        assert lock.exists()
    assert names(tmp_path) == []


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    def die() -> None:
        with locked(tmp_path / ".a.lock", tmp_path / "a"):
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(die) == -signal.SIGKILL
    assert names(tmp_path) == [".a.lock"]
    with locked(tmp_path / ".a.lock", tmp_path / "a"):
        pass
    assert names(tmp_path) == []


def test_write_atomic_replaces_the_file_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "deep" / "file"
    write_atomic(path, "one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [item.name for item in path.parent.iterdir()] == ["file"]


def test_fingerprint_depends_on_content_and_order(tmp_path):
    for name, content in [("a", "1"), ("b", "2"), ("c", "1")]:
        (tmp_path / name).write_text(content)
    a, b, c = (tmp_path / name for name in "abc")
    assert fingerprint([a, b]) == fingerprint([c, b])
    assert fingerprint([a, b]) != fingerprint([b, a])
