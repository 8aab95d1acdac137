"""The page that shows every switch driver × wire × behaviour or fault, from the registry.

`python -m tests.contract.matrix` rewrites docs/driver-matrix.md.
"""

from pathlib import Path

from testbed.contract import matrix
from testbed.contract.family import families
from testbed.contract.matrix import known_faults
from testbed.contract.outcomes import EXPECTED

PAGE = Path(__file__).parents[2] / "docs" / "driver-matrix.md"
FAMILIES = families()


def holes():
    """Return what is not tested of any driver, in words."""
    found = [hole for family in FAMILIES.values() for hole in matrix.holes(family)]
    nowhere = EXPECTED.keys() - {fault for name in FAMILIES for fault in known_faults(name)}
    return found + [f"no far end knows {fault}" for fault in sorted(nowhere)]


def page(behaviours):
    """Return docs/driver-matrix.md; `behaviours` are the names and words of what is tested."""
    return "\n".join(
        [
            "# Every driver, every wire, every fault",
            "",
            "Generated from the registry by `python -m tests.contract.matrix`; "
            "a test keeps it current.",
            "Each cell is a test of `testbed/contract/suite.py`: "
            "the driver against its far end, over real bytes.",
            "`make test` runs every behaviour on every wire, and every fault on the first wire of "
            "a third of the drivers that can have it; `make soak` runs the other faults and wires.",
            "",
            "## Behaviours",
            "",
            *_table(["driver", "wires", "size of the twin"], map(_driver_row, FAMILIES.values())),
            "",
            "On each of these wires:",
            "",
            *(f"- {words}" for words in behaviours),
            "",
            "## Faults",
            "",
            "✓ tested on every wire of the driver · – not possible there, see below · "
            "(empty) its language lacks what the fault needs.",
            "",
            *_table(
                ["fault", *(f"`{n}`" for n in FAMILIES), "what the driver makes of it", "needs"],
                [_fault_row(fault) for fault in EXPECTED],
            ),
            "",
            *_reasons(),
        ]
    )


def _driver_row(family):
    wires = ", ".join(f"`{wire}`" for wire in family.wires)
    return [f"`{family.driver}`", wires, f"{family.inputs}×{family.outputs}"]


def _fault_row(fault):
    expected = EXPECTED[fault]
    cells = [_cell(name, fault) for name in FAMILIES]
    return [f"`{fault}`", *cells, expected.words, expected.only]


def _cell(name, fault):
    if fault in FAMILIES[name].impossible:
        return "–"
    return "✓" if fault in known_faults(name) else ""


def _reasons():
    rows = [
        f"- `{name}`, `{fault}`: {why}."
        for name, family in FAMILIES.items()
        for fault, why in sorted(family.impossible.items())
    ]
    rows += [
        f"- `{name}`: it cannot be asked what it holds, so what another client made is not seen."
        for name, family in FAMILIES.items()
        if family.blind
    ]
    return ["Not possible:", "", *rows, ""] if rows else []


def _table(head, rows):
    return [
        f"| {' | '.join(head)} |",
        f"| {' | '.join('---' for _ in head)} |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


if __name__ == "__main__":
    from testbed.contract.suite import BEHAVIOURS

    PAGE.write_text(page(BEHAVIOURS))
