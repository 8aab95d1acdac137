"""Find the settings of experiment, lab and versions that differ between runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ABSENT = "–"
"""What stands for a setting that a run does not have."""

_SAID_ELSEWHERE = {"question", "experiment", "lab.lab"}


_WIRING = re.compile(
    r"lab\.hosts\.[^.]+\.(ssh|power|ports\.[^.]+\.(interface|address|tx|rx|bidi|packet|rdma))"
    r"|lab\.(switches|packet_switches|power|attenuators|meters)\.[^.]+"
    r"\.(resource|identity|ports|(fibres|taps)\..+)"
)
"""Keys that say what stands where and which fibre leads where."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The inputs of a run: its files with every override, and the facts of `run.json`."""

    experiment: Mapping[str, Any]
    lab: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting that differs between runs: its dotted key and its value in each run."""

    key: str
    values: tuple[str, ...]

    @property
    def is_wiring(self) -> bool:
        """Return whether the setting is an address or part of the wiring."""
        return bool(_WIRING.fullmatch(self.key))


def differing(setups: Sequence[Setup]) -> list[Setting]:
    """Return the settings that differ between runs: those of experiments first, then of labs."""
    found = [dict(_settings(setup)) for setup in setups]
    keys = dict.fromkeys(key for one in found for key in one)
    rows = [Setting(key, tuple(one.get(key, ABSENT) for one in found)) for key in keys]
    return [row for row in rows if len(set(row.values)) > 1]


def _settings(setup: Setup) -> Iterator[tuple[str, str]]:
    for root, data in (("", setup.experiment), ("lab.", setup.lab)):
        for key, value in _leaves(data, root):
            if key not in _SAID_ELSEWHERE:
                yield key, value
    facts = setup.facts
    yield "trials of an arm", str(facts.get("repeat", ABSENT))
    git = facts.get("git") or {}
    yield "commit", f"{git.get('commit', ABSENT)}{', with changes' if git.get('dirty') else ''}"
    yield "machine", str((facts.get("machine") or {}).get("node", ABSENT))
    for name, number in (facts.get("versions") or {}).items():
        yield f"version of {name}", str(number)


def _leaves(data: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield every value of a file by its dotted key; a list without mappings is one value."""
    if isinstance(data, Mapping) and data:
        start = key if not key or key.endswith(".") else f"{key}."
        for name, value in data.items():
            yield from _leaves(value, f"{start}{name}")
    elif isinstance(data, list) and any(isinstance(item, Mapping) for item in data):
        for number, item in enumerate(data):
            yield from _leaves(item, f"{key}.{number}")
    else:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        yield key, text
