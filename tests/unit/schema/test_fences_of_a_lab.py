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


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / "lab.yaml").write_text(text)
        return load_lab(tmp_path / "lab.yaml")

    return read


def fences(lab):
    return {host: set(lab.fences(host)) for host in lab.hosts}


def test_a_lab_that_says_nothing_permits_its_own_processes_to_be_ended_and_nothing_else(read):
    lab = read(LAB)
    assert fences(lab) == {
        **{host: {"process"} for host in ("h0", "h1", "h2")},
        "h3": set(),
    }


def test_a_host_permits_what_the_lab_does_unless_it_says_less_or_has_no_outlet(read):
    assert fences(read(LAB + "fence: [power, network, process]\n")) == {
        "h0": {"power", "network", "process"},
        "h1": {"network", "process"},
        "h2": {"process"},
        "h3": set(),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fence: [network]\n", r"lab.yaml:5:39: .*the lab itself does not permit 'process'"),
        ("fence: [process, outlet]\n", r"lab.yaml:9:18: .*'outlet'"),
    ],
)
def test_what_cannot_be_permitted_is_an_error_at_its_place(read, text, said):
    with pytest.raises(FileError, match=said):
        read(LAB + text)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_lab_that_is_shipped_says_which_fences_it_permits(path):
    assert load_lab(path).fence
    assert "\nfence: [" in path.read_text()
