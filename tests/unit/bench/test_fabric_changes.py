"""Changes of the fabric, on real drivers over TCP: what is moved, journalled and refused."""

import re

import pytest

from testbed.bench.crossbar import Crossbar
from testbed.bench.fabric import Fabric
from testbed.clock import Deadline
from testbed.errors import BusyError, InstrumentError, Rejected, UnsafeError
from testbed.fabric.circuits import Circuit, CrossConnect
from testbed.fabric.light import LightLimits
from testbed.record.lease import CHANGE_LIMIT
from tests.unit.bench.optical_rig import Rack, leased, soon

ONE = Circuit.parse("h0.p1", "h1.p0")
OTHER = Circuit.parse("h1.p1", "h2.p0")
LATER = Circuit.parse("h0.p1", "h2.p1")
CROSSED = {2: 19, 3: 18}
"""What ONE is on the switch."""
OTHER_CROSSED = {4: 21, 5: 20}


@pytest.fixture
def rack(tmp_path):
    rack = Rack(tmp_path)
    yield rack
    rack.close()


@pytest.fixture
def two_switches(tmp_path):
    rack = Rack(tmp_path, switches=("a", "b"))
    yield rack
    rack.close()


def change(rack, *circuits, by=""):
    return rack.fabric.set_circuits("job", frozenset(circuits), soon(), by)


def test_a_circuit_on_a_port_that_is_not_leased_is_not_changed(rack):
    rack.fabric.adopt({}, soon())
    rack.leases.unlock([leased("ocs", 18)], forced=True)
    rack.lease._renew()
    before = len(rack.sent)
    with pytest.raises(BusyError, match=r"the lease of this run is lost: .* took ocs\.18"):
        change(rack, ONE)
    assert rack.sent[before:] == []
    assert rack.lease.regain()
    change(rack, ONE)
    assert rack.shown() == CROSSED


def losing(rack, word):
    """Have a lease taken away in the moment in which the switch is asked or told something."""

    def lose(line):
        if word in line:
            rack.leases.unlock([leased("ocs", 2)], forced=True)

    return lose


def test_a_lease_that_is_lost_while_a_change_is_planned_moves_nothing(rack):
    rack.fabric.adopt({}, soon())
    rack.before_sending = losing(rack, "STAT?")
    with pytest.raises(BusyError, match="the lease of this run is lost"):
        change(rack, ONE)
    assert rack.moves == []


def test_a_lease_lost_during_a_change_prevents_the_rollback(rack):
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("partial", count=1)
    rack.before_sending = losing(rack, "ADD")
    with pytest.raises(UnsafeError, match=r"could not be brought back: the lease .* is lost"):
        change(rack, ONE)
    assert len(rack.moves) == 1


