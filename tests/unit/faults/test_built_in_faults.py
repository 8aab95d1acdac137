"""Each built-in fault: what exactly it breaks, who is believed about it, and what undoes it."""

import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.bench.host import SignalTimes
from testbed.bench.ssh import connection_failure
from testbed.clock import Deadline
from testbed.errors import HostError, InstrumentError, UnsafeError
from testbed.fabric.circuits import Circuit, matching
from testbed.faults.contracts import Victim
from testbed.faults.descriptors import StragglerOptions
from tests.unit.faults.small_lab import soon

TO_SUCCESSOR = Circuit.parse("h1.p1", "h2.p0")
FROM_PREDECESSOR = Circuit.parse("h0.p1", "h1.p0")


def carrier(port, up=False):
    return {"event": "carrier", "mono": 5.0, "port": port, "up": up}


def word(**said):
    return {"event": "rank", "slot": 0, "said": {"mono": 5.0} | said}


# --- the victim


def test_the_circuits_and_neighbours_of_a_victim_are_those_of_its_rank(lab):
    assert lab.victim.own_circuits == {TO_SUCCESSOR, FROM_PREDECESSOR}
    assert lab.victim.neighbours == {"h0", "h2"}


def test_a_lone_rank_has_no_circuits_and_no_neighbours():
    alone = Victim(0, "h0", 0, frozenset())
    assert alone.own_circuits == alone.neighbours == frozenset()


# --- power-cut


def test_a_power_cut_switches_off_the_victims_outlet_and_no_other(lab):
    said = lab.fault("power-cut").inject(lab.bench, lab.victim, soon())
    assert lab.powered == {"1": True, "2": False, "3": True, "4": True}
    assert said.note == "outlet pdu.2 off"
    assert lab.bench.power.cut_hosts == {"h1"}


def test_undoing_a_power_cut_raises_unsafe_when_the_outlet_stays_off(lab):
    fault = lab.fault("power-cut")
    fault.inject(lab.bench, lab.victim, soon())
    lab.unit.fault("stuck", port="2")
    with pytest.raises(UnsafeError, match=r"outlet pdu\.2 of h1"):
        fault.undo(lab.bench, lab.victim, Deadline.after(0.3))
    assert "outlet" in lab.recorded_undos()


@pytest.mark.parametrize("fault", ["power-cut", "dark-circuit"])
def test_lost_light_is_confirmed_by_a_port_lit_by_the_victim(lab, fault):
    injected = lab.fault(fault)
    injected.inject(lab.bench, lab.victim, soon())
    assert injected.receipt(lab.victim, "h0", carrier("p1")) == "h0.p1 carrier"
    assert injected.receipt(lab.victim, "h2", carrier("p0")) == "h2.p0 carrier"


def test_light_lost_where_the_circuit_was_changed_since_does_not_confirm_a_power_cut(lab):
    fault = lab.fault("power-cut")
    fault.inject(lab.bench, lab.victim, soon())
    lab.bench.fabric.set_circuits("job", matching(lab.ring - {FROM_PREDECESSOR}), soon())
    assert fault.receipt(lab.victim, "h0", carrier("p1")) == ""
    assert fault.receipt(lab.victim, "h2", carrier("p0")) == "h2.p0 carrier"


def test_a_host_that_accepts_no_ssh_connection_confirms_a_power_cut(lab, ssh_host, monkeypatch):
    fault = lab.fault("power-cut")
    assert fault.find_witness(lab.bench, lab.victim, soon()) == ""
    with ssh_host.stopped():  # its kernel still takes connections
        assert fault.find_witness(lab.bench, lab.victim, soon()) == ""
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = f"127.0.0.1:{server.getsockname()[1]}"
    hosts = lab.bench.lab.hosts
    monkeypatch.setitem(hosts, "h1", hosts["h1"].model_copy(update={"ssh": free}))
    assert fault.find_witness(lab.bench, lab.victim, soon()) == "h1 SSH refuses connections"


def test_an_ssh_connection_that_is_not_accepted_in_time_has_failed():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as open_sockets:
        address = server.getsockname()
        for _ in range(3):  # until its queue is full
            client = open_sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        assert (
            connection_failure("{}:{}".format(*address), Deadline.after(0.3)) == "does not answer"
        )


