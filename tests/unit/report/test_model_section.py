"""The last page of a model: a row for each variant, and nothing about a job that never ran."""

import io

from rich.console import Console

from testbed.analysis.summary import summarise
from testbed.events import Event
from testbed.report.last_page import print_page
from testbed.schema import load_experiment

EXPERIMENT = """\
experiment: paper
question: What does the model say?
needs: {hosts: 0, fabric: any}
jobs: {main: {kind: collective-model, ranks: 8, size: 1 MiB, alpha: 1 us, rate: 1 Gbit/s}}
variants: {n16: {jobs.main.ranks: 16}, n8: {jobs.main.algorithm: rhd}}
"""
SAID = {
    "n16": {"total_time": 0.25, "rounds": 18, "critical_delay": 0.002},
    "n8": {"total_time": 1.5, "rounds": 6},
}


def test_model_variants_form_one_table_in_natural_order_of_their_names(tmp_path):
    path = tmp_path / "paper.yaml"
    path.write_text(EXPERIMENT)
    events = [Event(0, 0.0, "run.begin", "paper", None, {"label": "model", "lab": "rack"})]
    for number, (arm, values) in enumerate(SAID.items()):
        events.append(Event(len(events), 0.0, "trial.begin", arm, number, {}))
        events.append(Event(len(events), 0.0, "model", arm, number, values))
        end = {"valid": True, "recovered": True, "reason": ""}
        events.append(Event(len(events), 0.0, "trial.end", arm, number, end))
    end = {"error": "", "exit_code": 0, "cleanup": "verified", "left": [], "signals": []}
    events.append(Event(len(events), 0.0, "run.end", "", None, end))
    console = Console(file=io.StringIO(), width=100)
    print_page(summarise("1", load_experiment(path), events), tmp_path, console)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    at = lines.index("What the model says")
    assert lines[at + 1 : at + 4] == [
        "variant total time critical delay rounds",
        "n8 1.5 s 6",
        "n16 250 ms 2 ms 18",
    ]
    assert "model: A model's numbers: nothing was run." in lines
    assert not any("what the job did" in line for line in lines)
    assert "verdict passed, clean-up verified" in lines
