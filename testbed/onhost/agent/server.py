"""The agent: one process per host that carries out the orchestrator's requests over SSH.

It reads framed JSON on standard input and writes it on standard output. A request carries `id` and
`do`; its answer carries the same number as `re`, and either `ok` or `error`; where `id` is null, no
answer is wanted. Anything else is sent as `event`. What one turn of the loop has to send leaves in
one piece: each piece wakes several threads of the orchestrator. Every stamp called `mono` is of
this host's monotonic clock. When standard input closes, or no request comes for the time that the
orchestrator set, the agent kills its ranks, undoes its network changes, and ends. If it is killed,
the next agent on this host undoes its changes (journal.py).
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from typing import Any, Optional

from ..frames import Decoder, Message, encode
from . import network
from .host_facts import host_facts
from .identity import IdentityPort
from .identity_query import IdentityQuery
from .journal import HostJournal
from .ports import CarrierWatch
from .ranks import Ranks
from .undo import undo_journal, undo_orphaned_journals

CARRIER_PERIOD = 0.005
WATCHED_PERIOD = 0.001
"""Seconds between looks at carriers while a question waits for one."""
IDLE_PERIOD = 0.05
_UNSENT_LIMIT = 4 << 20


class Agent:
    """Serves one orchestrator until the connection ends."""

    def __init__(self, bundle: int) -> None:
        self._bundle = bundle
        self._selector = selectors.DefaultSelector()
        self._decoder = Decoder()
        self._unsent = bytearray()
        self._started: Optional[Ranks] = None
        """The ranks of the run that it serves; None where it may only look."""
        self._watch: Optional[CarrierWatch] = None
        self._identities: dict[str, IdentityPort] = {}
        self._questions: list[IdentityQuery] = []
        self._silence_limit = 0.0
        self._last_request = time.monotonic()
        self._ending = False

    def serve(self) -> int:
        """Serve until the orchestrator disconnects; return 0 when everything was undone."""
        for descriptor in (0, 1):
            os.set_blocking(descriptor, False)
        self._selector.register(0, selectors.EVENT_READ, self._read_requests)
        try:
            while not self._ending:
                for key, _ in self._selector.select(self._wait()):
                    # What came first may have let go of a rank whose lines are ready too.
                    if self._selector.get_map().get(key.fd) is key:
                        key.data()
                self._tick()
        finally:
            left = self._undo_all()
        return 1 if left else 0

    # --- requests and answers --------------------------------------------------------------

    def _read_requests(self) -> None:
        try:
            data = os.read(0, 1 << 16)
        except BlockingIOError:
            return
        self._last_request = time.monotonic()
        if not data:
            self._ending = True
            return
        for request in self._decoder.feed(data):
            self._answer(request)

    def _answer(self, request: Message) -> None:
        number, answer = request["id"], {}
        try:
            result = getattr(self, "do_" + request["do"].replace("-", "_"))(request)
        except (OSError, KeyError, ValueError, AttributeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        else:
            if result is not None:
                answer = {"ok": result}
        if answer and number is not None:
            self._send({"re": number, **answer})

    def _send_event(self, event: str, **fields: Any) -> None:
        self._send({"event": event, "mono": time.monotonic(), **fields})

    def _send(self, message: Message) -> None:
        self._unsent += encode(message)

    def _flush(self) -> None:
        if not self._unsent:
            return
        try:
            sent = os.write(1, self._unsent)
            del self._unsent[:sent]
        except BlockingIOError:
            if len(self._unsent) > _UNSENT_LIMIT:
                self._ending = True  # the orchestrator does not read any more
        except OSError:
            self._ending = True

    # --- the requests ----------------------------------------------------------------------

    def do_hello(self, request: Message) -> dict[str, Any]:
        """Return facts of this host; from now on, `patience` seconds of silence end the agent.

        For a `run` it first undoes the changes of dead agents; without a run it is read-only.
        """
        signal.alarm(0)
        self._silence_limit = request["patience"]
        found = undo_orphaned_journals(request["run"], request["host"])
        kept = [entry for one in found for entry in one.pop("kept")]
        if request["run"]:
            journal = HostJournal(request["run"], request["host"])
            try:
                for entry in kept:
                    journal.record(**entry)
                self._started = Ranks(self._bundle, self._selector, journal, self._send)
            except OSError:
                journal.close()  # it holds no entry, so its file goes too
                raise
        return {**host_facts(request["interfaces"]), "leftovers": found}

    def do_alive(self, request: Message) -> dict[str, Any]:
        """Answer at once, to show that the host is reachable."""
        return {}

    def do_clock(self, request: Message) -> list[float]:
        """Return when the request arrived and when the answer left."""
        return [self._last_request, time.monotonic()]

    def do_try_sudo(self, request: Message) -> dict[str, Any]:
        """Return why `sudo -n` would not set up the fabric ports; nothing is changed."""
        return {"why": network.why_sudo_fails()}

    def do_network(self, request: Message) -> dict[str, Any]:
        """Set up the fabric ports, and answer identity queries on them."""
        ports: dict[str, dict[str, str]] = request["ports"]
        changes = 0
        if request["manage"]:
            changes = self._set_up(ports, request["peers"], sudo=request["sudo"])
            self._ranks.routes.sudo = request["sudo"]
        for name, spec in ports.items():
            identity = IdentityPort(request["host"], name, spec["interface"], request["token"])
            self._identities[name] = identity
            self._selector.register(identity, selectors.EVENT_READ, identity.read_datagrams)
        self._watch = CarrierWatch({name: spec["interface"] for name, spec in ports.items()})
        self._selector.register(self._watch, selectors.EVENT_READ, self._look_at_carriers)
        self._look_at_carriers()
        numbers = {name: identity.number for name, identity in self._identities.items()}
        return {"changes": changes, "identity": numbers}

    def do_ask_identity(self, request: Message) -> None:
        """Query the identity of a port's peer; the answer is sent when the query is over."""
        port = self._identities[request["port"]]
        self._questions.append(IdentityQuery(request, port, time.monotonic()))

    def do_beacons(self, request: Message) -> dict[str, list[tuple[str, str]]]:
        """Send beacons from each port to the UDP ports `numbers`; return by port those received."""
        mark = request["mark"]
        for port in self._identities.values():
            for number in request["numbers"]:
                port.send_beacon(number, mark)
        return {name: port.beacons(mark) for name, port in self._identities.items()}

    def do_start(self, request: Message) -> dict[str, Any]:
        """Start a rank's process, which then waits for its configuration."""
        return self._ranks.start(request["slot"], request["env"])

    def do_tell(self, request: Message) -> dict[str, Any]:
        """Forward a message to a rank."""
        self._ranks.send(request["slot"], request["message"], request["grace"])
        return {}

    def do_signal(self, request: Message) -> dict[str, Any]:
        """Send a rank a signal; return the interval in which it took effect, and the state.

        With `watched`, an observer process waits for any of these states, starting before the
        signal.
        """
        return self._ranks.signal(request["slot"], request["signal"], request.get("watched", ""))

    def do_witness(self, request: Message) -> None:
        """Return the report of the observer process; the answer is sent once there is one."""
        self._ranks.observers.ask(request["slot"], request["id"])

    def do_straggle(self, request: Message) -> None:
        """Delay a rank before collectives; the answer is sent once the rank confirms."""
        self._ranks.delay(request["slot"], request["seconds"], request["id"])

    def do_slow(self, request: Message) -> dict[str, Any]:
        """Limit a rank to part of the CPU time."""
        slot, quota = request["slot"], request["quota"]
        self._ranks.slow(slot, request["share"], request["period"], quota=quota)
        return {}

    def do_end(self, request: Message) -> dict[str, Any]:
        """Kill the rank in a slot, or all without one; verify it, also if none ever ran here."""
        if "slot" in request:
            return {"gone": self._ranks.end(request["slot"])}
        return {"gone": not self._ranks.end_all()}

    def do_bye(self, request: Message) -> dict[str, Any]:
        """Undo all changes and exit."""
        left = self._undo_all(is_told=True)
        self._ending = True
        return {"left": left}

    def _set_up(
        self, ports: dict[str, dict[str, str]], peers: dict[str, str], *, sudo: bool
    ) -> int:
        """Give the ports what they lack, the undo recorded first; return the number of changes."""
        changes = network.missing(ports, peers)
        if changes:
            self._ranks.journal.record("network", changes=changes, sudo=sudo)
            network.make(changes, sudo=sudo)
        return len(changes)

    @property
    def _ranks(self) -> Ranks:
        if self._started is None:
            raise ValueError("this agent was started read-only and may not change the host")
        return self._started

    # --- events ----------------------------------------------------------------------------

    def _look_at_carriers(self) -> None:
        if self._watch:
            for port, up in self._watch.changes():
                self._send_event("carrier", port=port, up=up)

    def _wait(self) -> float:
        """Return how long to wait for input before something is due."""
        now = time.monotonic()
        due = [self._started.due_within(now) if self._started else IDLE_PERIOD]
        if self._unsent or self._has_to_look_at_carriers:
            due.append(WATCHED_PERIOD if self._questions else CARRIER_PERIOD)
        due += [q.due_within(now, has_carrier=self._has_carrier(q)) for q in self._questions]
        return min(due)

    def _tick(self) -> None:
        if self._has_to_look_at_carriers:
            self._look_at_carriers()
        if self._started:
            self._started.check_heartbeats()
            self._started.work(time.monotonic())
        self._questions = [q for q in self._questions if not self._over(q)]
        silence = time.monotonic() - self._last_request
        if self._silence_limit and silence > self._silence_limit:
            self._ending = True
        self._flush()

    @property
    def _has_to_look_at_carriers(self) -> bool:
        """Tell whether a port may change unnoticed; of others a message wakes the agent."""
        return self._watch is not None and not self._watch.told_at_once

    def _has_carrier(self, question: IdentityQuery) -> bool:
        return self._watch is not None and self._watch.is_up(question.port.port)

    def _over(self, question: IdentityQuery) -> bool:
        result = question.work(time.monotonic(), has_carrier=self._has_carrier(question))
        if result is not None:
            self._send({"re": question.request["id"], "ok": result})
        return result is not None

    # --- the end ---------------------------------------------------------------------------

    def _undo_all(self, *, is_told: bool = False) -> list[str]:
        """Kill the ranks and undo what the journal holds; return what is left.

        What other hosts may go on with is kept, unless the orchestrator has told the agent to end.
        """
        left = self._started.end_all() if self._started else []
        if self._watch:
            self._selector.unregister(self._watch)
            self._watch.close()
            self._watch = None
        for identity in self._identities.values():
            self._selector.unregister(identity)
            identity.close()
        self._identities.clear()
        self._questions.clear()
        if self._started:
            left += undo_journal(self._started.journal, is_told=is_told)
            self._started.journal.close()
            self._started = None
        return left


def main(bundle: int) -> int:
    """Run the agent; `bundle` is the file descriptor of the archive with this code."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # only the end of the line ends us …
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # … or of the host, in good order
    return Agent(bundle).serve()
