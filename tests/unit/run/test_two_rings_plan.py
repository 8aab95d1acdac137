"""Plans of jobs whose two rings share each sum: what they take, and what is predicted of them."""

from pathlib import Path

import pytest

from testbed.collectives.cost import Links
from testbed.errors import FileError
from testbed.jobs.descriptors import AllReduceOptions, TrainOptions
from testbed.jobs.training import AllReduce, Train
from testbed.run.planning.metric_checks import check_metrics
from testbed.run.planning.placement import place
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]
EXPERIMENT = """\
experiment: small
question: What do both ports of a slice carry?
needs: {hosts: 4, fabric: FABRIC}
jobs: {main: {kind: allreduce, RANKS, rings: 2, sizes: [64 KiB, 1 MiB]}}
checks: {METRIC: {near_prediction: 5 %}}
"""


@pytest.fixture
def placed(tmp_path):
    def placed(ranks, lab="quad", fabric="circuit", metric="busbw_1mib"):
        text = EXPERIMENT.replace("FABRIC", fabric).replace("RANKS", ranks)
        (tmp_path / "e").write_text(text.replace("METRIC", metric))
        experiment = load_experiment(tmp_path / "e")
        check_metrics(experiment)
        return place(experiment, load_lab(ROOT / "configs" / f"{lab}.yaml"))["main"]

    return placed


def test_two_ranks_have_two_circuits_and_each_ring_a_port_of_its_own(placed):
    found = placed("ranks: 2")
    assert {str(circuit) for circuit in found.circuits} == {"h0.p0–h1.p1", "h0.p1–h1.p0"}
    (own, *_) = found.ring_ports.values()
    assert (own.from_previous, own.to_next) == ("p0", "p1")


@pytest.mark.parametrize(
    ("ranks", "lab", "fabric", "why"),
    [
        ("ranks: 2, topology: pairs", "quad", "circuit", "h0 reaches both its neighbours in job"),
        ("ranks: 2", "packet-quad", "packet", "on a packet switch both would share one port"),
        ("ranks: 4, ranks_per_host: 2", "quad", "circuit", "2 ranks of job main share the ports"),
    ],
)
def test_two_rings_over_one_port_are_refused_where_they_are_written(
    placed, ranks, lab, fabric, why
):
    with pytest.raises(FileError, match=f"two rings take two circuits for each rank, and {why}"):
        placed(ranks, lab, fabric)


def test_what_short_messages_take_is_not_predicted(placed):
    with pytest.raises(FileError, match="nothing predicts 'busbw_64kib'"):
        placed("ranks: 2", metric="busbw_64kib")


@pytest.mark.parametrize("rings", [1, 2])
def test_two_rings_are_predicted_to_carry_twice_as_much(rings):
    links = Links(1e-3, 1e-7)  # 80 Mbit/s
    options = AllReduceOptions(ranks=4, sizes=(65536, 4 << 20), rings=rings)
    found = AllReduce(options).predict_sizes(links)
    assert found == {
        "time_4mib": pytest.approx(1.5 * (4 << 20) * 1e-7 / rings),
        "algbw_4mib": pytest.approx(80e6 * rings / 1.5),
        "busbw_4mib": pytest.approx(80e6 * rings),
    }
    train = Train(TrainOptions(ranks=2, rings=rings, pace=0.1))
    step = train.predict_steps(links, {}, 0.0, 3 << 20)["step_time"]
    assert step == pytest.approx(0.1 + 2 * 1e-3 + (1 << 20) * 1e-7 / rings)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rings": 3}, "rings must be 1 or 2, one for each direction, not 3"),
        ({"rings": 2, "collective": "rhd"}, "two rings take ranks that sum in a ring"),
    ],
)
def test_other_numbers_of_rings_and_schedules_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        TrainOptions(ranks=4, **options)


def test_a_library_is_for_two_ranks_without_a_mesh():
    assert AllReduceOptions(ranks=2, sizes=(8,), library="gloo").libraries == ("gloo",)
    assert AllReduceOptions(ranks=2, sizes=(8,)).libraries == ()
    complaint = "gloo connects all ranks with each other, and circuits join two"
    with pytest.raises(ValueError, match=complaint):
        AllReduceOptions(ranks=3, sizes=(8,), library="gloo")
    with pytest.raises(ValueError, match=complaint):
        AllReduceOptions(ranks=2, sizes=(8,), library="gloo", mesh={"dp": 2})
