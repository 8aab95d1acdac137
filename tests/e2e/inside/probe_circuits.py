"""Run inside a twin: ask over a circuit that is not there, then is, then is not."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from testbed.bench.bench import Bench
from testbed.bench.lease_resources import needs
from testbed.clock import Deadline
from testbed.fabric.circuits import Circuit
from testbed.record.journal import Journal
from testbed.record.leases import Leases
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab

lab = load_lab("configs/rack.yaml")
with tempfile.TemporaryDirectory() as scratch:
    run = RunDirectory.create(Path(scratch), "probe")
    log = EventLog(run.events)
    bench = Bench(lab, run, Journal(run.journal), log, lambda host, message, received: None)
    lease = Leases().take(needs(lab, ["h0", "h1"]), "probe", run)
    bench.guard.hold(lease)
    bench.open_instruments(["ocs"], Deadline.after(10))
    bench.open_hosts(["h0", "h1"], Deadline.after(10))
    bench.open_fabric(port for port in lab.wiring() if port.host in ("h0", "h1"))
    circuit = Circuit.parse("h0.p1", "h1.p0")

    def probe() -> dict[str, int]:
        question = bench.hosts["h0"].ask_identity(
            "p1", bench.hosts["h1"], "p0", limit=1.0, count=20, interval=0.005, first=False
        )
        value = question.result(5).value
        return {"asked": value["asked"], "answered": value["answered"]}

    def wait_for_light() -> None:
        good = bench.hosts["h0"].ask_identity("p1", bench.hosts["h1"], "p0", limit=5.0)
        assert good.result(10).value["good"]

    bench.fabric.adopt({}, Deadline.after(5))
    found = {"dark": probe()}
    bench.fabric.set_circuits("probe", frozenset({circuit}), Deadline.after(5))
    wait_for_light()
    found["lit"] = probe()
    bench.fabric.restore(Deadline.after(5))
    found["dark again"] = probe()
    bench.close_hosts(Deadline.after(10))
    bench.close_instruments()
    lease.release()
    print(json.dumps(found))
