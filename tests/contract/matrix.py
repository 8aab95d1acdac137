"""Every switch driver × wire × behaviour or fault, from the registry; and the page that shows it.

`python -m tests.contract.matrix` rewrites docs/driver-matrix.md.
"""

from functools import cache
from pathlib import Path

import pytest

from testbed.bench.sites import SwitchSite
from testbed.plugins import kind, kinds
from tests.contract.family import Family, families
from tests.contract.outcomes import EXPECTED
from tests.contract.virtual_time import VirtualTime

PAGE = Path(__file__).parents[2] / "docs" / "driver-matrix.md"
FAMILIES = families("switch")


@cache
def known_faults(driver):
    """Return the faults that a driver's far end knows, with what each does."""
    family: Family = FAMILIES[driver]
    inputs, outputs = family.inputs, family.outputs
    site = SwitchSite(
        frozenset(range(1, inputs + 1)),
        frozenset(range(inputs + 1, inputs + outputs + 1)),
        "S1",
        0.0,
        1,
        VirtualTime(),
        lambda lit: None,
    )
    options = kind("drivers", driver).options(**family.options)
    far_end = kind("far_ends", kind("drivers", driver).far_end).load()(site, options)
    return dict(far_end.known_faults)


def wires():
    """Return every driver on every wire that it claims, as test parameters."""
    return [
        pytest.param(family, wire, id=f"{name}-{wire}")
        for name, family in FAMILIES.items()
        for wire in family.wires
    ]


def faults():
    """Return every driver × wire × fault; only the first wire of each is for every day."""
    return [
        pytest.param(
            family,
            wire,
            fault,
            id=f"{name}-{wire}-{fault}",
            marks=() if wire == family.wires[0] else pytest.mark.soak,
        )
        for name, family in FAMILIES.items()
        for wire in family.wires
        for fault in known_faults(name)
        if fault not in family.impossible
    ]


def _named():
    """Return the faults that experiments can name, as far ends call them."""
    return {kind.far_end for kind in kinds("faults").values() if kind.role == "far-end"}


def holes():
    """Return what has no expected outcome, or should have one and does not, in words."""
    found = []
    for name, family in FAMILIES.items():
        known, cannot = known_faults(name), family.impossible
        found += [f"{name} claims no wire"] if not family.wires else []
        found += [
            f"{name}: outcomes.py does not say what must come of {f}"
            for f in known
            if f not in EXPECTED
        ]
        found += [f"{name}: no experiment can name {f}" for f in known if f not in _named()]
        found += [f"{name}: why is {f} impossible?" for f, why in cannot.items() if not why]
        found += [f"{name}: {f} is no fault" for f in cannot if f not in EXPECTED]
        found += [
            f"{name}: its far end does not know {fault}, and its family does not say why"
            for fault, expected in EXPECTED.items()
            if not expected.only and fault not in known and fault not in cannot
        ]
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
            "Each cell is a test of `tests/contract/test_every_switch.py`: "
            "the driver against its far end, over real bytes.",
            "`make test` runs every behaviour on every wire and every fault on the first wire; "
            "`make soak` runs every fault on every wire.",
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
    from tests.contract.test_every_switch import BEHAVIOURS

    PAGE.write_text(page(BEHAVIOURS))
