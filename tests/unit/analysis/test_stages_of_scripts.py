"""Circuits that went while a rank was in a lit stage are found, and no others."""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_monitor import monitor, watched
from testbed.events.origin import Origin
from testbed.record.log import read_events
from tests.unit.analysis.logs_by_hand import Log
from tests.unit.analysis.test_rail_monitor import change

SCRIPT = Path(__file__).parent / "data" / "script.jsonl"
"""The begin of a script under torchrun: four ranks on four hosts with a port each, one switch."""

CIRCUIT = "h0.p0–h1.p0"
MAIN = Origin("main")
STAGE, NEXT = ["dp0", 0, [0, 1], -1], ["dp0", 1, [0, 1], -1]


class Script(Log):
    """A log of two ranks, one on each of two hosts."""

    def __init__(self, ahead=5.0, bound=0.001):
        super().__init__(ahead, bound)
        for host in ("h0", "h1"):
            self.write(0.0, "host.ready", host, hardware={"p0": "02:00"})
        for tenth in range(20):
            self.measure(tenth / 10)
        self.events.append(change(-1, 0.1, [CIRCUIT]))

    def say(self, rank, at, what, stage=STAGE, generation=1):
        """Write that a rank reached or left a stage."""
        data = {"rank": rank, "generation": generation, "stage": stage}
        self.on(f"h{rank}", at, f"stage.{what}", f"rank {rank}", origin=MAIN, **data)

    def light(self, at, stage=STAGE, controller="rails"):
        """Write that a stage is lit; where a timer decided, the job is not named."""
        self.write(at, "stage.lit", "dp0", origin=Origin(controller=controller), stage=stage)

    def removed(self, at):
        """Return what is found where the circuit goes then."""
        return monitor([*self.events, change(-2, at, [])])


def one_stage(**clocks):
    """Return a log of a stage that rank 0 leaves at 0.4 s and rank 1 at 0.5 s."""
    log = Script(**clocks)
    log.say(0, 0.15, "reached")
    log.say(1, 0.18, "reached")
    log.light(0.25)
    log.say(0, 0.4, "left")
    log.say(1, 0.5, "left")
    return log


def test_a_planted_removal_in_a_stage_is_found_with_its_ranks():
    seen = one_stage().removed(0.3)
    (found,) = seen.found
    assert (found.circuit, found.change, found.ranks) == (CIRCUIT, -2, (0, 1))
    assert (seen.removed, seen.collectives, seen.stages, seen.not_judged) == (1, 0, 2, ())
    assert str(found).startswith(
        f"circuit {CIRCUIT} went at 0.300000 s (event -2) while ranks 0 and 1 were in stage 0 of"
    )


@pytest.mark.parametrize(
    ("at", "count"), [(0.2, 0), (0.24, 0), (0.26, 1), (0.39, 1), (0.45, 1), (0.49, 1), (0.51, 0)]
)
def test_a_removal_is_found_from_when_the_stage_is_lit_until_the_last_rank_left(at, count):
    assert len(one_stage().removed(at).found) == count


def test_a_rank_that_comes_to_a_lit_stage_has_traffic_from_then_on():
    log = Script()
    log.light(0.2)
    for rank, at in ((0, 0.3), (1, 0.4)):
        log.say(rank, at, "reached")
    log.light(0.2)
    for rank in (0, 1):
        log.say(rank, 0.5, "left")
    assert [len(log.removed(at).found) for at in (0.25, 0.35, 0.45)] == [0, 1, 1]


@pytest.mark.parametrize("at", [0.3, 0.35, 0.45])
def test_what_clocks_leave_open_is_no_finding(at):
    seen = one_stage(bound=0.12).removed(at)
    assert (len(seen.found), seen.not_judged) == (int(0.3 <= at < 0.38), ())


def test_a_rank_that_reaches_the_next_stage_uses_the_one_before_no_more():
    log = Script()
    for rank in (0, 1):
        log.say(rank, 0.15, "reached")
    log.light(0.2)
    for rank in (0, 1):
        log.say(rank, 0.3, "reached", NEXT)
    log.light(0.4, NEXT)
    for rank in (0, 1):
        log.say(rank, 0.5, "left", NEXT)
    found = [len(log.removed(at).found) for at in (0.25, 0.35, 0.45, 0.55)]
    assert found == [1, 0, 1, 0]


