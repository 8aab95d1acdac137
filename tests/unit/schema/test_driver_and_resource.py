"""What a driver cannot do with its instrument is told when the lab file is read."""

import pytest

from testbed.errors import FileError
from testbed.plugins import kinds
from testbed.resource import way
from testbed.schema import load_lab

LAB = """\
lab: bench
hosts: {{h0: {{ssh: h0}}}}
switches:
  ocs: {{driver: {driver}, resource: "{resource}", ports: [1-4]{more}}}
"""

SOCKET = "TCPIP::192.0.2.10::3082::SOCKET"


@pytest.fixture
def read(tmp_path):
    def read(driver, resource, more=""):
        file = tmp_path / "lab.yaml"
        file.write_text(LAB.format(driver=driver, resource=resource, more=more))
        return load_lab(str(file))

    return read


@pytest.mark.parametrize(
    ("driver", "resource", "example"),
    [
        ("calient-rest", SOCKET, "https://192.0.2.10"),
        ("polatis-restconf", SOCKET, "http://192.0.2.10:8008"),
        ("sonic-ocs", SOCKET, "ssh://admin@192.0.2.10"),
        ("photonic-mesh", "ssh://192.0.2.10", "TCPIP::192.0.2.10::5025::SOCKET"),
        ("agiltron", SOCKET, "/dev/ttyUSB0"),
        ("polatis", "https://192.0.2.10", "TCPIP::192.0.2.10::5025::SOCKET"),
    ],
)
def test_a_resource_unsuitable_for_the_driver_is_refused_with_a_suitable_example(
    read, driver, resource, example
):
    with pytest.raises(FileError) as caught:
        read(driver, resource)
    said = str(caught.value)
    assert ":4:" in said
    refusal = f"the driver {driver} supports no resource of the form {resource}"
    assert f"{refusal}; write it as in {example}" in said
    assert way(example) in kinds("drivers")[driver].ways


@pytest.mark.parametrize("driver", ["calient", "polatis-tl1"])
def test_a_login_required_by_the_protocol_must_be_given(read, driver):
    with pytest.raises(FileError, match=f"user: the driver {driver} needs the key 'user'"):
        read(driver, SOCKET)
    assert read(driver, SOCKET, ", user: lab").switches["ocs"].options.user == "lab"


@pytest.mark.parametrize("driver", ["agiltron", "thorlabs"])
def test_a_serial_number_is_refused_for_a_device_that_reports_none(read, driver):
    with pytest.raises(
        FileError, match=r"identity: .* does not report its identity or serial number"
    ):
        read(driver, "/dev/ttyUSB0", ", identity: S1")
    assert read(driver, "/dev/ttyUSB0").switches["ocs"].identity is None


def test_every_driver_states_its_transports():
    known = {"tcp", "http", "ssh", "serial", "visa"}
    ours = {n: k for n, k in kinds("drivers").items() if k.implementation.startswith("testbed_")}
    assert all(kind.ways and set(kind.ways) <= known for kind in ours.values()), ours
    usual = {n: k.resource.format(host="192.0.2.10") for n, k in ours.items() if k.resource}
    assert all(way(resource) in ours[name].ways for name, resource in usual.items())
