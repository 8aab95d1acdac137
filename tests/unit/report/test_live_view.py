"""The live view: what is told while a run goes on, and from which thread."""

from __future__ import annotations

import io
import re
import threading
from contextlib import closing

import pytest
from rich.console import Console

from testbed.events import Event
from testbed.record.log import EventLog
from testbed.report.live import LiveView
from testbed.report.progress import Progress
from testbed.report.screen import picture, rates
from tests.unit.report.runs_by_hand import plan


class Watched(io.StringIO):
    """A stream that remembers which threads wrote to it, and lets a test wait for a text."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self._news = threading.Condition()
        self.writers: set[int] = set()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        with self._news:
            self.writers.add(threading.get_ident())
            written = super().write(text)
            self._news.notify_all()
        return written

    def wait_for(self, text: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: text in self.plain(), timeout=20), self.plain()

    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


@pytest.fixture
def terminal(monkeypatch):
    """Return a stream that is a terminal of 60 columns."""
    for name in ("NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    return Watched(terminal=True)


def told(events):
    """Return what is said of events, and the progress after them."""
    progress = Progress(plan())
    return [line for event in events for line in progress.note(event)], progress


def shown(progress, elapsed, width):
    """Return the picture as the lines of a terminal of some width."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    console.print(picture(progress, (), elapsed, width))
    return console.file.getvalue().splitlines()


def up_to(events, kind, nth=1):
    """Return the events up to the nth of a kind."""
    found = [index for index, event in enumerate(events) if event.kind == kind]
    return events[: found[nth - 1] + 1]


def step(t, rank, number, generation=1):
    data = {"host": f"h{rank}", "rank": rank, "generation": generation, "step": number}
    return Event(0, t, "step", f"rank {rank}", 0, data)


def joined(rank, generation=1):
    data = {"host": f"h{rank}", "rank": rank, "generation": generation}
    return Event(0, 0.0, "generation", f"rank {rank}", 0, data)


def test_without_a_terminal_each_notable_event_is_one_line(recoveries):
    stream = Watched(terminal=False)
    with LiveView(stream, plan()) as view:
        for event in recoveries:
            view(event)
    lines = stream.getvalue().splitlines()
    assert sum("power-cut of" in line for line in lines) == 2
    assert sum("takes its place" in line for line in lines) == 2
    assert sum("all ranks finished a step again, about" in line for line in lines) == 2
    assert any(line.endswith("trial 2 of 2: splice-cold") for line in lines)
    assert len(lines) < 40 < sum(event.kind == "step" for event in recoveries)
    assert all(re.match(r" +\d+\.\d s  \S", line) for line in lines)


def test_lines_of_the_live_view_are_in_the_order_of_events(recoveries):
    stream = Watched(terminal=False)
    with LiveView(stream, plan()) as view:
        for event in recoveries:
            view(event)
    times = [float(line.split()[0]) for line in stream.getvalue().splitlines()]
    assert times == sorted(times)


def test_a_blocked_reader_of_the_output_does_not_delay_the_run(full_pipe, recoveries):
    with LiveView(full_pipe[1], plan()) as view:
        for event in recoveries:
            view(event)
    assert view.catch_up() == []  # the view is over, and keeps nothing


def test_a_slow_reader_of_the_output_gets_every_line(full_pipe, recoveries):
    reader, stream = full_pipe
    lines = []
    late = threading.Thread(target=lambda: lines.extend(reader))
    with LiveView(stream, plan()) as view:
        for event in recoveries:
            view(event)
        late.start()
    stream.close()
    late.join()
    expected, _ = told(recoveries)
    assert [line.split(" s  ", 1)[1] for line in lines] == [f"{line.text}\n" for line in expected]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_is_written_by_the_thread_that_appends_to_the_log(
    is_terminal, terminal, recoveries, tmp_path
):
    stream = terminal if is_terminal else Watched(terminal=False)
    with closing(EventLog(tmp_path / "events.jsonl")) as log, LiveView(stream, plan()) as view:
        log.subscribe(view)
        stream.writers.clear()
        for event in up_to(recoveries, "trial.end"):
            log.trial = event.trial
            log.append(event.kind, event.subject, **event.data)
        stream.wait_for("finished a step again")
        assert threading.get_ident() not in stream.writers
        assert stream.writers


def test_a_terminal_shows_a_live_picture_that_is_removed_at_the_end(terminal, recoveries):
    with LiveView(terminal, plan()) as view:
        for event in up_to(recoveries, "fault.inject"):
            view(event)
        terminal.wait_for("power-cut of rank 1")
        terminal.wait_for("steps/s")
    assert terminal.getvalue().endswith("\x1b[2K")  # the last line of the picture is erased