def test_a_stage_of_an_earlier_generation_does_not_light_one_with_its_number():
    log = one_stage()
    for rank in (0, 1):
        log.say(rank, 1.0, "reached", generation=2)
    for rank in (0, 1):
        log.say(rank, 1.2, "left", generation=2)
    assert log.removed(1.1).found == ()
    assert len(log.removed(0.3).found) == 1


def test_a_stage_of_another_job_does_not_light_one_with_its_name():
    log = Script()
    for rank in (0, 1):
        log.say(rank, 0.15, "reached")
    log.light(0.2, controller="rails of other")
    for rank in (0, 1):
        log.say(rank, 0.4, "left")
    assert log.removed(0.3).found == ()


def test_a_rank_is_looked_for_on_the_host_that_it_had_then():
    log = one_stage()
    moved = {"rank": 0, "generation": 2, "group": "dp0"}
    log.on("h2", 1.0, "group.joined", "rank 0", origin=MAIN, **moved)
    assert len(log.removed(0.3).found) == 1


def test_a_circuit_between_ranks_that_left_may_go_while_a_third_one_is_in_the_stage():
    log, ring = Script(), ["dp0", 0, [0, 1, 2], -1]
    ready = {"hardware": {"p0": "02:00", "p1": "02:01"}}
    for rank in (0, 1, 2):
        log.write(0.1, "host.ready", f"h{rank}", **ready)
    log.measure(0.1)
    for rank in (0, 1, 2):
        log.say(rank, 0.15, "reached", ring)
    log.light(0.2, ring)
    for rank in (1, 2, 0):
        log.say(rank, 0.3 if rank else 0.6, "left", ring)
    circuits = ["h0.p1–h1.p0", "h1.p1–h2.p0"]
    for gone, at, count in ((0, 0.4, 1), (1, 0.4, 0), (1, 0.25, 1)):
        changes = change(-3, 0.1, circuits, MAIN), change(-2, at, circuits[1 - gone :][:1])
        assert len(monitor([*log.events, *changes]).found) == count


@pytest.mark.parametrize(("rail", "ranks"), [("rail0", (0, 2)), ("rail1", None)])
def test_ports_are_of_the_ranks_on_the_rail_that_their_circuits_are_made_for(rail, ranks):
    log, pair = Script(), ["dp0", 0, [0, 2], -1]
    for rank, host in enumerate(("h0", "h0", "h1", "h1")):
        told = {"rank": rank, "generation": 1}
        log.on(host, 0.11, "group.joined", f"rank {rank}", origin=MAIN, **told, group="dp0")
    circuit, owner = "h0.p1–h1.p1", Origin("main", f"main.{rail}.dp0", "rails")
    log.events.append(change(-3, 0.12, [circuit], owner))
    for what, at in (("reached", 0.15), ("left", 0.4)):
        for rank, host in ((0, "h0"), (2, "h1")):
            told = {"rank": rank, "generation": 1, "stage": pair}
            log.on(host, at, f"stage.{what}", f"rank {rank}", origin=MAIN, **told)
        log.light(0.2, pair)
    assert [each.ranks for each in log.removed(0.3).found] == ([ranks] if ranks else [])


def test_a_stage_without_measured_clocks_is_not_judged():
    log = one_stage()
    log.events = [event for event in log.events if event.kind != "clock.offset"]
    seen = log.removed(0.3)
    assert (seen.found, seen.not_judged) == (
        (),
        (f"{CIRCUIT} at 0.300000 s: the clock of h0 was not measured",),
    )


def test_the_log_of_a_script_has_no_finding_and_every_removal_is_judged():
    seen = monitor(read_events(SCRIPT))
    assert (seen.found, seen.not_judged) == ((), ())
    assert (seen.removed, seen.collectives, seen.stages) == (27, 0, 96)


