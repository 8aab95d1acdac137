"""The directory of one run."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from testbed.errors import LabError, UsageError
from testbed.record.journal import Journal
from testbed.record.rundir import RunDirectory, find_run, runs

MANY = 50


def test_runs_that_start_in_the_same_second_are_all_kept(tmp_path):
    results = tmp_path / "results"
    seen, over = set(), threading.Event()

    def watch():
        while not over.is_set():
            if (results / "latest").exists():
                seen.add((results / "latest").resolve(strict=True).name)

    with ThreadPoolExecutor(9) as pool:
        watching = pool.submit(watch)
        made = list(pool.map(lambda _: RunDirectory.create(results, "lumion"), range(MANY)))
        over.set()
        watching.result()
    names = {run.id for run in made}
    assert len(names) == MANY
    assert {run.id for run in runs(results)} == names
    assert (results / "latest").resolve().name in names
    assert seen <= names
    assert sorted(path.name for path in results.iterdir()) == sorted(names | {"latest"})


def test_latest_follows_the_newest_run_and_survives_a_move_of_the_results(tmp_path):
    RunDirectory.create(tmp_path / "results", "a")
    newest = RunDirectory.create(tmp_path / "results", "b")
    moved = (tmp_path / "results").rename(tmp_path / "elsewhere")
    assert find_run(moved, "latest").id == newest.id


def test_a_dangling_link_latest_does_not_stop_the_next_run(tmp_path):
    gone = RunDirectory.create(tmp_path, "a")
    for part in ("wire", "logs"):
        (gone.path / part).rmdir()
    gone.path.rmdir()
    newest = RunDirectory.create(tmp_path, "b")
    assert (tmp_path / "latest").resolve() == newest.path


def test_a_run_is_found_by_its_name_its_path_and_a_unique_part(tmp_path):
    run = RunDirectory.create(tmp_path, "lumion")
    for name in ("latest", run.id, str(run.path), run.id[:12], run.id[-6:]):
        assert find_run(tmp_path, name).id == run.id


def test_a_name_that_matches_several_runs_or_none_is_refused(tmp_path):
    for _ in range(2):
        RunDirectory.create(tmp_path, "lumion")
    with pytest.raises(UsageError, match="names 2 runs"):
        find_run(tmp_path, "20")
    with pytest.raises(UsageError, match="names no run"):
        find_run(tmp_path, "nothing")
    with pytest.raises(UsageError, match="names no run"):
        find_run(tmp_path / "no results yet", "latest")


def test_other_directories_among_the_results_are_not_listed_as_runs(tmp_path):
    run = RunDirectory.create(tmp_path, "lumion")
    (tmp_path / "notes").mkdir()
    (tmp_path / f"{run.id}.txt").touch()
    assert [found.id for found in runs(tmp_path)] == [run.id]


def test_an_uncreatable_results_directory_is_reported_with_the_option_to_use(tmp_path):
    (tmp_path / "results").touch()
    with pytest.raises(LabError, match="--results"):
        RunDirectory.create(tmp_path / "results", "lumion")


def test_a_reader_sees_the_complete_old_or_new_file_during_a_write(tmp_path):
    run = RunDirectory.create(tmp_path, "lumion")
    versions = ["a" * 100_000, "b" * 100_000]
    run.write_text("summary.json", versions[0])
    seen, over = set(), threading.Event()

    def read():
        while not over.is_set():
            seen.add(run.summary.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for version in versions * 20:
        run.write_text("summary.json", version)
    over.set()
    reader.join()
    assert seen <= set(versions)
    assert [path.name for path in run.path.iterdir() if path.is_file()] == ["summary.json"]


def test_a_missing_or_invalid_file_of_a_run_is_named_in_the_error(tmp_path):
    run = RunDirectory.create(tmp_path, "lumion")
    with pytest.raises(UsageError, match=r"no readable run\.json"):
        run.read_json("run.json")
    run.write_text("run.json", "{")
    with pytest.raises(UsageError, match=r"no readable run\.json"):
        run.read_json("run.json")
    run.write_json("run.json", {"question": "é–µ"})
    assert run.read_json("run.json") == {"question": "é–µ"}


def test_a_json_file_of_a_run_keeps_any_text(tmp_path):
    run = RunDirectory.create(tmp_path, "lumion")
    summary = {"reason": "there is no file caf\udce9"}
    run.write_json("summary.json", summary)
    assert run.read_json("summary.json") == summary


class Disk:
    """What of a directory is on the disk, were the power lost now: what was synced, no more."""

    def __init__(self, monkeypatch):
        self._bytes = {}
        self._names = {}
        sync = os.fsync

        def synced(descriptor):
            sync(descriptor)
            self._note(Path(f"/proc/self/fd/{descriptor}").readlink())

        monkeypatch.setattr(os, "fsync", synced)

    def _note(self, path):
        if path.is_dir():
            self._names[path] = {entry.name: entry.stat().st_ino for entry in path.iterdir()}
        else:
            self._bytes[path.stat().st_ino] = path.read_bytes()

    def after_a_power_loss(self, directory):
        """Return the files of a directory, by name, that are there when the power is back."""
        if directory.name not in self._names.get(directory.parent, {}):
            return {}
        names = self._names.get(directory, {})
        return {name: self._bytes.get(inode, b"") for name, inode in names.items()}


def test_the_files_that_recover_needs_are_on_the_disk_before_the_first_journal_entry(
    tmp_path, monkeypatch
):
    disk = Disk(monkeypatch)
    run = RunDirectory.create(tmp_path / "results", "lumion")
    assert "results" in disk._names[tmp_path]
    run.write_text("lab.yaml", "lab: rack\n")
    run.write_json("run.json", {"run": run.id})
    with closing(Journal(run.journal)) as journal:
        left = disk.after_a_power_loss(run.path)
        assert left["lab.yaml"] == b"lab: rack\n" and json.loads(left["run.json"]) == {
            "run": run.id
        }
        assert left["journal.jsonl"] == b""
        journal.record_undo("outlet")
        assert b'"outlet"' in disk.after_a_power_loss(run.path)["journal.jsonl"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_reported(tmp_path):
    run = RunDirectory.create(tmp_path, "lumion")
    run.path.chmod(0o500)
    with pytest.raises(LabError, match=r"writing .*run\.json failed: Permission denied"):
        run.write_text("run.json", "x")


def test_every_host_has_a_directory_for_its_logs(tmp_path):
    run = RunDirectory.create(tmp_path, "lumion")
    run.log("h0", "rank.log").write_text("one\n")
    run.log("h0", "agent.log").write_text("two\n")
    assert sorted(p.name for p in (run.path / "logs" / "h0").iterdir()) == ["agent.log", "rank.log"]
