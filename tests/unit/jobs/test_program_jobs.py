"""Ordinary programs as jobs: what hosts run, what an exit code means, what is read from output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed.errors import FileError, LabError
from testbed.jobs import patterns
from testbed.jobs.contracts import (
    FIRST_ADDRESS,
    PairedRailsJob,
    ProgramJob,
    ProgramOutput,
    RailsJob,
)
from testbed.jobs.nccl_programs import NcclTests
from testbed.jobs.program_descriptors import (
    CommandOptions,
    NcclTestsOptions,
    Pattern,
    TorchrunOptions,
)
from testbed.jobs.programs import Command, Torchrun
from testbed.onhost.agent.processes import MARK
from testbed.plugins import kinds
from testbed.schema import load_experiment, load_lab
from testbed.secret import Secret, redacted

ROOT = Path(__file__).parents[3]
OUTPUTS = ROOT / "tests" / "unit" / "analysis" / "data"
RATE = Pattern(r"at ([0-9.e+]+) Mbit/s", "Mbit/s", "higher")


@pytest.fixture(scope="module")
def hosts():
    return list(load_lab(ROOT / "configs" / "example-lab.yaml").hosts.values())


def command(**metrics):
    return Command(CommandOptions(2, ("true",), metrics))


def nccl(**options):
    return NcclTests(NcclTestsOptions(**{"ranks": 2} | options))


def output(name):
    return (OUTPUTS / name).read_bytes().decode()


def read(job, *texts):
    """Return what a job read, by metric."""
    said = [ProgramOutput(f"h{number}", text) for number, text in enumerate(texts)]
    return {reading.metric: reading for reading in job.readings(said)}


# --- what hosts run ------------------------------------------------------------------------


@pytest.mark.parametrize("job", [command(), Torchrun(TorchrunOptions(2, ("t.py",))), nccl()])
def test_jobs_of_external_programs_are_program_jobs(job):
    assert isinstance(job, ProgramJob)
    assert (job.spares, job.last_step, job.endless) == (0, None, False)
    assert job.for_rank()["kind"] == "program"


def test_jobs_of_built_in_ranks_are_not_program_jobs():
    built_in = kinds("jobs")["allreduce"]
    assert not isinstance(built_in.load()(built_in.options(ranks=2, sizes=(4096,))), ProgramJob)


def test_a_command_is_the_same_on_every_host(hosts):
    assert Command(CommandOptions(3, ("a", "b"))).command_lines(hosts[:3]) == (("a", "b"),) * 3


def test_the_rendezvous_of_torchrun_is_at_the_first_host(hosts):
    first, second = Torchrun(TorchrunOptions(2, ("t.py", "--lr", "1"), 4)).command_lines(hosts[:2])
    words = "torchrun --nnodes 2 --node-rank 1 --nproc-per-node 4 --master-addr"
    assert second == (*words.split(), FIRST_ADDRESS, "--master-port", "29500", "t.py", "--lr", "1")
    assert first == tuple("0" if n == 4 else word for n, word in enumerate(second))


def test_a_script_with_a_mesh_has_its_groups_on_rails_and_runs_as_ever_on_a_packet_switch():
    job = Torchrun(TorchrunOptions(4, ("t.py",), mesh={"dp": 2, "pp": 2}))
    assert not isinstance(job, RailsJob)
    on_rails = job.on_circuits()
    assert isinstance(on_rails, RailsJob)
    assert on_rails.groups == {"dp0": (0, 2), "dp1": (1, 3), "pp0": (0, 1), "pp1": (2, 3)}
    assert on_rails.controllers == ("rails",)
    along = {"dp": [[0, 2], [1, 3]], "pp": [[0, 1], [2, 3]]}
    told = {"groups": along, "matchings": {}, "in_pairs": {}}
    assert on_rails.for_rank() == {"kind": "program", "options": told}


def test_groups_of_more_than_two_have_collectives_in_pairs_and_are_named():
    on_rails = Torchrun(TorchrunOptions(8, ("t.py",), mesh={"dp": 4, "pp": 2})).on_circuits()
    assert isinstance(on_rails, PairedRailsJob)
    assert on_rails.matchings == {
        "dp0": (((0, 4), (2, 6)), ((0, 2), (4, 6))),
        "dp1": (((1, 5), (3, 7)), ((1, 3), (5, 7))),
    }
    options = on_rails.for_rank()["options"]
    assert list(options["matchings"]) == ["dp"]
    (dimension, told), *others = options["in_pairs"].items()
    assert (dimension, others) == ("dp", [])
    assert [each["collective"] for each in told] == ["all-reduce", "reduce-scatter", "all-gather"]
    assert {each["ranks"] for each in told} == {4}


def test_a_script_without_a_mesh_runs_on_the_circuits_of_its_ring():
    job = Torchrun(TorchrunOptions(2, ("t.py",)))
    assert job.on_circuits() is job


@pytest.mark.parametrize(
    ("ranks", "gpus", "text"),
    [(3, 1, "a mesh of 2 x 2 has 4 ranks, and the job has 3"), (4, 2, "gpus is 1")],
)
def test_a_mesh_that_does_not_fit_the_processes_is_refused(ranks, gpus, text):
    with pytest.raises(ValueError, match=text):
        TorchrunOptions(ranks, ("t.py",), gpus, mesh={"dp": 2, "pp": 2})


def test_mpirun_starts_a_process_for_every_gpu_from_the_first_host(hosts):
    line, nothing = nccl(gpus=4, arguments=("-a", "3")).command_lines(hosts[:2])
    assert nothing == ()
    text = " ".join(line)
    assert text.startswith("mpirun --host 192.0.2.21:4,192.0.2.22:4 -np 8 ")
    assert f"-x NCCL_IB_HCA -x NCCL_SOCKET_IFNAME -x {MARK}" in text
    assert text.endswith("all_reduce_perf -b 8 -e 134217728 -f 2 -n 20 -w 5 -g 1 -a 3")


def test_the_srun_command_line_names_the_hosts(hosts):
    line, _ = nccl(gpus=4, launch="srun").command_lines(hosts[:2])
    assert " ".join(line).startswith(
        "srun --nodelist 192.0.2.21,192.0.2.22 --nodes 2 --ntasks-per-node 4 "
    )


def test_without_mpi_every_host_runs_its_own_nccl_test(hosts):
    lines = nccl(gpus=4, launch="agent").command_lines(hosts[:2])
    assert lines == (lines[0], lines[0])
    assert " ".join(lines[0]).startswith("all_reduce_perf ")
    assert lines[0][-2:] == ("-g", "4")


def test_nccl_tests_are_asked_for_a_json_report_where_one_is_read(hosts):
    line, _ = nccl(report="json").command_lines(hosts[:2])
    assert line[-2:] == ("-J", "{report}")


def without_rdma(host):
    ports = {n: p.model_copy(update={"rdma": None}) for n, p in host.ports.items()}
    return host.model_copy(update={"ports": ports})


def test_an_environment_that_bypasses_the_fabric_is_refused(hosts):
    with pytest.raises(ValueError, match="not go over the fabric: NCCL_SOCKET_IFNAME is mgmt0"):
        nccl().command_lines([without_rdma(host) for host in hosts[:2]])


def test_planning_an_nccl_test_reads_no_secret(hosts):
    env = {"NCCL_SOCKET_IFNAME": Secret(env="ABSENT"), "HF_TOKEN": Secret(file="/absent")}
    hidden = [host.model_copy(update={"env": env}) for host in hosts[:2]]
    assert "-x HF_TOKEN" in " ".join(nccl().command_lines(hidden)[0])
    with pytest.raises(ValueError, match=r"fabric: NCCL_SOCKET_IFNAME is \{env: ABSENT\}"):
        nccl().command_lines([without_rdma(host) for host in hidden])


def test_sockets_over_the_fabric_are_accepted(hosts):
    env = {"NCCL_SOCKET_IFNAME": "=enp65s0f0,enp65s0f1"}
    plain = [without_rdma(h).model_copy(update={"env": env}) for h in hosts[:2]]
    assert nccl().command_lines(plain)[0][0] == "mpirun"


def test_a_launcher_with_different_environments_per_host_is_refused(hosts):
    other = hosts[1].model_copy(update={"env": {}})
    with pytest.raises(ValueError, match="different environments"):
        nccl().command_lines([hosts[0], other])


def test_network_devices_are_set_in_the_environment_unless_the_file_sets_them(hosts):
    assert hosts[0].environment["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
    mine = hosts[0].model_copy(update={"env": {"NCCL_IB_HCA": "mlx5_9"}})
    assert mine.environment == {"NCCL_IB_HCA": "mlx5_9"}


# --- exit codes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        (command(), 0, ""),
        (command(), 3, "it ended with code 3"),
        (command(), 127, "it ended with code 127: it was not found"),
        (command(), -9, "it was ended by SIGKILL"),
        (command(), 128 + 15, "it was ended by SIGTERM"),
        (command(), -200, "it ended with code -200"),
        (nccl(), 0, ""),
        (nccl(), 3, "it ended with code 3: NCCL failed"),
        (nccl(), 7, "it ended with code 7: values were wrong"),
        (nccl(), -11, "it was ended by SIGSEGV"),
    ],
)
def test_an_exit_code_is_described_in_words(job, code, words):
    assert job.verdict(code).startswith(words)
    assert bool(job.verdict(code)) == bool(code)


# --- patterns ------------------------------------------------------------------------------


def test_a_pattern_metric_is_the_median_over_all_ranks():
    text = "at 1 Mbit/s\nat 5 Mbit/s\n"
    (found,) = read(command(rate=RATE), text, "at 3 Mbit/s, the last\nnothing").values()
    assert (found.metric, found.value, found.unit) == ("rate", 3e6, "bit/s")
    assert (found.better, found.count) == ("higher", 3)


@pytest.mark.parametrize(
    ("unit", "base", "value"),
    [
        ("ms", "s", 0.005),
        ("MiB", "B", 5 * 2**20),
        ("GB/s", "bit/s", 4e10),
        ("dB", "dB", 5),
        ("%", "%", 5),
        ("1/s", "1/s", 5),
    ],
)
def test_a_printed_number_is_converted_to_the_base_unit(unit, base, value):
    (found,) = read(command(x=Pattern("= (.*)", unit, "lower")), "= 5\n").values()
    assert (found.value, found.unit) == (pytest.approx(value), base)


def test_a_pattern_that_finds_nothing_measures_nothing():
    assert read(command(rate=RATE), "it is late\n") == {}
    assert read(command()) == {}


@pytest.mark.parametrize("text", ["= five", "= nan", "= 1e999", "= ", "= 0x10", "= 1_0"])
def test_a_pattern_that_matches_text_instead_of_a_number_is_refused(text):
    with pytest.raises(LabError, match=r"metric 'x' matched .* not a number"):
        read(command(x=Pattern("= (.*)", "1", "lower")), text + "\n")


def test_a_group_that_did_not_match_is_refused():
    with pytest.raises(LabError, match="not a number"):
        read(command(x=Pattern("=( [0-9]+)?", "1", "lower")), "=\n")


def test_a_pattern_that_never_ends_is_ended_and_named(monkeypatch):
    monkeypatch.setattr(patterns, "SECONDS", 1)
    endless = Pattern(r"(a+)+$", "1", "lower")
    with pytest.raises(LabError, match="metric 'endless' did not end within 1 s"):
        read(command(rate=RATE, endless=endless), "at 1 Mbit/s\n" + "a" * 60 + "!\n")


def test_very_large_program_output_is_read():
    text = "at 7 Mbit/s\n" * 100_000
    (found,) = read(command(rate=RATE), text).values()
    assert found.value == 7e6


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"pattern": "("}, "is not a regular expression"),
        ({"pattern": "at [0-9]+"}, "has 0 groups"),
        ({"pattern": "(a)(b)"}, "has 2 groups"),
        ({"pattern": "(" + "a" * 600 + ")"}, "too long"),
        ({"unit": "Mbits"}, "'Mbits' is not a unit; did you mean 'Mbit/s'"),
    ],
)
def test_an_invalid_pattern_is_refused(change, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        Pattern(**{"pattern": "(a)", "unit": "s", "better": "lower"} | change)


# --- nccl-tests ----------------------------------------------------------------------------


def test_every_size_of_an_nccl_table_is_measured_in_base_units():
    found = read(nccl(), output("nccl-plain.txt"))
    assert len(found) == 2 * 3 * 25
    row = next(s for s in output("nccl-plain.txt").split("\n") if s.startswith("     1048576"))
    time, algbw, busbw = map(float, row.split()[5:8])
    assert found["time_1mib"].value == pytest.approx(time * 1e-6)
    assert found["algbw_1mib"].value == pytest.approx(algbw * 8e9)
    assert found["busbw_1mib"].value == pytest.approx(busbw * 8e9)
    assert found["busbw_1mib_in_place"].value != found["busbw_1mib"].value
    assert {one.unit for one in found.values()} == {"s", "bit/s"}


def test_the_slowest_host_is_used_where_each_has_its_own_value():
    slow = output("rccl-plain.txt")
    program = nccl(program="build/all_reduce_perf", launch="agent")
    alone = read(program, slow)
    fast = read(program, output("rccl-in-place.txt"))
    both = read(program, slow, output("rccl-in-place.txt"))
    assert both.keys() == fast.keys()  # the second has no out-of-place half
    for name, one in both.items():
        worse = max if name.startswith("time") else min
        assert one.value == worse(alone[name].value, fast[name].value)


def test_a_report_is_read_instead_of_the_table():
    said = [ProgramOutput("h0", "", output("nccl-v3.json"))]
    found = {one.metric for one in nccl(report="json").readings(said)}
    assert {"busbw_1mib", "busbw_64mib_in_place"} <= found


def test_complete_rows_of_a_killed_program_are_measured():
    found = read(nccl(), output("nccl-killed.txt"))
    assert {name.partition("_")[2] for name in found if "place" not in name} == {
        f"{1 << n}mib" for n in range(4)
    }


def test_output_that_reports_wrong_values_is_refused():
    with pytest.raises(LabError, match="2500000 values were wrong"):
        read(nccl(program="broadcast_perf"), output("nccl-exponents.txt"))


def test_output_of_other_programs_is_refused():
    with pytest.raises(LabError, match="it has no table"):
        read(nccl(), "all_reduce_perf: command not found\n")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"program": "iperf3"}, "'iperf3' is not a program of nccl-tests"),
        ({"program": "all_reduce_prof"}, "did you mean 'all_reduce_perf'"),
        ({"gpus": 0}, "gpus must be at least 1"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"warmup": -1}, "warmup must be at least 0"),
        ({"factor": 1}, "factor must be at least 2"),
        ({"smallest": 8, "largest": 4}, "largest is less than smallest"),
    ],
)
def test_options_that_nccl_tests_lacks_are_refused(options, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        nccl(**options)


# --- files ---------------------------------------------------------------------------------

FILE = """\
experiment: e
question: How fast?
needs: {hosts: 2}
jobs:
  main:
    kind: command
    ranks: 2
    command: ["true"]
    metrics:
      rate: {pattern: 'at ([0-9]+)', unit: Mbit/s, better: higher}
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("'at ([0-9]+)'", "'at [0-9]+'", r"e\.yaml:10:13: jobs\.main.*has 0 groups"),
        ("better: higher", "better: higher, worse: 1", r"e\.yaml:10:.*worse"),
        ("better: higher", "better: faster", r"e\.yaml:10:60: .*unknown word 'faster'"),
        ('["true"]', "[]", r"e\.yaml:6:.*names no program"),
        ("rate:", "Rate:", r"e\.yaml:6:.*'Rate' is not a name for a metric"),
        ("kind: command", "kind: command\n    gpus: 8", r"e\.yaml:7:.*gpus"),
    ],
)
def test_an_invalid_option_of_a_program_job_is_reported_at_its_place_in_the_file(
    tmp_path, monkeypatch, old, new, complaint
):
    monkeypatch.chdir(tmp_path)
    assert FILE.count(old) == 1
    Path("e.yaml").write_text(FILE.replace(old, new))
    with pytest.raises(FileError, match=complaint):
        load_experiment("e.yaml")


