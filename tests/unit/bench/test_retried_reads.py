"""A read that had to be asked once more is in the record, with what went wrong the first time."""

from contextlib import closing

import pytest

from testbed.bench.bench import Bench
from testbed.bench.sites import SwitchSite
from testbed.clock import Deadline
from testbed.record.journal import Journal
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd

LAB = """\
lab: small
hosts: {{h0: {{ssh: h0}}}}
switches:
  ocs: {{driver: polatis, resource: "TCPIP::127.0.0.1::{port}::SOCKET", ports: [1-8]}}
"""


@pytest.fixture
def far_end():
    scheduler = WallScheduler()
    sides = frozenset(range(1, 5)), frozenset(range(5, 9))
    yield PolatisFarEnd(SwitchSite(*sides, "S1", 0.001, 1, scheduler, lambda lit: None))
    scheduler.close()


def test_a_repeated_read_of_an_instrument_is_logged(far_end, tmp_path):
    run = RunDirectory.create(tmp_path, "small")
    with (
        closing(serve_tcp(far_end)) as wire,
        closing(EventLog(run.events)) as log,
        closing(Journal(run.journal)) as journal,
    ):
        (tmp_path / "lab.yaml").write_text(LAB.format(port=wire.port))
        lab = load_lab(tmp_path / "lab.yaml")
        bench, limit = Bench(lab, run, journal, log, lambda *report: None), Deadline.after(10)
        bench.open_instruments(["ocs"], limit)
        far_end.fault("garbled", command="STAT", count=1)
        assert bench.switches["ocs"].state(limit) == {}
        bench.close_instruments()
    (retry,) = (event for event in read_events(run.events) if event.kind == "retry")
    assert (retry.subject, retry.data["what"]) == ("ocs", "a read")
    assert retry.data["why"].startswith("answered with")
