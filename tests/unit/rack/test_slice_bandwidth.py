"""Ports and rings of slices, against layouts that were counted by hand."""

from __future__ import annotations

import pytest

from testbed.rack.bandwidth import (
    Workload,
    fabric_rings,
    ideal_rings,
    most_static_rings,
    ports,
    static_port_use,
    static_rings,
)
from testbed.rack.torus import Shape, Torus

RACK = Torus()


@pytest.mark.parametrize(
    ("shape", "ports_in_use", "static", "most_static", "redirected"),
    [
        # Links of a chip inside its slice, of 6: one to the other of two, both around a full axis.
        ((2, 2, 1), 2 / 6, 1, 1, 3),
        ((2, 2, 2), 3 / 6, 1, 1, 2),  # one bundle of 4 fibres bears 2 rings there and back
        ((2, 2, 4), 4 / 6, 1, 2, 3),
        ((2, 4, 4), 5 / 6, 2, 2, 3),
        ((4, 4, 4), 6 / 6, 3, 3, 3),
        ((2, 2, 3), 10 / 3 / 6, 1, 1, 2),  # a line: 2 × 2 chips have links at 1, 2 and 1 sides of Z
    ],
)
def test_the_bandwidth_of_five_layouts_equals_values_by_hand(
    shape: Shape, ports_in_use: float, static: int, most_static: int, redirected: int
) -> None:
    assert static_port_use(RACK, shape) == pytest.approx(ports_in_use)
    assert static_rings(RACK, shape) == static
    assert most_static_rings(RACK, shape) == most_static
    assert fabric_rings(RACK, shape) == redirected
    assert ideal_rings(RACK, shape) == 3


@pytest.mark.parametrize(
    ("shape", "along"),
    [((2, 2, 1), (0.5, 0.5, 0)), ((2, 2, 2), (0.5, 0.5, 0.5)), ((2, 4, 4), (0.5, 1, 1))],
)
def test_up_to_half_of_the_links_of_an_axis_are_unused(
    shape: Shape, along: tuple[float, ...]
) -> None:
    assert tuple(static_port_use(RACK, shape, axis) for axis in range(3)) == pytest.approx(along)


def test_bandwidth_losses_equal_those_of_the_paper() -> None:
    """A third of the bandwidth with two usable axes, two thirds with one."""
    assert ports(RACK) == 6
    assert 1 - static_rings(RACK, (2, 4, 4)) / 3 == pytest.approx(1 / 3)
    assert 1 - static_rings(RACK, (2, 2, 4)) / 3 == pytest.approx(2 / 3)


def test_communication_groups_share_the_ports() -> None:
    assert fabric_rings(RACK, (2, 2, 1), groups=3) == 1
    assert fabric_rings(RACK, (2, 4, 4), groups=2) == 1  # half of 3 ports each way, rounded down


def test_rings_with_more_fibres_and_in_other_racks_equal_values_by_hand() -> None:
    assert fabric_rings(Torus(fibres=2), (2, 2, 2)) == 4
    assert ideal_rings(Torus(fibres=2), (2, 2, 2)) == 6
    assert ports(Torus((8, 2, 1), (1, 1, 1))) == 4
    assert static_port_use(Torus((8, 2, 1), (1, 1, 1)), (8, 2, 1)) == 1
    assert fabric_rings(RACK, (1, 1, 1)) == ideal_rings(RACK, (1, 1, 1)) == 0


def test_the_two_parameter_model_gives_the_hardware_table_of_the_paper() -> None:
    """Batch 8 on two GPUs over one and two ports of 10 GbE: 40.249 s and 23.369 s for 8 steps."""
    one_port = 4.94e9 * 8 / 9.4e9
    load = Workload("Llama-3.2-1B", 40.249 / 8 - one_port, one_port)
    assert 8 * load.step_s(2, 1) == pytest.approx(40.249)
    assert 8 * load.step_s(2, 2) == pytest.approx(23.369, rel=0.01)
    assert load.step_s(1, 0) == load.compute_s
