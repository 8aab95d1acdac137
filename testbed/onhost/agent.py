"""The agent: one process per host that does on the host what the orchestrator asks over SSH.

It reads framed JSON on standard input and writes it on standard output. A request carries `id` and
`do`; its answer carries the same number as `re`, and either `ok` or `error`. What happens on its
own account is sent as `event`. Every stamp called `mono` is this host's monotonic clock.

When standard input closes, or stays silent for longer than the orchestrator promised, the agent
kills its ranks, takes back what it did to the network, and ends.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import selectors
import signal
import sys
import time
from typing import Any, Optional

from .children import Child
from .frames import Decoder, Message, encode
from .identity import IdentityPort
from .ports import CarrierWatch, Network, counters, hardware_address
from .questions import Question

CARRIER_PERIOD = 0.005
QUESTION_PERIOD = 0.001
_UNSENT_LIMIT = 4 << 20


class Agent:
    """Serve one orchestrator until it goes away."""

    def __init__(self, bundle: int) -> None:
        self._bundle = bundle
        self._selector = selectors.DefaultSelector()
        self._decoder = Decoder()
        self._unsent = bytearray()
        self._children: dict[int, Child] = {}
        self._heard: dict[int, float] = {}
        self._limit = 0.0
        self._missed: set[int] = set()
        self._network = Network()
        self._watch: Optional[CarrierWatch] = None
        self._identities: dict[str, IdentityPort] = {}
        self._questions: list[Question] = []
        self._patience = 0.0
        self._last_heard = time.monotonic()
        self._ending = False

    def serve(self) -> int:
        """Work until the orchestrator goes; return 0 when everything was taken back."""
        for descriptor in (0, 1):
            os.set_blocking(descriptor, False)
        self._selector.register(0, selectors.EVENT_READ, self._orchestrator_speaks)
        try:
            while not self._ending:
                for key, _ in self._selector.select(self._wait()):
                    # What came first may have let go of a rank whose lines are ready too.
                    if self._selector.get_map().get(key.fd) is key:
                        key.data()
                self._tick()
        finally:
            left = self._take_everything_back()
        return 1 if left else 0

    # --- talking ---------------------------------------------------------------------------

    def _orchestrator_speaks(self) -> None:
        try:
            data = os.read(0, 1 << 16)
        except BlockingIOError:
            return
        received = time.monotonic()
        self._last_heard = received
        if not data:
            self._ending = True
            return
        for request in self._decoder.feed(data):
            self._answer(request, received)

    def _answer(self, request: Message, received: float) -> None:
        try:
            verb = getattr(self, "do_" + request["do"].replace("-", "_"))
            result = verb(request, received)
        except (OSError, KeyError, ValueError, AttributeError) as error:
            self._say({"re": request["id"], "error": f"{type(error).__name__}: {error}"})
            return
        if result is not None:
            self._say({"re": request["id"], "ok": result})

    def _event(self, event: str, **fields: Any) -> None:
        self._say({"event": event, "mono": time.monotonic(), **fields})

    def _say(self, message: Message) -> None:
        self._unsent += encode(message)
        self._flush()

    def _flush(self) -> None:
        try:
            sent = os.write(1, self._unsent)
            del self._unsent[:sent]
        except BlockingIOError:
            if len(self._unsent) > _UNSENT_LIMIT:
                self._ending = True  # nobody reads any more
        except OSError:
            self._ending = True

    # --- what can be asked -----------------------------------------------------------------

    def do_hello(self, request: Message, _: float) -> dict[str, Any]:
        """Say who this is; from now on silence longer than `patience` ends the agent."""
        self._patience = request["patience"]
        return {
            "hostname": platform.node(),
            "python": platform.python_version(),
            "numpy": _version("numpy"),
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
            "root": os.geteuid() == 0,
            "pid": os.getpid(),
            "hardware": {port: hardware_address(i) for port, i in request["interfaces"].items()},
        }

    def do_alive(self, request: Message, _: float) -> dict[str, Any]:
        """Answer at once: the orchestrator and the host are both there."""
        return {}

    def do_clock(self, request: Message, received: float) -> list[float]:
        """Return when the question came and when the answer left."""
        return [received, time.monotonic()]

    def do_network(self, request: Message, _: float) -> dict[str, Any]:
        """Set up the ports, and answer identity questions on them."""
        ports: dict[str, dict[str, str]] = request["ports"]
        changes = 0
        if request["manage"]:
            changes = self._network.configure(ports, request["peers"])
        for name, spec in ports.items():
            identity = IdentityPort(request["host"], name, spec["interface"], request["token"])
            self._identities[name] = identity
            self._selector.register(identity, selectors.EVENT_READ, identity.arrived)
        self._watch = CarrierWatch({name: spec["interface"] for name, spec in ports.items()})
        self._selector.register(self._watch, selectors.EVENT_READ, self._look_at_carriers)
        self._look_at_carriers()
        numbers = {name: identity.number for name, identity in self._identities.items()}
        return {"changes": changes, "identity": numbers}

    def do_ask_identity(self, request: Message, _: float) -> None:
        """Ask who is at the other end of a port; the answer comes when the question is over."""
        port = self._identities[request["port"]]
        self._questions.append(Question(request, port, time.monotonic()))

    def do_counters(self, request: Message, _: float) -> dict[str, dict[str, int]]:
        """Return the byte counters of interfaces."""
        return {interface: counters(interface) for interface in request["interfaces"]}

    def do_start(self, request: Message, _: float) -> dict[str, Any]:
        """Start a rank's process; it then waits to be configured."""
        slot = request["slot"]
        if slot in self._children:
            raise ValueError(f"slot {slot} has a rank already")
        child = Child(slot, self._bundle, request["env"])
        self._children[slot] = child
        self._selector.register(child.line, selectors.EVENT_READ, lambda: self._hear(child))
        self._selector.register(child.errors, selectors.EVENT_READ, lambda: self._log(child))
        self._selector.register(child.life, selectors.EVENT_READ, lambda: self._bury(child))
        return child.facts()

    def do_tell(self, request: Message, _: float) -> dict[str, Any]:
        """Pass a message on to a rank."""
        message = request["message"]
        child = self._child(request)
        if message["do"] == "configure":
            self._limit = message["heartbeat"]
            self._heard[child.slot] = time.monotonic() + request["grace"]
        child.send(message)
        return {}

    def do_signal(self, request: Message, _: float) -> dict[str, Any]:
        """Send a rank a signal; return between which instants it took effect, and its state."""
        child = self._child(request)
        number = signal.Signals["SIG" + request["signal"]]
        before = time.monotonic()
        child.signal(number)
        state = child.state_after(number)
        return {"mono": [before, time.monotonic()], "state": state, "pid": child.pid}

    def do_end(self, request: Message, _: float) -> dict[str, Any]:
        """Kill a rank and prove that it is gone; one that never ran here is gone too."""
        child = self._children.pop(request["slot"], None)
        return {"gone": child is None or self._let_go(child)}

    def do_bye(self, request: Message, _: float) -> dict[str, Any]:
        """Take everything back and end."""
        left = self._take_everything_back()
        self._ending = True
        return {"left": left}

    # --- what happens on its own account ---------------------------------------------------

    def _look_at_carriers(self) -> None:
        if self._watch:
            for port, up in self._watch.changes():
                self._event("carrier", port=port, up=up)

    def _hear(self, child: Child) -> None:
        for message in child.messages():
            if message["event"] == "ready":
                self._heard.pop(child.slot, None)  # its start is over, and so is its grace
            self._heard[child.slot] = max(time.monotonic(), self._heard.get(child.slot, 0.0))
            if message["event"] != "alive":
                self._say({"event": "rank", "slot": child.slot, "said": message})

    def _log(self, child: Child) -> None:
        for line in child.complaints():
            self._event("log", slot=child.slot, line=line)

    def _bury(self, child: Child) -> None:
        ended = time.monotonic()
        self._hear(child)
        self._log(child)
        self._children.pop(child.slot, None)
        code = child.ended()
        self._let_go(child)
        self._say({"event": "exit", "mono": ended, "slot": child.slot, "code": code})

    def _wait(self) -> float:
        """Return how long to wait for input before something is due."""
        if self._questions:
            return QUESTION_PERIOD
        return CARRIER_PERIOD if self._watch else 0.05

    def _tick(self) -> None:
        if self._unsent:
            self._flush()
        self._look_at_carriers()
        self._check_heartbeats()
        self._questions = [q for q in self._questions if not self._over(q)]
        silence = time.monotonic() - self._last_heard
        if self._patience and silence > self._patience:
            self._ending = True

    def _check_heartbeats(self) -> None:
        for slot, heard in self._heard.items():
            silence = time.monotonic() - heard
            if silence <= self._limit:
                self._missed.discard(slot)
            elif slot in self._children and slot not in self._missed:
                self._missed.add(slot)
                self._event("heartbeat-missed", slot=slot, silence=silence)

    def _over(self, question: Question) -> bool:
        result = question.work(time.monotonic())
        if result is not None:
            self._say({"re": question.request["id"], "ok": result})
        return result is not None

    # --- the end ---------------------------------------------------------------------------

    def _child(self, request: Message) -> Child:
        if request["slot"] not in self._children:
            raise ValueError(f"no rank runs in slot {request['slot']}")
        return self._children[request["slot"]]

    def _let_go(self, child: Child) -> bool:
        for descriptor in (child.line, child.errors, child.life):
            self._selector.unregister(descriptor)
        self._heard.pop(child.slot, None)
        self._missed.discard(child.slot)
        return child.end()

    def _take_everything_back(self) -> list[str]:
        """Kill the ranks and undo the network; return what is left."""
        left = [
            f"the rank in slot {s} survived"
            for s, c in self._children.items()
            if not self._let_go(c)
        ]
        self._children.clear()
        if self._watch:
            self._selector.unregister(self._watch)
            self._watch.close()
            self._watch = None
        for identity in self._identities.values():
            self._selector.unregister(identity)
            identity.close()
        self._identities.clear()
        self._questions.clear()
        try:
            self._network.undo()
        except OSError as error:
            left.append(str(error))
        return left


def _version(package: str) -> str:
    """Return a package's version, or an empty string when it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def main(bundle: int) -> int:
    """Be the agent; `bundle` is the descriptor of the archive that this code came from."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # only the end of the line ends us …
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # … or of the host, in good order
    return Agent(bundle).serve()
