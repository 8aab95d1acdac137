"""The open instruments of one run, with their transcripts and the locks of exclusive lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from testbed.bench import contracts
from testbed.bench.instrument_factory import make_instrument
from testbed.bench.lease_resources import box_of, is_exclusive
from testbed.bench.parallel import run_parallel
from testbed.clock import Deadline
from testbed.record.locks import InstrumentLock
from testbed.record.log import EventLog
from testbed.record.rundir import RunDirectory
from testbed.record.transcript import Transcript
from testbed.schema import Lab


class InstrumentSet:
    """The open instruments of one run, by role and name."""

    def __init__(self, lab: Lab, run: RunDirectory, log: EventLog) -> None:
        self.switches: dict[str, contracts.OpticalSwitch] = {}
        self.units: dict[str, contracts.PowerUnit] = {}
        self.attenuators: dict[str, contracts.Attenuator] = {}
        self.meters: dict[str, contracts.PowerMeter] = {}
        self._lab = lab
        self._run = run
        self._log = log
        self._all: dict[str, contracts.Instrument] = {}
        self._locks: list[InstrumentLock] = []
        self._transcripts: dict[str, Transcript] = {}

    def open(self, names: Sequence[str], deadline: Deadline) -> dict[str, contracts.Identity]:
        """Open instruments in parallel, log and return their identities; lock exclusive lines.

        Raise BusyError when another run uses such a line, InstrumentError when one does not answer.
        """
        lab = self._lab
        for box, name in {box_of(lab, n): n for n in names if is_exclusive(lab, n)}.items():
            if all(lock.resource != box for lock in self._locks):
                self._locks.append(InstrumentLock(name, box, self._run.id))
        for name in names:
            log_retry = partial(self._log_retry, name)
            self._transcripts[name] = Transcript(self._run.wire(name), name, log_retry)
        for name in names:
            self._make(name)
        opened = run_parallel(lambda name: self._all[name].open(deadline), list(names))
        for name, identity in opened.items():
            data = asdict(identity)
            if name in self.switches:
                data["settle"] = self.switches[name].capabilities.settle
            self._log.append("instrument.ready", name, **data)
        return opened

    def close(self) -> None:
        """Close lines and transcripts and release the locks, without any change to devices."""
        for instrument in self._all.values():
            instrument.close()
        for transcript in self._transcripts.values():
            transcript.close()
        while self._locks:
            self._locks.pop().release()

    def _make(self, name: str) -> None:
        made: Any = make_instrument(self._lab, name, self._transcripts[name], self._all)
        self._all[name] = made
        lab = self._lab
        sections = [lab.switches, lab.power, lab.attenuators, lab.meters]
        opened: list[Any] = [self.switches, self.units, self.attenuators, self.meters]
        for section, instruments in zip(sections, opened, strict=True):
            if name in section:
                instruments[name] = made

    def _log_retry(self, name: str, why: str) -> None:
        self._log.append("retry", name, what="a read", why=why)
