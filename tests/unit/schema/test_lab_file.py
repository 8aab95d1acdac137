"""The lab file: what it says, and every way in which it can be wrong."""

from __future__ import annotations

from ipaddress import IPv4Interface

import pytest

from testbed.errors import FileError, UsageError
from testbed.fabric.circuits import Fibres, HostPort, SwitchPort
from testbed.schema import load_lab
from testbed.secret import Secret


def test_a_lab_is_read_from_its_file(lab):
    host = lab.hosts["h0"]
    assert (host.ssh, host.python, host.privilege, host.network) == (
        "me@h0:2222",
        "python3",
        "none",
        "managed",
    )
    assert str(host.power) == "pdu.1"
    assert host.env == {"NCCL_SOCKET_IFNAME": "mgmt0"}
    assert host.ports["p0"].address == IPv4Interface("10.0.0.1/24")
    assert lab.switches["ocs"].ports == frozenset(range(1, 33))
    assert lab.switches["ocs"].identity == "0042"
    options = lab.switches["ocs"].options
    assert type(options).__name__ == "OcsOptions"
    assert (options.settle, options.login.password) == (0.03, Secret(env="OCS_PASSWORD"))
    assert lab.power["pdu"].driver == "toy-pdu"
    assert (lab.twin.settle, lab.twin.rate, lab.twin.link_up) == (0.02, 400e6, 0.01)


def test_the_wiring_holds_the_fibres_of_every_port_and_both_directions_of_bidirectional_ones(lab):
    assert lab.wiring() == {
        HostPort("h0", "p0"): Fibres(SwitchPort("ocs", 1), SwitchPort("ocs", 17)),
        HostPort("h0", "p1"): Fibres(SwitchPort("ocs", 2), SwitchPort("ocs", 2)),
        HostPort("h1", "p0"): Fibres(SwitchPort("ocs", 3), SwitchPort("ocs", 19)),
    }


def test_ports_of_a_host_are_in_the_order_of_the_lab_file(lab):
    assert lab.ports() == {"h0": ("p0", "p1"), "h1": ("p0",)}


def test_a_fault_is_permitted_where_lab_and_host_both_allow_it(lab):
    assert lab.permits("toy-cut", "h0")
    assert not lab.permits("toy-slow", "h0")
    assert lab.permits("toy-slow", "h1")
    assert not lab.permits("toy-other", "h1")


def test_a_lab_is_immutable_and_keeps_places_in_its_file(lab):
    with pytest.raises(ValueError, match="frozen"):
        lab.lab = "other"
    assert lab.source.where("hosts", "h0", "ports", "p1", "bidi").endswith("lab.yaml:10:57")
    assert str(lab.source.mark(("hosts", "h0", "power")).key).endswith("lab.yaml:5:5")
    assert lab.source.where("hosts", "h1", "privilege").endswith("lab.yaml:12:5")


