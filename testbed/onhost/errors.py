"""The errors that interrupt a rank's job; the rank reports them and waits for a command."""

from __future__ import annotations


class Left(Exception):
    """The rank was ordered to leave its generation."""


class PeerLost(Exception):
    """The connection to a neighbour broke: `next` or `previous` in a ring, else as `rank 3`."""

    def __init__(self, neighbour: str, error: str) -> None:
        who = neighbour if neighbour.startswith("rank ") else f"the {neighbour} rank"
        super().__init__(f"the connection to {who} broke: {error}")
        self.neighbour = neighbour
        self.error = error


class ProtocolError(Exception):
    """A rank sent a message that the protocol does not allow at this point."""


class WrongGeneration(ProtocolError):
    """A message belongs to another generation."""


class Corrupt(Exception):
    """Received values cannot be the sum of the values that the ranks sent."""


class Refused(Exception):
    """The agent's command cannot be carried out in the rank's present state."""
