"""Why a rank interrupts a job: it reports the reason and waits for its agent's next command."""

from __future__ import annotations


class Left(Exception):
    """The rank was told to leave its generation."""


class PeerLost(Exception):
    """The connection to a neighbour broke: `next` or `previous` in a ring, else as `rank 3`."""

    def __init__(self, neighbour: str, error: str) -> None:
        who = neighbour if neighbour.startswith("rank ") else f"the {neighbour} rank"
        super().__init__(f"the connection to {who} broke: {error}")
        self.neighbour = neighbour
        self.error = error


class ProtocolError(Exception):
    """A message came that its sender, here and now, has no reason to send."""


class WrongGeneration(ProtocolError):
    """A message came from another generation of the ring."""


class Corrupt(Exception):
    """Values arrived that cannot be the sum of what the ranks sent."""


class Refused(Exception):
    """The agent asked for something that this rank, as it stands, cannot do."""
