"""A host in namespaces of its own, with a port, a /run and temporary files that are its own."""

import json
import shlex
import subprocess
from pathlib import Path

from tests.contract.private_spaces import can_be_private

PRIVATE = "unshare --user --map-root-user --net --mount sh -c"
ROOT = Path(__file__).parents[3]
FURNISH = (
    "mount -t sysfs sysfs /sys && ip link add eth1 type veth peer name eth2 && ip link set lo up"
    " && mount -t tmpfs tmpfs /run && mkdir /run/checkout"
    f" && mount --rbind {shlex.quote(str(ROOT))} /run/checkout"
    " && mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm"
    " && mount -t tmpfs tmpfs /var/tmp"
)
if ROOT.is_relative_to("/tmp"):
    FURNISH += f" && mkdir -p {shlex.quote(str(ROOT))}"
    FURNISH += f" && mount --rbind /run/checkout {shlex.quote(str(ROOT))}"


def is_possible():
    """Tell whether this machine lets us have such a host."""
    return can_be_private([*PRIVATE.split(), FURNISH])


class Host:
    """A host with one port and its own /run, that outlives its agents."""

    def __init__(self):
        self._keeper = subprocess.Popen(
            [*PRIVATE.split(), f"{FURNISH} && echo up && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout.readline() == b"up\n"
        self.enter = f"nsenter --target {self._keeper.pid} --user --net --mount"
        self.enter += " --preserve-credentials"

    def run(self, *command):
        done = subprocess.run([*self.enter.split(), *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def network(self):
        """Return everything that an agent may change, as `ip` shows it."""
        (link,) = json.loads(self.run("ip", "-j", "addr", "show", "dev", "eth1"))
        addresses = [a["local"] for a in link["addr_info"] if a["family"] == "inet"]
        routes = self.run("ip", "-4", "route", "show")
        return addresses, "UP" in link["flags"], routes, self.run("ip", "neigh", "show")

    def journals(self):
        return self.run("sh", "-c", "ls /run /tmp /dev/shm | grep testbed-agents || true")

    def checkpoints(self):
        """Return the checkpoints that are there, by the run and the host in their paths."""
        found = self.run("find", "/var/tmp", "-name", "*.checkpoint").split()
        return {tuple(path.split("/")[4:6]) for path in found}

    def close(self):
        self._keeper.communicate()
