"""Jobs as the orchestrator sees them, beside the programs that their ranks run."""

import json
import re
from dataclasses import asdict, fields, is_dataclass
from importlib import import_module

import pytest

from testbed.analysis.metric_definitions import METRICS, is_of_size
from testbed.collectives.cost import Links
from testbed.errors import FileError
from testbed.fabric.topologies import Ring, Torus
from testbed.jobs.contracts import StepJob
from testbed.jobs.descriptors import AllReduceOptions, CheckpointOptions, TrainOptions
from testbed.jobs.hybrid import Hybrid
from testbed.jobs.hybrid_descriptors import HybridOptions, HybridPaceOptions
from testbed.jobs.training import AllReduce, Train
from testbed.plugins import kinds
from testbed.schema import load_experiment

OPTIONS = {
    "train": TrainOptions(ranks=4, spares=1, dim=32, layers=1, heads=2, hidden=32, steps=30),
    "allreduce": AllReduceOptions(ranks=4, sizes=(4096, 65536)),
    "hybrid": HybridOptions(ranks=2, mesh={"pp": 2}, pace=HybridPaceOptions(0.1, 0.2)),
}
FOR_THE_ORCHESTRATOR = {"ranks", "spares", "topology", "steps", "collective", "straggler"}
FOR_THE_ORCHESTRATOR |= {"mesh", "collectives", "order"}
MADE_OF_THEM = {"groups", "schedules", "matchings", "actions"}
BESIDE_THE_OPTIONS = {"checkpoint"}


@pytest.fixture(params=OPTIONS)
def job(request):
    return kinds("jobs")[request.param].load()(OPTIONS[request.param])


def test_these_tests_cover_every_built_in_job():
    programs = {
        "command",
        "torchrun",
        "nccl-tests",
        "collective",
        "reach",
        "all-to-all",
        "federated",
    }  # have tests of their own
    run = {name for name, kind in kinds("jobs").items() if kind.role != "model"} - programs
    assert run == OPTIONS.keys()


def test_the_configuration_of_a_rank_is_plain_data_accepted_by_its_program(job):
    told = json.loads(json.dumps(job.for_rank()))
    program = import_module(f"testbed.onhost.jobs.{told['kind']}")
    assert program.Job(told["options"], 7, job.ranks).state.step == 0


def test_no_option_is_lost_between_the_file_and_the_rank(job):
    told = job.for_rank()
    asked = {field.name for field in fields(OPTIONS[told["kind"]])}
    reach_it = told["options"].keys() - MADE_OF_THEM
    assert reach_it == asked - FOR_THE_ORCHESTRATOR - BESIDE_THE_OPTIONS
    for name in reach_it:
        given = getattr(OPTIONS[told["kind"]], name)
        given = asdict(given) if is_dataclass(given) else given
        assert told["options"][name] == (list(given) if isinstance(given, tuple) else given)


def test_a_job_states_how_many_hosts_it_needs(job):
    given = OPTIONS[job.for_rank()["kind"]]
    topology = None if hasattr(given, "mesh") and given.mesh else Ring()
    assert (job.ranks, job.spares, job.topology) == (given.ranks, given.spares, topology)


def test_a_ring_needs_its_neighbours_only_and_ranks_of_a_schedule_all_others():
    def told(collective, straggler=None):
        job = Train(TrainOptions(ranks=4, collective=collective, straggler=straggler))
        program = import_module("testbed.onhost.jobs.train").Job(job.for_rank()["options"], 7, 4)
        return job.topology, program.connects_to, job.for_rank()["options"].get("schedule")

    assert told("ring") == (Ring(), "neighbours", None)
    topology, connects_to, schedule = told("stragglar", 2)
    assert (topology, connects_to) == (None, "everybody")
    assert (schedule["name"], schedule["straggler"]) == ("stragglar", 2)


def test_on_circuits_a_schedule_is_forwarded_around_the_ring_and_its_straggler():
    job = Train(TrainOptions(ranks=6, collective="stragglar", straggler=2)).on_circuits()
    told = json.loads(json.dumps(job.for_rank()))["options"]
    program = import_module("testbed.onhost.jobs.train").Job(told, 7, 6)
    assert (job.topology, program.connects_to) == (Ring(), "neighbours both ways")
    rounds = told["schedule"]["rounds"]
    assert all(abs(hop[0] - hop[1]) in (1, 5) for step in rounds for hop in step)
    begun = [any(2 in hop[:2] for hop in step) for step in rounds]
    assert begun.index(True) >= 4, "its first four rounds, and what forwarding adds to them"


