"""Dial a name while the name service listens and never answers; run in a machine of its own.

Prints one line of JSON: what each way of dialling said, and how often the name service was asked.
"""

import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pyvisa

from testbed.bench import ssh
from testbed.clock import Deadline
from testbed.errors import TestbedError
from testbed_drivers.transports.base import dial_for

NAME = "switch.example"


def way_to(resource):
    dial = dial_for("ocs", resource, "")
    return lambda limit: dial("ocs", resource, baud=9600, deadline=limit)


WAYS = {
    "tcp": way_to(f"tcp://{NAME}:3082"),
    "visa": way_to(f"TCPIP::{NAME}::5025::SOCKET"),
    "ssh": way_to(f"ssh://{NAME}"),
    "host": lambda limit: ssh.run("h0", NAME, "true", limit),
}


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    service = socket.socket(type=socket.SOCK_DGRAM)
    service.bind(("127.0.0.1", 53))
    service.setblocking(False)
    _bind("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n")
    _bind("/etc/nsswitch.conf", "hosts: dns\n")
    pyvisa.ResourceManager("@py")  # the first one takes its time
    said = {}
    for name, way in WAYS.items():
        try:
            way(Deadline.after(0.5))
        except TestbedError as error:
            said[name] = [type(error).__name__, str(error), _asked(service)]
    print(json.dumps(said), flush=True)
    os._exit(0)


def _bind(path, text):
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(text)
    Path(file.name).chmod(0o644)
    subprocess.run(["mount", "--bind", file.name, os.path.realpath(path)], check=True)
    Path(file.name).unlink()


def _asked(service):
    """Return whether the name service was asked for our name since the last time."""
    found = False
    try:
        while True:
            found |= b"switch" in service.recv(4096)
    except BlockingIOError:
        return found


if __name__ == "__main__":
    main()
