"""One rank of a job: it executes its agent's commands, connects to its peers, runs the job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from typing import Any, Protocol, Union

from ..communication.circuits import CHANGES, CircuitGroup, FabricPorts
from ..communication.connections import NEXT, PREVIOUS, PeerConnections
from ..communication.control import Control
from ..communication.group import Group
from ..communication.handshake import connect_neighbours, connect_peers
from ..communication.matchings import Matchings
from ..communication.mesh import Groups, MeshGroups, path
from ..communication.probe import LinkProbe, probe_pairs, probe_ring
from ..communication.rail_paths import RailPorts
from ..communication.rails import RailMesh
from ..communication.rank_identity import RankIdentity
from ..communication.ring import Ring
from ..communication.sockets import LOOPBACK, Port, listen
from ..communication.time_slots import SlotGroup
from ..communication.two_rings import TwoRings
from ..errors import Corrupt, Left, PeerLost, ProtocolError, Refused
from ..frames import Message
from .checkpoints import Checkpoints
from .replicas import restore_from_replicas
from .state import State

Communicator = Union[Ring, Group, CircuitGroup, MeshGroups]

WITH_NEIGHBOURS = (Ring, Group)
"""Those in which a rank hands its state on to the next one."""

DISK = "disk"
"""In place of the rank that a state is taken from: the checkpoint of the rank itself."""


class Job(Protocol):
    """The interface of jobs on hosts; module `<kind>` of this package has its own class `Job`.

    A kind with a dot is a module of a package that was sent along, as `acme_onhost.pi`.
    """

    state: State
    loss: float | None
    connects_to: str
    """The ranks that each rank connects to: its `neighbours` in a ring, these as `neighbours both
    ways`, between which schedules forward data, or `everybody`.

    Where its options name `circuits`, those that the circuits lead to, and where they name
    `groups`, those that are in one with it."""

    def warm_up(self, raise_if_left: Callable[[], None]) -> None:
        """Make the first step as fast as later ones; an error of `raise_if_left` ends it."""

    def run(self, communicator: Any, control: Control) -> None:
        """Run from the state's next step on, in a ring or group; return at the end of the job."""