@pytest.mark.parametrize("fault", ["power-cut", "dark-circuit"])
@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("h1", carrier("p1")),  # the victim itself
        ("h0", carrier("p0")),  # light of somebody else
        ("h3", carrier("p0")),
        ("h2", carrier("p1")),
        ("h0", carrier("p1", up=True)),
        ("h0", {"event": "lost", "reason": "its agent's link ended"}),
        ("h0", {"event": "heartbeat-missed", "mono": 5.0, "slot": 0}),
        ("h0", word(event="peer-lost", neighbour="next")),
    ],
)
def test_no_other_observation_confirms_lost_light(lab, fault, host, message):
    assert lab.fault(fault).receipt(lab.victim, host, message) == ""


# --- dark-circuit


def test_the_circuit_to_the_successor_goes_dark_in_both_directions(lab):
    before = lab.light()
    said = lab.fault("dark-circuit").inject(lab.bench, lab.victim, soon())
    assert before.items() - lab.light().items() == {(4, 21), (5, 20)}
    assert lab.bench.fabric.circuits == lab.ring - {TO_SUCCESSOR}
    assert said.note == "h1.p1–h2.p0 disconnected"


def test_the_circuit_at_the_port_to_the_next_rank_goes_dark(lab):
    victim = replace(lab.victim, to_next="p0")
    lab.fault("dark-circuit").inject(lab.bench, victim, soon())
    assert lab.bench.fabric.circuits == lab.ring - {FROM_PREDECESSOR}


def test_circuits_made_by_the_policy_meanwhile_are_kept(lab):
    fault = lab.fault("dark-circuit")
    fault.inject(lab.bench, lab.victim, soon())
    repaired = matching({FROM_PREDECESSOR, Circuit.parse("h1.p1", "h3.p0")})
    lab.bench.fabric.set_circuits("job", repaired, soon(), "recovery")
    light = lab.light()
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.light() == light


def test_a_switch_that_refuses_to_disconnect_is_an_error_and_the_circuit_stays(lab):
    fault, before = lab.fault("dark-circuit"), lab.light()
    lab.switch.fault("error", command="SUB", count=1)
    with pytest.raises(InstrumentError, match="rolled back"):
        fault.inject(lab.bench, lab.victim, soon())
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.light() == before


# --- attenuate


def test_the_attenuation_is_added_to_the_fibre_of_the_victim(lab):
    said = lab.fault("attenuate").inject(lab.bench, lab.victim, soon())
    assert lab.taken == {1: 10.0}
    assert said.note == "fibre of ocs.4 takes 10 dB instead of 0 dB"


@pytest.mark.parametrize(("host", "port"), [("h1", "p1"), ("h2", "p0")])
def test_excessive_attenuation_is_confirmed_at_either_end_of_the_circuit(lab, host, port):
    receipt = lab.fault("attenuate").receipt
    assert receipt(lab.victim, host, carrier(port)) == f"{host}.{port} carrier"
    assert receipt(lab.victim, host, carrier(port, up=True)) == ""


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("h0", carrier("p1")),
        ("h1", carrier("p0")),
        ("h2", carrier("p1")),
        ("h2", {"event": "heartbeat-missed", "mono": 5.0, "slot": 0}),
        ("h2", word(event="peer-lost", neighbour="previous")),
    ],
)
def test_no_other_observation_confirms_excessive_attenuation(lab, host, message):
    assert lab.fault("attenuate").receipt(lab.victim, host, message) == ""


# --- rank-kill


def test_a_killed_rank_is_confirmed_by_another_process_on_its_host(lab):
    fault = lab.fault("rank-kill")
    said = fault.inject(lab.bench, lab.victim, soon())
    assert said.witness in {"h1 process in state Z", "h1 process in state X"}
    assert said.sent <= said.seen
    assert said.note.startswith("SIGKILL to rank 1 on h1, then state ")
    assert lab.process() == "gone"
    end = lab.hear(lambda message: message["event"] == "exit")
    assert end["code"] == -9
    assert fault.receipt(lab.victim, "h1", end) == "", "a word of the agent, which has killed it"


