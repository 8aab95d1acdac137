"""Run inside a twin: print all that an experiment could have changed there, as JSON.

Hosts are asked over SSH, instruments by their drivers; a host that is starting is waited for.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path
from typing import Any

from testbed.bench import ssh
from testbed.bench.instrument_factory import make_instrument
from testbed.bench.parallel import run_parallel
from testbed.clock import Deadline
from testbed.errors import HostError
from testbed.record.leases import Leases
from testbed.schema import load_lab
from testbed.twin.control_socket import ask

LOOK = """
PATH=$PATH:/usr/sbin:/sbin
ip -j addr show; ip -j route show; ip -j neigh show nud permanent; tc -j qdisc show
for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done
"""
OURS = ("memfd:testbed", "memfd_create", "--control")

lab = load_lab(sys.argv[1])


def look(name: str) -> dict[str, Any]:
    """Return what a host has: addresses, routes, neighbours, shaping, processes of ours."""
    deadline = Deadline.after(20)
    while True:
        try:
            channel = ssh.run(name, lab.hosts[name].ssh, LOOK, deadline.within(5))
            break
        except HostError:
            if deadline.passed:
                raise
            time.sleep(0.1)
    text = b""
    while (piece := channel.receive()) != b"":
        text += piece or b""
        assert select.select([channel], [], [], deadline.left)[0], f"{name} does not answer"
    channel.close()
    lines = text.decode().splitlines()
    links, routes, neighbours, shaping = (json.loads(line) for line in lines[:4])
    return {
        "addresses": sorted(
            f"{link['ifname']} {'up' if 'UP' in link['flags'] else 'down'} {a.get('local', '')}"
            for link in links
            for a in link["addr_info"] or [{}]
        ),
        "routes": sorted(f"{route['dst']} {route['dev']}" for route in routes),
        "neighbours": sorted(f"{n['dst']} {n['dev']}" for n in neighbours),
        "shaping": sorted(f"{q.get('dev')} {q['kind']} {q.get('options')}" for q in shaping),
        "processes": [line for line in lines[4:] if any(word in line for word in OURS)],
    }


def instrument(name: str) -> Any:
    opened = make_instrument(lab, name, lambda direction, data: None)
    opened.open(Deadline.after(10))
    return opened


switches = {name: instrument(name) for name in lab.switches}
units = {name: instrument(name) for name in lab.power}
fed = {name: host.power for name, host in lab.hosts.items() if host.power}
state = {
    "circuits": {n: sorted(s.state(Deadline.after(10)).items()) for n, s in switches.items()},
    "power": {
        name: units[outlet.unit].is_on(outlet.outlet, Deadline.after(10))
        for name, outlet in fed.items()
    },
    "leases": [str(f.claim.holder) for f in Leases().find() if f.standing != "ended"],
    "promises": sorted(str(path) for path in Path("/run").glob("testbed-agents-*/*")),
    "hosts": run_parallel(look, list(lab.hosts)),
    "settings": ask({"do": "tuning"}),
    "powered": sorted(ask({"do": "describe"})["hosts"]),
}
for opened in (*switches.values(), *units.values()):
    opened.close()
print(json.dumps(state))
