"""Transcripts: every byte of one instrument's conversation."""

import json
from concurrent.futures import ThreadPoolExecutor

from testbed.clock import now
from testbed.record.transcript import Transcript


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_transcript_has_the_bytes_in_order_each_as_one_character(tmp_path):
    transcript = Transcript(tmp_path / "ocs.jsonl", "ocs")
    transcript("send", b"*IDN?\n")
    transcript("receive", b"Pol\xc3\xff\x00atis\r\n")
    transcript.close()
    sent, received = rows(tmp_path / "ocs.jsonl")
    assert (sent["instrument"], sent["direction"], sent["data"]) == ("ocs", "send", "*IDN?\n")
    assert received["data"].encode("latin-1") == b"Pol\xc3\xff\x00atis\r\n"
    assert sent["mono"] <= received["mono"]


def test_bytes_kept_in_memory_are_written_with_their_original_times(
    tmp_path,
):
    transcript = Transcript()
    transcript("send", b"*IDN?\n")
    between = round(now(), 6)
    transcript.write_to(tmp_path / "ocs.jsonl", "ocs")
    transcript("receive", b"Polatis\r\n")
    transcript.close()
    sent, received = rows(tmp_path / "ocs.jsonl")
    assert (sent["data"], received["data"]) == ("*IDN?\n", "Polatis\r\n")
    assert sent["mono"] <= between <= received["mono"]


def test_bytes_after_the_transcript_was_closed_are_dropped(tmp_path):
    transcript = Transcript(tmp_path / "ocs.jsonl", "ocs")
    transcript.close()
    transcript("send", b"late")
    transcript.close()
    assert rows(tmp_path / "ocs.jsonl") == []


def test_transcript_rows_of_two_threads_are_never_mixed(tmp_path):
    transcript = Transcript(tmp_path / "ocs.jsonl", "ocs")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: transcript("send", b"x" * n), range(200)))
    transcript.close()
    assert sorted(len(row["data"]) for row in rows(tmp_path / "ocs.jsonl")) == list(range(200))


def test_a_full_disk_does_not_stop_an_exchange_with_an_instrument(tmp_path, full_disk):
    transcript = Transcript(tmp_path / "ocs.jsonl", "ocs")
    transcript("send", b"before")
    with full_disk():
        for _ in range(1000):
            transcript("send", b"x" * 100)
        transcript.close()
    assert [row["data"] for row in rows(tmp_path / "ocs.jsonl")] == ["before"]


def test_a_retried_read_is_recorded_and_reported(tmp_path):
    told = []
    transcript = Transcript(tmp_path / "ocs.jsonl", "ocs", told.append)
    transcript("send", b"*IDN?")
    transcript("retry", b"ocs: did not answer")
    transcript.close()
    assert told == ["ocs: did not answer"]
    assert [row["direction"] for row in rows(tmp_path / "ocs.jsonl")] == ["send", "retry"]
