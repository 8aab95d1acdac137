"""Descriptors of the transports for entry points; they import no instrument library."""

from __future__ import annotations

from testbed.plugins import Kind

TCP = Kind("TCP port without VISA", "testbed_drivers.transports.tcp:dial")
SERIAL = Kind("serial device through pyserial", "testbed_drivers.transports.serial_port:dial")
VISA = Kind("VISA resource through pyvisa", "testbed_drivers.transports.visa:dial")
SSH = Kind("command lines over SSH", "testbed_drivers.transports.ssh:dial")