def test_ports_leased_by_another_user_since_are_not_restored(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    rack.leases.unlock([leased("ocs", 2)], forced=True)
    theirs = rack.leases.take([leased("ocs", 2)], "somebody else")
    rack.lease._renew()
    assert not rack.lease.regain()
    stays = r"ocs is left with 2→19 \(h0\.p1 to h1\.p0\), .*: the lease of this run is lost"
    with pytest.raises(UnsafeError, match=stays):
        rack.fabric.restore(soon())
    assert rack.shown() == CROSSED
    theirs.release()


def test_a_change_makes_the_wanted_circuits_and_reports_what_moved(rack):
    rack.fabric.adopt({}, soon())
    done = change(rack, ONE, OTHER)
    assert rack.shown() == CROSSED | OTHER_CROSSED
    assert done.added == {CrossConnect("ocs", i, e) for i, e in rack.shown().items()}
    assert done.commanded <= done.read_back
    moved = change(rack, OTHER, LATER)
    assert moved.removed == {CrossConnect("ocs", i, e) for i, e in CROSSED.items()}
    assert rack.fabric.circuits == {OTHER, LATER}


def test_the_undo_is_on_the_disk_before_the_first_move_and_written_once(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    change(rack, OTHER)
    assert len(rack.moves) == 2
    for line, promised in rack.sent:
        if line in rack.moves:
            assert [entry["undo"] for entry in promised] == ["circuits"]
    (promise,) = rack.undone()
    assert promise["start"] == {"ocs": []}
    assert promise["ports"] == {"ocs": [*range(1, 7), *range(17, 23)]}


def test_a_change_is_in_the_log_with_its_owner_and_its_instants(rack):
    rack.fabric.adopt({}, soon())
    done = change(rack, ONE, by="recovery")
    (event,) = rack.events()
    assert (event.kind, event.subject) == ("fabric.change", "recovery")
    assert event.origin.owner == "job"
    assert event.data["circuits"] == ["h0.p1–h1.p0"]
    assert event.data["added"] == ["ocs.2→19", "ocs.3→18"]
    assert event.data["commanded"] == rack.log.at(done.commanded)
    assert event.data["read_back"] == rack.log.at(done.read_back)


def test_existing_circuits_are_not_moved_again(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    before = len(rack.moves)
    done = change(rack, ONE)
    assert len(rack.moves) == before
    assert not done.added | done.removed


def test_existing_wanted_circuits_are_adopted_and_restored_at_the_end(rack):
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@2,3),(@19,18)")
    rack.fabric.adopt({"job": frozenset({ONE, OTHER})}, soon())
    change(rack, OTHER)
    assert rack.shown() == OTHER_CROSSED
    rack.fabric.restore(soon())
    assert rack.shown() == CROSSED
    assert rack.undone() == []


def test_all_conflicting_circuits_are_named_in_one_command(rack):
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@1,2),(@22,32)")
    with pytest.raises(BusyError, match=r"`testbed switch ocs disconnect 1 22 2 32`"):
        rack.fabric.adopt({"job": frozenset({ONE})}, soon())


def test_a_foreign_circuit_on_leased_ports_is_refused_at_planning(rack):
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@1),(@22)")
    with pytest.raises(BusyError, match=r"ocs already has .*1→22 \(h0\.p0 to h2\.p1\)"):
        rack.fabric.adopt({"job": frozenset({ONE})}, soon())
    assert rack.moves == []
    assert rack.undone() == []


def test_foreign_circuits_on_other_ports_are_ignored(rack):
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@7,16),(@24,32)")
    rack.fabric.adopt({"job": frozenset({ONE})}, soon())
    change(rack, ONE)
    rack.somebody_else(":OXC:SWIT:CONN:SUB (@16),(@32)")
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@15),(@32)")
    change(rack, OTHER)
    rack.fabric.restore(soon())
    assert rack.shown() == {7: 24, 15: 32}


def test_a_foreign_circuit_moved_meanwhile_is_not_taken_for_a_stuck_port(rack):
    rack.fabric.adopt({}, soon())
    said = []

    def meddle(line):
        if "ADD" in line:
            said.append(line)
            rack.somebody_else(":OXC:SWIT:CONN:ADD (@15),(@32)")

    rack.before_sending = meddle
    change(rack, ONE)
    assert said
    assert rack.shown() == CROSSED | {15: 32}


def test_a_circuit_removed_by_another_client_is_detected_and_named(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE, OTHER)
    rack.somebody_else(":OXC:SWIT:CONN:SUB (@2),(@19)")
    with pytest.raises(BusyError) as refusal:
        change(rack, OTHER)
    said = str(refusal.value)
    assert "has changed since the last command of this run" in said
    assert "2→19 (h0.p1 to h1.p0) is gone" in said
    assert "3→18" not in said


def test_a_conflicting_circuit_of_another_client_is_detected_and_kept(rack):
    rack.fabric.adopt({}, soon())
    change(rack, OTHER)
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@2),(@32)")
    with pytest.raises(
        BusyError,
        match=r"of another client on ports that this change needs: 2→32 \(h0\.p1 to unwired\)",
    ):
        change(rack, ONE, OTHER)
    assert rack.shown() == OTHER_CROSSED | {2: 32}


def test_a_foreign_circuit_on_leased_ports_is_never_removed(rack):
    rack.fabric.adopt({}, soon())
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@1),(@32)")
    change(rack, ONE)
    change(rack, OTHER)
    with pytest.raises(UnsafeError, match="1→32 instead"):
        rack.fabric.restore(soon())
    assert rack.shown() == {1: 32}


def test_a_change_refused_at_planning_writes_no_undo_entry(rack):
    rack.fabric.adopt({}, soon())
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@2),(@32)")
    with pytest.raises(BusyError):
        change(rack, ONE)
    assert rack.undone() == []


