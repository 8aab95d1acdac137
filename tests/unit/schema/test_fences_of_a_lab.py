"""Which fences a lab file permits, of all hosts and of each."""

from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.schema import load_lab

CONFIGS = Path(__file__).parents[3] / "configs"
LAB = """\
lab: small
hosts:
  h0: {ssh: h0, power: pdu.1}
  h1: {ssh: h1}
  h2: {ssh: h2, power: pdu.2, fence: [process]}
  h3: {ssh: h3, power: pdu.3, fence: []}
power:
  pdu: {driver: redfish, resource: "https://192.0.2.11"}
"""


def fences(lab):
    return {host: set(lab.fences(host)) for host in lab.hosts}


def test_a_lab_without_a_fence_key_permits_only_process_fences(read_lab):
    lab = read_lab(LAB)
    assert fences(lab) == {
        **{host: {"process"} for host in ("h0", "h1", "h2")},
        "h3": set(),
    }


def test_a_host_inherits_the_fences_of_the_lab_unless_it_limits_them_or_has_no_outlet(read_lab):
    assert fences(read_lab(LAB + "fence: [power, network, process]\n")) == {
        "h0": {"power", "network", "process"},
        "h1": {"network", "process"},
        "h2": {"process"},
        "h3": set(),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fence: [network]\n", r"f:5:39: .*the lab's own `fence` does not list 'process'"),
        ("fence: [process, outlet]\n", r"f:9:18: .*'outlet'"),
    ],
)
def test_an_impossible_fence_is_refused_at_its_place(read_lab, text, said):
    with pytest.raises(FileError, match=said):
        read_lab(LAB + text)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_lab_states_its_fences(path):
    assert load_lab(path).fence
    assert "\nfence: [" in path.read_text()
