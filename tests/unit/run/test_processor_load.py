"""How much of the machine others take: held against a /proc whose every number is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.run.machine_watch import Load

TICKS = os.sysconf("SC_CLK_TCK")


class Machine:
    """A /proc of two processors and some processes; all times are seconds."""

    def __init__(self, place: Path):
        self.place = place
        self.at, self.busy = 0.0, 0.0
        self.processes: dict[int, float] = {}
        self.pass_time(0.0, others=0.0)

    def pass_time(self, seconds: float, *, others: float, **ours: float) -> None:
        """Let time pass in which others and ours, as `p7=1.5`, take some of it."""
        self.at += 2 * seconds
        for name, took in ours.items():
            pid = int(name[1:])
            self.processes[pid] = self.processes.get(pid, 0.0) + took
        self.busy += others + sum(ours.values())
        idle = self.at - self.busy
        row = [round(x * TICKS) for x in (self.busy, 0, 0, idle, 0, 0, 0, 0)]
        (self.place / "stat").write_text(f"cpu  {' '.join(map(str, row))} 0 0\ncpu0 1 2 3\n")
        for pid, took in self.processes.items():
            (self.place / str(pid)).mkdir(exist_ok=True)
            fields = ["R", *["0"] * 10, str(round(took * TICKS)), *["0"] * 7, "77", "0"]
            (self.place / str(pid) / "stat").write_text(f"{pid} (a (name) x) {' '.join(fields)}")


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def watched(machine, *, on_twin):
    load = Load(machine.place if on_twin else None, proc=machine.place)
    load.end()  # its thread; it still answers when asked
    return load


def test_processor_time_outside_the_twin_counts_as_other_load(machine):
    machine.pass_time(1.0, others=0.0, p7=100.0)  # long before
    load = watched(machine, on_twin=True)
    machine.pass_time(100.0, others=50.0, p7=40.0, p8=10.0)
    assert load.others() == pytest.approx(0.25, abs=0.01)
    machine.pass_time(100.0, others=0.0, p7=100.0, p8=50.0)
    assert load.others() == pytest.approx(0.0, abs=0.01)


def test_on_hardware_only_this_process_belongs_to_the_run(machine):
    load = watched(machine, on_twin=False)
    machine.pass_time(100.0, others=50.0, p7=40.0)
    assert load.others() == pytest.approx(0.45, abs=0.01)


def test_processor_time_of_an_ended_process_still_counts_for_the_run(machine):
    load = watched(machine, on_twin=True)
    machine.pass_time(50.0, others=0.0, p7=60.0)
    load._look()
    (machine.place / "7" / "stat").unlink()
    machine.processes.clear()
    machine.pass_time(50.0, others=0.0)
    assert load.others() == pytest.approx(0.0, abs=0.01)


def test_a_machine_without_processor_statistics_is_not_reported_idle(tmp_path):
    load = watched(Machine(tmp_path), on_twin=True)
    assert load.others() is None  # no time has passed
    (tmp_path / "stat").unlink()
    assert load.others() is None
    load = Load(tmp_path / "proc")  # in a twin of an older version, which does not show it
    load.end()
    assert load.others() is None


def test_the_busiest_second_of_a_trial_counts_all_programs(machine):
    load = watched(machine, on_twin=True)
    for others, ours in ((0.1, 0.3), (0.9, 0.7), (0.2, 0.2)):
        machine.pass_time(1.0, others=others, p7=ours)
        load._look()
    machine.pass_time(0.1, others=0.2)
    load.others()
    assert load.busiest == pytest.approx(0.8, abs=0.02)
    machine.pass_time(1.0, others=0.1, p7=0.1)
    load._look()
    load.others()
    assert load.busiest < 0.3