def test_no_secret_of_a_lab_is_printed(lab, monkeypatch):
    monkeypatch.setenv("OCS_PASSWORD", "hunter2")
    assert lab.switches["ocs"].options.login.password.reveal() == "hunter2"
    assert "hunter2" not in repr(lab) + str(lab) + lab.model_dump_json()


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("ssh: h1", "shs: h1", "12:5: hosts.h1.shs: no such key; did you mean 'ssh'?"),
        ("    ssh: h1\n", "", "11:3: hosts.h1: the key 'ssh' is missing"),
        ("ssh: h1", "ssh: -oProxyCommand=x", "12:10: hosts.h1.ssh: '-oProxyCommand=x' is not"),
        ("ssh: h1", "ssh: [h1]", "12:10: hosts.h1.ssh: expected text, got a list"),
        ("ssh: h1", "ssh:", "12:9: hosts.h1.ssh: expected text, got nothing"),
        ("ssh: h1", "privilege: root\n    ssh: h1", "12:16: hosts.h1.privilege: unknown word"),
        ("  h1:", "  h 1:", "11:3: hosts.h 1: 'h 1' is not a name"),
        ("mgmt0}", "5}", "6:31: hosts.h0.env.NCCL_SOCKET_IFNAME: expected text, got 5; put it"),
        ("NCCL_SOCKET_IFNAME", "A-B", "6:11: hosts.h0.env.A-B: 'A-B' is not the name of an env"),
        ("power: pdu.2", "power: pdx.2", "13:12: hosts.h1.power: pdx.2 is on no power unit"),
        ("power: pdu.2", "power: pdu", "13:12: hosts.h1.power: 'pdu' is not an outlet; write"),
        ("pdu.2", "pdu.1", "13:12: hosts.h1.power: pdu.1 feeds two hosts; first at f:5:12"),
        (", rx: ocs.19", "", "15:11: hosts.h1.ports.p0: expected both tx and rx, or bidi"),
        ("bidi: ocs.2", "mtu: 9", "10:51: hosts.h0.ports.p1.mtu: no such key; known: interface"),
        ("rx: ocs.19", "bidi: ocs.19", "15:11: hosts.h1.ports.p0: expected both"),
        ("rx: ocs.19", "rx: ocs.3", "15:11: hosts.h1.ports.p0: tx and rx are one port; write"),
        ("rx: ocs.19", "rx: 19", "15:66: hosts.h1.ports.p0.rx: expected text, got 19"),
        ("rx: ocs.19", "rx: ocs-19", "15:66: hosts.h1.ports.p0.rx: 'ocs-19' is not a switch"),
        (
            "rx: ocs.19",
            "rx: oxs.19",
            "15:66: hosts.h1.ports.p0.rx: oxs.19 is on no switch of this lab; did you mean 'ocs'?",
        ),
        (
            "rx: ocs.19",
            "rx: ocs.33",
            "15:66: hosts.h1.ports.p0.rx: ocs.33 is not among the listed ports of switch",
        ),
        (
            "rx: ocs.19",
            "rx: ocs.2",
            "15:66: hosts.h1.ports.p0.rx: ocs.2 is wired twice; first at f:10:57",
        ),
        (
            "interface: eth2",
            "interface: eth1",
            "10:23: hosts.h0.ports.p1.interface: eth1 of h0 is used twice; first at f:9:23",
        ),
        (
            "10.0.0.2/24",
            "10.0.0.1/24",
            "15:38: hosts.h1.ports.p0.address: 10.0.0.1 is used twice; first at f:9:38",
        ),
        ("10.0.0.2/24", "10.0.0.2", "15:38: hosts.h1.ports.p0.address: '10.0.0.2' has no prefix"),
        ("10.0.0.2/24", "10.0.0/24", "15:38: hosts.h1.ports.p0.address: '10.0.0/24' is not an"),
        ("interface: eth2", "interface: sixteen-letters-", "10:23: hosts.h0.ports.p1.interface"),
        (
            "toy-ocs",
            "toy-osc",
            "18:13: switches.ocs.driver: 'toy-osc' is not one of the switch drivers; did you mean",
        ),
        ("toy-ocs", "toy-pdu", "18:13: switches.ocs.driver: 'toy-pdu' is not one of the switch"),
        (
            '"https://192.0.2.11"',
            "pdu",
            "25:36: power.pdu.resource: 'pdu' is not the address of an instrument",
        ),
        ("toy-pdu", "toy-ocs", "25:17: power.pdu.driver: 'toy-ocs' is not one of the power"),
        ("driver: toy-pdu, ", "", "25:3: power.pdu: the key 'driver' is missing; known: "),
        (
            "{driver: toy-pdu, resource",
            "{driver: toy-pdu, ports: [1], resource",
            "25:26: power.pdu.ports: no such key; known: driver, resource, identity",
        ),
        (
            "settle: 30 ms",
            "setle: 30 ms",
            "22:5: switches.ocs.setle: no such key; did you mean 'settle'?",
        ),
        (
            "identity:",
            "identty:",
            "20:5: switches.ocs.identty: no such key; did you mean 'identity'?",
        ),
        (
            "resource: TCPIP",
            "resurce: TCPIP",
            "19:5: switches.ocs.resurce: no such key; did you mean 'resource'?",
        ),
        ("settle: 30 ms", "settle: 30", "22:13: switches.ocs.settle: 30 is not a time"),
        (
            "user: admin",
            "usr: admin",
            "23:13: switches.ocs.login.usr: no such key; did you mean 'user'?",
        ),
        ('"0042"', "0042", "20:15: switches.ocs.identity: expected text, got 42; put it in"),
        ("[1-16, 17, 18-32]", "[1-999999999]", "21:13: switches.ocs.ports.0: '1-999999999' is"),
        ("[1-16, 17, 18-32]", "1-32", "21:12: switches.ocs.ports: expected a list of ports"),
        ("settle: 20 ms", "settle: soon", "27:16: twin.settle: 'soon' is not a time"),
        (
            "settle: 20 ms",
            "delay: 5 ms",
            "27:8: twin.delay: lines of a twin have a rate, and no delay",
        ),
        ("settle: 20 ms", "loss: 1 %", "27:8: twin.loss: lines of a twin have a rate, and no loss"),
        ("400 Mbit/s", "0 bit/s", "27:29: twin.rate: expected more than 0 bit/s, got '0 bit/s'"),
        ("lab: bench\n", "", "1:1: the key 'lab' is missing"),
        ("lab: bench", "lab: bench\ntwn: {}", "2:1: twn: no such key; did you mean 'twin'?"),
    ],
)
def test_a_wrong_lab_is_refused_with_place_reason_and_remedy(refused_lab, old, new, error):
    (said,) = refused_lab(old, new)
    assert said.startswith(f"f:{error}")


