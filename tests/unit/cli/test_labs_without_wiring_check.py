"""A lab without fibres has no wiring to check."""

from pathlib import Path

import pytest

from testbed.cli.wiring import check_wiring
from testbed.errors import UsageError
from testbed.schema import load_lab

ROOT = Path(__file__).parents[3]


def test_a_lab_on_a_packet_switch_is_refused_before_anything_is_opened(tmp_path):
    with pytest.raises(UsageError, match="no port of lab packet-rack has a fibre"):
        check_wiring(load_lab(ROOT / "configs" / "packet-rack.yaml"), tmp_path, json=False)
    assert not list(tmp_path.iterdir())


def test_circuits_through_several_switches_are_not_lit_one_by_one(tmp_path):
    with pytest.raises(UsageError, match="circuits of lab slices pass several switches"):
        check_wiring(load_lab(ROOT / "configs" / "slices.yaml"), tmp_path, json=False)
    assert not list(tmp_path.iterdir())