def test_a_stuck_port_is_an_error_of_the_instrument_and_the_whole_change_is_rolled_back(rack):
    rack.fabric.adopt({}, soon())
    change(rack, OTHER)
    rack.far_ends["ocs"].fault("stuck", port=19)
    with pytest.raises(InstrumentError) as problem:
        change(rack, ONE)
    said = str(problem.value)
    assert "no 2→19" in said
    assert "3→18" not in said.partition("but shows")[2]
    assert "rolled back" in said
    assert rack.shown() == OTHER_CROSSED
    assert rack.fabric.circuits == {OTHER}
    rack.fabric.check(soon())
    rack.fabric.restore(soon())
    assert rack.shown() == {}
    assert rack.undone() == []


def test_a_failed_change_is_in_the_log_with_its_reason(rack):
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("stuck", port=19)
    with pytest.raises(InstrumentError):
        change(rack, ONE, by="recovery")
    (event,) = rack.events()
    assert (event.kind, event.subject) == ("fabric.failed", "recovery")
    assert event.data["circuits"] == ["h0.p1–h1.p0"]
    assert event.data["rolled_back"] is True
    assert "no 2→19" in event.data["reason"]


def test_circuits_that_cannot_be_rolled_back_are_unsafe_and_named_exactly(rack):
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("stuck", port=21)
    rack.before_sending = lambda line: (
        rack.far_ends["ocs"].fault("stuck", port=2) if "STAT?" in line and rack.moves else None
    )
    with pytest.raises(UnsafeError) as problem:
        change(rack, ONE, OTHER)
    said = str(problem.value)
    assert "no 4→21" in said
    assert said.count("could not be brought back: it shows 2→19 instead;") == 1
    assert rack.shown() == {2: 19}
    assert rack.events()[-1].data["rolled_back"] is False


def test_a_misrouted_circuit_is_removed_by_the_rollback(rack):
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("misrouted", port=2, count=1)
    with pytest.raises(InstrumentError, match="2→17 instead"):
        change(rack, ONE)
    assert rack.shown() == {}


def test_a_misrouted_circuit_is_removed_by_the_recovery_of_the_run(rack):
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("misrouted", port=2)
    rack.far_ends["ocs"].fault("error", command="SUB")
    with pytest.raises(UnsafeError, match="could not be brought back"):
        change(rack, ONE)
    assert rack.shown()[2] == 17
    rack.far_ends["ocs"].clear()
    (entry,) = rack.undone()
    later = Fabric(rack.drivers, rack.wiring, (), rack.journal, rack.log, rack)
    later.adopt_undo(entry)
    assert later.bring_back(soon()) == []
    assert rack.shown() == {}


def test_a_partly_executed_list_is_rolled_back(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    rack.far_ends["ocs"].fault("partial", count=2)
    with pytest.raises(InstrumentError, match="rolled back"):
        change(rack, OTHER)
    assert rack.shown() == CROSSED


def test_a_circuit_reported_as_failed_is_rolled_back(rack):
    rack.fabric.adopt({}, soon())
    change(rack, OTHER)
    rack.far_ends["ocs"].fault("failed", port=2)
    with pytest.raises(InstrumentError, match="reports 2→19: failed; the change was rolled back"):
        change(rack, ONE)
    assert rack.shown() == OTHER_CROSSED


def test_a_circuit_reported_in_service_is_stamped_after_the_read_back(rack):
    rack.fabric.adopt({}, soon())
    done = change(rack, ONE)
    assert done.commanded <= done.read_back <= done.steady
    assert rack.events()[-1].data["steady"] == rack.log.at(done.steady)
    assert change(rack).steady is None, "nothing was made, so nothing is in order"


def test_a_change_by_others_between_two_changes_is_reported_with_the_difference(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    rack.fabric.check(soon())
    rack.somebody_else(":OXC:SWIT:CONN:SUB (@2),(@19)")
    with pytest.raises(
        BusyError, match=r"last command of this run: 2→19 \(h0.p1 to h1.p0\) is gone"
    ):
        rack.fabric.check(soon())
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@2),(@19)")
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@7),(@24)")
    rack.fabric.check(soon())
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@1),(@32)")
    with pytest.raises(
        BusyError, match=r"last command of this run: 1→32 \(h0.p0 to unwired\) was add"
    ):
        rack.fabric.check(soon())


