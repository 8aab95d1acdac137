"""Identify the port at the other end of a circuit, by datagrams over the circuit itself.

A read-back is the switch's own view, a carrier shows that there is light; only an answer from the
right port proves that the light comes from there. Datagrams are bound to the port, so they can take
no other path, and broadcast, so they need no ARP: a kernel whose first ARP request was lost while a
link came up asks again only a second later. A kernel hands its own broadcasts to its own sockets,
too: where both ends happen to listen at the same number, a port receives what it sends itself, and
must not take that for the other end. A packet switch would carry a broadcast to all hosts; there a
question is `direct`, to one address, and so is its answer.

The token that the agents of a run share is never sent: each datagram carries an HMAC of itself
under it, and a question carries a nonce that its answer must repeat, so that neither a listener on
a fibre nor a replayed answer can pass as a port.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from contextlib import suppress
from typing import Any, Optional

_LARGEST = 2048
_BROADCAST = "255.255.255.255"


class IdentityPort:
    """One fabric port that answers identity queries and sends them to its peer.

    `token` is shared by the agents of one run; a query without it is not answered.
    """

    def __init__(self, host: str, port: str, interface: str, token: str) -> None:
        self.host = host
        self.port = port
        self._token = token
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._socket.bind(("", 0))
        self._nonces: dict[int, str] = {}
        self._questions: dict[int, bytes] = {}
        """The datagrams of questions, which are sent again and again until there is light."""
        self.answers: dict[int, dict[str, Any]] = {}
        """What came back, by the number of the question."""
        self._beacons: dict[int, set[tuple[str, str]]] = {}
        """By mark, the ports whose beacons were received."""

    @property
    def number(self) -> int:
        """Return the UDP port on which identity queries are received."""
        return int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when a datagram arrives."""
        return self._socket.fileno()

    def ask(self, number: int, question: int, address: str = "") -> None:
        """Send one identity query to the peer's UDP port; on a dark circuit it is lost silently.

        With an address the question goes to it alone. One that was sent before is repeated as it
        was, until it is forgotten.
        """
        if question not in self._questions:
            nonce = self._nonces[question] = secrets.token_hex(16)
            asked = {"ask": question, "nonce": nonce, "direct": bool(address)}
            self._questions[question] = self._datagram(asked)
        self._send_to(self._questions[question], (address or _BROADCAST, number))

    def send_beacon(self, number: int, mark: int) -> None:
        """Broadcast the name of this port to a UDP port; nothing answers.

        So light that goes one way only is noticed where it comes out.
        """
        self._send({"beacon": mark}, (_BROADCAST, number))

    def beacons(self, mark: int) -> list[tuple[str, str]]:
        """Return the ports whose beacons with a mark were received; forget lower marks."""
        self._beacons = {known: ports for known, ports in self._beacons.items() if known >= mark}
        return sorted(self._beacons.get(mark, ()))

    def forget(self, question: int) -> None:
        """Discard the answer to a query, and accept no more answers to it."""
        self._nonces.pop(question, None)
        self._questions.pop(question, None)
        self.answers.pop(question, None)

    def read_datagrams(self) -> None:
        """Read all datagrams that have arrived: answer queries and store answers."""
        while True:
            message, sender = self._receive()
            if sender is None:
                return
            if (message.get("host"), message.get("port")) == (self.host, self.port):
                continue
            if "beacon" in message:
                sender_port = message["host"], message["port"]
                self._beacons.setdefault(message["beacon"], set()).add(sender_port)
            elif "ask" in message:
                to = sender[0] if message.get("direct") else _BROADCAST
                answer = {"answer": message["ask"], "nonce": message.get("nonce")}
                self._send(answer, (to, sender[1]))
            elif self._is_awaited(message):
                self.answers[message["answer"]] = message

    def _send(self, message: dict[str, Any], to: tuple[str, int]) -> None:
        self._send_to(self._datagram(message), to)

    def _datagram(self, message: dict[str, Any]) -> bytes:
        text = json.dumps({**message, "host": self.host, "port": self.port})
        return json.dumps({"text": text, "proof": self._proof(text)}).encode()

    def _send_to(self, data: bytes, to: tuple[str, int]) -> None:
        with suppress(OSError):  # no carrier: the same as a lost datagram
            self._socket.sendto(data, to)

    def _receive(self) -> tuple[dict[str, Any], Optional[tuple[str, int]]]:
        try:
            data, sender = self._socket.recvfrom(_LARGEST)
        except OSError:
            return {}, None
        try:
            envelope = json.loads(data)
            text, proof = str(envelope["text"]), str(envelope["proof"])
            if not hmac.compare_digest(proof.encode(), self._proof(text).encode()):
                return {}, sender
            return json.loads(text), sender
        except (ValueError, TypeError, KeyError, RecursionError):
            return {}, sender  # any host can send us anything

    def _proof(self, text: str) -> str:
        return hmac.new(self._token.encode(), text.encode(), "sha256").hexdigest()

    def _is_awaited(self, message: dict[str, Any]) -> bool:
        nonce = self._nonces.get(message.get("answer", 0))
        return nonce is not None and message.get("nonce") == nonce

    def close(self) -> None:
        """Close the socket, which ends answering."""
        self._socket.close()