# --- secrets -------------------------------------------------------------------------------


def test_a_report_keeps_no_secret_of_its_environment():
    text = output("nccl-v3.json")
    kept = redacted(text)
    assert "planted-in-env-0451" in text
    assert "planted" not in kept
    assert '"HOME=***"' in kept
    assert '"NCCL_SOCKET_IFNAME=mgmt0"' in kept
    assert read_rows(kept) == read_rows(text)


def read_rows(text):
    return list(nccl(report="json").readings([ProgramOutput("h0", "", text)]))


def test_a_report_cut_off_anywhere_in_its_environment_keeps_no_secret():
    text = r'{"version":3,"env":["WANDB_API_KEY=pl\"an\\ted","NCCL_DEBUG=INFO"'
    start, end = text.index("pl"), text.index('","NCCL')
    for cut in range(start, end + 1):
        assert redacted(text[:cut]).endswith("WANDB_API_KEY=***")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("HF_TOKEN=hf_abc123 python t.py", "HF_TOKEN=*** python t.py"),
        (
            "env: {'AWS_SECRET_ACCESS_KEY': 'abc', 'N': '1'}",
            "env: {'AWS_SECRET_ACCESS_KEY': '***', 'N': '1'}",
        ),
        ("fetching https://me:word@example.org/x", "fetching https://***@example.org/x"),
        ("tokens: 512, key=4", "tokens: 512, key=4"),
        ("NCCL_DEBUG=INFO", "NCCL_DEBUG=INFO"),
        ('export A_TOKEN="abc" B=2', 'export A_TOKEN="***" B=2'),
        ("export A_TOKEN='two words' B=2", "export A_TOKEN='***' B=2"),
        ("A_TOKEN=a;b,c B=2", "A_TOKEN=*** B=2"),
        ('A_TOKEN="cut short', 'A_TOKEN="***'),
        ("# rank 0: env 'A_TOKEN=two words' run", "# rank 0: env 'A_TOKEN=***' run"),
        ("os.environ['A_TOKEN'] = 'abc'", "os.environ['A_TOKEN'] = '***'"),
        ('{"A_TOKEN": "two words", "n": 1}', '{"A_TOKEN": "***", "n": 1}'),
        (r'{"said": "{\"A_TOKEN\": \"a b\"}"}', r'{"said": "{\"A_TOKEN\": \"***\"}"}'),
        ("env: {A_TOKEN: abc}", "env: {A_TOKEN: ***"),
        ("MYSQL_PWD=abc GITHUB_PAT=abc PGPASS=abc", "MYSQL_PWD=*** GITHUB_PAT=*** PGPASS=***"),
        ("db_password: abc\npassword=abc", "db_password: ***\npassword=***"),
        ("run --password abc --hf-token=abc x", "run --password *** --hf-token=*** x"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("curl -H 'authorization: Basic abc' x", "curl -H 'authorization: ***' x"),
        ('curl -H "X-Api-Key: abc" x', 'curl -H "X-Api-Key: ***" x'),
        ("PWD=/x OLDPWD=/y NCCL_IB_PKEY=1", "PWD=/x OLDPWD=/y NCCL_IB_PKEY=1"),
        ("PASS: 12, KEY: 3, --max-tokens 512", "PASS: 12, KEY: 3, --max-tokens 512"),
        ("Password:\nwelcome", "Password:\nwelcome"),
    ],
)
def test_secrets_of_the_environment_in_program_output_are_masked(said, kept):
    assert redacted(said) == kept
