"""What travels to a host: the same bytes for the same sources, and nothing else."""

import io
import marshal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from testbed.bench.bundle import _packed, agent_command, bundle, digest
from testbed.errors import TestbedError


def run_bootstrap(sent):
    return subprocess.run(
        ["sh", "-c", agent_command(sys.executable)], input=sent, capture_output=True, timeout=20
    )


def test_the_same_sources_have_the_same_digest_in_every_process():
    script = "from testbed.bench.bundle import digest; print(digest())"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == digest()


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
    modules = {name for name in names if name.endswith(".py")}
    bytecode = {f"{name}c" for name in modules} - {"__main__.pyc"}
    assert sorted(names) == sorted(modules | bytecode)


def test_bytecode_in_the_archive_is_that_of_its_source_and_names_it_in_tracebacks(tmp_path):
    archive = tmp_path / "bundle.zip"
    archive.write_bytes(bundle())
    script = (
        "import sys, traceback\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from onhost.frames import encode\n"
        "try:\n"
        "    encode({1, 2})\n"
        "except TypeError:\n"
        "    traceback.print_exc()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, archive], capture_output=True, text=True, check=True
    )
    assert 'File "onhost/frames.py"' in done.stderr
    assert "body = json.dumps(message" in done.stderr
    with zipfile.ZipFile(archive) as found:
        for name in found.namelist():
            if name.endswith(".pyc"):
                code = marshal.loads(found.read(name)[16:])
                own = compile(found.read(name[:-1]), name[:-1], "exec", dont_inherit=True)
                assert code == own, name


def test_a_host_with_another_version_of_python_compiles_the_sources(tmp_path):
    archive, other = tmp_path / "bundle.zip", tmp_path / "other.zip"
    archive.write_bytes(bundle())
    with zipfile.ZipFile(archive) as found, zipfile.ZipFile(other, "w") as changed:
        for name in found.namelist():
            content = found.read(name)
            changed.writestr(name, b"\0\0\r\n" + content[4:] if name.endswith("c") else content)
    script = "import sys; sys.path.insert(0, sys.argv[1]); import onhost.agent.server as s; s.main"
    subprocess.run([sys.executable, "-c", script, other], check=True)


def test_the_host_side_imports_nothing_of_the_controller():
    with zipfile.ZipFile(io.BytesIO(bundle())) as archive:
        for name in archive.namelist():
            if name.endswith(".pyc"):
                continue
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


def test_hosts_that_are_opened_side_by_side_get_one_archive():
    _packed.cache_clear()
    together = Barrier(4)

    def packed(_):
        together.wait(10)
        return bundle()

    with ThreadPoolExecutor(4) as pool:
        assert len({*map(id, pool.map(packed, range(4)))}) == 1


@pytest.fixture
def bundle_with(tmp_path, monkeypatch):
    """Return the archive when a package is installed that registers something to travel."""
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").write_text("")
    (tmp_path / "acme" / "pi.py").write_text("from onhost.errors import Corrupt\n")

    def bundle_with(row):
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[testbed.onhost]\n{row}\n")
        _packed.cache_clear()
        return bundle()

    monkeypatch.syspath_prepend(tmp_path)
    yield bundle_with
    _packed.cache_clear()


def test_a_package_travels_under_the_name_that_it_registers(bundle_with):
    with zipfile.ZipFile(io.BytesIO(bundle_with("acme_onhost = acme"))) as archive:
        names = [name for name in archive.namelist() if not name.startswith("onhost/")]
    modules = [name for name in names if name.endswith(".py")]
    assert modules == ["__main__.py", "acme_onhost/__init__.py", "acme_onhost/pi.py"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("onhost = acme", "'onhost' cannot be its name"),
        ("acme-onhost = acme", "'acme-onhost' cannot be its name"),
        ("acme_onhost = acme_of_nobody", "No module named 'acme_of_nobody'"),
    ],
)
def test_a_package_that_cannot_travel_is_named(bundle_with, row, why):
    with pytest.raises(TestbedError, match=why):
        bundle_with(row)
