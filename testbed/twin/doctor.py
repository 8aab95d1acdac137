"""Check whether this machine can run a twin, by trying each ability in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from testbed.bench.doctor import Finding
from testbed.twin import namespaces
from testbed.twin.netlink import Network, new_network_namespace

_NAMESPACES = (
    "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces above 0; "
    "in a container, its seccomp profile must allow them too"
)
_MODULE = "load the kernel module, or use a kernel that has it"


def examine_machine() -> list[Finding]:
    """Try every ability that a twin needs, without a change outside of a child process."""
    command = [sys.executable, "-m", "testbed.twin.doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    findings = [_parse(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or not findings:
        last = done.stderr.strip().splitlines()[-1:] or ["it ended without a word"]
        findings.append(Finding("twin", False, last[0]))
    return findings


def _parse(line: str) -> Finding:
    verdict, subject, text = line.split("\t")
    return Finding(subject, verdict == "ok", text)


def _try_everything() -> None:
    _try("user namespace", namespaces.become_root_of_new_user_namespace, _NAMESPACES)
    kinds = namespaces.NEWNET | namespaces.NEWNS | namespaces.NEWUTS | namespaces.NEWIPC
    _try("network, mount, UTS and IPC namespaces", lambda: namespaces.unshare(kinds), _NAMESPACES)
    _try("time namespace", lambda: namespaces.unshare(namespaces.NEWTIME), "needs Linux 5.6")
    _try("private mounts", _mounts, _NAMESPACES)
    network = Network()
    other = new_network_namespace()
    _try("veth links", lambda: network.add_pair("a0", "b0", other, 1000), f"veth: {_MODULE}")
    _try("bridge", lambda: network.add_bridge("br0"), f"bridge: {_MODULE}")
    _try("token bucket", lambda: network.shape("a0", 1e8), f"sch_tbf: {_MODULE}")
    _try("ingress queue", lambda: network.accept_redirects("a0"), f"sch_ingress: {_MODULE}")
    _try("redirect", lambda: network.redirect("a0", "br0"), f"cls_u32, act_mirred: {_MODULE}")
    network.close()
    _try("iproute2", lambda: subprocess.run(["ip", "-V"], capture_output=True), "install iproute2")


def _mounts() -> None:
    namespaces.keep_mounts_private()
    namespaces.mount("tmpfs", "/run", "tmpfs")
    Path("/run/pts").mkdir()
    namespaces.mount("devpts", "/run/pts", "devpts", "newinstance,ptmxmode=0666")


def _try(subject: str, action: Callable[[], object], remedy: str) -> None:
    try:
        action()
    except OSError as error:
        print(f"FAIL\t{subject}\t{error}; {remedy}", flush=True)
        os._exit(0)  # nothing after it can work
    print(f"ok\t{subject}\tworks", flush=True)


if __name__ == "__main__":
    _try_everything()