def test_the_model_expects_less_of_a_late_rank_that_others_begin_without():
    links, size = Links(1e-4, 8 / 480e6), 12 << 20

    def added(collective):
        job = Train(TrainOptions(ranks=4, collective=collective, pace=0.1)).on_circuits()
        on_time = job.predict_steps(links, {}, 0.5, size)["step_time"]
        late = job.predict_steps(links, {3: 0.2}, on_time, size)["straggling_step_time"]
        return late - on_time

    assert added("ring") == pytest.approx(0.2)
    assert 0.05 < added("stragglar") < 0.19


def test_a_ring_and_a_choice_stay_as_they_are_on_circuits_and_two_ranks_are_refused():
    for collective in ("ring", "auto"):
        job = Train(TrainOptions(ranks=4, collective=collective))
        assert job.on_circuits() is job
    with pytest.raises(ValueError, match="of two ranks on circuits stragglar has none"):
        Train(TrainOptions(ranks=2, collective="stragglar")).on_circuits()


def test_training_ends_with_its_last_step_if_one_is_set():
    ends = Train(TrainOptions(ranks=2, steps=30))
    assert (ends.last_step, ends.endless) == (29, False)
    lives_on = Train(TrainOptions(ranks=2))
    assert (lives_on.last_step, lives_on.endless) == (None, True)


def test_ranks_are_told_when_to_write_checkpoints_beside_the_options_of_their_job():
    job = Train(TrainOptions(ranks=2, checkpoint=CheckpointOptions(every=20)))
    assert job.for_rank()["checkpoint"] == {"every": 20, "keep": 2, "directory": ""}
    assert "checkpoint" not in Train(TrainOptions(ranks=2)).for_rank()
    split = Hybrid(HybridOptions(2, {"pp": 2}, checkpoint=CheckpointOptions(every=20)))
    assert split.for_rank()["checkpoint"] == {"every": 20, "keep": 2, "directory": ""}
    assert "checkpoint" not in Hybrid(HybridOptions(2, {"pp": 2})).for_rank()
    with pytest.raises(ValueError, match="every must be at least 1, not 0"):
        CheckpointOptions(every=0)
    with pytest.raises(ValueError, match="keep must be at least 2, not 1"):
        CheckpointOptions(every=20, keep=1)


def test_the_allreduce_job_ends_after_its_last_iteration():
    job = AllReduce(OPTIONS["allreduce"])
    assert (job.last_step, job.endless) == (None, False)


