"""The undo journal: on the disk before the act, readable after a crash at any byte."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.errors import BusyError, LabError, UnsafeError
from testbed.record.journal import Journal, open_entries

moves = st.lists(st.booleans() | st.integers(0, 20), max_size=20)
"""True and False promise something; a number settles that promise, if it was made."""


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    yield journal
    journal.close()


def undone(tmp_path):
    return [entry["undo"] for entry in open_entries(tmp_path / "journal.jsonl")]


def test_open_entries_are_returned_last_first(journal, tmp_path):
    journal.record_undo("circuits", start={"ocs": [[1, 2]]})
    power = journal.record_undo("outlet", unit="pdu", outlet="3", on=True)
    journal.record_undo("rank-stopped", host="h1")
    assert undone(tmp_path) == ["rank-stopped", "outlet", "circuits"]
    journal.settle(power)
    assert undone(tmp_path) == ["rank-stopped", "circuits"]


def test_an_entry_holds_all_arguments_of_its_undo(journal, tmp_path):
    journal.record_undo("outlet", unit="pdu", outlet="3", on=True)
    (entry,) = open_entries(tmp_path / "journal.jsonl")
    assert entry == {"id": 0, "undo": "outlet", "unit": "pdu", "outlet": "3", "on": True}


def test_an_entry_is_synced_before_record_undo_returns(journal, tmp_path, monkeypatch):
    synced = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (sync(fd), synced.append(undone(tmp_path))))
    journal.record_undo("outlet")
    assert synced == [["outlet"]]


def test_entries_recorded_by_many_threads_get_unique_numbers(journal, tmp_path):
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: journal.record_undo("outlet"), range(40)))
    assert sorted(numbers) == list(range(40))
    assert [entry["id"] for entry in open_entries(tmp_path / "journal.jsonl")] == [
        *range(39, -1, -1)
    ]


def test_marking_an_undo_done_twice_and_closing_twice_is_harmless(journal, tmp_path):
    number = journal.record_undo("outlet")
    journal.settle(number)
    journal.settle(number)
    journal.close()
    journal.close()
    assert undone(tmp_path) == []


def written(path, drawn):
    """Write a journal as drawn; return what is open after each of its lines."""
    path.unlink(missing_ok=True)
    journal, still_open, history = Journal(path), [], [[]]
    for move in drawn:
        if isinstance(move, bool):
            still_open = [journal.record_undo("something"), *still_open]
        else:
            journal.settle(move)
            still_open = [number for number in still_open if number != move]
        history.append(still_open)
    journal.close()
    return history


def test_an_invalid_line_before_the_last_one_raises_unsafe(journal, tmp_path):
    journal.record_undo("circuits")
    journal.record_undo("outlet")
    journal.close()
    path = tmp_path / "journal.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first[:9] + b"\n" + second)
    with pytest.raises(UnsafeError, match=r"journal\.jsonl:1: .* is not an entry"):
        open_entries(path)


def test_the_undo_journal_of_a_run_that_changed_nothing_is_empty(journal, tmp_path):
    journal.close()
    assert open_entries(tmp_path / "journal.jsonl") == []


def test_an_undo_that_cannot_be_marked_done_on_a_full_disk_stays_open(journal, tmp_path, full_disk):
    number = journal.record_undo("outlet")
    with full_disk():
        with pytest.raises(LabError, match="what was undone is not marked as undone"):
            journal.settle(number)
        journal.close()
    assert [entry["undo"] for entry in open_entries(tmp_path / "journal.jsonl")] == ["outlet"]


def test_an_extension_appends_to_the_lists_of_its_undo_entry(journal, tmp_path):
    number = journal.record_undo("circuits", start={"ocs": []}, made={"ocs": [[1, 2]]})
    journal.extend(number, made={"ocs": [[3, 4]], "tor": [[5, 6]]})
    journal.extend(number, made={"ocs": [[7, 8]]})
    (entry,) = open_entries(tmp_path / "journal.jsonl")
    assert entry["made"] == {"ocs": [[1, 2], [3, 4], [7, 8]], "tor": [[5, 6]]}
    assert entry["start"] == {"ocs": []} and "extend" not in entry
    journal.settle(number)
    journal.extend(number, made={"ocs": [[9, 10]]})
    assert undone(tmp_path) == []


def test_older_journals_with_whole_lists_are_read(journal, tmp_path):
    number = journal.record_undo("circuits", start={"ocs": []}, made={"ocs": [[1, 2]]})
    journal.close()
    path = tmp_path / "journal.jsonl"
    with path.open("a") as file:
        file.write('{"amend": 0, "made": {"ocs": [[1, 2], [3, 4]]}}\n')
    resumed = Journal.resume(path)
    resumed.extend(number, made={"ocs": [[5, 6]]})
    resumed.close()
    (entry,) = open_entries(path)
    assert entry["made"] == {"ocs": [[1, 2], [3, 4], [5, 6]]}
    assert entry["start"] == {"ocs": []} and "amend" not in entry


def test_one_extension_does_not_grow_with_the_entry(journal, tmp_path):
    number = journal.record_undo("circuits", made={"ocs": []})
    sizes = [(tmp_path / "journal.jsonl").stat().st_size]
    for port in range(100, 200):
        journal.extend(number, made={"ocs": [[port, port + 100]]})
        sizes.append((tmp_path / "journal.jsonl").stat().st_size)
    assert len({after - before for before, after in pairwise(sizes)}) == 1
    (entry,) = open_entries(tmp_path / "journal.jsonl")
    assert entry["made"]["ocs"] == [[port, port + 100] for port in range(100, 200)]


@pytest.mark.parametrize(
    "line",
    [
        '{"extend": 7, "made": {"ocs": []}}',
        '{"extend": 0, "made": [[1, 2]]}',
        '{"extend": 0, "made": {"ocs": 3}}',
        '{"extend": 0, "undo": {"ocs": [[1, 2]]}}',
    ],
)
def test_an_extension_of_what_is_not_a_list_of_the_entry_is_no_entry(journal, tmp_path, line):
    journal.record_undo("circuits", made={"ocs": []})
    journal.close()
    path = tmp_path / "journal.jsonl"
    with path.open("a") as file:
        file.write(line + '\n{"done": 0}\n')
    with pytest.raises(UnsafeError, match=r"journal\.jsonl:2: .* is not an entry"):
        open_entries(path)


def test_a_journal_that_is_still_written_cannot_be_resumed(journal, tmp_path):
    path = tmp_path / "journal.jsonl"
    with pytest.raises(BusyError, match="still running, or being recovered"):
        Journal.resume(path)
    journal.close()
    resumed = Journal.resume(path)
    with pytest.raises(BusyError):
        Journal.resume(path)
    resumed.close()
    Journal.resume(path).close()


def test_the_journal_of_a_killed_process_can_be_resumed_at_once(tmp_path):
    path = tmp_path / "journal.jsonl"
    program = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from testbed.record.journal import Journal\n"
        "Journal(Path(sys.argv[1])).record_undo('outlet')\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, path]).returncode == -9
    resumed = Journal.resume(path)
    assert undone(tmp_path) == ["outlet"]
    resumed.close()


@given(moves, moves, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_journal_cut_at_any_byte_keeps_every_whole_entry_and_can_be_resumed(
    tmp_path, drawn, more, data
):
    path = tmp_path / "cut.jsonl"
    history = written(path, drawn)
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    before = [entry["id"] for entry in open_entries(path)]
    lines = whole[: cut + 1].count(b"\n")  # a line that lacks only its end is there
    assert before == history[lines]
    resumed = Journal.resume(path)
    for move in more:
        if isinstance(move, bool):
            number = resumed.record_undo("something")
            assert number not in before
            before = [number, *before]
        else:
            resumed.settle(move)
            before = [number for number in before if number != move]
    resumed.close()
    assert [entry["id"] for entry in open_entries(path)] == sorted(before, reverse=True)
