"""The transfer of a job's state to new ranks on rails, each from a rank that holds the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import numpy as np

from ..communication.mesh import PROBING
from ..communication.messages import Messages
from ..communication.rails import RailMesh
from ..errors import Refused
from .state import State


def restore_from_replicas(
    mesh: RailMesh, state: State, step: int, restore: Mapping[str, Union[int, str]]
) -> int:
    """Come to the state before `step`, by stepping back or from another rank; return its bytes.

    `restore` says, by rank without a state, which rank sends it: one that it shares a group with.
    All ranks of such a group have a stage of it for that. Raise Refused, Corrupt, Left, PeerLost.
    """
    sources = {int(rank): source for rank, source in restore.items()}
    size = 0
    if mesh.rank not in sources:
        state.rewind(step)
    for name, ranks in mesh.members.items():
        here = [(r, source) for r, source in sources.items() if {r, source} <= {*ranks}]
        if not here:
            continue
        mesh.begin(name, PROBING)
        messages = Messages(mesh.by_dimension[name].connections, ranks)
        for rank, source in sorted(here):
            if mesh.rank == source:
                messages.send(ranks.index(rank), np.asarray(state.outgoing()))
            elif mesh.rank == rank:
                received = state.incoming()
                size = len(received)
                messages.receive(ranks.index(source), np.asarray(received))
                state.adopt(step)
        mesh.end(name)
    if mesh.rank in sources and not size:
        source = sources[mesh.rank]
        raise Refused(f"rank {mesh.rank} cannot be restored from rank {source}: no group has both")
    return size