def test_a_stuck_port_is_not_reported_as_restored(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE, OTHER)
    rack.far_ends["ocs"].fault("stuck", port=19)
    with pytest.raises(UnsafeError, match="could not be brought back: it shows 2→19 instead"):
        rack.fabric.restore(soon())
    assert rack.shown() == {2: 19}
    assert [entry["undo"] for entry in rack.undone()] == ["circuits"]
    rack.far_ends["ocs"].clear()
    rack.fabric.restore(soon())
    assert rack.shown() == {}
    assert rack.undone() == []


def test_a_refusal_is_passed_on_and_removed_circuits_are_restored(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    rack.far_ends["ocs"].fault("error", command="ADD", count=1)
    with pytest.raises(
        InstrumentError, match=r"refused .* Execution error; .* rolled back"
    ) as said:
        change(rack, OTHER)
    assert isinstance(said.value.__cause__, Rejected)
    assert rack.shown() == CROSSED
    change(rack, OTHER)
    assert rack.shown() == OTHER_CROSSED


def test_a_refused_rollback_is_repeated_after_another_read(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    rack.far_ends["ocs"].fault("error", command="ADD", count=3)
    with pytest.raises(InstrumentError, match="rolled back"):
        change(rack, OTHER)
    assert rack.shown() == CROSSED
    mutations_without_a_look = zip(rack.sent, rack.sent[1:], strict=False)
    assert not any("ADD" in a and "ADD" in b for (a, _), (b, _) in mutations_without_a_look)


def test_a_change_executed_without_a_reply_is_rolled_back_at_the_deadline(rack):
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("silent", command="ADD", count=1)
    with pytest.raises(InstrumentError, match=r"did not answer .* rolled back"):
        rack.fabric.set_circuits("job", frozenset({ONE}), soon().within(0.3))
    assert rack.shown() == {}


def test_a_change_whose_reply_was_lost_is_read_back_and_not_resent(rack):
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("reset", command="ADD", count=1)
    change(rack, ONE)
    assert rack.shown() == CROSSED
    assert len(rack.moves) == 1
    (retry,) = [event for event in rack.events() if event.kind == "retry"]
    assert (retry.subject, retry.data["what"]) == ("ocs", "reading what a change did")
    assert retry.data["why"]


def test_the_time_limit_of_a_change_is_at_most_that_of_the_lease(rack, monkeypatch):
    """Whoever gives it more would move light on ports that are another's by then."""
    rack.fabric.adopt({}, soon())
    left = []
    plan = Crossbar.plan

    def noted(crossbar, wanted, deadline, others):
        left.append(deadline.left)
        return plan(crossbar, wanted, deadline, others)

    monkeypatch.setattr(Crossbar, "plan", noted)
    rack.fabric.set_circuits("job", frozenset({ONE}), Deadline.after(500.0))
    assert left[0] <= CHANGE_LIMIT


def test_a_switch_without_replies_is_not_reported_as_restored(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    rack.wires["ocs"].close()
    with pytest.raises(UnsafeError, match="ocs could not be brought back"):
        rack.fabric.restore(soon().within(0.3))
    assert [entry["undo"] for entry in rack.undone()] == ["circuits"]


def test_an_unchanged_switch_is_not_queried_at_the_end(rack):
    rack.fabric.adopt({}, soon())
    rack.sent.clear()
    rack.fabric.restore(soon())
    assert rack.sent == []


def test_the_undo_of_circuits_to_be_kept_is_closed_in_the_journal(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    rack.fabric.discard_undo(soon())
    rack.fabric.restore(soon())
    assert rack.undone() == []
    assert rack.shown() == CROSSED


TWO = Circuit.parse("h0x.p1", "h1x.p0")


def test_two_switches_are_changed_and_restored_in_one_change(two_switches):
    rack = two_switches
    rack.fabric.adopt({}, soon())
    done = change(rack, ONE, TWO)
    assert rack.shown("a") == rack.shown("b") == CROSSED
    assert {cross.switch for cross in done.added} == {"a", "b"}
    rack.fabric.restore(soon())
    assert rack.shown("a") == rack.shown("b") == {}


def test_a_change_that_one_switch_cannot_make_is_not_started_on_the_other(two_switches):
    rack = two_switches
    rack.fabric.adopt({}, soon())
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@2),(@32)", "b")
    with pytest.raises(BusyError, match="b has circuits of another client on ports that this"):
        change(rack, ONE, TWO)
    assert rack.shown("a") == {}
    assert rack.moves == []


def test_a_switch_that_cannot_be_restored_does_not_stop_the_other(two_switches):
    rack = two_switches
    rack.fabric.adopt({}, soon())
    change(rack, ONE, TWO)
    rack.far_ends["a"].fault("stuck", port=19)
    with pytest.raises(UnsafeError) as caught:
        rack.fabric.restore(soon())
    said = str(caught.value)
    assert "a could not be brought back: it shows" in said
    assert said.endswith("; b was brought back; look at it with `testbed switch a show`")
    assert rack.shown("b") == {}
    assert [entry["undo"] for entry in rack.undone()] == ["circuits"]


def test_a_failed_rollback_names_the_switch_that_was_rolled_back(two_switches):
    rack = two_switches
    rack.fabric.adopt({}, soon())
    change(rack, ONE, TWO)
    rack.far_ends["b"].fault("stuck", port=2)
    rack.far_ends["b"].fault("misrouted", port=3)
    with pytest.raises(UnsafeError) as caught:
        change(rack, Circuit.parse("h0.p1", "h2.p0"), Circuit.parse("h0x.p1", "h2x.p0"))
    said = str(caught.value)
    assert said.startswith("b: refused ")
    assert "; b could not be brought back: it shows " in said
    assert said.endswith("; a was brought back; look at it with `testbed switch b show`")
    assert rack.shown("a") == CROSSED


def test_a_failure_on_one_switch_rolls_back_the_other(two_switches):
    rack = two_switches
    rack.fabric.adopt({}, soon())
    rack.far_ends["b"].fault("stuck", port=19)
    with pytest.raises(InstrumentError, match="b: was told"):
        change(rack, ONE, TWO)
    assert rack.shown("a") == rack.shown("b") == {}


def test_every_circuit_is_journalled_before_it_is_made(rack):
    rack.fabric.adopt({}, soon())
    change(rack, ONE)
    change(rack, OTHER)
    change(rack, LATER)
    made = [promised[0]["made"]["ocs"] for line, promised in rack.sent if line in rack.moves]
    added = [CROSSED, OTHER_CROSSED, {2: 22, 6: 18}]
    for journalled, pairs in zip([m for m in made if m], added, strict=False):
        assert all([i, e] in journalled for i, e in pairs.items())
    lines = len((rack.directory / "journal.jsonl").read_text().splitlines())
    change(rack, ONE)
    assert len((rack.directory / "journal.jsonl").read_text().splitlines()) == lines


def test_idle_circuits_of_the_lab_file_are_replaced_and_restored(rack):
    resting = LightLimits({}, frozenset(), {2: 22})
    fabric = Fabric(
        rack.drivers, rack.wiring, rack.ports, rack.journal, rack.log, rack, {"ocs": resting}
    )
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@2),(@22)")
    fabric.adopt({"job": frozenset({ONE})}, soon())
    fabric.set_circuits("job", frozenset({ONE}), soon())
    assert rack.shown() == CROSSED
    fabric.restore(soon())
    assert rack.shown() == {2: 22}


def test_foreign_circuits_lost_during_a_change_are_noted_and_reported_at_the_end(rack):
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@7),(@24)")
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("swept", count=1)
    change(rack, ONE)
    words = r"7→24 \(h3.p0 to h3.p1\), made by another client, was removed"
    (note,) = [event for event in rack.events() if event.kind == "note"]
    assert re.search(words, note.data["text"])
    with pytest.raises(UnsafeError, match=words):
        rack.fabric.restore(soon())
    assert rack.shown() == {} and rack.undone() == [], "all of ours is back all the same"


def test_lost_circuits_on_ports_leased_by_others_are_not_reported(rack):
    theirs = rack.leases.take([leased("ocs", 7)], "somebody else")
    rack.somebody_else(":OXC:SWIT:CONN:ADD (@7),(@24)")
    rack.fabric.adopt({}, soon())
    rack.far_ends["ocs"].fault("swept", count=1)
    change(rack, ONE)
    rack.fabric.restore(soon())
    theirs.release()
    assert "note" not in [event.kind for event in rack.events()]