def test_the_default_model_has_its_documented_state_size():
    told = Train(TrainOptions(ranks=2)).for_rank()
    state = import_module("testbed.onhost.jobs.train").Job(told["options"], 7, 2).state
    assert f"{len(state.outgoing()) / 2**20:.1f} MiB" == "16.3 MiB"
    assert "16.3 MiB" in TrainOptions.__doc__


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"ranks": 0}, "ranks must be at least 1, not 0"),
        ({"spares": -1}, "spares must be at least 0, not -1"),
        ({"heads": 0}, "heads must be at least 1, not 0"),
        ({"dim": 0}, "dim must be at least 1"),
        ({"layers": -1}, "layers must be at least 1"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"sequence": 0}, "sequence must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0 and finite, not 0"),
        ({"learning_rate": -1e-3}, "learning_rate must be above 0 and finite, not -0.001"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0 and finite, not nan"),
        ({"learning_rate": float("inf")}, "learning_rate must be above 0 and finite, not inf"),
        ({"dim": 100, "heads": 3}, "dim 100 is not divisible by 3 heads"),
        ({"dim": 6, "heads": 2}, "an even number of dimensions per head"),
        ({"ranks": 1, "collective": "rhd"}, "rhd takes two ranks or more, and there is only one"),
        (
            {"ranks": 3, "collective": "stragglar"},
            "stragglar pairs its ranks, so their number must be even, not 3",
        ),
        (
            {"collective": "rhd", "topology": Torus((2,))},
            "rhd takes no topology: on circuits its data goes around a ring",
        ),
        ({"straggler": 1}, "ring takes no straggler; direct and stragglar do"),
        ({"collective": "direct", "straggler": 2}, "straggler 2 is not a rank: the ranks are 0 to"),
        ({"pace": 0.0}, "pace must be above 0"),
    ],
)
def test_impossible_models_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        TrainOptions(**{"ranks": 2} | options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"ranks": 1}, "ranks must be at least 2, not 1"),
        ({"sizes": ()}, "sizes must have at least one entry"),
        ({"sizes": (4096, 6)}, "6 bytes are not a whole number of float32"),
        ({"sizes": (0,)}, "0 bytes are not a whole number of float32"),
        ({"sizes": (4096, 8192, 4096)}, "4 KiB is listed twice"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"warmup": -1}, "warmup must be at least 0"),
        ({"pace": 0.0}, "pace must be above 0"),
        ({"mesh": {"dp": 2, "tp": 2}}, "a mesh of 2 x 2 has 4 ranks, and the job has 2"),
        ({"mesh": {"dp": 2, "tp": 0}}, "dimension tp must have at least 1 rank, not 0"),
        ({"mesh": {}}, "a mesh has at least one dimension"),
        ({"mesh": {"1 KiB": 2}}, "'1 KiB' is no name of a dimension"),
        ({"mesh": {"dp": 2}, "spares": 1}, "so it has no spares"),
        (
            {"mesh": {"dp": 2}, "collectives": {"pp": "chain"}},
            "'pp' in collectives is no dimension",
        ),
        ({"collectives": {"pp": "chain"}}, "'pp' in collectives is no dimension"),
    ],
)
def test_a_job_without_samples_is_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        AllReduceOptions(**{"ranks": 2, "sizes": (4096,)} | options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"mesh": {"pp": 4}}, "a mesh of 4 has 4 ranks, and the job has 2"),
        ({"mesh": {"cp": 2}}, "'cp' is no dimension of this job; they are dp (replicas), pp"),
        ({"mesh": {"ep": 2}}, "a mesh with 2 ranks along ep takes layers with experts"),
        ({"mesh": {"ep": 2}, "experts": 3}, "experts 3 is not divisible by 2 ranks with experts"),
        ({"mesh": {"dp": 2}, "experts": 1}, "one expert leaves a router nothing to choose"),
        ({"mesh": {"dp": 2}, "experts": -1}, "experts must be at least 0, not -1"),
        ({"mesh": {"ep": 2}, "experts": 4, "spares": 1}, "so it has no spares"),
        ({"mesh": {"pp": 2}, "layers": 3}, "layers 3 is not divisible by 2 pipeline stages (pp)"),
        ({"mesh": {"tp": 2}, "heads": 1}, "heads 1 is not divisible by 2 shares of each layer"),
        ({"mesh": {"tp": 2}, "hidden": 5}, "hidden 5 is not divisible by 2 shares of each layer"),
        ({"mesh": {"dp": 2}, "batch": 3, "micro_batches": 2}, "batch 3 is not divisible by 2 mic"),
        ({"mesh": {"dp": 2}, "dim": 12}, "dim 12 gives 4 heads no even number of channels each"),
        ({"mesh": {"pp": 2}, "spares": 1}, "cannot be restored from each other, so it has no spar"),
        ({"mesh": {"dp": 2}, "micro_batches": 0}, "micro_batches must be at least 1, not 0"),
        ({"mesh": {"dp": 2}, "learning_rate": 0.0}, "learning_rate must be above 0 and finite"),
    ],
)
def test_a_model_that_cannot_be_split_so_is_refused(options, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        HybridOptions(**{"ranks": 2} | options)


def test_a_pace_of_nothing_is_refused():
    with pytest.raises(ValueError, match="pace must be above 0"):
        HybridPaceOptions(0.1, 0.0)


def test_each_pipeline_stage_is_told_what_it_computes():
    def told(order):
        given = HybridOptions(2, {"pp": 2}, order=order, micro_batches=3, batch=3)
        actions = json.loads(json.dumps(Hybrid(given).for_rank()))["options"]["actions"]
        return ["".join(what[0] + str(number) for what, number in stage) for stage in actions]

    assert told("gpipe") == ["f0f1f2b0b1b2", "f0f1f2b0b1b2"]
    assert told("1f1b") == ["f0f1b0f2b1b2", "f0b0f1b1f2b2"]


def test_ranks_of_a_mesh_are_told_their_groups_and_the_ring_of_each():
    job = AllReduce(AllReduceOptions(6, (4096,), mesh={"dp": 2, "tp": 3}))
    told = json.loads(json.dumps(job.for_rank()))
    assert (told["kind"], job.topology) == ("groups", None)
    groups = {"dp": [[0, 3], [1, 4], [2, 5]], "tp": [[0, 1, 2], [3, 4, 5]]}
    assert told["options"]["groups"] == groups
    assert [told["options"]["schedules"][name]["ranks"] for name in groups] == [2, 3]
    assert told["options"]["collectives"] == {"dp": "all-reduce", "tp": "all-reduce"}
    program = import_module("testbed.onhost.jobs.groups")
    assert program.Job(told["options"], 7, 6).state.step == 0


def test_metrics_of_a_mesh_are_those_along_its_dimensions():
    measured = set(AllReduceOptions(4, (4096,), mesh={"dp": 4, "tp": 1}).measures())
    along_dp = {f"{what}_4kib_along_dp" for what in ("time", "algbw", "busbw")}
    on_rails = {"iteration_time", "change_error", "over_optimum", "change_time", "control_time"}
    on_rails |= {"retransmitted", "dropped"}
    assert measured == {"steps", "digest"} | on_rails | along_dp
    assert all(name in METRICS or is_of_size(name) for name in measured)


def test_an_invalid_option_of_a_job_is_reported_at_its_place_in_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.yaml").write_text(
        "experiment: e\nquestion: How?\nneeds: {hosts: 2}\n"
        "jobs:\n  main: {kind: train, ranks: 2, heads: 0}\n"
    )
    with pytest.raises(FileError, match=r"e\.yaml:5:9: jobs\.main: .*heads must be at least 1"):
        load_experiment("e.yaml")


