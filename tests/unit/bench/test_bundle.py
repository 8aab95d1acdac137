"""What travels to a host: the same bytes for the same sources, and nothing else."""

import hashlib
import io
import subprocess
import sys
import zipfile

import pytest

from testbed.bench.bundle import agent_command, bundle, digest


def run_bootstrap(sent):
    return subprocess.run(
        ["sh", "-c", agent_command(sys.executable)], input=sent, capture_output=True, timeout=20
    )


def test_the_same_sources_give_the_same_archive_in_every_process():
    script = "from testbed.bench.bundle import digest; print(digest())"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == digest() == hashlib.sha256(bundle()).hexdigest()


def test_the_bundle_holds_only_the_sources_of_the_host_side():
    with zipfile.ZipFile(io.BytesIO(bundle())) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    assert {
        "__main__.py",
        "onhost/agent/server.py",
        "onhost/jobs/rank.py",
        "onhost/frames.py",
    } <= set(names)
    assert all(name == "__main__.py" or name.startswith("onhost/") for name in names)
    assert all(name.endswith(".py") for name in names)


def test_the_host_side_imports_nothing_of_the_controller():
    with zipfile.ZipFile(io.BytesIO(bundle())) as archive:
        for name in archive.namelist():
            source = archive.read(name).decode()
            assert "import testbed" not in source, name
            assert "from testbed" not in source, name


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_truncated_archive_starts_no_agent(share):
    sent = bundle()[: int(len(bundle()) * share)]
    done = run_bootstrap(sent)
    assert done.returncode == 1
    assert done.stderr.strip() == b"the archive ended early"


def test_an_agent_without_an_orchestrator_ends_at_once_without_output():
    done = run_bootstrap(bundle())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_agent_command_accepts_a_python_path_with_spaces(tmp_path):
    odd = tmp_path / "my python's"
    odd.symlink_to(sys.executable)
    command = agent_command(str(odd))
    done = subprocess.run(["sh", "-c", command], input=b"", capture_output=True, timeout=20)
    assert done.stderr.strip() == b"the archive ended early"
