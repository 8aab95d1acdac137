"""The kinds of events about the lab: instruments, hosts, clocks, circuits and light."""

from __future__ import annotations

from testbed.events.kind import EventField, event_kind, flag, integer, items, mapping, number, text

CIRCUITS = items("the circuits that all owners have then")

LAB_KINDS = {
    "instrument.ready": event_kind(
        "an instrument is open and identified",
        maker=text("who made it, as it says"),
        model=text("its model"),
        serial=text("its serial number"),
        firmware=text("the version of its firmware"),
        settle=number("s", "how long a switch's new circuit is dark", optional=True),
    ),
    "host.ready": event_kind(
        "a host's agent answers and its preflight passed",
        network_changes=integer("how many addresses, routes and neighbours were set"),
        hostname=text("its own name"),
        python=text("the version of its Python"),
        numpy=text("the version of its NumPy"),
        kernel=text("the release of its kernel"),
        cpus=integer("the number of its processors", nullable=True),
        root=flag("whether the agent runs as root"),
        pid=integer("the agent's process"),
        hardware=mapping("hardware addresses by port"),
        cards=items("hardware addresses of all its network cards"),
        time=number("s", "its wall clock, since 1970"),
        free=integer("free space for temporary files", "B"),
        leftovers=items("what the agent took back of agents that had died"),
    ),
    "host.lost": event_kind("the link to a host's agent ended", reason=text("why, in words")),
    "clock.offset": event_kind(
        "one host's clock against the orchestrator's: offset and error bound",
        ahead=number("s", "what the host's monotonic clock shows more than `t`"),
        bound=number("s", "the most by which that may be wrong"),
    ),
    "fabric.change": event_kind(
        "cross-connects were removed and added; when commanded, read back, verified",
        circuits=CIRCUITS,
        removed=items("cross-connects that were removed"),
        added=items("cross-connects that were added"),
        disturbed=items("cross-connects that moved although no change asked for it"),
        commanded=number("s", "when the first command was sent, in `t`"),
        read_back=number("s", "when every switch read back as told, in `t`"),
        steady=number("s", "when every switch called its circuits steady, in `t`", nullable=True),
        lit=number("s", "when every power monitor saw the light, in `t`", nullable=True),
    ),
    "fabric.failed": event_kind(
        "a change failed; why, and whether all of it was rolled back",
        circuits=items("the circuits that all owners would have had"),
        reason=text("why, in words"),
        rolled_back=flag("whether all of it was rolled back"),
    ),
    "light.excess": event_kind(
        "a receiver got more light than it withstands, as measured; its circuit goes",
        text=text("how much, in words"),
    ),
    "receiver.destroyed": event_kind(
        "a receiver of the twin got more light than it withstands, and is dark",
        dbm=number("dBm", "the light that it got"),
        max_dbm=number("dBm", "the light that it withstands"),
    ),
    "link.good": event_kind(
        "light and link are back on a circuit and both identities were verified",
        host=text("the host that asked the other end"),
        mono=number("s", "when, on that host's monotonic clock"),
    ),
    "far-end.fault": event_kind(
        "a fault was armed on a simulated instrument",
        fault=text("the kind of fault"),
        scope=mapping("where it strikes: the options of the fault"),
    ),
    "far-end.clear": event_kind(
        "a fault of a simulated instrument was cleared; how often it took effect",
        fault=text("the kind of fault"),
        struck=integer("how often it took effect"),
    ),
}
"""By name."""

STAMP: dict[str, EventField] = {
    "host": text("the host on which it happened"),
    "mono": number("s", "when, on that host's monotonic clock"),
    "rank": integer("the rank that the host has then; null for a spare", nullable=True),
}
"""The fields of whatever a host reports."""
