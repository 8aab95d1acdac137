"""A host that cannot take part says so before the run touches anything."""

import pytest
from agent_on_pipes import soon

from testbed.bench import ssh
from testbed.bench.host import BenchHost
from testbed.clock import Deadline
from testbed.errors import HostError, HostTimeout
from testbed.schema import load_lab


@pytest.fixture
def spec(ssh_host, tmp_path):
    """This machine as a host, whose `python` a test replaces."""
    host = f"{{ssh: '127.0.0.1:{ssh_host.port}', network: existing}}"
    (tmp_path / "lab.yaml").write_text(f"lab: small\nhosts:\n  h0: {host}\n")
    with ssh_host.at_home():
        yield load_lab(tmp_path / "lab.yaml").hosts["h0"]


def instead_of_python(spec, tmp_path, script):
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o700)
    return spec.model_copy(update={"python": str(python)})


def test_a_host_that_starts_something_that_waits_for_ever_costs_its_deadline_only(spec, tmp_path):
    deaf = instead_of_python(spec, tmp_path, "exec sleep 600")
    with pytest.raises(HostTimeout, match="no answer to 'hello' in time"):
        BenchHost("h0", deaf, lambda *_: None, Deadline.after(1.0))


def test_a_host_without_its_python_says_so(spec, tmp_path):
    none = spec.model_copy(update={"python": str(tmp_path / "no-python")})
    with pytest.raises(HostError, match="its agent"):
        BenchHost("h0", none, lambda *_: None, soon())


def test_a_host_that_is_only_looked_at_runs_nothing(spec):
    host = BenchHost("h0", spec, lambda *_: None, soon())
    with pytest.raises(HostError, match="to look only"):
        host.start_rank(0, soon())
    host.leave(soon())


def test_a_host_that_takes_nothing_any_more_breaks_its_line(ssh_host, monkeypatch):
    """Whoever sends would wait for ever else, with the lock that everybody who sends needs."""
    monkeypatch.setattr(ssh, "_SEND_LIMIT", 0.3)
    with ssh_host.at_home():
        channel = ssh.run("h0", f"127.0.0.1:{ssh_host.port}", "cat > /dev/null", soon())
    with ssh_host.stopped(), pytest.raises(HostError, match="the SSH channel broke"):
        channel.send(bytes(32 << 20))
    channel.close()