def test_a_removal_that_is_planted_in_any_stage_of_a_script_is_found():
    events = list(read_events(SCRIPT))
    clocks = Clocks(events)
    planted = 0
    for lit in (event for event in events if event.kind == "stage.lit"):
        group, number, ranks, _ = lit.data["stage"]
        left = [
            e for e in events if e.kind == "stage.left" and e.data["stage"][:2] == [group, number]
        ]
        if len(left) < len(ranks):
            continue  # it goes over into the next
        at = (lit.t + max(clocks.instant(e, e.data["mono"]).early for e in left)) / 2
        circuit = "–".join(f"h{rank}.p0" for rank in ranks)
        seen = monitor([*events, change(-2, 0.0, [circuit], MAIN), change(-1, at, [])])
        assert [(each.change, each.circuit) for each in seen.found] == [(-1, circuit)]
        assert seen.found[0].ranks == tuple(ranks)
        planted += 1
    assert planted > 10


def test_each_trial_is_judged_by_itself_with_what_came_before_the_first():
    log = one_stage()
    events = [*log.events, change(1, 0.3, []), change(2, 0.6, [CIRCUIT]), change(3, 0.7, [])]
    of_trial = [replace(event, trial=0 if event.t < 0.55 else 1) for event in events]
    found = {}
    assert list(watched(iter(of_trial), Clocks(events), found)) == of_trial
    assert [len(each.found) for each in found.values()] == [1, 0]
    assert [len(each.not_judged) for each in found.values()] == [0, 1]
    assert found[1].not_judged[0].endswith("no rank at h0.p0 told of a stage or a collective")
    first = [replace(event, trial=None if event.t < 0.2 else 0) for event in events]
    found = {}
    assert list(watched(iter(first), Clocks(events), found)) == first
    assert {trial: (each.removed, len(each.found)) for trial, each in found.items()} == {0: (2, 1)}


OWN, OTHER = "h0.p0–h1.p0", "h0.p1–h1.p1"
"""The circuits of two rails: ranks 0 and 2 have the ports p0 of their hosts, 1 and 3 the others."""


@pytest.mark.parametrize(
    ("rail", "circuit", "count"),
    [("rail1", OTHER, 1), ("rail1", OWN, 0), ("rail0", OWN, 1), ("rail0", OTHER, 0)],
)
def test_a_stage_that_is_forwarded_has_its_traffic_on_the_circuits_of_the_other_rail(
    rail, circuit, count
):
    log, ranks = Log(5.0, 0.001), {0: "h0", 1: "h0", 2: "h1", 3: "h1"}
    for host in ("h0", "h1"):
        log.write(0.0, "host.ready", host, hardware={"p0": "02:00", "p1": "02:01"})
    for tenth in range(20):
        log.measure(tenth / 10)
    for rank, host in ranks.items():
        told = {"rank": rank, "generation": 1, "group": f"dp{rank % 2}"}
        log.on(host, 0.05, "group.joined", f"rank {rank}", origin=MAIN, **told)
    lit = []
    for number, each in enumerate((OWN, OTHER)):
        lit.append(each)
        owner = Origin("main", f"main.rail{number}.dp{number}", "rails")
        log.events.append(replace(change(-3 + number, 0.1, [*lit]), origin=owner))
    stage = ["dp0", 0, [0, 2], 0]
    for rank in (0, 2):
        about = {"rank": rank, "generation": 1, "stage": stage}
        log.on(ranks[rank], 0.15, "stage.reached", f"rank {rank}", origin=MAIN, **about)
    log.write(0.2, "stage.lit", "dp0", origin=Origin(controller="rails"), stage=stage, rail=rail)
    for rank in (0, 2):
        about = {"rank": rank, "generation": 1, "stage": stage}
        log.on(ranks[rank], 0.4, "stage.left", f"rank {rank}", origin=MAIN, **about)
    rest = [each for each in (OWN, OTHER) if each != circuit]
    owner = Origin("main", "main.rail0.pp0", "rails")
    seen = monitor([*log.events, replace(change(-1, 0.3, rest), origin=owner)])
    assert [found.ranks for found in seen.found] == [(0, 2)] * count
