from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from osler.core.artifact import FORMAT_VERSION, Artifact, Workspace, check_out, produce, read_model
from osler.core.config import Recipe, runtime
from osler.core.errors import ArtifactError, OutputError
from osler.core.files import locked


class Small(Recipe):
    number: int = 1
    where: str = runtime("here")


def write_number(recipe: Small):
    def build(work: Workspace) -> None:
        (work.path / "number.txt").write_text(str(recipe.number))
        (work.logs / "time.txt").write_text(os.urandom(4).hex())
        work.counts["number"] = recipe.number

    return build


def make(out: Path, recipe: Small | None = None, **options) -> Artifact:
    recipe = recipe or Small()
    return produce(out, kind="small", recipe=recipe, parents={"input": "abc"}, build=write_number(recipe), **options)


def test_a_finished_artifact_opens_with_its_recipe_counts_and_parents(tmp_path):
    made = make(tmp_path / "a")
    opened = Artifact.open(tmp_path / "a", kind="small")
    assert opened.manifest == made.manifest
    assert Artifact.open(str(tmp_path / "a")) == opened
    assert opened.manifest.recipe["number"] == 1
    assert opened.manifest.parents == {"input": "abc"}
    assert opened.manifest.counts == {"number": 1}
    assert not (tmp_path / "a.partial").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_the_same_recipe_reuses_and_a_runtime_field_does_not_matter(tmp_path):
    make(tmp_path / "a")
    again = produce(
        tmp_path / "a",
        kind="small",
        recipe=Small(where="elsewhere"),
        parents={"input": "abc"},
        build=lambda work: pytest.fail("must not build again"),
    )
    assert again.reused


def test_another_recipe_or_parent_is_refused_without_force_and_leaves_what_is_there(tmp_path):
    make(tmp_path / "a")
    before = (tmp_path / "a" / "manifest.json").read_bytes()
    with pytest.raises(OutputError, match="--force"):
        make(tmp_path / "a", Small(number=2))
    assert (tmp_path / "a" / "manifest.json").read_bytes() == before
    assert make(tmp_path / "a", Small(number=2), force=True).manifest.counts == {"number": 2}


def test_two_makes_give_the_same_bytes_except_logs(tmp_path):
    make(tmp_path / "a")
    make(tmp_path / "b")
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (tmp_path / "b" / "manifest.json").read_bytes()
    assert "logs/time.txt" not in json.loads((tmp_path / "a" / "manifest.json").read_text())["files"]


def test_a_failed_build_leaves_no_artifact_and_the_next_one_continues(tmp_path):
    def half(work: Workspace) -> None:
        (work.path / "half.txt").write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        produce(tmp_path / "a", kind="small", recipe=Small(), parents={}, build=half)
    assert not (tmp_path / "a").exists()
    with pytest.raises(ArtifactError):
        Artifact.open(tmp_path / "a")
    seen = []
    produce(
        tmp_path / "a",
        kind="small",
        recipe=Small(),
        parents={},
        build=lambda w: seen.append((w.path / "half.txt").exists()),
    )
    assert seen == [True]


def test_a_half_built_folder_of_another_recipe_is_thrown_away(tmp_path):
    def half(work: Workspace) -> None:
        (work.path / "half.txt").write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        produce(tmp_path / "a", kind="small", recipe=Small(), parents={}, build=half)
    made = make(tmp_path / "a", Small(number=3))
    assert "half.txt" not in made.manifest.files


def test_a_killed_build_never_looks_complete(tmp_path):
    code = """
    import os, signal, sys
    from pathlib import Path
    from osler.core.artifact import produce
    from osler.core.config import Recipe
    def build(work):
        (work.path / "x").write_text("x")
        os.kill(os.getpid(), signal.SIGKILL)
    produce(Path(sys.argv[1]), kind="small", recipe=Recipe(), parents={}, build=build)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "a")], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "a").exists()
    assert produce(
        tmp_path / "a", kind="small", recipe=Recipe(), parents={}, build=lambda w: None
    ).manifest.files.keys() == {"x"}


def test_an_artifact_of_a_newer_format_is_refused(tmp_path):
    make(tmp_path / "a")
    path = tmp_path / "a" / "manifest.json"
    manifest = json.loads(path.read_text()) | {"format_version": FORMAT_VERSION + 1, "a_new_field": 1}
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="newer version of osler"):
        Artifact.open(tmp_path / "a")
    del manifest["a_new_field"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="newer version of osler"):
        Artifact.open(tmp_path / "a")


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": 1}'])
def test_a_damaged_manifest_is_one_clear_error(tmp_path, content):
    make(tmp_path / "a")
    (tmp_path / "a" / "manifest.json").write_text(content)
    with pytest.raises(ArtifactError, match="damaged"):
        Artifact.open(tmp_path / "a")


def test_wrong_kind_missing_file_and_changed_file_are_found(tmp_path):
    artifact = make(tmp_path / "a")
    with pytest.raises(ArtifactError, match="this folder holds a small, not a corpus"):
        Artifact.open(tmp_path / "a", kind="corpus")
    artifact.verify()
    (tmp_path / "a" / "number.txt").write_text("2")
    with pytest.raises(ArtifactError, match=r"number\.txt"):
        artifact.verify()
    (tmp_path / "a" / "number.txt").unlink()
    with pytest.raises(ArtifactError, match=r"number\.txt"):
        Artifact.open(tmp_path / "a")


def test_a_folder_of_something_else_is_not_overwritten(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.doc").write_text("ten years of work")
    with pytest.raises(OutputError, match="not a finished osler artifact"):
        make(tmp_path / "a")
    assert (tmp_path / "a" / "thesis.doc").read_text() == "ten years of work"


def test_two_processes_cannot_write_one_artifact(tmp_path):
    out = tmp_path / "a"
    with locked(tmp_path / ".a.lock", out), pytest.raises(OutputError, match=f"{out}: another osler process"):
        make(tmp_path / "a")


def test_an_output_below_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="--out"):
        make(tmp_path / "file" / "a")


def test_a_full_disk_is_one_clear_error_and_leaves_no_artifact(tmp_path):
    code = """
    import resource, signal, sys
    from pathlib import Path
    from osler.core.artifact import produce
    from osler.core.config import Recipe
    from osler.core.errors import OutputError
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        produce(Path(sys.argv[1]), kind="big", recipe=Recipe(), parents={}, build=lambda w: (w.path / "big").write_bytes(bytes(100_000)))
    except OutputError as error:
        print(error)
        sys.exit(error.exit_code)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "a")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stdout
    assert not (tmp_path / "a").exists()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 10_000


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, a file system that takes no files")
def test_a_folder_that_cannot_hold_files_is_one_clear_error():
    with pytest.raises(OutputError, match="cannot write"):
        produce(Path("/proc/osler-test"), kind="any", recipe=Recipe(), parents={}, build=lambda _: None)