@pytest.mark.parametrize(("kind", "state"), [("rank-kill", "Z"), ("rank-freeze", "T")])
def test_a_report_of_the_injector_itself_does_not_confirm_the_fault(lab, kind, state, monkeypatch):
    """An agent that says that its signal has worked, and has sent none."""
    claimed = lambda *_, **__: SignalTimes(1.0, 2.0, state)  # noqa: E731
    monkeypatch.setattr(lab.bench.hosts["h1"], "signal_rank", claimed)
    said = lab.fault(kind).inject(lab.bench, lab.victim, soon())
    assert said.note.endswith(f"then state {state}")
    assert (said.witness, said.seen) == ("", None)


def test_a_killed_rank_is_confirmed_by_a_neighbour_whose_connection_broke(lab):
    lost = word(event="peer-lost", neighbour="next", error="the connection was closed")
    receipt = lab.fault("rank-kill").receipt
    assert receipt(lab.victim, "h0", lost) == "h0 connection"
    assert receipt(lab.victim, "h2", lost) == "h2 connection"


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("h3", word(event="peer-lost", neighbour="next")),  # no neighbour of the victim
        ("h1", word(event="peer-lost", neighbour="next")),  # the victim lost somebody itself
        ("h0", {"event": "exit", "mono": 5.0, "slot": 0, "code": -9}),
        ("h1", {"event": "exit", "mono": 5.0, "slot": 0, "code": -9}),
        ("h1", {"event": "lost", "reason": "its agent's link ended"}),
        ("h0", carrier("p1")),
        ("h0", word(event="left", committed=7)),
    ],
)
def test_no_other_observation_confirms_a_killed_rank(lab, host, message):
    assert lab.fault("rank-kill").receipt(lab.victim, host, message) == ""


def test_a_rank_that_does_not_run_cannot_be_killed(lab):
    lab.bench.hosts["h1"].end_rank(0, soon())
    with pytest.raises(HostError, match=r"h1: .*no rank runs in slot 0"):
        lab.fault("rank-kill").inject(lab.bench, lab.victim, soon())


# --- rank-freeze


def test_a_frozen_rank_is_confirmed_by_another_process_on_its_host_and_continues(lab):
    fault = lab.fault("rank-freeze")
    said = fault.inject(lab.bench, lab.victim, soon())
    # On a busy machine even a rank that runs may have been missed before.
    silent = {"event": "heartbeat-missed", "slot": 0}.items()
    missed = lab.hear(lambda m: silent <= m.items() and m["mono"] >= said.done)
    assert said.note == "SIGSTOP to rank 1 on h1, then state T"
    assert said.witness == "h1 process in state T" and said.sent <= said.seen
    assert fault.receipt(lab.victim, "h1", missed) == "", "the agent that stopped it says so"
    assert lab.process() == "stopped"
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.process() == "runs"


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("h0", {"event": "heartbeat-missed", "mono": 5.0, "slot": 0}),
        ("h1", {"event": "heartbeat-missed", "mono": 5.0, "slot": 0}),
        ("h1", {"event": "exit", "mono": 5.0, "slot": 0, "code": -9}),
        ("h0", word(event="peer-lost", neighbour="next")),
        ("h0", carrier("p1")),
    ],
)
def test_no_other_observation_confirms_a_frozen_rank(lab, host, message):
    assert lab.fault("rank-freeze").receipt(lab.victim, host, message) == ""


def test_a_frozen_rank_that_was_fenced_needs_no_undo(lab):
    fault = lab.fault("rank-freeze")
    fault.inject(lab.bench, lab.victim, soon())
    lab.bench.hosts["h1"].end_rank(0, soon())
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.process() == "gone"


def test_a_frozen_rank_on_a_dropped_host_needs_no_undo(lab):
    fault = lab.fault("rank-freeze")
    fault.inject(lab.bench, lab.victim, soon())
    del lab.bench.hosts["h1"]
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.process() == "stopped", "nobody is asked to thaw it"


def test_the_undo_of_a_freeze_names_the_rank_to_continue(lab):
    entry = lab.fault("rank-freeze").undo_entry(lab.bench, lab.victim)
    assert (entry.kind, entry.arguments) == ("rank-stopped", {"host": "h1", "slot": 0})


