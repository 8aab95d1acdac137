"""The profile of a recorded run: two ranks on each of four hosts, groups of a mesh of 2 x 2 x 2.

The log is that of experiments/groups.yaml on a twin, without what no profile needs.
"""

import json
from pathlib import Path

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_profile import NoProfile, rail_profile
from testbed.analysis.rail_times import profile_of, rail_values
from testbed.cli import run as command_line
from testbed.events import Event
from testbed.rails.profile import Group
from testbed.rails.profile_json import from_json
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay
from testbed.rails.workload import workload_of
from testbed.record.log import read_events
from testbed.report.wording import quantity

LOG = Path(__file__).parent / "data" / "groups.jsonl"
TRAINING = Path(__file__).parent / "data" / "hybrid.jsonl"
BYTES = {"dp": {4194376}, "pp": {4194340, 0}, "tp": {4194376}}


@pytest.fixture(scope="module")
def found():
    return rail_profile(read_events(LOG), "a run")


def test_groups_on_one_rail_are_those_of_the_same_local_index(found):
    assert found.groups["dp0"] == Group((0, 4), "rail0")
    assert found.groups["dp1"] == Group((1, 5), "rail1")
    assert found.groups["pp2"] == Group((4, 6), "rail0")
    assert found.groups["tp0"] == Group((0, 1), None)
    assert len(found.groups) == 12


def test_an_iteration_has_one_collective_along_each_dimension(found):
    assert (len(found.iterations), found.ranks, found.source) == (3, 8, "a run")
    for ranks in found.iterations:
        for rank, own in enumerate(ranks):
            names = [each.group for each in own.operations]
            assert [name[:2] for name in names] == ["dp", "pp", "tp"]
            assert all(rank in found.groups[name].ranks for name in names)
            assert all(each.bytes in BYTES[each.group[:2]] for each in own.operations)


def test_an_iteration_begins_where_the_one_before_it_ended(found):
    for rank in range(found.ranks):
        first, second, third = (ranks[rank] for ranks in found.iterations)
        assert (first.end, second.end) == (second.begin, third.begin)


def test_the_replay_without_a_delay_takes_as_long_as_the_run_did(found):
    begin = min(own.begin for own in found.iterations[0])
    took = max(own.end for own in found.iterations[-1]) - begin
    predicted = replay(workload_of(found), Rails(0.0)).iteration
    assert predicted == pytest.approx(took / 3, rel=0.02)


def test_on_demand_an_iteration_has_two_changes_of_each_rank(found):
    still, slow = (replay(workload_of(found), Rails(delay)).iteration for delay in (0.0, 0.1))
    assert slow - still == pytest.approx(0.2, abs=1e-6)


@pytest.fixture(scope="module")
def trained():
    """Return the profile of the last three steps of experiments/hybrid.yaml with GPipe."""
    return rail_profile(read_events(TRAINING), "a run")


def test_a_step_of_training_is_an_iteration_with_all_that_each_rank_communicated(trained):
    assert (len(trained.iterations), trained.ranks, len(trained.groups)) == (3, 8, 12)
    assert trained.groups["pp1"] == Group((1, 3), "rail1")
    assert trained.groups["tp3"] == Group((6, 7), None)
    for ranks in trained.iterations:
        for rank, own in enumerate(ranks):
            of = [each.group[:2] for each in own.operations]
            assert (of.count("pp"), of.count("tp"), of.count("dp")) == (8, 32, 1)
            assert of[-1] == "dp" and all(rank in each.ranks for each in own.operations)
            passed = [each.waits for each in own.operations if each.group[:2] == "pp"]
            first, then = ("send", "receive") if rank in (0, 1, 4, 5) else ("receive", "send")
            assert passed == 4 * [first] + 4 * [then]


