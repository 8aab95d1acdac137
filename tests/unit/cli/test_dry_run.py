"""What only looks at files touches nothing: every way out of the process is counted."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

COUNTED = """
import os, sys

WAYS_OUT = {
    "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "subprocess.Popen",
    "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.mkdir", "os.rename", "os.remove",
    "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.truncate", "os.kill", "os.mkfifo",
    "shutil.rmtree", "fcntl.flock", "fcntl.ioctl", "sqlite3.connect", "pty.spawn",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
counted = []

def count(event, arguments):
    wrote = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
    if event in WAYS_OUT or wrote:
        counted.append((event, str(arguments[0])[:80]))

sys.dont_write_bytecode = True
sys.addaudithook(count)
import testbed.cli
code = testbed.cli.run(sys.argv[1:])
print(f"code {code}, counted {len(counted)}", file=sys.stderr)
print(counted, file=sys.stderr)
"""


def counted(*arguments: str, cwd: Path = ROOT) -> tuple[int, int, str]:
    """Return a command's exit code, and how often it acted on anything outside its process."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *arguments], cwd=cwd, capture_output=True, text=True
    )
    *_, verdict, what = done.stderr.splitlines()
    code, count = (int(part.split()[-1]) for part in verdict.split(", "))
    return code, count, what


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "experiments/lumion.yaml"],
        ["plan", "experiments/allreduce.yaml", "--json", "--repeat", "3"],
        ["validate", "experiments/lumion.yaml", "configs/rack.yaml"],
        ["plan", "experiments/lumion.yaml", "-S", "jobs.main.ranks=40"],
    ],
)
def test_plan_and_validate_have_no_side_effects(arguments):
    code, count, what = counted(*arguments)
    assert code == (2 if "-S" in arguments else 0)
    assert count == 0, what


def test_the_counter_of_side_effects_sees_those_of_a_run(tmp_path):
    """A run on a lab that nobody answers for writes its record and dials, and that is counted."""
    lab = (ROOT / "configs" / "rack.yaml").read_text()
    (tmp_path / "lab.yaml").write_text(lab.replace("192.0.2.1", "127.0.0.1"))
    code, count, what = counted(
        "run", str(ROOT / "experiments/lumion.yaml"), "--lab", str(tmp_path / "lab.yaml"),
        "--results", str(tmp_path / "results"), cwd=tmp_path,
    )  # fmt: skip
    assert code == 4 and count > 10
    for way in ("os.mkdir", "socket.connect", "'open'"):
        assert way in what
