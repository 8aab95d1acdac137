"""The page's section on a model: every variant a row, as nothing was repeated or measured."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from testbed.analysis.metric_definitions import METRICS
from testbed.analysis.summary import Summary
from testbed.report.console import plain_table
from testbed.report.wording import in_order, quantity


def print_model(summary: Summary, console: Console) -> None:
    """Print what the model says of each variant; a variant without a metric has a gap there."""
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