class Member:
    """Executes the agent's commands, one after the other, in the process's main thread."""

    def __init__(self, control: Control, configuration: Message) -> None:
        self._control = control
        self._rank: int | None = configuration["rank"]
        self._token: str = configuration["token"]
        self._to_next = _port(configuration["to_next"])
        job, ranks, seed = configuration["job"], configuration["ranks"], configuration["seed"]
        kind = job["kind"]
        module = import_module(kind if "." in kind else f".{kind}", __package__)
        self._job: Job = module.Job(job["options"], seed, ranks)
        self._checkpoints: Checkpoints | None = None
        if "checkpoint" in job:
            self._checkpoints = Checkpoints(configuration, self._job.state, control)
            self._job.state.on_commit = self._checkpoints.offer
        self._from_previous = _port(configuration["from_previous"])
        self._listener = listen(self._from_previous)
        self._circuits: Mapping[str, Any] | None = job["options"].get("circuits")
        self._two_rings = job["options"].get("rings", 1) == 2
        needs_both = self._circuits is not None or self._two_rings
        self._second = listen(self._to_next) if needs_both else None
        self._groups: Groups | None = job["options"].get("groups")
        self._matchings: Matchings = job["options"].get("matchings") or {}
        self._has_fabric = configuration["to_next"] is not None
        own = [_port(port) for port in configuration.get("own") or ()]
        beside = [[_port(port) for port in each] for each in configuration.get("beside") or ()]
        each = [RailPorts(ports, [listen(port) for port in ports]) for ports in beside]
        self._rail_ports = RailPorts(own, [listen(port) for port in own], each) if own else None
        # Other ranks of the host reach this one there; without a fabric port nobody else can.
        self._local = listen(LOOPBACK) if self._has_fabric else self._listener
        self._communicator: Communicator | None = None
        self._is_running = False

    def serve(self) -> None:
        """Announce the listening sockets, warm up, and execute commands until `exit`."""
        address, port = self._listener.getsockname()
        state_bytes = len(self._job.state.outgoing())
        others = {"second": self._second, "local": self._local}
        more: dict[str, Any] = {
            k: one.getsockname() for k, one in others.items() if one is not None
        }
        if self._rail_ports is not None:
            more["own"] = [one.getsockname() for one in self._rail_ports.listeners]
            more["beside"] = [
                [one.getsockname() for one in each.listeners] for each in self._rail_ports.beside
            ]
        self._control.emit("ready", address=address, port=port, state_bytes=state_bytes, **more)
        with suppress(Left):
            self._job.warm_up(self._until_commanded)
        while True:
            command = self._control.next()
            verb = command["do"]
            if verb == "exit":
                return
            if verb == "join":
                self._join(command)
            elif verb == "leave":
                self._leave(command["generation"])
            elif verb == "checkpoints":
                self._report_checkpoints(command["rank"])
            else:
                self._refuse(verb, "the rank knows no such command")

    def _report_checkpoints(self, rank: int) -> None:
        if self._checkpoints is None:
            self._refuse("checkpoints", "the job writes no checkpoints")
            return
        try:
            self._checkpoints.report(rank)
        except Refused as error:
            self._refuse("checkpoints", str(error))

    def _refuse(self, verb: str, why: str) -> None:
        self._control.emit("refused", do=verb, why=why)

    def _until_commanded(self) -> None:
        if self._control.has_command:
            raise Left

    def _leave(self, generation: int) -> None:
        self._disconnect()
        committed, started = self._job.state.step, self._is_running
        self._is_running = False
        self._control.emit("left", generation=generation, committed=committed, started=started)

    def _join(self, command: Message) -> None:
        """Take part in a generation until the job ends, the generation breaks or is left."""
        generation = command["generation"]
        self._disconnect()
        try:
            communicator = self._communicator = self._connect(command)
            self._control.emit("generation", generation=generation)
            self._restore(communicator, command["step"], command["restore"])
            if command["probe"]:
                self._control.emit("probe", generation=generation, **_probe(communicator))
            if command.get("held"):
                self._control.await_begin(generation)
            self._is_running = True
            self._job.run(communicator, self._control)
        except Left:
            return  # the order to leave is the next command
        except PeerLost as lost:
            self._control.emit(
                "peer-lost", generation=generation, neighbour=lost.neighbour, error=lost.error
            )
        except (Corrupt, ProtocolError) as error:
            step = self._job.state.step
            self._control.emit("corrupt", generation=generation, step=step, why=str(error))
        except Refused as error:
            self._control.emit("refused", do="join", generation=generation, why=str(error))
        else:
            self._report_end(generation)

    def _connect(self, command: Message) -> Communicator:
        rank: int | None = command.get("rank", self._rank)  # a spare learns its rank only now
        members = {member["rank"]: member for member in command["members"]}
        if rank is None or sorted(members | {rank: None}) != list(range(len(members))):
            raise Refused(
                f"members {sorted(members)} are not ranks 0, 1, … that include rank {rank}"
            )
        identity = RankIdentity(self._token, command["generation"], rank, len(members))
        leave = self._control.leave
        if self._circuits is not None and self._second is not None:
            ports = FabricPorts(
                (self._from_previous, self._to_next), (self._listener, self._second)
            )
            group = SlotGroup if "guard" in self._circuits else CircuitGroup
            return group.connect(ports, members, identity, self._circuits, self._control)
        listeners = tuple({self._listener, self._local})
        port = self._to_next if self._has_fabric else None
        if self._groups is not None and self._rail_ports is not None:
            own, local, about = self._rail_ports, self._local, (self._groups, self._control)
            return RailMesh.connect_on_rails(own, local, members, identity, *about, self._matchings)
        if self._groups is not None:
            return MeshGroups.connect(listeners, port, members, identity, self._groups, leave)
        if self._job.connects_to == "everybody":
            paths = {r: path(rank, r, port, members) for r in members if r != rank}
            sockets = connect_peers(listeners, paths, identity, leave)
            return Group(rank, identity.ranks, PeerConnections(sockets, identity.generation, leave))
        to_next = path(rank, identity.next, port, members)
        if self._two_rings and self._second is not None and identity.ranks > 1:
            to_previous = self._from_previous, tuple(members[identity.previous]["second"])
            return TwoRings.connect(listeners, self._second, to_next, to_previous, identity, leave)
        pair = connect_neighbours(listeners, to_next, identity, leave)
        if self._job.connects_to == "neighbours both ways":
            named = {identity.next: pair[NEXT], identity.previous: pair[PREVIOUS]}
            connections = PeerConnections(named, identity.generation, leave)
            return Group(rank, identity.ranks, connections, around=True, shared=False)
        return Ring(rank, identity.ranks, PeerConnections(pair, identity.generation, leave))

    def _restore(
        self, ring: Communicator, step: int, restore: Mapping[str, Union[int, str]]
    ) -> None:
        """Come to the state before `step`: by stepping back, from disk or from another rank.

        In a ring only the previous rank can be that, for it has no other link to a new one; on
        rails it is one of a group. It sends its state when it has come to the step itself.
        """
        begin = time.monotonic()
        state, size = self._job.state, 0
        source, previous = restore.get(str(ring.rank)), (ring.rank - 1) % ring.ranks
        received_by = [rank for rank, sender in restore.items() if sender != DISK]
        if isinstance(ring, RailMesh) and DISK not in restore.values():
            size = restore_from_replicas(ring, state, step, restore)
        elif source is None:
            state.rewind(step)
        elif source == DISK and self._checkpoints is not None:
            size = self._checkpoints.restore(ring.rank, step)
        elif isinstance(ring, WITH_NEIGHBOURS) and (
            source == previous and len(received_by) < ring.ranks
        ):
            received = state.incoming()
            size = len(received)
            ring.receive_state(received)
            state.adopt(step)
        else:
            place = DISK if source == DISK else f"rank {source}"
            raise Refused(f"rank {ring.rank} cannot be restored from {place}")
        end = time.monotonic()
        self._control.emit(
            "restored", end, generation=ring.generation, step=step, bytes=size, seconds=end - begin
        )
        if isinstance(ring, WITH_NEIGHBOURS) and str((ring.rank + 1) % ring.ranks) in received_by:
            ring.send_state(state.outgoing())
        if self._checkpoints is not None:
            self._checkpoints.begin(ring.rank, ring.generation)

    def _report_end(self, generation: int) -> None:
        self._is_running = False
        state = self._job.state
        part = {} if state.part is None else {"part": state.part}
        self._control.emit(
            "done",
            time.monotonic(),
            generation=generation,
            step=state.step,
            digest=state.sha256(),
            loss=self._job.loss,
            **part,
        )

    def _disconnect(self) -> None:
        if self._communicator is not None:
            self._communicator.close()
            self._communicator = None


