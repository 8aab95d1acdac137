"""One host of the lab with a running agent, and the requests to the agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any

from testbed.bench import ssh
from testbed.bench.bundle import agent_command, bundle
from testbed.bench.clocks import Offset, watch_offset
from testbed.bench.link import AgentLink, Answer, Listener
from testbed.clock import Deadline
from testbed.errors import EXIT_UNSAFE, HostError
from testbed.schema import Host

PATIENCE = 10.0
"""Seconds of silence after which agent and orchestrator drop their link; the agent then undoes its
changes."""

_OLDEST_PYTHON = (3, 9)


@dataclass(frozen=True, slots=True)
class SignalTimes:
    """When a signal was sent to a rank, on the host's clock, and the process state afterwards."""

    sent: float
    done: float
    state: str


class ChangesLeftOnHost(HostError):
    """Changes that a dead agent left on a host and that the next agent could not undo."""

    exit_code = EXIT_UNSAFE


class BenchHost:
    """A host whose agent answers. Calls block until their deadline at most."""

    def __init__(
        self, name: str, spec: Host, listener: Listener, deadline: Deadline, run: str = ""
    ) -> None:
        """Start the agent over SSH and check that the host can take part.

        For a `run` the agent first undoes what dead agents of any run left on the host. Without
        one it changes nothing.
        """
        self.name = name
        self.spec = spec
        channel = ssh.run(name, spec.ssh, agent_command(spec.python), deadline)
        try:
            channel.send(bundle())
        except HostError as error:
            said = channel.complaint().splitlines()[-1:] or [str(error.args[0])]
            channel.close()
            hint = f"check that `{spec.python}` runs on that host"
            raise HostError(name, f"its agent did not start: {said[0]}", hint=hint) from error
        self.link = AgentLink(name, channel, listener)
        try:
            self.facts = self._greet(run, deadline)
        except HostError:
            self.link.close()
            raise
        self.link.keep_alive(PATIENCE)
        self.identity_ports: Mapping[str, int] = {}

    def _greet(self, run: str, deadline: Deadline) -> Mapping[str, Any]:
        """Return the agent's facts about itself and the host; `leftovers` are of dead agents.

        Raise HostError where the host cannot take part.
        """
        interfaces = {name: port.interface for name, port in self.spec.ports.items()}
        about = {"run": run, "host": self.name, "patience": PATIENCE, "interfaces": interfaces}
        facts: Mapping[str, Any] = self.link.ask("hello", deadline, **about).value
        version = tuple(int(part) for part in facts["python"].split(".")[:2])
        if version < _OLDEST_PYTHON:
            raise HostError(
                self.name,
                f"its {self.spec.python} is Python {facts['python']}, older than 3.9",
                hint="name a newer one as `python:` in the lab file",
            )
        if not facts["numpy"]:
            raise HostError(
                self.name,
                f"its {self.spec.python} has no NumPy",
                hint="install it there, or name another `python:` in the lab file",
            )
        if left := [words for found in facts["leftovers"] for words in found["left"]]:
            raise ChangesLeftOnHost(
                self.name,
                f"changes of an agent that died could not be undone: {', '.join(left)}",
                hint="undo it by hand on that host",
            )
        return facts

    def hardware_addresses(self) -> dict[str, str]:
        """Return the hardware address of each fabric port, by the port's IP address."""
        hardware: dict[str, str] = self.facts["hardware"]
        return {str(port.address.ip): hardware[name] for name, port in self.spec.ports.items()}

    @property
    def all_hardware(self) -> set[str]:
        """Return the hardware addresses of the host's fabric ports and of all its network cards."""
        return {*self.facts["hardware"].values(), *self.facts["cards"]}

    def set_up_network(self, peers: Mapping[str, str], token: str, deadline: Deadline) -> int:
        """Set the addresses of the fabric ports and routes to every peer; return the changes.

        `peers` are other hosts' addresses with the hardware address of each.
        """
        ports = {
            name: {"interface": port.interface, "address": str(port.address)}
            for name, port in self.spec.ports.items()
        }
        answer = self.link.ask(
            "network",
            deadline,
            host=self.name,
            ports=ports,
            peers=dict(peers),
            token=token,
            manage=self.spec.network == "managed",
            sudo=self.spec.privilege == "sudo",
        ).value
        self.identity_ports = answer["identity"]
        changes: int = answer["changes"]
        return changes

    def why_sudo_fails(self, deadline: Deadline) -> str:
        """Return why `sudo -n` would not set addresses and routes; empty where it would."""
        why: str = self.link.ask("try-sudo", deadline).value["why"]
        return why

    def watch_clock(self, callback: Callable[[Offset], None]) -> None:
        """Measure the host's clock periodically while its agent answers, in a thread."""
        Thread(
            target=watch_offset, args=(self.link, callback), name=f"clock {self.name}", daemon=True
        ).start()

    def ask_identity(
        self,
        port: str,
        peer: BenchHost,
        peer_port: str,
        *,
        limit: float,
        count: int = 1_000_000,
        interval: float = 0.001,
        first: bool = True,
        direct: bool = False,
    ) -> Future[Answer]:
        """Query the identity of a fabric port's peer over the fibre, for `limit` seconds at most.

        On a packet switch, which reaches all ports, ask `direct`: the peer's own address.
        The answer holds `good` (the expected port answered, and no other), `asked`, `answered`,
        `seen` and `mono`, the instant on this host's clock.
        """
        return self.link.post(
            "ask-identity",
            port=port,
            peer=peer.identity_ports[peer_port],
            expect=[peer.name, peer_port],
            limit=limit,
            count=count,
            interval=interval,
            first=first,
            address=str(peer.spec.ports[peer_port].address.ip) if direct else "",
        )

    def send_beacons(self, peers: Iterable[BenchHost], mark: int) -> Future[Answer]:
        """Send beacons, datagrams with a mark, from each fabric port to those of other hosts.

        The answer maps each port of this host to the `[host, port]` whose beacons with the same
        mark it has received so far. A beacon needs no answer, so light that goes one way only is
        seen, too.
        """
        numbers = [number for peer in peers for number in peer.identity_ports.values()]
        return self.link.post("beacons", numbers=numbers, mark=mark)

    def start_rank(self, slot: int, deadline: Deadline) -> int:
        """Start a rank's process in a slot of this host and return its process id."""
        environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment |= self.spec.revealed_environment()
        pid: int = self.link.ask("start", deadline, slot=slot, env=environment).value["pid"]
        return pid

    def send_to_rank(self, slot: int, message: Mapping[str, Any], grace: float = 0.0) -> None:
        """Send a message to a rank through the agent, which does not say that it has.

        A starting rank may be silent for `grace` seconds longer, until it reports that it is ready.
        """
        self.link.notify("tell", slot=slot, message=dict(message), grace=grace)

    def signal_rank(
        self, slot: int, name: str, deadline: Deadline, watched: str = ""
    ) -> SignalTimes:
        """Send a rank a signal (`KILL`, `STOP`, `CONT`).

        With `watched`, a separate process on the host watches the rank's process for any of these
        states, letters of /proc (X for one that is gone); `witness` returns what it saw.
        """
        told = {"slot": slot, "signal": name, "watched": watched}
        answer = self.link.ask("signal", deadline, **told).value
        sent, done = answer["mono"]
        return SignalTimes(sent, done, answer["state"])

    def witness(self, slot: int, deadline: Deadline) -> tuple[float, str]:
        """Return when, by the host's clock, the watching process saw which state.

        Raise HostError when it has seen none of the states that it watches for.
        """
        seen = self.link.ask("witness", deadline, slot=slot).value
        return seen["mono"], seen["state"]

    def delay_rank(self, slot: int, seconds: float, deadline: Deadline) -> tuple[float, float]:
        """Make a rank sleep before every collective, and wait until it confirms.

        Return between which instants of the host's clock the delay took effect.
        """
        begin, end = self.link.ask("straggle", deadline, slot=slot, seconds=seconds).value["mono"]
        return begin, end

    def slow_rank(
        self, slot: int, share: float, period: float, deadline: Deadline, *, quota: bool = False
    ) -> None:
        """Limit a rank to a `share` of CPU time in cycles of `period` seconds; 1 removes the limit.

        Raise HostError where the host permits no CPU quota.
        """
        self.link.ask("slow", deadline, slot=slot, share=share, period=period, quota=quota)

    def end_rank(self, slot: int, deadline: Deadline) -> None:
        """Kill a rank and check that its process is gone; raise HostError when it is not."""
        if not self.link.ask("end", deadline, slot=slot).value["gone"]:
            raise HostError(
                self.name,
                f"the rank in slot {slot} survived SIGKILL",
                hint="log in to the host and check why that process does not end",
            )

    def end_ranks(self, deadline: Deadline) -> None:
        """Kill all ranks and check that they are gone; raise HostError when one is not."""
        if not self.link.ask("end", deadline).value["gone"]:
            raise HostError(
                self.name,
                "one of its ranks survived SIGKILL",
                hint="log in to the host and check which process does not end, and why",
            )

    def clean_up(self, deadline: Deadline) -> None:
        """Have the agent undo its changes and exit; raise HostError with those that remain."""
        try:
            left = self.link.ask("bye", deadline).value["left"]
        finally:
            self.link.close()
        if left:
            raise HostError(self.name, f"changes of this run remain there: {', '.join(left)}")