def test_on_demand_a_step_waits_for_two_changes_and_provisioned_for_what_no_window_hides(trained):
    workload = workload_of(trained)
    still = replay(workload, Rails(0.0))
    smallest = min(change.window for change in still.changes)
    assert smallest >= 0.05, "ranks compute for 60 ms between the traffic of two groups"
    slow = replay(workload, Rails(0.1)).iteration
    assert slow - still.iteration == pytest.approx(0.2, abs=1e-6)
    hidden = replay(workload, Rails(smallest, "provisioned")).iteration
    assert hidden == pytest.approx(still.iteration, abs=1e-6)


def test_the_replay_of_a_step_takes_as_long_as_the_step_did(trained):
    first, *_, last = trained.iterations
    took = max(own.end for own in last) - max(own.end for own in first)
    assert replay(workload_of(trained), Rails(0.0)).iteration == pytest.approx(took / 2, rel=0.02)


def test_an_iteration_of_training_is_from_the_end_of_a_step_to_that_of_the_next():
    events = list(read_events(TRAINING))
    ends = {(e.data["step"], e.data["rank"]): e.data["end"] for e in events if "step" in e.data}
    last = max(step for step, _ in ends)
    expected = sum(ends[last, rank] - ends[last - 1, rank] for rank in range(8)) / 8
    assert rail_values([], events) == {"iteration_time": pytest.approx(expected)}
    before = [event for event in events if event.data.get("step") != last - 1]
    assert rail_values([], before) == {}


def test_a_trial_gives_the_same_profile_as_its_log(trained):
    events = list(read_events(TRAINING))
    clocks = Clocks(e for e in events if e.kind in ("host.ready", "clock.offset"))
    assert profile_of(1, events, clocks).iterations == trained.iterations
    assert profile_of(1, [e for e in events if e.kind != "operations"], clocks) is None


def test_a_log_without_groups_is_refused():
    others = [event for event in read_events(LOG) if event.kind != "sample"]
    with pytest.raises(NoProfile, match=r"its ranks timed no collectives in groups of a mesh$"):
        rail_profile(others, "")
    with pytest.raises(NoProfile, match="in groups of a mesh in trial 7"):
        rail_profile(read_events(LOG), "", 7)


def test_a_log_without_a_whole_iteration_is_refused():
    lone = [e for e in read_events(LOG) if e.kind != "sample" or e.data["dimension"] == "dp"]
    partial = [e for e in lone if e.kind != "sample" or e.data["rank"] != 3]
    with pytest.raises(NoProfile, match="it has no whole iteration"):
        rail_profile(partial, "")


def test_a_clock_that_was_not_measured_is_named():
    samples = [event for event in read_events(LOG) if event.kind == "sample"]
    with pytest.raises(NoProfile, match=r"the clock of h. was not measured"):
        rail_profile(samples, "")


@pytest.fixture
def run(tmp_path):
    """Return the directory of a run with the recorded log."""
    path = tmp_path / "20261123T210543Z-groups-03cd52"
    path.mkdir()
    (path / "run.json").write_text(json.dumps({"format": 1}))
    (path / "events.jsonl").write_bytes(LOG.read_bytes())
    return path


def test_the_command_prints_stages_stalls_and_what_delay_is_worth_it(run, capsys):
    assert command_line(["profile", str(run), "--delay", "100 ms"]) == 0
    page = capsys.readouterr().out
    for part in ("8 ranks", "Stages on rails", "on-demand    100 ms", "200 ms", "up to a delay of"):
        assert part in page