# --- straggler


def test_the_undo_of_a_straggler_restores_its_speed_and_its_delay_is_recorded(lab):
    fault = lab.fault("straggler", delay=0.25)
    entry = fault.undo_entry(lab.bench, lab.victim)
    assert (entry.kind, entry.arguments) == ("rank-slowed", {"host": "h1", "slot": 0})
    said = fault.inject(lab.bench, lab.victim, soon())
    assert said.note == "rank 1 sleeps 0.25 s before each collective"
    assert fault.late == 0.25
    lab.hear(lambda message: message.get("said", {}).get("seconds") == 0.25)


@pytest.mark.parametrize(
    ("host", "waits", "observer"),
    [
        ("h0", {"1": 0.2}, "h0 waited 0.200 s"),
        ("h0", {"1": 0.12}, ""),
        ("h0", {"2": 0.2}, ""),
        ("h1", {"1": 0.2}, ""),
    ],
    ids=["half of the dose", "less", "for another rank", "the victim itself"],
)
def test_a_straggler_is_confirmed_by_a_rank_that_waited_for_it(lab, host, waits, observer):
    receipt = lab.fault("straggler", delay=0.25).receipt
    assert receipt(lab.victim, host, word(event="sample", waits=waits)) == observer
    assert receipt(lab.victim, host, carrier("p0")) == ""


def test_a_straggler_without_waiting_ranks_is_confirmed_by_an_earlier_arrival(lab):
    receipt = lab.fault("straggler", delay=0.25).receipt

    def arrive(host, step, at):
        return receipt(lab.victim, host, word(event="step", step=step) | {"arrived": at})

    assert arrive("h1", 4, 10.0) == arrive("h0", 4, 9.95) == ""
    assert arrive("h0", 5, 11.0) == arrive("h2", 5, 11.2) == arrive("h1", 5, 11.25) == ""
    assert arrive("h2", 6, 12.0) == ""
    assert arrive("h0", 6, 12.0) == "h0 came 0.250 s earlier"


def test_a_freeze_cycle_stops_the_rank_again_and_again_until_undone(lab):
    fault = lab.fault("straggler", how="freeze-cycle", share=0.5, period=0.2)
    assert fault.late is None
    fault.inject(lab.bench, lab.victim, soon())
    seen, deadline = [], soon()
    while "".join(seen).count("runs") < 2 and not deadline.passed:
        if (now := lab.process()) not in seen[-1:]:
            seen.append(now)
    assert seen[:4] == ["stopped", "runs", "stopped", "runs"]
    fault.undo(lab.bench, lab.victim, soon())
    assert lab.process() == "runs"


def test_a_stopped_rank_can_be_ended(lab):
    fault = lab.fault("straggler", how="freeze-cycle", share=0.1, period=5.0)
    fault.inject(lab.bench, lab.victim, soon())
    lab.bench.hosts["h1"].end_rank(0, soon())
    assert lab.process() == "gone"
    fault.undo(lab.bench, lab.victim, soon())


def test_a_cpu_quota_limits_the_rank_or_is_refused_by_the_host(lab):
    fault = lab.fault("straggler", how="quota", share=0.5)
    try:
        fault.inject(lab.bench, lab.victim, soon())
    except HostError as error:
        assert "cgroup" in str(error) or "Permission" in str(error) or "Read-only" in str(error)
    else:
        group = Path(f"/sys/fs/cgroup/testbed-{lab.pid}")
        assert (group / "cpu.max").read_text().split() == ["50000", "100000"]
        fault.undo(lab.bench, lab.victim, soon())
        assert not group.exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "with `how: sleep` .* got how: sleep and 0 s"),
        ({"how": "quota", "delay": 1.0}, "with `how: sleep` .* got how: quota and 1 s"),
        ({"how": "quota", "share": 1.0}, "`share` must be above 0 % and below 100 %"),
        ({"how": "freeze-cycle", "period": 0.001}, "`period` must be at least 10 ms"),
    ],
)
def test_a_delay_of_zero_is_refused(options, error):
    with pytest.raises(ValueError, match=error):
        StragglerOptions(**options)