def test_an_unfinished_run_with_other_settings_is_removed_but_not_in_silence(tmp_path, capsys):
    def stop(work: Workspace) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            produce(tmp_path / "a", kind="small", recipe=Small(), parents={"input": "abc"}, build=stop)
    assert "removing" not in capsys.readouterr().err
    make(tmp_path / "a", Small(number=2))
    assert "removing a.partial, an unfinished run with other settings or inputs" in capsys.readouterr().err


def test_out_is_checked_without_making_anything(tmp_path):
    def check(out: Path, recipe: Small, **options) -> bool:
        return check_out(out, kind="small", recipe=recipe, parents={"input": "abc"}, **options)

    assert not check(tmp_path / "new" / "a", Small())
    make(tmp_path / "a")
    assert check(tmp_path / "a", Small())
    with pytest.raises(OutputError, match="made from another recipe"):
        check(tmp_path / "a", Small(number=2))
    assert not check(tmp_path / "a", Small(number=2), force=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="a part of the path is a file"):
        check(tmp_path / "file" / "a", Small())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "file"]


LONG = "n" * 300


@pytest.mark.parametrize(
    ("out", "piece"),
    [
        ("file/a", "a part of the path is a file"),
        ("file/a/b", "a part of the path is a file"),
        (LONG, "the name is too long"),
        (LONG[:250], "the name is too long"),  # short enough itself, but not with .partial
        (f"{LONG}/a", "the name is too long"),
        ("circle/a", "cannot write"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_an_impossible_place_is_one_clear_error_that_names_it(tmp_path, out, piece, force):
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to("circle")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OutputError, match=piece) as error:
        make(tmp_path / out, force=force)
    assert error.value.where == str(tmp_path / out)
    assert "--out" in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_one_may_not_write_to_or_look_into_is_one_clear_error(tmp_path):
    for mode in (0o500, 0o000):
        (tmp_path / "closed").mkdir(mode)
        with pytest.raises(OutputError, match="permission denied"):
            make(tmp_path / "closed" / "a")
        (tmp_path / "closed").rmdir()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.ENOLCK])
def test_a_place_that_takes_no_lock_file_is_named_without_it(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OutputError, match="cannot write") as error:
        make(tmp_path / "a")
    assert error.value.where == str(tmp_path / "a")


def test_force_does_not_replace_a_folder_of_something_else(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.doc").write_text("ten years of work")
    with pytest.raises(OutputError, match="not a finished osler artifact"):
        make(tmp_path / "home", force=True)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.doc"]


def test_a_half_written_file_of_a_killed_process_is_not_in_the_artifact(tmp_path):
    whole = make(tmp_path / "whole")

    def killed(work: Workspace) -> None:
        (work.path / "inside").mkdir()
        (work.path / "inside" / ".big.jsonl.tmp").write_text("half")
        write_number(Small())(work)

    made = produce(tmp_path / "a", kind="small", recipe=Small(), parents={"input": "abc"}, build=killed)
    assert made.manifest == whole.manifest
    assert not list(made.path.rglob(".*"))


def test_what_a_run_killed_after_its_last_rename_left_beside_is_removed_by_the_next(tmp_path):
    make(tmp_path / "a")
    (tmp_path / ".a.lock").write_text("")
    (tmp_path / ".a.old").mkdir()
    assert make(tmp_path / "a").reused
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    with locked(tmp_path / ".a.lock", tmp_path / "a"):
        assert make(tmp_path / "a").reused  # while another process replaces it
        assert (tmp_path / ".a.lock").exists()


def test_a_failed_build_leaves_no_lock(tmp_path):
    with pytest.raises(ZeroDivisionError):
        produce(tmp_path / "a", kind="small", recipe=Small(), parents={}, build=lambda work: print(1 / 0))
    assert [path.name for path in tmp_path.iterdir()] == ["a.partial"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"number": "Ruiz"}', "broken: number: Input should be a valid integer"),
        (b'{"number": 2', "broken: Invalid JSON: EOF"),
        (b'{"where": "\xff"}', "broken: Invalid JSON: invalid unicode"),
    ],
)
def test_a_damaged_json_file_is_named_with_what_is_wrong_and_not_quoted(tmp_path, content, problem):
    path = tmp_path / "small.json"
    path.write_bytes(content)
    with pytest.raises(ArtifactError) as found:
        read_model(Small, path, problem="broken", fix="Make it again")
    assert (found.value.where, found.value.fix) == (str(path), "Make it again")
    assert found.value.problem.startswith(problem)
    assert "Ruiz" not in str(found.value)
