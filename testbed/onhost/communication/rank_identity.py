"""The rank and generation of a process, and the greetings that prove them to another rank."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from ..errors import ProtocolError
from ..frames import Decoder, Message

LARGEST_GREETING = 4096


@dataclass(frozen=True)
class RankIdentity:
    """One rank of one generation, and the run's token that authenticates it."""

    token: str
    generation: int
    rank: int
    ranks: int

    @property
    def next(self) -> int:
        """Return the rank that this one sends to in a ring."""
        return (self.rank + 1) % self.ranks

    @property
    def previous(self) -> int:
        """Return the rank that this one receives from in a ring."""
        return (self.rank - 1) % self.ranks

    def greeting(self, kind: str, sender: int, receiver: int) -> Message:
        """Return the frame by which `sender` greets `receiver`, with an HMAC under the token."""
        claim = f"{kind} {self.generation} {self.ranks} {sender} {receiver}"
        proof = hmac.new(self.token.encode(), claim.encode(), "sha256").hexdigest()
        return {"ring": kind, "generation": self.generation, "from": sender, "proof": proof}

    def accepts(self, message: Message, kind: str, sender: int) -> bool:
        """Tell whether `message` proves that `sender` greets this rank in this generation."""
        expected = self.greeting(kind, sender, self.rank)
        proof = str(message.get("proof"))
        return hmac.compare_digest(proof.encode(), str(expected["proof"]).encode())


def read_greeting(
    connection: socket.socket, decoder: Decoder, reject: Callable[[], None]
) -> Optional[Message]:
    """Return the first frame of a connection once it is complete; read no byte beyond it.

    Call `reject` for bytes that cannot become a greeting. Bytes of the job may follow at once, as a
    rank may begin before others have read its greeting.
    """
    try:
        data = connection.recv(decoder.missing)
        messages = decoder.feed(data)
    except BlockingIOError:
        return None
    except (OSError, ProtocolError):
        data, messages = b"", []
    if not data:
        reject()
    return messages[0] if messages else None