def _port(told: Mapping[str, Any] | None) -> Port:
    """Return the fabric port that was told, or loopback for a rank that has none."""
    return LOOPBACK if told is None else Port(**told)


def _probe(communicator: Communicator) -> dict[str, Any]:
    """Measure the links, and how long circuits take to change where they will be changed.

    In a mesh the slowest is reported, and those along each dimension beside it. The send buffers of
    a group are sized by what was found. On circuits they need not be: on each there are two ranks
    only, and one that runs ahead takes nothing from any other circuit.
    """
    if isinstance(communicator, Ring):
        return asdict(probe_ring(communicator))
    if isinstance(communicator, CircuitGroup):
        changes = communicator.time_changes(CHANGES)
        found = probe_pairs(communicator.ring)
        if isinstance(communicator, SlotGroup):
            communicator.expect_rate(found.long_bytes / found.long_seconds)
        return {**asdict(found), "changes": changes}
    if isinstance(communicator, Group):
        return asdict(_probe_group(communicator))
    dimensions = {}
    for name, group in communicator.by_dimension.items():
        if group.ranks > 1 or communicator.ranks == 1:
            dimensions[name] = _slowest(map(_probe_group, communicator.links(name)))
    slowest = _slowest(dimensions.values())
    along = {name: asdict(probe) for name, probe in dimensions.items()}
    return {**asdict(slowest), "dimensions": along}


def _slowest(probes: Iterable[LinkProbe]) -> LinkProbe:
    return max(probes, key=lambda probe: probe.long_seconds / probe.long_bytes)


def _probe_group(group: Group) -> LinkProbe:
    found = probe_pairs(group)
    group.connections.size_buffers(found.long_bytes / found.long_seconds)
    return found