def test_pace_and_checkpoints_are_read_from_a_file(tmp_path):
    path = tmp_path / "e.yaml"
    path.write_text(
        "experiment: e\nquestion: How?\nneeds: {hosts: 2}\n"
        "jobs: {main: {kind: train, ranks: 2, pace: 100 ms, checkpoint: {every: 20, keep: 3}}}\n"
    )
    options = load_experiment(path).jobs["main"].options
    assert (options.pace, options.checkpoint) == (0.1, CheckpointOptions(20, 3))


def test_the_cost_of_a_straggler_depends_on_the_overlapped_work():
    links, state = Links(1e-3, 8 / 100e6), 3 * (7 << 20)
    reduced = 7 * (1 << 20) * links.beta  # the whole gradient on one line

    def slower(collective, delay):
        job = Train(TrainOptions(ranks=8, collective=collective))
        assert isinstance(job, StepJob)
        return job.predict_steps(links, {7: delay}, 2.0, state)["straggling_step_time"] - 2.0

    assert slower("ring", 0.3) == pytest.approx(0.3)
    assert slower("stragglar", 0.3) == pytest.approx(0.0)
    hidden = 6 / 7 * reduced + 6e-3
    assert slower("stragglar", 1.0) == pytest.approx(1.0 - hidden)


def test_a_paced_step_takes_its_pace_and_its_sum():
    links, state = Links(1e-3, 8 / 100e6), 3 * (8 << 20)
    job = Train(TrainOptions(ranks=4, pace=0.1))
    summed = 6 * 1e-3 + 2 * 3 / 4 * (8 << 20) * links.beta
    assert job.predict_steps(links, {}, 0.0, state) == {"step_time": pytest.approx(0.1 + summed)}
    late = job.predict_steps(links, {3: 0.2}, 0.9, state)
    assert late["straggling_step_time"] == pytest.approx(1.1)
    assert not Train(TrainOptions(ranks=4)).predict_steps(links, {}, 0.9, state)
    assert not Train(TrainOptions(ranks=1, pace=0.1)).predict_steps(links, {}, 0.9, state)


def test_an_automatic_collective_begins_with_a_ring_of_fully_connected_ranks():
    job = Train(TrainOptions(ranks=8, collective="auto"))
    assert job.chooses.name == job.for_rank()["options"]["schedule"]["name"] == "ring"
    assert job.topology is None
    assert not job.predict_steps(Links(1e-3, 1e-8), {7: 1.0}, 2.0, 1 << 20)
    assert Train(TrainOptions(ranks=8)).chooses is None