def test_every_wrong_entry_of_a_list_of_ports_is_named(refused_lab):
    assert refused_lab("[1-16, 17, 18-32]", "[1-16, 16-17, x, 9-2, 2.5, 0, true]") == [
        "f:21:19: switches.ocs.ports.1: port 16 is listed twice",
        "f:21:26: switches.ocs.ports.2: 'x' is not a port or a range of ports, as 17 or 1-32",
        "f:21:29: switches.ocs.ports.3: '9-2' is not a rising range within 1-4096",
        "f:21:34: switches.ocs.ports.4: 2.5 is not a port or a range of ports, as 17 or 1-32",
        "f:21:39: switches.ocs.ports.5: 0 is not a rising range within 1-4096",
        "f:21:42: switches.ocs.ports.6: true is not a port or a range of ports, as 17 or 1-32",
    ]


def test_an_unknown_fault_is_named_for_the_lab_and_for_the_host_that_loses_it(refused_lab):
    host, lab = refused_lab("allow: [toy-cut, toy-slow]", "allow: [toy-ct, toy-slow]")
    assert host.startswith(
        "f:7:13: hosts.h0.allow.0: the lab's own `allow` does not list 'toy-cut'"
    )
    assert lab == "f:26:9: allow.0: 'toy-ct' is not a kind of fault; did you mean 'toy-cut'?"


def test_a_lab_without_hosts_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_text("lab: a\nhosts: {}\n")
    with pytest.raises(FileError) as refusal:
        load_lab("f")
    assert str(refusal.value) == "f:2:8: hosts: expected at least 1 entry, got a mapping of keys"


@pytest.mark.parametrize("literal", ["hunter2", "{value: hunter2}", "{env: X, also: hunter2}"])
def test_a_secret_written_into_the_file_is_refused_and_not_repeated(refused_lab, literal):
    (message,) = refused_lab("{env: OCS_PASSWORD}", literal)
    assert message.startswith(
        "f:23:36: switches.ocs.login.password: expected a secret by reference"
    )
    assert "hunter2" not in message


IN_CLEAR = "env: {NCCL_SOCKET_IFNAME: mgmt0}"


@pytest.mark.parametrize("name", ["HF_TOKEN", "hf_token", "MYSQL_PWD", "PGPASSWORD", "API_KEY"])
def test_a_clear_text_variable_with_a_secret_sounding_name_is_refused_without_repeating_it(
    refused_lab, name
):
    (message,) = refused_lab(IN_CLEAR, f"env: {{A: b, {name}: hunter2}}")
    assert message == (
        f"f:6:{19 + len(name)}: hosts.h0.env.{name}: its name says that it is secret; "
        "write {env: NAME} or {file: PATH}"
    )


