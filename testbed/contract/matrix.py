"""Drivers of switches × wires × faults, as parameters of tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from testbed.bench.sites import SwitchSite
from testbed.contract.family import Family, family_of
from testbed.contract.outcomes import EXPECTED
from testbed.plugins import kind, kinds
from testbed.twin.scheduler import SteppedScheduler


@cache
def known_faults(driver: str) -> Mapping[str, str]:
    """Return the faults that a driver's far end knows, with what each does."""
    family = family_of(driver)
    inputs, outputs = family.inputs, family.outputs
    site = SwitchSite(
        frozenset(range(1, inputs + 1)),
        frozenset(range(inputs + 1, inputs + outputs + 1)),
        "S1",
        0.0,
        1,
        SteppedScheduler(),
        lambda lit: None,
    )
    options = kind("drivers", driver).options(**family.options)
    far_end = kind("far_ends", kind("drivers", driver).far_end).load()(site, options)
    return dict(far_end.known_faults)


def wires(families: Iterable[Family]) -> Iterator[tuple[Family, str]]:
    """Yield every driver on every wire that it claims."""
    return ((family, wire) for family in families for wire in family.wires)


def faults(families: Iterable[Family]) -> Iterator[tuple[Family, str, str]]:
    """Yield every driver × wire × fault that it can have."""
    for family, wire in wires(families):
        for fault in known_faults(family.driver):
            if fault not in family.impossible:
                yield family, wire, fault


def holes(family: Family) -> Iterator[str]:
    """Yield what has no expected outcome, or should have one and does not, in words."""
    name, known, cannot = family.driver, known_faults(family.driver), family.impossible
    named = {kind.far_end for kind in kinds("faults").values() if kind.role == "far-end"}
    if not family.wires:
        yield f"{name} claims no wire"
    yield from (f"{name}: nothing says what must come of {f}" for f in known if f not in EXPECTED)
    yield from (f"{name}: no experiment can name {f}" for f in known if f not in named)
    yield from (f"{name}: why is {f} impossible?" for f, why in cannot.items() if not why)
    yield from (f"{name}: {f} is no fault" for f in cannot if f not in EXPECTED)
    for fault, expected in EXPECTED.items():
        if not expected.only and fault not in known and fault not in cannot:
            yield f"{name}: its far end does not know {fault}, and its family does not say why"
