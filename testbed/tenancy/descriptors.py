"""Descriptors of the built-in scheduling policies, for entry points; they load no policy code."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.plugins import Kind
from testbed.units import Seconds


@dataclass(frozen=True, slots=True)
class IrsOptions:
    """The options of the policy IRS: how often it divides the clients."""

    period: Seconds = 3.0
    """Seconds from one division to the next."""


@dataclass(frozen=True, slots=True)
class TieredIrsOptions:
    """The options of tiered IRS: how often clients are divided, and the number of tiers."""

    period: Seconds = 3.0
    """Seconds from one division to the next."""
    tiers: int = 3
    """Tiers of client speed; 1 is IRS without tiers."""


FIFO = Kind(
    "jobs in the order in which they registered", "testbed.tenancy.online:Fifo", role="online"
)
RANDOM = Kind(
    "jobs in an order drawn at registration", "testbed.tenancy.online:RandomScore", role="online"
)
SRSF = Kind(
    "the job with the smallest remaining demand first",
    "testbed.tenancy.online:SmallestRemainingDemand",
    role="online",
)
FIFO_OFFLINE = Kind(
    "jobs in the order in which they registered, decided every few seconds",
    "testbed.tenancy.grouping:FifoGroup",
    role="offline",
)
IRS = Kind(
    "clients that few jobs can use are kept for those",
    "testbed.tenancy.irs:Irs",
    options=IrsOptions,
    role="offline",
)
IRS_TIERS = Kind(
    "IRS, and clients of one speed for a job where that pays",
    "testbed.tenancy.irs:TieredIrs",
    options=TieredIrsOptions,
    role="offline",
)
STATIC_PARTITION = Kind(
    "each client belongs to one job for good (a baseline)",
    "testbed.tenancy.baselines:StaticPartition",
    role="baseline",
)
RANDOM_SELECTION = Kind(
    "each client picks any job (a baseline)",
    "testbed.tenancy.baselines:RandomSelection",
    role="baseline",
)