def test_an_environment_variable_is_given_in_clear_text_or_by_reference(tmp_path, lab, monkeypatch):
    env = "env: {NCCL_IB_PKEY: '1', HF_TOKEN: {env: MY_TOKEN}, WANDB_API_KEY: {file: /absent}}"
    (tmp_path / "kept.yaml").write_text(lab.source.text.replace(IN_CLEAR, env))
    host = load_lab(tmp_path / "kept.yaml").hosts["h0"]
    assert host.environment == {
        "NCCL_IB_PKEY": "1",
        "HF_TOKEN": Secret(env="MY_TOKEN"),
        "WANDB_API_KEY": Secret(file="/absent"),
    }
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    with pytest.raises(UsageError, match="secret in /absent cannot be read: No such file"):
        host.revealed_environment()
    shown = host.model_copy(update={"env": dict(list(host.env.items())[:2])})
    assert shown.revealed_environment() == {"NCCL_IB_PKEY": "1", "HF_TOKEN": "hunter2"}
    assert "hunter2" not in repr(host) + host.model_dump_json()


@pytest.mark.parametrize("literal", ["{value: hunter2}", "[hunter2]", "{env: X, also: hunter2}"])
def test_an_environment_variable_in_any_other_form_is_refused(refused_lab, literal):
    (message,) = refused_lab(IN_CLEAR, f"env: {{A: {literal}}}")
    assert message.startswith("f:6:14: hosts.h0.env.A: expected ")
    assert "hunter2" not in message


def test_all_errors_of_a_lab_file_are_reported_in_the_order_of_the_file(refused_lab):
    said = refused_lab("[1-16, 17, 18-32]", "[1]")
    assert [message.split(": ")[1] for message in said] == [
        "hosts.h0.ports.p0.rx",
        "hosts.h0.ports.p1.bidi",
        "hosts.h1.ports.p0.tx",
        "hosts.h1.ports.p0.rx",
    ]


def test_a_port_that_an_anchor_repeats_is_refused(refused_lab):
    said = refused_lab(
        "    ports:\n      p0: {interface: eth1, address: 10.0.0.2/24, tx: ocs.3, rx: ocs.19}",
        "    ports: {p0: {interface: eth1, address: 10.0.0.2/24, tx: &tx ocs.3, rx: ocs.19},\n"
        "            p1: {interface: eth2, address: 10.0.1.2/24, tx: *tx, rx: ocs.20}}",
    )
    assert said == ["f:15:61: hosts.h1.ports.p1.tx: ocs.3 is wired twice; first at f:14:61"]


def with_leases(url):
    return "\nallow: [", f"\nleases: {{url: {url}}}\nallow: ["


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("postgresql://me@db.example/leases", "postgresql://me@db.example/leases"),
        ("'postgres://h/db?sslmode=require'", "postgres://h/db?sslmode=require"),
        ("{env: LEASES}", Secret(env="LEASES")),
        ("{file: ~/.leases}", Secret(file="~/.leases")),
    ],
)
def test_the_url_of_a_lease_server_is_given_in_clear_text_or_by_reference(tmp_path, lab, url, kept):
    old, new = with_leases(url)
    (tmp_path / "shared.yaml").write_text(lab.source.text.replace(old, new))
    assert load_lab(tmp_path / "shared.yaml").leases.url == kept


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@db/x",
        "'postgresql://db/x?password=hunter2'",
        "'postgresql://me@db/x?sslmode=require&sslpassword=hunter2'",
        "mysql://hunter2/x",
        "[hunter2]",
    ],
)
def test_an_invalid_lease_server_url_is_refused_without_repeating_it(refused_lab, url):
    (message,) = refused_lab(*with_leases(url))
    assert message.startswith("f:26:15: leases.url: expected a ")
    assert "hunter2" not in message
