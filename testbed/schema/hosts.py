"""The hosts of a lab file and their fabric ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import field_validator, model_validator

from testbed.fabric.circuits import Fibres
from testbed.schema.text_types import (
    Address,
    EnvName,
    EnvValue,
    FedBy,
    Interface,
    LitPort,
    Name,
    RdmaDevice,
    SshTarget,
)
from testbed.schema.validation import Problem, Problems, StrictModel
from testbed.secret import Secret, says_secret
from testbed.units import PowerLevel

_SSH_PORT = "22"
_COUNTED = ("ports", "outlets")
"""Attributes of a host that follow from the lab file."""

FabricKind = Literal["circuit", "packet"]
"""What joins hosts: circuits that switches make, or a packet switch that needs none."""

Fence = Literal["power", "network", "process"]
"""How a host that has failed is kept from taking part: its outlet is turned off, its circuits are
taken down, or the processes of its rank are ended."""


class Port(StrictModel):
    """A fabric port of a host: an interface, and its fibres or its place on a packet switch."""

    interface: Interface
    address: Address
    """With the prefix length of its network."""
    tx: LitPort | None = None
    """The switch port that the host sends into."""
    rx: LitPort | None = None
    """The switch port that the host receives from."""
    bidi: LitPort | None = None
    """The switch port that carries both directions, instead of `tx` and `rx`."""
    packet: LitPort | None = None
    """The port of a packet switch that it is plugged into, instead of fibres."""
    rdma: RdmaDevice | None = None
    """The RDMA device behind it, as NCCL names it: `mlx5_0`."""
    launch: PowerLevel | None = None
    """The most light that it sends; a limit believes only what is written."""
    max_dbm: PowerLevel | None = None
    """The strongest light that its receiver withstands; more is never connected to it."""

    @model_validator(mode="after")
    def _is_wired(self) -> Self:
        keys = ("tx", "rx", "bidi", "packet")
        given = [key for key in keys if getattr(self, key) is not None]
        if given not in (["tx", "rx"], ["bidi"], ["packet"]):
            got = " and ".join(given) or "none of them"
            raise ValueError(f"expected both tx and rx, or bidi or packet alone, got {got}")
        if self.packet is not None and self.max_dbm is not None:
            raise ValueError("a port of a packet switch receives no light that max_dbm could limit")
        if self.tx is not None and self.tx == self.rx:
            raise ValueError(f"tx and rx are one port; write it as bidi: {self.tx}")
        return self

    @property
    def fibres(self) -> Fibres | None:
        """Return the two switch ports of its fibres; None for a port on a packet switch."""
        if self.tx is not None and self.rx is not None:
            return Fibres(self.tx, self.rx)
        return None if self.bidi is None else Fibres(self.bidi, self.bidi)


class Host(StrictModel):
    """A GPU host: how it is reached, powered and connected."""

    ssh: SshTarget
    python: str = "python3"
    """The interpreter on the host, with NumPy."""
    privilege: Literal["none", "sudo"] = "none"
    """Whether `sudo -n` sets addresses and routes where the login is not root."""
    power: FedBy | None = None
    """The outlet that feeds it."""
    rack: Name | None = None
    """The rack it is in, by any name: a fault may strike all its hosts together."""
    feed: Name | None = None
    """The power feed that it hangs on, in the same way."""
    env: Mapping[EnvName, EnvValue] = {}
    """Environment of every rank on it."""
    network: Literal["managed", "existing"] = "managed"
    """Whether the testbed sets addresses and routes, or finds them set."""
    ports: Mapping[Name, Port] = {}
    """Its fabric ports, in the order in which topologies use them."""
    attributes: Mapping[Name, float] = {}
    """What else it has, by any names: experiments demand the least of each that a host must have.
    What belongs to a port or outlet counts here, since a host is leased with all of its own."""
    allow: tuple[str, ...] | None = None
    """The faults permitted on this host; without it, all that the lab permits."""
    fence: tuple[Fence, ...] | None = None
    """The fences permitted against this host; without it, all that the lab permits."""

    @field_validator("env")
    @classmethod
    def _shows_no_secret(cls, env: Mapping[str, str | Secret]) -> Mapping[str, str | Secret]:
        if shown := [k for k, v in env.items() if isinstance(v, str) and says_secret(k)]:
            message = "its name says that it is secret; write {env: NAME} or {file: PATH}"
            raise Problems(Problem((name,), message) for name in shown)
        return env

    @field_validator("attributes")
    @classmethod
    def _states_no_count(cls, attributes: Mapping[str, float]) -> Mapping[str, float]:
        if stated := [key for key in attributes if key in _COUNTED]:
            message = "is counted from `ports` and `power` of the host, and not stated"
            raise Problems(Problem((key,), f"{key} {message}", at_key=True) for key in stated)
        return attributes

    @property
    def all_attributes(self) -> dict[str, float]:
        """Return its attributes, with the numbers of its fabric ports and of its outlets."""
        return {**self.attributes, "ports": len(self.ports), "outlets": int(self.power is not None)}

    @property
    def ssh_name(self) -> str:
        """Return the host's name on the management network."""
        return self.ssh.rpartition("@")[2].partition(":")[0]

    @property
    def machine(self) -> str:
        """Return the host's address and SSH port in a normal form, without the user name."""
        name, _, port = self.ssh.rpartition("@")[2].partition(":")
        return f"{name.lower()}:{port or _SSH_PORT}"

    @property
    def environment(self) -> dict[str, str | Secret]:
        """Return the environment of ranks and programs on the host: RDMA devices, and `env`."""
        devices = [port.rdma for port in self.ports.values() if port.rdma]
        # "=": these and no others whose names begin alike (NCCL's manual, NCCL_IB_HCA).
        found: dict[str, str | Secret] = {}
        if devices:
            found["NCCL_IB_HCA"] = f"={','.join(devices)}"
        return found | dict(self.env)

    def revealed_environment(self) -> dict[str, str]:
        """Return the environment with every secret's value; raise UsageError if one is missing."""
        return {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in self.environment.items()
        }

    def ports_on(self, fabric: FabricKind) -> tuple[str, ...]:
        """Return the host's ports on one kind of fabric, in the order of the file."""
        is_packet = fabric == "packet"
        return tuple(key for key, port in self.ports.items() if bool(port.packet) is is_packet)
