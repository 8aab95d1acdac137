"""Options that are common to the drivers of one dialect."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from testbed.concealed import conceal
from testbed.secret import Secret
from testbed_drivers.transports.options import Timeouts


@dataclass(frozen=True, slots=True)
class HttpOptions(Timeouts):
    """Options of a web service: HTTP basic authentication, TLS verified by default."""

    user: str = ""
    password: Secret | None = None
    verify: bool = True
    """False accepts any certificate; for boxes on a closed network that made their own."""
    ca_file: str = ""
    """PEM file of an authority to trust besides the system's."""

    def authorization(self) -> str:
        """Return the value of the header `Authorization`; empty when no user is named."""
        if not self.user:
            return ""
        word = self.password.reveal() if self.password else ""
        encoded = base64.b64encode(f"{self.user}:{word}".encode()).decode()
        conceal(encoded)
        return f"Basic {encoded}"


@dataclass(frozen=True, slots=True)
class Tl1Options(Timeouts):
    """Options of an instrument with a TL1 interface."""

    user: str = ""
    """Must be given: there is no TL1 without a login."""
    password: Secret | None = None
    transport: str = ""
    """`visa` or `tcp`; empty: by how the resource is written."""
