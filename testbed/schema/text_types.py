"""Values written as text in a file: names, addresses, ports of switches, outlets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Tag
from pydantic_core import core_schema

from testbed.fabric.circuits import SwitchPort
from testbed.resource import place
from testbed.schema.validation import Problem, Problems, shown
from testbed.secret import Secret
from testbed.tenancy.lab_orders import policy_names

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True, eq=False)
class ReadBy:
    """Annotates a field with the function that converts its data, and with its JSON Schema.

    `read` raises ValueError with what was expected.
    """

    read: Callable[[Any], Any]
    schema: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)  # pydantic adds to what it gets


@dataclass(frozen=True, slots=True)
class Text:
    """Annotates a field that is written as text in a file and converted by `read`.

    `read` raises ValueError with what was expected; `pattern` tells editors the same.
    """

    read: Callable[[str], Any]
    pattern: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self.read,
            core_schema.str_schema(strict=True),
            serialization=core_schema.to_string_ser_schema(when_used="json"),
        )

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string"} | ({"pattern": self.pattern} if self.pattern else {})


def spelling(pattern: str, meaning: str) -> Text:
    """Return the annotation of a text field that must match `pattern` completely."""
    compiled = re.compile(pattern)

    def read(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(f"{text!r} is not {meaning}")
        return text

    return Text(read, f"^(?:{pattern})$")


@dataclass(frozen=True, slots=True)
class Outlet:
    """An outlet of a power unit, as `pdu.1`."""

    unit: str
    outlet: str

    def __str__(self) -> str:
        return f"{self.unit}.{self.outlet}"

    @classmethod
    def parse(cls, text: str) -> Outlet:
        """Return the outlet that `text` names as `unit.outlet`; raise ValueError otherwise."""
        unit, dot, outlet = text.partition(".")
        if not (unit and dot and outlet):
            raise ValueError(f"{text!r} is not an outlet; write it as 'pdu.1'")
        return cls(unit, outlet)


def _server_url(value: object) -> str | Secret:
    if not isinstance(value, str):
        return Secret.read(value)
    if not _SERVER.fullmatch(value):
        raise ValueError(
            "expected a server without a password, as 'postgresql://user@host/database', or "
            "where its whole URL is kept, as {env: NAME} or {file: PATH}"
        )
    return value


_SERVER = re.compile(r"postgres(ql)?://(?!\S*[?&]\w*(password|secret)=)([^\s:@/]*@)?[^\s@]*")
"""With no password before the host, and none among the parameters after it."""


MAX_PORT = 4096
"""The highest number that a port of a switch may have."""


def _port_numbers(value: object) -> frozenset[int]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"expected a list of ports, as [1-32], got {shown(value)}")
    numbers: set[int] = set()
    problems = []
    for index, item in enumerate(value):
        try:
            span = _range(item)
            if again := numbers.intersection(span):
                raise ValueError(f"port {min(again)} is listed twice")
            numbers.update(span)
        except ValueError as error:
            problems.append(Problem((index,), str(error)))
    if problems:
        raise Problems(problems)
    return frozenset(numbers)


def _range(item: object) -> range:
    match = _RANGE.fullmatch(str(item))
    if match is None or isinstance(item, float):
        raise ValueError(f"{shown(item)} is not a port or a range of ports, as 17 or 1-32")
    first = int(match["first"])
    last = int(match["last"] or first)
    if not 1 <= first <= last <= MAX_PORT:
        raise ValueError(f"{shown(item)} is not a rising range within 1-{MAX_PORT}")
    return range(first, last + 1)


_RANGE = re.compile(r"(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?")

_POINT_TO_POINT = 31
"""The prefix length from which on all addresses are those of hosts (RFC 3021)."""
_THIS_NETWORK = IPv4Network("0.0.0.0/8")


def _address(text: str) -> IPv4Interface:
    if "/" not in text:
        raise ValueError(f"{text!r} has no prefix length; write it as '10.0.0.1/24'")
    try:
        address = IPv4Interface(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not an IPv4 address, as '10.0.0.1/24'") from error
    if what := _other_than_a_host(address):
        raise ValueError(f"{text!r} is {what}; a port needs an address of a host")
    return address


def _other_than_a_host(address: IPv4Interface) -> str:
    """Return what an address stands for that no interface can have, or nothing."""
    ip, network = address.ip, address.network
    if ip.is_multicast:
        return "a multicast address"
    if ip.is_reserved or ip in _THIS_NETWORK:
        return "a reserved address"
    if network.prefixlen >= _POINT_TO_POINT:
        return ""
    ends = {
        network.network_address: "address of the network",
        network.broadcast_address: "broadcast address",
    }
    return f"the {ends[ip]} of {network}" if ip in ends else ""


def _lit_port(text: str) -> SwitchPort:
    port = SwitchPort.parse(text)
    if not 1 <= port.number <= MAX_PORT:
        raise ValueError(f"{text!r} is not a switch port: their numbers are 1 to {MAX_PORT}")
    return port


def _channel(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,2}", text):
        raise ValueError(f"{text!r} is not a channel number from 1 to 999")
    return int(text)


_SSH_TARGET = spelling(
    r"([A-Za-z0-9_][^\s@:]*@)?[A-Za-z0-9][A-Za-z0-9_.-]*(:[0-9]{1,5})?",
    "an SSH target, as '[user@]name[:port]'",
)


def _ssh_target(text: str) -> str:
    if ":" in text.rpartition("@")[0]:
        raise ValueError(
            "an SSH target must not contain a password; the keys of your SSH agent log in"
        )
    return str(_SSH_TARGET.read(text))


def _queue_policy(text: str) -> str:
    if text not in (known := policy_names()):
        raise ValueError(f"unknown policy of a queue {text!r}; known: {', '.join(known)}")
    return text


def _resource(text: str) -> str:
    place(text)
    return text


Name = Annotated[
    str,
    spelling(
        r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}",
        "a name: at most 64 letters, digits, '-' and '_', the first a letter or a digit",
    ),
]
Sentence = Annotated[str, spelling(r"\S.*\S", "a sentence in one line")]
EnvName = Annotated[
    str,
    spelling(
        r"[A-Za-z_][A-Za-z0-9_]*",
        "the name of an environment variable: letters, digits and '_', the first no digit",
    ),
]
EnvValue = Annotated[
    Annotated[str, Tag("text")] | Annotated[Secret, Tag("reference")],
    Discriminator(lambda value: "reference" if isinstance(value, (dict, Secret)) else "text"),
]
"""The value of an environment variable, or by where it is kept when it is secret."""
Interface = Annotated[
    str,
    spelling(
        r"[^\s/:]{1,15}",
        "the name of a network interface: at most 15 characters, no space, '/' or ':'",
    ),
]
RdmaDevice = Annotated[
    str, spelling(r"[A-Za-z0-9_.-]{1,63}(:[1-9][0-9]?)?", "the name of an RDMA device, as 'mlx5_0'")
]
SshTarget = Annotated[str, Text(_ssh_target, _SSH_TARGET.pattern)]
LitPort = Annotated[SwitchPort, Text(_lit_port, r"^.+\.[0-9]+$")]
Address = Annotated[IPv4Interface, Text(_address, r"^[0-9.]+/[0-9]+$")]
Channel = Annotated[int, Text(_channel, r"^[1-9][0-9]{0,2}$")]
FedBy = Annotated[Outlet, Text(Outlet.parse, r"^[^.]+\..+$")]
QueuePolicy = Annotated[str, Text(_queue_policy)]
Resource = Annotated[str, Text(_resource)]
"""Where an instrument answers: a VISA name, a tty or a URL."""
_PORT = {"type": "integer", "minimum": 1, "maximum": MAX_PORT}
_PORT_RANGE = {"type": "string", "pattern": "^[0-9]+-[0-9]+$"}
_PORTS = {"type": "array", "items": {"anyOf": [_PORT, _PORT_RANGE]}, "minItems": 1}
PortNumbers = Annotated[frozenset[int], ReadBy(_port_numbers, _PORTS)]
"""A list of port numbers and ranges: `[1, 2, 5-8]`."""
_URL = {"type": "string", "pattern": f"^{_SERVER.pattern}$"}
_REFERENCES = Secret.__get_pydantic_json_schema__(None, None)["oneOf"]
ServerUrl = Annotated[str | Secret, ReadBy(_server_url, {"oneOf": [_URL, *_REFERENCES]})]
"""A PostgreSQL server by its URL, or by where a URL with a password is kept."""
