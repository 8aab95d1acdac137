"""`testbed opus --lab` and `--twin`: words of the Opus artifact move the rails of a lab."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from testbed.bench.addresses import of_machine
from testbed.bench.permission import Guard
from testbed.cli.exit_on_signal import record_signals
from testbed.cli.lease_stores import leases_of
from testbed.cli.opus_lines import OpusLines, moved
from testbed.cli.opus_nodes import host_at
from testbed.cli.record import close_check, open_check
from testbed.cli.twins import with_settle_of_twin
from testbed.errors import EXIT_PASSED, BusyError, LabError, TestbedError, UnsafeError, UsageError
from testbed.opus.circuit_rails import CircuitRails
from testbed.opus.controller_side import ControllerSide
from testbed.opus.rail_actions import CircuitActions
from testbed.opus.server import ControllerServer, WorkerServer
from testbed.opus.word_circuits import WordCircuits
from testbed.record.rundir import point_latest
from testbed.run.inbox import Inbox, Interrupted
from testbed.run.opus_layout import rail_layout
from testbed.run.opus_rails import PROTOCOL, LabRails, RailService, Served, serve_rails
from testbed.run.run_leases import RunLeases
from testbed.schema import Lab
from testbed.secret import masked
from testbed.units import counted


class OpusOnLab:
    """The rails of a lab for programs of others, for `end` seconds."""

    def __init__(
        self,
        lab: Lab,
        hosts: list[str],
        rails: int | None,
        delay: float,
        end: float,
        *,
        json: bool,
    ) -> None:
        Guard(lab).control(PROTOCOL)
        lab = with_settle_of_twin(lab)
        self._service = RailService(lab, rail_layout(lab, hosts, rails), delay, end)
        self._json = json

    def serve_shims(
        self, address: tuple[str, int], nodes: list[str], results: Path, overrides: list[str]
    ) -> int:
        """Answer shims at an address; `nodes` are where ranks connect from, by host."""
        layout, lab = self._service.layout, self._service.lab
        if nodes and len(nodes) != len(layout.hosts):
            raise UsageError(
                f"--nodes names {counted(len(nodes), 'address')} for "
                f"{counted(len(layout.hosts), 'host')}: {', '.join(layout.hosts)}",
                hint="give one address for each host, in their order, or name hosts with --hosts",
            )
        ssh = [lab.hosts[host].ssh for host in layout.hosts]
        at = host_at(nodes) if nodes else host_at(ssh, of_machine)

        def listen(rails: LabRails, lines: OpusLines) -> Served:
            wiring = self._service.lab.wiring()
            rules = CircuitRails(layout.hosts, layout.ports, layout.rails, wiring)
            side = ControllerSide(rules, at)
            action = CircuitActions(rails.begin, rails.present)
            server = ControllerServer(address, side, action, lines.said, lines.answered)
            lines.listening_to_shims(*server.address)
            return server

        return self._serve(listen, results, overrides)

    def serve_controller(
        self, sockets: Path, stages: int, results: Path, overrides: list[str]
    ) -> int:
        """Answer the authors' controller at a socket for each rail; hosts are numbered by stage."""
        layout, wiring = self._service.layout, self._service.lab.wiring()
        try:
            words = [
                WordCircuits(layout.on_rail(rail), stages, wiring) for rail in range(layout.rails)
            ]
        except ValueError as error:
            raise UsageError(
                f"--stages {stages}: the words of a rail do not say its circuits: {error}",
                hint="name the hosts of all stages in their order with --hosts; a stage between "
                "two others takes two ports a rank",
            ) from None

        def listen(rails: LabRails, lines: OpusLines) -> Served:
            paths = [sockets / f"opus_controller_ipc_{rail}" for rail in range(layout.rails)]
            workers = _Workers()
            try:
                for rail, path in enumerate(paths):
                    one = _WordRail(rail, words[rail], rails, lines)
                    workers.all.append(WorkerServer(path, one.apply, lines.said, record=one.record))
            except BaseException:
                workers.close()
                raise
            lines.listening_to_controller(paths)
            return workers

        return self._serve(listen, results, overrides)

    def _serve(
        self,
        listen: Callable[[LabRails, OpusLines], Served],
        results: Path,
        overrides: list[str],
    ) -> int:
        lab = self._service.lab
        directory, log, facts = open_check(lab, results, "opus", overrides)
        lines = OpusLines(str(facts["label"]), json=self._json, log=log)
        inbox = Inbox()
        run_leases = RunLeases(leases_of(lab), directory, "opus", log, inbox)
        serve = partial(_listening, listen, lines)
        problem: TestbedError | None = None
        left: list[str] = []
        try:
            with record_signals(inbox.interrupt):
                left = serve_rails(self._service, serve, directory, log, inbox, run_leases)
        except TestbedError as error:
            problem = error
            raise
        finally:
            log.close()
            lines.finish()
            if isinstance(problem, BusyError) and not lines.is_listening:
                shutil.rmtree(directory.path, ignore_errors=True)
                point_latest(results)
            else:
                is_good = not left and (problem is None or _is_plain_end(problem))
                told = f"{counted(lines.answers, 'stage')} answered, {lines.changes} changed"
                reason = told if is_good else masked(str(problem or "; ".join(left)))
                close_check(directory, facts, "passed" if is_good else "failed", reason)
        if left:
            raise UnsafeError(
                f"the rails were left changed: {'; '.join(left)}",
                hint="check the circuits of the switches",
            )
        return EXIT_PASSED


@dataclass(frozen=True, slots=True)
class _Workers:
    """The workers of all rails, as one."""

    all: list[WorkerServer] = field(default_factory=list)

    def close(self) -> None:
        """Close all, one after the other."""
        for one in self.all:
            one.close()


@dataclass(frozen=True, slots=True)
class _WordRail:
    """A rail of a lab whose circuits are those of a word."""

    rail: int
    words: WordCircuits
    rails: LabRails
    lines: OpusLines

    def apply(self, before: int, word: int) -> None:
        """Make the circuits of a word."""
        self.rails.set_word(self.rail, self.words.circuits(word))

    def record(self, before: int | None, word: int, seconds: float) -> None:
        """Print which circuits went and came for a word."""
        had = self.words.circuits(before) if before is not None else frozenset()
        has = self.words.circuits(word)
        self.lines.word(self.rail, before, word, seconds, moved(had - has, has - had))


def _is_plain_end(problem: TestbedError) -> bool:
    """Tell whether a signal ended it, as is usual, and all was put back."""
    return isinstance(problem, Interrupted) and not problem.hint


def _listening(
    listen: Callable[[LabRails, OpusLines], Served], lines: OpusLines, rails: LabRails
) -> Served:
    try:
        return listen(rails, lines)
    except OSError as error:
        raise LabError(
            f"listening failed: {error}", hint="see --listen and --sockets; is another one running?"
        ) from error
