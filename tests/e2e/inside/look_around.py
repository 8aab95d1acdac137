"""Run inside a twin: its devices, routes and processes, and what the hosts' clocks say."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from testbed.bench.bench import Bench
from testbed.bench.clocks import measure_offset
from testbed.bench.lease_resources import needs
from testbed.cli.twins import CurrentTwin
from testbed.clock import Deadline
from testbed.record.journal import Journal
from testbed.record.leases import Leases
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.schema import load_lab
from testbed.twin.control_socket import ask

lab = load_lab("configs/serial-rack.yaml")
with tempfile.TemporaryDirectory() as scratch:
    run = RunDirectory.create(Path(scratch), "look")
    log = EventLog(run.events)
    bench = Bench(lab, run, Journal(run.journal), log, lambda host, message, received: None)
    lease = Leases().take(needs(lab, lab.hosts), "look", run)
    bench.guard.hold(lease)
    bench.open_hosts(lab.hosts, Deadline.after(15))
    links = {name: host.link for name, host in bench.hosts.items()}
    first = {name: measure_offset(link, Deadline.after(5)) for name, link in links.items()}
    second = {name: measure_offset(link, Deadline.after(5)) for name, link in links.items()}
    bench.close_hosts(Deadline.after(10))
    lease.release()
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    processes = CurrentTwin().processes
    print(
        json.dumps(
            {
                "seen": {
                    host: (processes / str(pid) / "stat").is_file()
                    for host, pid in ask({"do": "describe"})["hosts"].items()
                },
                "ttys": sorted(map(str, Path("/dev").glob("tty*"))),
                "routes_out": [line for line in routes.splitlines() if "via" in line],
                "offsets": {name: found.offset for name, found in first.items()},
                "bounds": {name: found.bound for name, found in first.items()},
                "errors": [abs(first[n].offset - second[n].offset) for n in first],
            }
        )
    )
