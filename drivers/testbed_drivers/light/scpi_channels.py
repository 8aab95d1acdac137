"""The base of drivers for instruments with numbered channels: attenuators and power meters."""

from __future__ import annotations

from typing import Generic, TypeVar

from testbed.bench.contracts import Identity, Tracer
from testbed.clock import Deadline
from testbed.errors import UsageError
from testbed_drivers.dialects.scpi import Scpi
from testbed_drivers.light.descriptors import ScpiOptions
from testbed_drivers.transports.base import Dial, Endpoint

DENIED = ("*RST", "*RCL", "SYSTem:PRESet")
"""Commands that change what others have set on other channels."""

AnyOptions = TypeVar("AnyOptions", bound=ScpiOptions)


class ScpiChannels(Generic[AnyOptions]):
    """An instrument with numbered channels and a SCPI interface.

    `channels` are those that the lab file lets it use.
    """

    def __init__(
        self,
        name: str,
        resource: str,
        channels: frozenset[int],
        identity: str | None,
        options: AnyOptions,
        tracer: Tracer,
        *,
        dial: Dial | None = None,
    ) -> None:
        self._name = name
        self._channels = channels
        self._options = options
        endpoint = Endpoint(name, resource, identity, options, tracer, dial)
        self._scpi = Scpi(endpoint, ends=options.ends(), denied=DENIED)

    def open(self, deadline: Deadline) -> Identity:
        """Open the line and check the identity."""
        return self.identify(deadline)

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""
        return self._scpi.identify(deadline)

    def close(self) -> None:
        """Close the line and change nothing on the channels; safe to call twice."""
        self._scpi.close()

    def _check(self, channel: int) -> None:
        """Refuse, before the first byte, a channel that the lab file does not name."""
        if channel not in self._channels:
            known = ", ".join(map(str, sorted(self._channels))) or "none"
            raise UsageError(
                f"{self._name}: channel {channel} is not among its channels in the lab file",
                hint=f"known: {known}",
            )