def test_on_a_ci_server_the_live_view_prints_lines(terminal, monkeypatch):
    monkeypatch.setenv("CI", "1")
    with LiveView(terminal, plan()) as view:
        view(Event(0, 0.0, "phase", "open"))
    assert terminal.getvalue() == "     0.0 s  opening instruments and hosts\n"


def test_no_color_removes_colours_from_the_picture(terminal, monkeypatch, recoveries):
    monkeypatch.setenv("NO_COLOR", "1")
    with LiveView(terminal, plan()) as view:
        for event in up_to(recoveries, "fault.inject"):
            view(event)
        terminal.wait_for("power-cut of rank 1")
    colours = re.findall(r"\x1b\[[0-9;]*[34][0-9]m", terminal.getvalue())
    assert "╭─" in terminal.getvalue() and not colours


SAID = "stopping: taking back ranks, circuits, at most 30 s"


def test_the_effect_of_a_signal_stays_printed_above_the_picture(terminal, recoveries):
    """Whatever is written last of a picture is erased; this is written once, and never again."""
    with LiveView(terminal, plan()) as view:
        for event in up_to(recoveries, "trial.begin"):
            view(event)
        view(Event(0, 9.0, "note", "SIGINT", None, {"text": SAID}))
        terminal.wait_for(SAID)
        view(Event(0, 9.1, "cleanup.begin", "circuits"))
        terminal.wait_for("taking back circuits")
    before, _, after = terminal.getvalue().partition(SAID)
    assert before and SAID not in after
    assert after.index("\n") < after.index("╭─")


def test_without_a_terminal_the_effect_of_a_signal_is_a_line():
    stream = Watched(terminal=False)
    with LiveView(stream, plan()) as view:
        view(Event(0, 9.0, "note", "SIGTERM", None, {"text": SAID}))
    assert stream.getvalue() == f"     9.0 s  {SAID}\n"


def test_a_key_echoed_by_the_terminal_does_not_shift_the_picture(terminal):
    """The cursor rests at the start of a line of its own: an echo there wraps into no other."""
    with LiveView(terminal, plan()) as view:
        console = Console(file=io.StringIO(), force_terminal=True, width=60, color_system=None)
        console.print(view.picture(60))
    assert console.file.getvalue().endswith("╯\n\n")


def test_the_picture_shows_trial_victim_circuits_and_marks(recoveries):
    _, progress = told(up_to(recoveries, "recovery.fenced"))
    rows = shown(progress, 5.0, 100)
    assert "lumion on rack, 5 s" in rows[0]
    assert "1 of 2  warm  power-cut of rank 1" in rows[1]
    assert re.search(r"steps/s .*[▁▂▃▄▅▆▇█]", rows[2])
    assert "h0.p1–h1.p0" in rows[3]
    assert re.search(r"marks   t1 \d+ t2 \d+ t3 \d+ ms", rows[4])


@pytest.mark.parametrize("width", [20, 30, 60, 100])
def test_the_picture_of_the_live_view_fits_any_terminal_width(recoveries, width):
    _, progress = told(recoveries)
    assert {len(row) for row in shown(progress, 9.0, width)} == {width}


def test_circuits_without_carrier_are_struck_out(recoveries):
    _, progress = told(up_to(recoveries, "fault.receipt"))
    receipt = up_to(recoveries, "fault.receipt")[-1]
    port = receipt.subject.removesuffix(" carrier")
    assert port in progress.dark
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    console.print(picture(progress, (), 5.0, 100))
    struck = re.findall(r"\x1b\[9;31m(\S+?)\x1b", console.file.getvalue())
    assert any(port in circuit.split("–") for circuit in struck)


def test_live_marks_agree_with_those_of_the_record(recoveries, summarised):
    _, progress = told(up_to(recoveries, "trial.end"))
    record = summarised(recoveries).trials[0].marks.relative()
    live = {name: t - progress.marks["t0"] for name, t in progress.marks.items()}
    assert live.keys() == record.keys() - {"t11"}
    for name, after in live.items():
        assert after == pytest.approx(record[name], abs=0.02)


def test_a_step_counts_when_the_last_rank_of_the_generation_finished_it():
    events = [joined(0), joined(1), step(1.0, 0, 0), step(1.1, 1, 0), step(2.0, 0, 1)]
    _, progress = told(events)
    assert (list(progress.ends), progress.step) == ([1.1], 0)


def test_the_live_view_counts_steps_of_a_new_job_with_fewer_ranks():
    four = [joined(rank) for rank in range(4)]
    end = Event(0, 1.0, "trial.end", "warm", 0, {"valid": True, "recovered": True, "reason": ""})
    _, progress = told([*four, end, joined(0), joined(1), step(2.0, 0, 0), step(2.1, 1, 0)])
    assert list(progress.ends) == [2.1]


