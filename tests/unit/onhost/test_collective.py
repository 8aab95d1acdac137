"""The job `collective` in processes of its own, over loopback."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from testbed.collectives.catalogue import ALGORITHMS, all_reduce
from testbed.collectives.rings import ring
from testbed.collectives.schedule import to_json


def options(ranks, **changes):
    both = {"ring": to_json(ring(ranks)), "again": to_json(ring(ranks))}
    return {"sizes": [4096, 40], "schedules": both, "iterations": 2, "warmup": 1} | changes


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_all_algorithms_run_all_sizes_in_turn_in_every_iteration(gang, ranks):
    members = gang("collective", options(ranks), ranks)
    members.join(1)
    members.hear("done", step=8)
    for member in members.members:
        samples = member.of_kind("sample")
        assert [s["step"] for s in samples] == list(range(8))
        assert [s["algorithm"] for s in samples] == ["ring", "again"] * 4
        assert [(s["size"], s["iteration"]) for s in samples[::2]] == [
            (4096, 0),
            (40, 0),
            (4096, 1),
            (40, 1),
        ]
        for sample in samples:
            assert sample["verified"] and sample["begin"] <= sample["end"]
            assert [number for number, *_ in sample["rounds"]] == list(range(2 * (ranks - 1)))


def test_group_probes_its_connections_in_pairs(gang):
    members = gang("collective", options(3), 3)
    members.join(1, probe=True)
    for probe in members.hear("probe"):
        assert probe["long_bytes"] == 768 << 10
        assert probe["long_seconds"] > 0
        assert 0 < probe["short_seconds"] < 1
    members.hear("done")


def test_another_rank_records_the_late_arrival_of_a_straggler(gang):
    members = gang("collective", options(2, sizes=[40], iterations=5), 2)
    members.members[1].tell("straggle", seconds=0.2)
    members.members[1].hear("straggling", seconds=0.2)
    members.join(1)
    late = members.members[1].hear("sample", step=0)
    assert late["delayed"] >= 0.2
    assert members.members[0].hear("sample", step=0)["waits"]["1"] > 0.1
    members.members[1].tell("straggle", seconds=0)
    members.hear("done", step=10)
    assert members.members[1].of_kind("sample")[-1]["delayed"] == 0


def test_delayed_rank_leaves_at_once_when_ordered(gang):
    members = gang("collective", options(2, sizes=[40], iterations=100), 2)
    members.members[1].tell("straggle", seconds=60)
    members.join(1)
    members.members[1].hear("straggling")
    members.members[0].hear("generation")
    members.tell("leave", generation=1)
    assert all(said["generation"] == 1 for said in members.hear("left"))


def test_s7_sums_are_right_whichever_rank_is_late(gang):
    """The schedules expect rank 3; nobody, another one, two, and one after the other are late."""
    schedules = {name: to_json(all_reduce(name, 4)) for name in ALGORITHMS}
    members = gang("collective", options(4, schedules=schedules, sizes=[4096], iterations=4), 4)
    first, _, third, _ = members.members
    members.join(1)
    first.hear("sample", step=3)
    first.tell("straggle", seconds=0.02)
    first.hear("sample", step=7)
    third.tell("straggle", seconds=0.03)
    first.hear("sample", step=11)
    first.tell("straggle", seconds=0)
    members.hear("done", step=4 * len(ALGORITHMS))
    late = [{s["step"] for s in m.of_kind("sample") if s["delayed"]} for m in (first, third)]
    assert late[0] - late[1] and late[0] & late[1] and late[1] - late[0]
    assert all(s["verified"] for m in members.members for s in m.of_kind("sample"))


def test_a_missing_library_is_refused_with_a_reason(gang):
    if find_spec("torch"):
        pytest.skip("torch is there")
    members = gang("collective", options(1), 1)
    members.job["options"]["library"] = "gloo"
    refused = members.start()
    with pytest.raises((AssertionError, ConnectionError)):  # it says why, and ends
        members.configure(refused, 0)
    (failed,) = refused.of_kind("failed")
    assert "gloo comes with torch, which cannot be loaded here" in failed["why"]
