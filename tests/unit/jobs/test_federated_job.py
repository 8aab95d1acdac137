"""The job `federated`: what each host is told, and traces that cannot be obeyed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.jobs.federated import Federated
from testbed.jobs.federated_descriptors import ClientTraceOptions, FederatedOptions
from testbed.jobs.trace_files import BEST
from testbed.schema import load_lab
from testbed.tenancy.learning_run import LearningRun, run_of
from testbed.tenancy.traces import Population, generate

ROOT = Path(__file__).parents[3]
HOSTS = [*load_lab(ROOT / "configs" / "packet-rack.yaml").hosts.values()]


def trace_of(count):
    return {
        str(number): {
            "computation": 10 + number,
            "communication": 1000.5,
            "active": [0, 50],
            "inactive": [20, 80 + number],
            "finish_time": 200,
        }
        for number in range(count)
    }


def written(directory, data):
    path = directory / "trace.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1))
    return str(path)


def lines(trace=None, hosts=(0, 1, 2, 3, 4), **options):
    job = Federated(FederatedOptions(ranks=len(hosts), trace=trace, **options))
    return job.command_lines([HOSTS[number] for number in hosts])


def test_without_a_trace_all_hosts_are_told_the_same():
    found = lines(clients=30, policy="srsf", rounds=3)
    assert len({*found}) == 1
    *program, run, first = found[0]
    assert program == ["python3", "-m", "testbed.propius.clients_program"]
    assert (run_of(run), first) == (LearningRun("srsf", 30, 3), "10.0.0.1")


def test_a_seed_gives_the_trace_of_the_simulation():
    found = lines(ClientTraceOptions(seed=7, speedup=60, start=3600.0), clients=30)
    run = run_of(found[2][3])
    assert run.trace() == generate(Population(clients=30), 7)
    assert (run.speedup, run.start) == (60, 3_600_000)
    assert list(run.of(2, 5)) == [1, 5, 9, 13, 17, 21, 25, 29]


def test_each_host_is_told_the_part_of_a_file_that_its_clients_have(tmp_path):
    trace = ClientTraceOptions(files=(written(tmp_path, trace_of(9)),))
    found = [run_of(line[3]).trace() for line in lines(trace, clients=6)]
    assert [len(each.clients) for each in found] == [0, 2, 2, 1, 1]
    second = found[1].clients[1]
    assert (second.id, second.latency_per_sample, second.rate) == ("4", 14.0, 1000.5)
    assert second.available == ((0, 20_000), (50_000, 84_000))
    assert (second.attributes, found[1].period) == (BEST, 200_000)


def test_a_trace_of_two_files_is_read(tmp_path):
    rows = trace_of(2)
    capacity, availability = tmp_path / "capacity", tmp_path / "availability"
    for path, names in ((capacity, ("comp", "comm")), (availability, ("ac", "in", "fi"))):
        kept = {
            client: {key: value for key, value in row.items() if key.startswith(names)}
            for client, row in rows.items()
        }
        path.write_text(json.dumps(kept))
    both = ClientTraceOptions(files=(str(capacity), str(availability)))
    one = ClientTraceOptions(files=(written(tmp_path, rows),))
    assert lines(both, clients=2) == lines(one, clients=2)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            '{\n "0": {"computation": 0, "finish_time": 9}\n}',
            r"trace\.json:2:23: computation of 0 is 0, and must",
        ),
        ('{\n "0": {"computation": 1}\n}', r"trace\.json:2:7: finish_time of 0 is None"),
        ('{"0":\n 5}', r"trace\.json:2:2: finish_time of 0 is None"),
        ("client,speed", r"trace\.json:1:1: this is no JSON"),
        ("{\n\n1: 2}", r"trace\.json:3:1: this is no JSON"),
        ("[]", r"trace\.json:1:1: a FedScale trace is a mapping"),
        ("{}", r"trace\.json: no client is in both"),
        (trace_of(3), r"has 3 clients, and the job 4"),
    ],
)
def test_a_trace_that_cannot_be_obeyed_is_refused_with_its_place(tmp_path, data, said):
    trace = ClientTraceOptions(files=(written(tmp_path, data),))
    with pytest.raises(ValueError, match=said):
        lines(trace, clients=4)


def test_a_trace_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="the trace nowhere cannot be read: No such file"):
        lines(ClientTraceOptions(files=("nowhere",)))


def test_addresses_that_do_not_follow_each_other_are_refused():
    with pytest.raises(ValueError, match=r"rank 1 must have the address 10\.0\.0\.2, 1 after"):
        lines(hosts=(0, 2))


def test_a_host_without_a_fabric_port_is_refused():
    job = Federated(FederatedOptions(ranks=2))
    bare = HOSTS[1].model_copy(update={"ports": {}})
    with pytest.raises(ValueError, match="the host of rank 1 has no fabric port"):
        job.command_lines([HOSTS[0], bare])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ranks": 1}, "ranks must be at least 2"),
        ({"clients": 201}, "at most 200"),
        ({"demand": 4}, "a round of 4 clients cannot have 6 updates"),
        ({"patience": 0.0}, "above 0"),
        ({"policy": "fofi"}, "'fofi' is no scheduling policy"),
        ({"policy": "static-partition"}, "by static-partition a client belongs to one job"),
    ],
)
def test_what_no_round_could_have_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        FederatedOptions(**{"ranks": 5, **options})


@pytest.mark.parametrize("options", [{}, {"seed": 1, "files": ("a",)}, {"files": ("a", "b", "c")}])
def test_no_trace_or_two_are_refused(options):
    with pytest.raises(ValueError, match="files"):
        ClientTraceOptions(**options)


def test_what_is_no_run_is_refused():
    for text in ("7", '{"polcy": "fifo"}', '{"trace": 5}', "nothing"):
        with pytest.raises(ValueError):
            run_of(text)