def test_a_kept_profile_is_read_again_and_compared(run, tmp_path, capsys):
    assert command_line(["profile", str(run), "--json"]) == 0
    kept = tmp_path / "groups.profile.json"
    kept.write_text(capsys.readouterr().out)
    assert command_line(["profile", str(kept), str(run)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("dp0")]
    assert rows[0][1:3] == rows[0][3:5]


@pytest.fixture
def kept(run, tmp_path, capsys):
    """Return a file with the profile of the recorded log, and control of 10 ms a change."""
    assert command_line(["profile", str(run), "--json"]) == 0
    profile = json.loads(capsys.readouterr().out)
    profile["control"]["change"] = 0.01
    path = tmp_path / "groups.profile.json"
    path.write_text(json.dumps(profile))
    return path


def test_a_plan_prints_what_its_rails_would_cost_by_a_kept_profile(kept, capsys):
    assert command_line(["plan", "experiments/opus.yaml", "--profile", str(kept)]) == 0
    page = capsys.readouterr().out
    workload = workload_of(from_json(json.loads(kept.read_text())))
    for arm, mode, delay in (
        ("demand-250", "on-demand", 0.25),
        ("provisioned-1000", "provisioned", 1.0),
        ("learned-0", "learned", 0.0),
    ):
        (row,) = (line for line in page.splitlines() if line.startswith(f"{arm} "))
        took = replay(workload, Rails(delay, mode)).iteration
        assert row.split()[1] == mode
        assert f" {quantity(took, 's')} " in row
    assert command_line(["profile", str(kept), "--delay", "250 ms"]) == 0
    same = capsys.readouterr().out
    took = quantity(replay(workload, Rails()).iteration, "s")
    for part in (
        "the control takes 10 ms of a change",
        f"3 iterations of {took} by the replay without a delay",
        " ".join(_cells(same, "on-demand ")[1:-2]),  # the last is a share
    ):
        assert part in " ".join(same.split())
        assert part in " ".join(page.split())
    assert page.count("iterations are at most 5% longer up to a delay of") == 3


def _cells(page, beginning):
    (row,) = (line for line in page.splitlines() if line.startswith(beginning))
    return row.split()


def test_a_plan_of_rails_without_a_profile_says_how_to_keep_one(capsys):
    assert command_line(["plan", "experiments/opus.yaml"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "not known without a profile: keep one of a run, as by `testbed profile latest" in page
    for line in (["lumion"], ["opus-packet"]):
        assert command_line(["plan", *line]) == 0
        assert "rails would cost" not in capsys.readouterr().out


def test_a_plan_of_a_job_that_brings_its_rails_along_has_their_cost(kept, capsys):
    on_circuits = ["opus-packet", "--lab", "rails", "-S", "needs.fabric=circuit"]
    assert command_line(["plan", *on_circuits, "--profile", str(kept)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["only", "on-demand", "35", "ms"] in [row[:4] for row in rows]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["experiments/lumion.yaml"], "has no job of 8 ranks on rails, as the profile"),
        (["experiments/opus-one-change.yaml"], "has no job of 8 ranks on rails, as the profile"),
        (["experiments/opus.yaml", "--json"], "--json prints the plan alone"),
        (["opus-signature"], "opus-signature is computed from a model"),
    ],
)
def test_a_profile_that_is_of_no_job_of_a_plan_is_refused(kept, words, text, capsys):
    assert command_line(["plan", *words, "--profile", str(kept)]) == 2
    assert text in capsys.readouterr().err


def test_a_profile_in_which_no_rank_waited_for_circuits_says_that_control_is_left_out(run, capsys):
    assert command_line(["profile", str(run)]) == 0
    assert "so the control counts as nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--trial", "7"], "gives no profile of rails: its ranks timed no collectives"),
        (["--ports", "2", "--delay", "5"], "--delay: '5'"),
        (["latest", "--json"], "no run"),
    ],
)
def test_what_is_no_profile_is_refused_in_one_sentence(run, words, text, capsys, tmp_path):
    line = ["profile", str(run), *words, "--results", str(tmp_path / "none")]
    assert command_line(line) == 2
    assert text in capsys.readouterr().err


def test_an_event_of_another_kind_changes_nothing(found):
    events = [*read_events(LOG), Event(10**6, 99.0, "note", "x", data={"text": "y"})]
    assert rail_profile(events, "a run") == found


def test_ranks_whose_groups_changed_in_a_trial_have_no_profile():
    events = list(read_events(TRAINING))
    assert profile_of(0, events, Clocks(events)) is not None
    last = max(event.data["step"] for event in events if event.kind == "operations")
    for event in events:
        if event.kind == "operations" and event.data["step"] == last:
            event.data["groups"] |= {"dp0": [0]}
    assert profile_of(0, events, Clocks(events)) is None
