"""The process of one rank of a job, and its protocol with the agent.

The agent starts the process with one end of a Unix stream socket as descriptor `--control FD` and
sends framed JSON commands (`do`); the rank answers with events (`event`), each with `mono`, its
host's monotonic clock at the instant it happened.

    configure  job {kind, options}, rank (none for a spare), ranks, token, seed, heartbeat,
               to_next and from_previous {interface, address} (none without a fabric port), on
               rails also the list of its `own` ports, and
               where the job has a checkpoint {every, keep} also its history and the agent's
               checkpoints {directory}: build the job and listen → ready, or failed and exit code 1
    join       generation, members [{rank, host, address, port, local}], step, restore {rank: from
               rank, or "disk"}, probe, for a spare also its rank: connect to the neighbours, to
               all ranks or to those of its groups → generation; come to the state before the step
               → restored; measure the links → probe; where it is held, wait for begin; run the job
               → step or sample …, with checkpoint or checkpoint-missed in between, and at its end
               done
    begin      generation: begin the steps of this generation, which was held
    checkpoints  rank: verify what this rank has on disk → checkpoints: steps that can be restored,
               the last first, and why others are refused
    leave      generation: abandon all that, at any point → left, with the steps committed
    finish     after_step: end the job after a step that no rank can have passed yet
               → done, or refused by a rank that has
    checkpoint  before_step: write the state before this step, whatever else is written
               → checkpoint, or checkpoint-missed by a rank that has passed it
    choose     number, schedule: follow this schedule once all ranks of the job know of it
               → the `choice` of a step; or number, schedules by algorithm and size
    lit        generation, number: the circuits that were asked for under this number are lit
    group-whole  generation, group: all of this group on a rail have joined it
    stage-lit  generation, group, ranks, number, links: the circuits of a stage on a rail are lit;
               links are their ends, a rank and the number of its port each
    slot       number, circuits, hold, left: these are lit, for `left` of the slot's seconds
    straggle   seconds: enter every collective that much late, until the next command → straggling
    exit       end the process → exit code 0

Without a command a rank asks for circuits (`circuits`: number, which, and the ranks `of` which all
must have asked), on rails says `group-joined`, `stage-reached` and `stage-left`, and sends `alive`
four times per heartbeat. After `peer-lost`, `corrupt` or `refused` it waits for `leave`. It never
decides that a neighbour is dead: it waits for silent ones.
"""

from __future__ import annotations

import os
import socket
import sys

from ..communication.control import Control

SWITCH_INTERVAL = 0.0005
"""Seconds after which the computing thread lets the control thread in; Python's own is ten times
as long, and leaving a generation would take as much longer."""


def main() -> None:
    """Serve the agent on the file descriptor after `--control`; raise errors of `configure`."""
    control = Control(socket.socket(fileno=int(sys.argv[-1])))
    sys.setswitchinterval(SWITCH_INTERVAL)
    # Ranks that share a host would fight for its cores with a pool of threads each. NumPy reads
    # this when it is first imported, which therefore happens below.
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    from .member import Member

    command = control.next()
    if command["do"] == "exit":
        return
    try:
        member = Member(control, command)
    except Exception as error:
        control.emit("failed", why=f"{type(error).__name__}: {error}")
        raise
    member.serve()


if __name__ == "__main__":
    main()
