"""The section of the page for a model: one row per variant, as a model has no trials."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from testbed.analysis.metric_definitions import METRICS
from testbed.analysis.summary import Summary
from testbed.report.console import plain_table
from testbed.report.wording import in_order, quantity


def print_model(summary: Summary, console: Console) -> None:
    """Print the values that the model computes for each variant; missing ones are left blank."""
    arms = in_order({trial.arm for trial in summary.trials})
    said = {name.rpartition(".")[2] for name in summary.metrics}
    names = [name for name in METRICS if name in said]
    console.print(Text("\nWhat the model says", style="bold"))
    headings = [name.replace("_", " ") for name in names]
    table = plain_table("variant", *headings, right=headings)
    for arm in arms:
        metrics = (summary.metrics.get(f"{arm}.{name}") for name in names)
        cells = ("" if m is None else quantity(m.median, m.meaning.unit) for m in metrics)
        table.add_row(arm, *cells)
    console.print(table)
