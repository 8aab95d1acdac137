"""The light descriptions that entry points name, and the page that documents them."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.plugins import kinds
from testbed_drivers.dialects import client_connection, rest_far_end, scpi_far_end, tl1_far_end
from testbed_drivers.dialects.options import HttpOptions
from testbed_drivers.light import power_meters_far_end
from testbed_drivers.switches import (
    calient_rest_far_end,
    mzi_far_end,
    photonic_mesh_far_end,
    simulated_switch,
    sonic_ocs_far_end,
)
from testbed_drivers.switches.descriptors.polatis import PolatisOptions

README = (Path(__file__).parents[3] / "drivers" / "README.md").read_text("utf-8")


def test_reading_every_driver_descriptor_loads_no_instrument_library():
    script = (
        "import sys; from testbed.plugins import kinds;"
        "[kinds(group) for group in ('drivers', 'transports', 'far_ends')];"
        "print(sorted({'serial', 'pyvisa', 'pyvisa_py', 'paramiko'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("group", ["drivers", "transports", "far_ends"])
def test_every_driver_descriptor_names_an_existing_implementation(group):
    for kind in kinds(group).values():
        assert callable(kind.load())


def test_every_driver_has_a_role_and_a_far_end():
    for name, kind in kinds("drivers").items():
        assert kind.role in ("switch", "power", "attenuator", "meter"), name
        assert kind.far_end in kinds("far_ends"), name


def test_the_readme_names_every_driver_and_transport():
    for group in ("drivers", "transports"):
        for name in kinds(group):
            assert f"`{name}`" in README


def test_the_readme_lists_exactly_the_faults_of_each_far_end():
    section = README.partition("## What a far end can do wrong")[2].partition("\n## ")[0]
    rows = [row.split(" | ") for row in section.splitlines() if row.startswith("| `")]
    listed = {row[0].strip("| `"): row[1].strip(" |") for row in rows}
    known = {}
    for family in (
        client_connection,
        scpi_far_end,
        simulated_switch,
        mzi_far_end,
        rest_far_end,
        calient_rest_far_end,
        sonic_ocs_far_end,
        photonic_mesh_far_end,
        power_meters_far_end,
        tl1_far_end,
    ):
        known |= family.FAULTS
    assert listed == known


def test_line_terminators_default_to_those_of_the_transport():
    options = PolatisOptions()
    assert options.ends(serial=False) == (b"\n", b"\n")
    assert options.ends(serial=True) == (b"\r\n", b"\r")
    assert PolatisOptions(read_termination="\r\n").ends(serial=True) == (b"\r\n", b"\r\n")


@pytest.mark.parametrize("group", ["drivers", "transports", "far_ends"])
def test_every_driver_option_has_a_default(group):
    for kind in kinds(group).values():
        assert kind.options() == kind.options()


def test_without_a_user_in_the_options_there_is_no_authorization_header():
    assert HttpOptions().authorization() == ""
