"""Cards of what is reached by SSH."""

from __future__ import annotations

from testbed.plugins import Kind

SSH = Kind("command lines over SSH", "testbed_drivers.transport_ssh:dial")
