"""The checkpoints that a rank writes while its job goes on, and those that it can start from.

A step waits for a copy in memory and never for the disk: a thread hashes, writes and syncs.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ..communication.control import Control
from ..errors import Refused
from .checkpoint_files import CheckpointFiles
from .state import State


class Checkpoints:
    """The state of one rank's job, written before steps of such numbers and where it is ordered."""

    def __init__(self, configuration: Mapping[str, Any], state: State, control: Control) -> None:
        """Take what the agent says of where they are; raise Refused when there is no such place."""
        place, told = configuration["checkpoints"], configuration["job"]["checkpoint"]
        if "problem" in place:
            raise Refused(f"checkpoints cannot be written on this host: {place['problem']}")
        self._directory = Path(place["directory"])
        self._history: str = configuration["history"]
        self._every, self._keep = told["every"], told["keep"]
        self._state, self._control = state, control
        self._files: Optional[CheckpointFiles] = None
        self._generation = 0
        self._copy = memoryview(bytearray(state.outgoing()))
        self._writing = threading.Lock()
        """Held from when a copy is made until that is written."""
        self._latest = math.inf
        """The last step that the job did not go back behind since the copy was made."""
        self._copied: queue.SimpleQueue[tuple[int, int, float]] = queue.SimpleQueue()
        threading.Thread(target=self._write_all, name="checkpoints", daemon=True).start()

    def begin(self, rank: int, generation: int) -> None:
        """Go on from the state as it is: later checkpoints are of a course that is over."""
        step = self._state.step
        assert step is not None
        self._latest = min(self._latest, step)
        self._generation = generation
        self._files = self._files_of(rank)
        self._files.forget_after(step)

    def offer(self) -> None:
        """Copy a state that was just committed, if it is to be written.

        It is left out, and said, while the one before it is still being written.
        """
        step = self._state.step
        assert step is not None
        if self._files is None or (not self._is_ordered(step) and step % self._every):
            return
        if not self._writing.acquire(blocking=False):
            self._miss(step, self._generation, "the one before it is still being written")
            return
        begin = time.monotonic()
        self._copy[:] = self._state.outgoing()
        self._latest = math.inf
        self._copied.put((step, self._generation, begin))

    def _is_ordered(self, step: int) -> bool:
        """Tell whether the state before this step was ordered; say so if that step is over."""
        ordered = self._control.checkpoint_before
        if ordered is None or step < ordered:
            return False
        self._control.checkpoint_before = None
        if step > ordered:
            self._miss(ordered, self._generation, f"step {ordered} is over, the next is {step}")
        return step == ordered

    def report(self, rank: int) -> None:
        """Tell which checkpoints are whole, the last first, and why others are not used."""
        files = self._files_of(rank)
        steps: list[int] = []
        refused: list[str] = []
        for step in files.steps():
            try:
                files.read(step)
            except Refused as error:
                refused.append(str(error))
            else:
                steps.append(step)
        self._control.emit("checkpoints", steps=steps, refused=refused)

    def restore(self, rank: int, step: int) -> int:
        """Take the state before a step from disk; return its bytes. Raise Refused."""
        data, size = self._files_of(rank).read(step), len(self._state.outgoing())
        if len(data) != size:
            raise Refused(f"a checkpoint has {len(data)} bytes, and the state of this job {size}")
        self._state.incoming()[:] = data
        self._state.adopt(step)
        return len(data)

    def _files_of(self, rank: int) -> CheckpointFiles:
        try:
            return CheckpointFiles(self._directory / f"rank-{rank}", self._history, self._keep)
        except OSError as error:
            raise Refused(f"{error.filename} cannot be used: {error.strerror}") from error

    def _write_all(self) -> None:
        while True:
            step, generation, begin = self._copied.get()
            try:
                self._write(step, generation, begin)
            except OSError as error:
                self._miss(step, generation, str(error))
            finally:
                self._writing.release()

    def _write(self, step: int, generation: int, begin: float) -> None:
        files = self._files
        assert files is not None
        files.write(step, self._copy)
        end = time.monotonic()
        if step > self._latest:
            files.forget_after(int(self._latest))
            self._miss(step, generation, "the job went back behind it")
            return
        size, seconds = len(self._copy), end - begin
        about = {"generation": generation, "step": step, "bytes": size, "seconds": seconds}
        self._control.emit("checkpoint", end, **about)

    def _miss(self, step: int, generation: int, why: str) -> None:
        self._control.emit("checkpoint-missed", generation=generation, step=step, why=why)
