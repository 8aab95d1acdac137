"""The verb `list`, over runs that ended and runs that were killed."""

import json

from testbed.cli import run as command_line
from testbed.record.rundir import RunDirectory


def test_a_run_killed_before_it_wrote_anything_does_not_hide_the_others(tmp_path, capsys):
    killed, unfinished, ended = (RunDirectory.create(tmp_path, name) for name in "abc")
    for run in (unfinished, ended):
        run.write_json("run.json", {"run": run.id, "label": "measured-twin"})
    ended.write_json("summary.json", {"outcome": "passed", "reason": "all checks passed"})
    assert command_line(["list", "runs", "--results", str(tmp_path), "--json"]) == 0
    rows = {row["run"]: row["outcome"] for row in json.loads(capsys.readouterr().out)}
    assert rows == {killed.id: "unreadable", unfinished.id: "unfinished", ended.id: "passed"}
