"""The generated messages are those of the .proto files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROTOS = sorted(path.relative_to(ROOT) for path in (ROOT / "testbed" / "propius").glob("*.proto"))


@pytest.mark.parametrize("proto", PROTOS, ids=str)
def test_the_messages_are_made_from_the_proto_file(proto, tmp_path):
    line = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}"]
    subprocess.run([*line, f"--pyi_out={tmp_path}", str(proto)], cwd=ROOT, check=True)
    for ending in ("_pb2.py", "_pb2.pyi"):
        name = proto.with_name(proto.stem + ending)
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()
