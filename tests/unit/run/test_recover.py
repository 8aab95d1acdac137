"""Every change of a run that was killed is undone, or what is left is reported."""

import json
import os
import signal
import time
from contextlib import suppress

import pytest

from testbed.clock import Deadline
from testbed.errors import BusyError
from testbed.fabric.circuits import Circuit
from testbed.record.claim_registry import RecoveryRequired
from testbed.record.journal import Journal
from testbed.run.inbox import Interrupted
from tests.unit.run.killed_run import ONE, ONE_CROSSED, OTHER, OTHER_CROSSED, KilledRun, end


@pytest.fixture
def run(tmp_path, ssh_host):
    with ssh_host.at_home():
        run = KilledRun(tmp_path, ssh_host.port)
        yield run
        run.close()


class Killed(BaseException):
    """Nothing that the code under test may catch."""


def killed(run, *acts):
    """Let the run do something and die."""
    run.begin()
    for act in acts:
        act()
    run.kill()
    return run


def is_gone(pid, limit=5.0):
    """Tell whether a process is no more, at most `limit` seconds from now."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.005)
    return False


def test_recover_restores_the_original_circuits(run):
    run.somebody_else("ADD (@1,2),(@6,5)")
    killed(run, lambda: run.change(OTHER))
    assert run.shown() == OTHER_CROSSED
    assert run.recover() == 0
    assert run.shown() == ONE_CROSSED
    assert run.open_undos() == [] and run.left() == []


def test_recover_removes_all_circuits_of_successive_changes(run):
    """Ports that they share are named once, although both were made."""
    other = Circuit.parse("h0.p0", "h2.p0")
    killed(run, lambda: run.change(other), lambda: run.change(ONE))
    assert run.shown() == ONE_CROSSED
    assert run.recover() == 0
    assert run.shown() == {}
    assert run.open_undos() == []


def test_recover_takes_back_the_circuits_of_all_owners(run):
    def change_as_another():
        run.bench.fabric.set_circuits("another", frozenset({OTHER}), Deadline.after(5))

    killed(run, lambda: run.change(ONE), change_as_another)
    assert run.shown() == ONE_CROSSED | OTHER_CROSSED
    assert run.recover() == 0
    assert run.shown() == {}
    assert run.open_undos() == []


def test_recover_reads_journals_of_older_versions(run):
    """They have all that was made in every amendment."""
    killed(run, lambda: run.change(ONE), lambda: run.change(ONE, OTHER))
    path, made = run.directory.journal, []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert "extend" in {key for line in lines for key in line}
    for line in lines:
        if "made" in line:
            made = line["made"]["ocs"] = [*made, *line["made"]["ocs"]]
        if "extend" in line:
            line["amend"] = line.pop("extend")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run.recover() == 0
    assert run.shown() == {}


def test_recover_restores_power_and_counts_the_host_as_clean(run):
    killed(run, lambda: run.start_agent("h1"), lambda: run.cut("h1"))
    assert run.recover() == 0
    assert run.powered["2"] and run.open_undos() == []
    assert "h1 had no power, and starts now" in run.notes()
    assert "what ran there ended with its power" in run.notes()


def test_a_host_whose_outlet_was_never_off_is_not_counted_as_clean(run):
    def record_only():
        run.journal.record_undo("outlet", unit="pdu", outlet="2", on=True)

    agent = []
    killed(run, lambda: agent.extend(run.start_agent("h1")), record_only)
    assert run.recover() == 0
    assert "what ran there ended with its power" not in run.notes()
    assert all(is_gone(pid) for pid in agent)


def test_recover_restores_the_original_attenuation(run):
    killed(run, run.attenuate)
    assert run.taken[1] == pytest.approx(7.0)
    assert run.recover() == 0
    assert run.taken[1] == pytest.approx(0.0)
    assert run.open_undos() == []


def test_recover_clears_far_end_faults(run):
    run.faults["ocs"] = {"late"}
    killed(run, lambda: run.journal.record_undo("far-end-fault", switch="ocs", fault="late"))
    assert run.recover() == 0
    assert run.faults == {"ocs": set()} and run.open_undos() == []


def test_recover_ends_agents_and_ranks_and_verifies_it(run):
    processes = []
    killed(run, lambda: processes.extend(run.start_agent("h0")))
    assert run.recover() == 0
    assert all(is_gone(pid) for pid in processes)
    assert run.open_undos() == []


def test_recover_undoes_what_a_killed_agent_left(run):
    processes = []
    run.begin()
    processes.extend(run.start_agent("h0"))
    end(processes[0])
    run.kill()
    assert run.recover() == 0
    assert all(is_gone(pid) for pid in processes)


def test_a_stopped_agent_is_ended_by_the_next(run):
    processes = []
    run.begin()
    processes.extend(run.start_agent("h0"))
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    run.kill()
    assert run.recover() == 0
    assert all(is_gone(pid) for pid in processes)


def test_journal_entries_are_undone_last_first_and_hosts_at_the_end(run):
    killed(
        run,
        lambda: run.start_agent("h0"),
        lambda: run.change(ONE),
        run.attenuate,
        lambda: run.cut("h1"),
    )
    assert run.recover() == 0
    order = [event.subject for event in run.events("cleanup.begin")]
    assert order == ["outlet pdu.2", "channel 1 of voa", "circuits of ocs", "hosts"]


def test_a_second_recover_changes_nothing_and_finds_nothing(run):
    killed(run, lambda: run.change(ONE, OTHER), lambda: run.cut("h1"))
    assert run.recover() == 0
    assert run.recover() == 0
    assert len(run.events("recover.begin")) == 1


def test_a_killed_recovery_is_continued_by_the_next(run, monkeypatch):
    """Whatever it was about to settle next, the next one does it again."""
    acts = (
        lambda: run.start_agent("h0"),
        lambda: run.change(ONE),
        run.attenuate,
        lambda: run.cut("h1"),
    )
    killed(run, *acts)
    real, allowed, tries = Journal.settle, 0, 0

    def settle(journal, number):
        nonlocal allowed
        if not allowed:
            raise Killed
        allowed -= 1
        real(journal, number)

    monkeypatch.setattr(Journal, "settle", settle)
    while run.open_undos():
        allowed = tries
        tries += 1
        with suppress(Killed):
            run.recover()
    assert tries > 2
    assert run.shown() == {} and run.powered["2"] and run.taken[1] == pytest.approx(0.0)


# --- what others did meanwhile ---------------------------------------------------------------


def test_recover_keeps_and_reports_circuits_of_others_on_the_ports_of_the_run(run):
    killed(run, lambda: run.change(ONE))
    run.somebody_else("SUB (@1),(@6)")
    run.somebody_else("ADD (@1),(@7)")
    assert run.recover() == 0
    assert run.shown() == {1: 7}
    (note,) = run.notes()
    assert note == "ocs: 1→7 (h0.p0 to h2.p0) was made by another client and is not changed"


def test_a_start_state_that_cannot_be_restored_is_reported(run):
    run.somebody_else("ADD (@1,2),(@6,5)")
    killed(run, lambda: run.change(OTHER))
    run.somebody_else("ADD (@1),(@5)")
    assert run.recover() == 0
    assert run.shown() == {1: 5}
    assert "ocs: 1→6 (h0.p0 to h1.p0), 2→5 (h1.p0 to h0.p0) was there before and cannot be" in (
        " ".join(run.notes())
    )


def test_recover_makes_the_labs_idle_circuits_where_the_start_state_is_unreachable(
    tmp_path, ssh_host
):
    with ssh_host.at_home():
        run = KilledRun(tmp_path, ssh_host.port, more=", safe: {2: 8}")
        run.somebody_else("ADD (@1,2),(@6,5)")
        killed(run, lambda: run.change(OTHER))
        run.somebody_else("ADD (@1),(@5)")
        assert run.recover() == 0
        assert run.shown() == {1: 5, 2: 8}
        assert "2→8 (h1.p0 to h3.p0) is there instead" in " ".join(run.notes())
        run.close()


def test_a_keep_alive_port_keeps_the_circuit_of_the_run(tmp_path, ssh_host):
    crossed = Circuit.parse("h1.p0", "h2.p0")
    with ssh_host.at_home():
        run = KilledRun(tmp_path, ssh_host.port, more=", keep_alive: [6]")
        run.somebody_else("ADD (@1,2),(@6,5)")
        killed(run, lambda: run.change(crossed))
        assert run.shown() == {2: 7, 3: 6}
        run.somebody_else("ADD (@1),(@5)")
        assert run.recover() == 0
        assert run.shown() == {1: 5, 3: 6}  # 2→7 went, as nothing needs it
        run.close()


def test_a_failed_restoration_is_reported_and_stays_in_the_journal(run):
    killed(run, lambda: run.change(ONE))
    run.switch.fault("stuck", port=1)
    assert run.recover() == 6
    assert run.open_undos() == ["circuits"]
    assert "circuits of ocs: ocs could not be brought back" in run.left()[0]
    run.switch.clear()
    assert run.recover() == 0
    assert run.shown() == {}


def test_a_switch_that_does_not_answer_stops_no_other_step(run):
    killed(run, lambda: run.change(ONE), lambda: run.cut("h1"), run.attenuate)
    run.wires["ocs"].close()
    assert run.recover() == 4
    assert run.powered["2"] and run.taken[1] == pytest.approx(0.0)
    assert run.open_undos() == ["circuits"]


def test_a_host_that_does_not_answer_does_not_delay_others(run):
    run.begin()
    processes = run.start_agent("h0")
    run.journal.record_undo("agent", host="h9")
    run.kill()
    assert run.recover() == 6
    assert all(is_gone(pid) for pid in processes)
    assert run.open_undos() == ["agent"]
    assert "h9 is not a host of the lab" in run.left()[0]


# --- whose it is -----------------------------------------------------------------------------


def test_recover_refuses_a_run_that_still_runs(run):
    run.begin()
    run.change(ONE)
    with pytest.raises(BusyError, match="still running"):
        run.recover()
    assert run.shown() == ONE_CROSSED
    run.kill()
    assert run.recover() == 0


def test_leases_of_the_run_are_released_once_everything_is_restored(run):
    killed(run, lambda: run.change(ONE))
    ports = run.lease.resources
    with pytest.raises(RecoveryRequired, match="testbed recover"):
        run.leases.take(ports, "somebody else")
    assert run.recover() == 0
    run.leases.take(ports, "somebody else").release()


def test_resources_leased_by_another_run_are_not_touched(run):
    killed(run, lambda: run.change(ONE))
    run.leases.unlock(run.lease.resources, forced=True)
    other = run.leases.take(run.lease.resources, "somebody else")
    with pytest.raises(BusyError, match=r"ocs\.1.* held by"):
        run.recover()
    assert run.shown() == ONE_CROSSED
    other.release()
    assert run.recover() == 0
    assert run.shown() == {}


def test_resources_that_recover_could_not_restore_stay_leased(run):
    killed(run, lambda: run.change(ONE))
    run.switch.fault("stuck", port=1)
    assert run.recover() == 6
    with pytest.raises(RecoveryRequired):
        run.leases.take(run.lease.resources, "somebody else")
    run.switch.clear()
    assert run.recover() == 0


# --- entries that cannot be understood -------------------------------------------------------


@pytest.mark.parametrize(
    ("undo", "arguments", "said"),
    [
        ("mirror", {}, "this version of testbed cannot undo 'mirror'"),
        ("outlet", {"unit": "pdu", "outlet": "9", "on": True}, "feeds no host of the lab"),
        ("outlet", {}, "cannot be understood"),
        ("circuits", {"ports": {"oxc": [1]}, "start": {}, "made": {}}, "oxc is not an instrument"),
        ("circuits", {"ports": {"ocs": ["x"]}}, "cannot be understood"),
        ("attenuation", {"attenuator": "voa", "channel": 3, "decibels": 1.0}, "no fibre"),
    ],
)
def test_an_unknown_journal_entry_is_kept_and_reported(run, undo, arguments, said):
    killed(run, lambda: run.change(ONE), lambda: run.journal.record_undo(undo, **arguments))
    assert run.recover() == 6
    assert run.shown() == {}
    assert run.open_undos() == [undo]
    assert said in run.left()[0]


def test_a_signal_ends_the_wait_for_a_frozen_lease_store_without_holding_leases(run):
    killed(run, lambda: run.change(OTHER))
    run.inbox.interrupt(2)
    with run.store.frozen():
        with pytest.raises(Interrupted):
            run.recover()
        settle = run.inbox.work_under_way()
    limit = Deadline.after(30.0)
    assert settle(limit)
    while [found.standing for found in run.leases.find()] != ["unrecovered"]:
        assert not limit.passed
    assert run.recover() == 0
