"""Children that a process with servers and clients of gRPC forks."""

import subprocess
import sys

PROGRAM = """
import subprocess, sys
from testbed.propius import control_pb2
from testbed.propius.balancer import SERVICE
from testbed.propius.rpc import Caller
from testbed.propius.serve import serving

name = control_pb2.ClientName(client="c")
for _ in range(20):
    with serving("client-manager", "127.0.0.1:0", sys.argv[1]) as address:
        caller = Caller(address, SERVICE)
        caller.wait_until_up("Ping", name, 10.0)
        for _ in range(3):
            subprocess.run(["true"], preexec_fn=int, check=True)
        caller.close()
"""


def test_children_that_are_forked_beside_grpc_are_not_aborted(tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "records.db")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
