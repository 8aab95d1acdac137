"""Find the numbers that programs print, by patterns from the experiment file."""

from __future__ import annotations

import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from testbed.errors import LabError
from testbed.jobs import pattern_search
from testbed.jobs.contracts import Reading
from testbed.jobs.program_descriptors import Pattern

SECONDS = 5
"""Of processor time for all patterns together."""

_PATIENCE = 12 * SECONDS
"""Seconds on the clock, for a machine that has other things to do."""

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


def readings(patterns: Mapping[str, Pattern], texts: Sequence[str]) -> Iterator[Reading]:
    """Yield for each pattern the median of the numbers that it matched in all texts.

    A pattern without a match yields nothing. Raise LabError for a match that is no number, or when
    the search exceeds its time limit.
    """
    if not patterns:
        return
    lines = [line for text in texts for line in text.splitlines()]
    for name, found in _search({n: p.pattern for n, p in patterns.items()}, lines).items():
        unit, factor = patterns[name].base
        values = [_number(name, text) * factor for text in found]
        if values:
            value = statistics.median(values)
            yield Reading(name, value, unit, patterns[name].better, len(values))


def _search(patterns: Mapping[str, str], lines: Sequence[str]) -> dict[str, list[str | None]]:
    question = json.dumps({"patterns": dict(patterns), "lines": lines})
    command = [sys.executable, "-I", "-S", str(Path(pattern_search.__file__)), str(SECONDS)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        said, _ = process.communicate(question, _PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
    answers = [json.loads(line) for line in said.splitlines() if line.endswith("}")]
    found = {a["ends"]: a["found"] for a in answers if "ends" in a}
    if len(found) < len(patterns):
        name = next((a["begins"] for a in reversed(answers) if "begins" in a), min(patterns))
        raise LabError(
            f"the pattern of metric {name!r} did not end within {SECONDS} s",
            hint="write it without one repetition inside another, as (a+)+",
        )
    return found


def _number(name: str, text: str | None) -> float:
    value = float(text) if text is not None and _NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(value):
        raise LabError(
            f"the pattern of metric {name!r} matched {text!r:.40}, which is not a number",
            hint="put its group around the number alone",
        )
    return value
