"""The command `list topologies`."""

import json

from testbed.cli import run as command_line
from testbed.fabric.topologies import TOPOLOGIES


def test_topologies_are_listed_with_what_they_join(capsys):
    assert command_line(["list", "topologies", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == sorted(TOPOLOGIES)
    assert command_line(["list", "topologies"]) == 0
    shown = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert shown == [[row["name"], row["summary"]] for row in rows]
    assert all(row["summary"] for row in rows)
