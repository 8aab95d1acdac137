"""Descriptor of the driver of optical circuit switches under SONiC."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.secret import Secret
from testbed.units import Seconds
from testbed_drivers.descriptors import described_switch
from testbed_drivers.transports.options import Timeouts


@dataclass(frozen=True, slots=True)
class SonicOcsOptions(Timeouts):
    """Options of a SONiC optical circuit switch.

    The resource names the user, as in `ssh://admin@192.0.2.10`.
    """

    connect_timeout: Seconds = 10.0
    answer_timeout: Seconds = 20.0
    """Seconds for one command; each of SONiC's is a program that starts anew."""
    password: Secret | None = None
    """Without one, the SSH agent and the keys of the user that runs the testbed log in."""
    settle: Seconds = 0.1
    settle_max: Seconds = 5.0


SONIC_OCS, SONIC_OCS_FAR_END = described_switch(
    "sonic-ocs",
    "testbed_drivers.switches.sonic_ocs:SonicOcs",
    SonicOcsOptions,
    driver="optical circuit switch under SONiC, text of its command line over SSH (experimental)",
    far_end="optical circuit switch under SONiC, device side of its command line",
    ways=("ssh",),
    sides=lambda options: (0, 0),
)
