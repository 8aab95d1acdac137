"""The tables of installed drivers, faults, jobs, controllers and policies in docs/plugins.md.

Run it to write the page: `.venv/bin/python tests/docs/plugin_tables.py`.
"""

from __future__ import annotations

from pathlib import Path

from testbed.plugins import Kind, kinds

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"

_INTRODUCTION = """\
# Drivers, faults, jobs, controllers and scheduling policies

Generated from the registry of plug-ins by `tests/docs/plugin_tables.py`; `testbed list drivers` and
its siblings print the same. Their keys are in [file-formats.md](file-formats.md), what each driver
speaks and what that rests on in [../drivers/README.md](../drivers/README.md). A package of your own
adds to each, as [../examples/plugin](../examples/plugin/README.md) does; `pytest --testbed-driver
NAME` tests its driver of a switch as all of these are tested.
"""


def page() -> str:
    """Return the whole page as it must be."""
    faults = kinds("faults")
    on_jobs = {name: kind for name, kind in faults.items() if kind.role != "far-end"}
    on_far_ends = {name: kind for name, kind in faults.items() if kind.role == "far-end"}
    sections = [
        _drivers(kinds("drivers")),
        _section("Faults", ("fault", "what happens"), _summaries(on_jobs)),
        _section(
            "Faults of a twin's switches",
            ("fault", "name in `testbed twin fault`", "what happens"),
            [(f"`{n}`", f"`{k.far_end}`", k.summary) for n, k in on_far_ends.items()],
        ),
        _section("Jobs", ("job", "what it runs"), _summaries(kinds("jobs"))),
        _section(
            "Controllers",
            ("controller", "as `policy`", "what it does"),
            [(f"`{n}`", _as_policy(n), k.summary) for n, k in kinds("controllers").items()],
        ),
        _section(
            "Scheduling policies",
            ("policy", "role", "which job it serves"),
            [(f"`{n}`", k.role, k.summary) for n, k in kinds("scheduling_policies").items()],
        ),
    ]
    return "\n".join([_INTRODUCTION, *sections])


def _drivers(drivers: dict[str, Kind]) -> str:
    rows = [
        (f"`{name}`", kind.role, kind.summary, ", ".join(kind.ways), _both_ways(kind))
        for name, kind in drivers.items()
    ]
    return _section("Drivers", ("driver", "role", "device", "reached by", "`bidi`"), rows)


def _as_policy(name: str) -> str:
    return "yes" if name in kinds("policies") else "no"


def _both_ways(kind: Kind) -> str:
    if kind.role != "switch":
        return ""
    return "yes" if kind.reciprocal else "no"


def _summaries(group: dict[str, Kind]) -> list[tuple[str, ...]]:
    return [(f"`{name}`", kind.summary) for name, kind in group.items()]


def _section(title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "\n".join([f"## {title}", "", *(f"| {' | '.join(line)} |" for line in lines), ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