def test_a_job_restarted_after_a_lost_trial_is_not_shown_as_a_recovery(recoveries):
    cut = up_to(recoveries, "recovery.decided")
    why = {"valid": True, "recovered": False, "reason": "not recovered within 60 s"}
    end = Event(0, 64.0, "trial.end", "warm", 0, why)
    anew = [joined(rank) for rank in range(4)] + [step(65.0, rank, 0) for rank in range(4)]
    lines, progress = told([*cut, end, *anew])
    assert lines[-1].text == "the trial ended badly: not recovered within 60 s"
    assert lines[-1].tone == "bad"
    assert not progress.is_disturbed


def test_a_restored_circuit_is_not_shown_as_a_replacement():
    data = {
        "because": "h0.p1–h1.p0 is dark between hosts that answer",
        "replacement": "h0.p1–h1.p0",
    }
    lines, _ = told([Event(0, 1.0, "recovery.decided", "h0.p1–h1.p0", 0, data)])
    assert lines[0].text.endswith("answer; it is made again")


def test_each_message_size_of_an_allreduce_is_printed_once(allreduce):
    lines, progress = told(allreduce)
    sizes = [line.text for line in lines if line.text.startswith("AllReduce")]
    assert sizes == [
        f"AllReduce of {size}" for size in ("4 KiB", "64 KiB", "1 MiB", "4 MiB", "16 MiB")
    ]
    assert "timing  AllReduce of 16 MiB" in shown(progress, 9.0, 80)[2]


def test_a_timed_collective_is_printed_by_its_name():
    data = {"size": 4096, "iteration": 0, "operation": "all_gather"}
    lines, _ = told([Event(0, 1.0, "sample", "", 0, data)])
    assert [line.text for line in lines] == ["AllGather of 4 KiB"]


def test_each_iteration_over_alternating_sizes_is_printed_once():
    turns = [(at, nbytes) for at in range(2) for nbytes in (4096, 65536)]
    samples = [
        Event(0, 1.0, "sample", "", 0, {"size": nbytes, "iteration": at, "algorithm": "ring"})
        for at, nbytes in [*turns, turns[1]]  # the last from a rank that lags behind
    ]
    lines, progress = told(samples)
    assert [line.text for line in lines] == [
        f"AllReduces of all sizes, iteration {number}" for number in (1, 2)
    ]
    assert progress.size == 65536


def test_a_choice_of_collective_is_printed_and_keeps_the_prediction_of_the_fault():
    because = {"because": "rank 7 comes 0.400 s after the others"}
    inject = {"fault": "straggler", "note": "it sleeps"}
    lines, progress = told(
        [
            Event(0, 1.0, "fault.inject", "h7", 0, inject),
            Event(1, 5.0, "collective.chosen", "stragglar", 0, because),
            Event(2, 5.0, "prediction", "stragglar", 0, {"values": {}}),
        ]
    )
    assert lines[1].text.startswith("rank 7 comes 0.400 s after the others; stragglar suits")
    assert progress.marks["t0"] == 1.0


def test_a_failed_clean_up_is_printed_by_the_live_view():
    data = {"verified": False, "problem": "ocs does not answer"}
    lines, _ = told([Event(0, 1.0, "cleanup.end", "circuits", None, data)])
    assert lines[0].text == "taking back circuits failed: ocs does not answer"


def test_a_host_dropped_after_a_trial_is_printed():
    data = {"text": "its agent is given up after the trial: h3: it did not answer"}
    (line,), _ = told([Event(0, 1.0, "note", "h3", 0, data)])
    assert line.text == "h3: its agent is given up after the trial: h3: it did not answer"


def run_over(**data):
    usual = {"error": "ocs.1: held by bob", "exit_code": 5, "left": [], "signals": []}
    return Event(1, 1.0, "run.end", "", None, usual | data)


def test_a_run_that_ended_with_an_error_is_printed_with_its_reason():
    assert told([run_over()])[0] == []
    (line,), _ = told([run_over(exit_code=4)])
    assert line.text == "ocs.1: held by bob"
    begun = Event(0, 0.5, "trial.begin", "warm", 0, {"generation": 1})
    assert told([begun, run_over()])[0][-1].text == "ocs.1: held by bob"


def test_the_step_rate_shows_the_dip_while_it_lasts():
    ends = [t / 10 for t in range(21)]  # ten steps a second for two seconds, then none
    found = rates(ends, 4.0, 20)
    assert found == pytest.approx([10.0] * 10 + [0.5] * 10)
    assert rates([], 4.0, 3) == [0.0, 0.0, 0.0]
