"""Clients that other people wrote drive the far ends: SCPI, TL1 and REST are not just our idea.

`easy-scpi`, `pexpect` and `telnetlib3` come with the extra `strangers`; `pymeasure` brings a table
library and a plotting library along, so it is used only where it is installed already.
"""

import asyncio
import json
import shutil
import socket
import subprocess
import warnings

import pytest
import pyvisa

from testbed.contract.rig import Rig, soon
from tests.contract import matrix

CONNECTED = "(@1,2),(@71,72)"


@pytest.fixture
def box(request, tmp_path):
    """A switch twin on TCP, of the family that the test names."""
    family = matrix.FAMILIES[request.param]
    rig = Rig(family, "tcp" if "tcp" in family.wires else family.wires[0], tmp_path)
    yield rig
    rig.close()


def polatis(test):
    return pytest.mark.parametrize("box", ["polatis"], indirect=True)(test)


def port(box):
    return box.place.port


def visa_name(box):
    return f"TCPIP::127.0.0.1::{port(box)}::SOCKET"


def read_back_by_driver(box):
    """Return what our own driver reads back beside the other client."""
    return box.driver().state(soon())


# --- SCPI -----------------------------------------------------------------------------------------


@polatis
def test_pyvisa_drives_the_far_end(box):
    line = pyvisa.ResourceManager("@py").open_resource(
        visa_name(box), read_termination="\n", write_termination="\n"
    )
    assert line.query("*IDN?").startswith("Polatis,")
    line.write(f":OXC:SWITch:CONNect:ADD {CONNECTED}")
    assert line.query(":SYSTem:ERRor?") == '0, "No error"'
    assert line.query("oxc:swit:conn:stat?") == CONNECTED
    line.write("NONSENSE")
    assert line.query("SYST:ERR?").startswith("-113")
    line.close()
    assert read_back_by_driver(box) == {1: 71, 2: 72}


@polatis
def test_easy_scpi_drives_the_far_end_with_its_own_spelling_of_headers(box):
    easy_scpi = pytest.importorskip("easy_scpi", reason="pip install easy-scpi")
    client = easy_scpi.Instrument(
        port=None, backend="@py", read_termination="\n", write_termination="\n"
    )
    client.rid = visa_name(box)
    client.connect()
    assert client.id.startswith("Polatis,")
    client.oxc.switch.connect.add(CONNECTED)
    assert client.oxc.switch.connect.state() == CONNECTED
    assert client.oxc.swit.conn.port("2", query=True) == '"72"'
    client.oxc.switch.connect.sub("(@1),(@)")
    assert client.syst.err() == '0, "No error"'
    client.disconnect()
    assert read_back_by_driver(box) == {2: 72}


@polatis
def test_pymeasure_drives_the_far_end_and_reads_its_errors(box):
    instruments = pytest.importorskip("pymeasure.instruments", reason="pip install pymeasure")

    class Switch(instruments.SCPIMixin, instruments.Instrument):
        size = instruments.Instrument.measurement(":OXC:SWIT:SIZE?", "Inputs and outputs.")

    client = Switch(
        visa_name(box),
        "a switch",
        visa_library="@py",
        read_termination="\n",
        write_termination="\n",
    )
    assert client.size == [70, 70]
    client.write(f":OXC:SWIT:CONN:ADD {CONNECTED}")
    assert client.check_errors() == []
    client.write(":OXC:SWIT:CONN:ADD (@1),(@99)")
    assert [error[0] for error in client.check_errors()] == [-221]
    client.adapter.close()
    assert read_back_by_driver(box) == {1: 71, 2: 72}


@polatis
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_bash_script_drives_the_far_end(box):
    script = f"""
        exec 3<>/dev/tcp/127.0.0.1/{port(box)}
        printf 'OXC:SWIT:CONN:ADD {CONNECTED};STAT?\\n' >&3
        IFS= read -r -t 5 answer <&3 && echo "$answer"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=10)
    assert done.stdout == f"{CONNECTED}\n", done.stderr


@polatis
def test_a_telnet_client_reads_the_identity(box):
    telnetlib3 = pytest.importorskip("telnetlib3", reason="pip install telnetlib3")

    async def converse():
        reader, writer = await telnetlib3.open_connection(
            "127.0.0.1", port(box), connect_minwait=0.0, connect_maxwait=0.1, encoding="ascii"
        )
        writer.write("*IDN?\r\n")
        answer = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        return answer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is the client's own business
        assert asyncio.run(converse()).startswith("Polatis,")


# --- TL1 ------------------------------------------------------------------------------------------


TALK = {
    "polatis-tl1": [
        ("ENT-PATCH::1,71:2:;", "2 COMPLD"),
        ("RTRV-PATCH:::3:;", '3 COMPLD.*"1,71"'),
        ("ENT-PATCH::1,72:4:;", "4 DENY"),
    ],
    "calient": [
        ("ENT-CRS::1.1.1,1.1.2:2::SYSTEM,1WAY,c1;", "2 COMPLD"),
        ("ACT-CRS::1.1.1,1.1.2:3::c1,SYSTEM;", "3 COMPLD"),
        ("RTRV-CRS:::4::ALL;", "4 COMPLD.*SRCPORT=1.1.1,DSTPORT=1.1.2"),
        ("ENT-CRS::1.1.1,1.1.3:5::SYSTEM,1WAY,c2;", "5 DENY"),
    ],
}
"""What a script says to each box, and what it waits for."""


@pytest.mark.parametrize("box", TALK, indirect=True)
def test_an_expect_script_logs_in_and_makes_a_circuit_over_tl1(box):
    """The classic way to script TL1: send a command, expect its tag and status."""
    socket_pexpect = pytest.importorskip("pexpect.socket_pexpect", reason="pip install pexpect")
    (name, _), *_ = talk = TALK[box.family.driver]
    password = box.family.options["password"].reveal()
    login = (f"ACT-USER::lab:1::{password};", "1 COMPLD")
    refused = (name, "2 DENY")
    with socket.create_connection(("127.0.0.1", port(box))) as line:
        child = socket_pexpect.SocketSpawn(line, timeout=5)
        for command, answer in (refused, login, *talk):
            child.send(command)
            child.expect(rf"(?s)M  {answer}[^;]*;".encode())
    assert len(read_back_by_driver(box)) == 1


# --- REST -----------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("box", ["polatis-restconf"], indirect=True)
def test_curl_makes_reads_and_deletes_a_circuit(box):
    service = f"http://127.0.0.1:{port(box)}/api/data/optical-switch:cross-connects"

    def curl(*words):
        done = subprocess.run(
            ["curl", "--silent", "--fail-with-body", *words], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout or "null")

    pair = {"optical-switch:pair": [{"ingress": 1, "egress": 17}]}
    body = ("--json", json.dumps(pair))
    curl(*body, service)
    assert curl(service)["optical-switch:cross-connects"]["pair"] == [{"ingress": 1, "egress": 17}]
    assert read_back_by_driver(box) == {1: 17}
    curl("--request", "DELETE", f"{service}/pair=1")
    assert read_back_by_driver(box) == {}
