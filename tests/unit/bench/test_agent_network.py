"""The agent's fabric ports, in a network of their own: two ports, a circuit between them."""

import hmac
import json
import shutil
import subprocess
import sys
import time

import pytest

from testbed.errors import HostError
from tests.unit.bench.agent_on_pipes import soon

PRIVATE = "unshare --user --map-root-user --net --mount"
LAY_CABLE = (
    "mount -t sysfs sysfs /sys && ip link add eth1 type veth peer name eth2 && ip link set lo up"
    # both ends are on one host: it must accept its own addresses from outside
    " && for i in all eth1 eth2; do echo 1 > /proc/sys/net/ipv4/conf/$i/accept_local"
    " && echo 0 > /proc/sys/net/ipv4/conf/$i/rp_filter; done"
)
PORTS = {
    "p0": {"interface": "eth1", "address": "10.9.0.1/24"},
    "p1": {"interface": "eth2", "address": "10.9.0.2/24"},
}
PEERS = {"10.9.0.77": "02:00:00:00:00:77", "10.9.0.78": "02:00:00:00:00:78"}
TOKEN = "the token of this run"


def _has_networks():
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    lay = ["sh", "-c", f"{PRIVATE} sh -c '{LAY_CABLE}'"]
    return subprocess.run(lay, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(
    not _has_networks(), reason="this machine gives no user and network namespaces, or has no ip"
)


class Wired:
    """An agent in a network of its own."""

    def __init__(self, agent):
        self.agent = agent
        self.pid = agent.hello(p0="eth1", p1="eth2")["pid"]

    def set_up(self, manage=True, **changes):
        request = {"host": "h0", "ports": PORTS, "peers": PEERS, "token": TOKEN, "sudo": False}
        return self.agent.ask("network", **request | {"manage": manage} | changes)

    def ip(self, *arguments):
        return self.run("ip", *arguments)

    def run(self, *command):
        """Run a command in the agent's network; return what it printed."""
        enter = ["nsenter", "--target", str(self.pid), "--user", "--net", "--preserve-credentials"]
        done = subprocess.run([*enter, *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state(self):
        """Return everything that `network` may change, as `ip` shows it."""
        links = json.loads(self.ip("-j", "addr", "show"))
        addresses = {
            link["ifname"]: sorted(a["local"] for a in link["addr_info"] if a["family"] == "inet")
            for link in links
        }
        up = {link["ifname"] for link in links if "UP" in link["flags"]}
        fixed = self.ip("neigh", "show", "nud", "permanent")
        return addresses, up, self.ip("-4", "route", "show"), fixed

    def ask_identity(self, port, peer, expect, limit=2.0, count=1000, first=True):
        numbers = self.numbers
        question = {"port": port, "peer": numbers[peer], "expect": expect, "limit": limit}
        return self.agent.ask("ask-identity", **question, count=count, interval=0.001, first=first)

    def shout(self, port, *datagrams):
        """Send datagrams to a port's identity service, as any machine on the fabric could.

        Return the first that comes back.
        """
        script = (
            "import socket, sys; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(5);"
            "s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1);"
            "s.setsockopt(socket.SOL_SOCKET, 25, b'eth2');"
            "to = '255.255.255.255', int(sys.argv[1]);"
            "[s.sendto(bytes.fromhex(data), to) for data in sys.argv[2:]];"
            "print(s.recv(2000).decode())"
        )
        said = [data.hex() for data in datagrams]
        return json.loads(self.run(sys.executable, "-c", script, str(self.numbers[port]), *said))


@pytest.fixture
def wired(agents):
    return Wired(agents(f"{PRIVATE} sh -c '{LAY_CABLE} && exec sh -c \"$0\"'"))


@pytest.fixture
def lit(wired):
    """Ports that are set up, with their carrier."""
    wired.numbers = wired.set_up()["identity"]
    for port in PORTS:
        wired.agent.events.wait_for("carrier", port=port, up=True)
    return wired


def test_ports_get_addresses_and_every_peer_a_route_over_every_port(wired):
    assert wired.set_up()["changes"] == 2 * (2 + 2 * len(PEERS))
    addresses, up, routes, neighbours = wired.state()
    assert (addresses["eth1"], addresses["eth2"]) == (["10.9.0.1"], ["10.9.0.2"])
    assert {"eth1", "eth2"} <= up
    for peer, hardware in PEERS.items():
        for interface in ("eth1", "eth2"):
            assert f"{peer} dev {interface} scope link" in routes
            assert f"{peer} dev {interface} lladdr {hardware} PERMANENT" in neighbours


def test_all_network_changes_and_nothing_else_are_undone(wired):
    wired.ip("link", "set", "eth2", "up")
    wired.ip("addr", "add", "192.0.2.5/32", "dev", "eth1")
    before = wired.state()
    wired.set_up()
    assert wired.state() != before
    assert state_after_goodbye(wired) == before


def state_after_goodbye(wired):
    """Keep the network open beyond the agent's end, and look at it then."""
    keeper = subprocess.Popen(
        [
            "nsenter",
            "--target",
            str(wired.pid),
            "--user",
            "--net",
            "--preserve-credentials",
            "cat",
        ],
        stdin=subprocess.PIPE,
    )
    try:
        assert wired.agent.ask("bye") == {"left": []}
        wired.pid = keeper.pid
        return wired.state()
    finally:
        keeper.communicate()


def test_existing_network_settings_are_not_changed(wired):
    wired.set_up()
    keep = wired.state()
    assert wired.set_up()["changes"] == 0
    assert wired.state() == keep


def test_ports_of_an_unmanaged_network_are_only_monitored(wired):
    before = wired.state()
    assert wired.set_up(manage=False)["changes"] == 0
    assert wired.state() == before
    assert not wired.agent.events.wait_for("carrier", port="p0")["up"]


def test_without_root_addresses_are_set_by_sudo_only_where_the_lab_file_says_so(agents, tmp_path):
    sudo = tmp_path / "sudo"
    record = f"printf '%s ' \"$@\" > {tmp_path}/asked"
    sudo.write_text(f"#!/bin/sh\n{record}\necho no password >&2\nexit 1\n")
    sudo.chmod(0o755)
    tmp_path.chmod(0o755)
    user = f'PATH={tmp_path}:$PATH exec unshare --user --map-user=1000 sh -c "$0"'
    wired = Wired(agents(f"{PRIVATE} sh -c '{LAY_CABLE} && {user}'"))
    with pytest.raises(HostError, match=r"not permitted.*; write `privilege: sudo` for this host"):
        wired.set_up()
    assert not (tmp_path / "asked").exists()
    with pytest.raises(HostError, match=r"`sudo -n .*` said: no password"):
        wired.set_up(sudo=True)
    assert (tmp_path / "asked").read_text().startswith("-n ")


def test_a_missing_interface_is_named_in_the_error(wired):
    ports = {"p0": {"interface": "eth7", "address": "10.9.0.1/24"}}
    with pytest.raises(HostError, match="there is no interface eth7"):
        wired.set_up(ports=ports)


def test_carrier_loss_and_return_are_reported_within_a_few_periods(lit):
    lit.ip("link", "set", "eth2", "down")
    went = lit.agent.events.wait_for("carrier", port="p0", up=False)
    asked = time.monotonic()
    lit.ip("link", "set", "eth2", "up")
    lit.agent.events.wait_for("carrier", port="p0", up=True, count=2)
    assert went["mono"] < asked


def test_each_end_of_a_circuit_identifies_the_other_end(lit):
    for port, peer in (("p0", "p1"), ("p1", "p0")):
        # A question that is repeated may be answered twice before the agent looks at the answers.
        found = lit.ask_identity(port, peer, ["h0", peer], count=1)
        assert found["good"]
        assert found["seen"] == [["h0", peer]]
        assert (found["asked"], found["answered"]) == (1, 1)


def test_a_wrong_port_at_the_other_end_is_detected(lit):
    found = lit.ask_identity("p0", "p1", ["h3", "p0"], limit=0.1)
    assert not found["good"]
    assert found["seen"] == [["h0", "p1"]]


def test_every_probe_of_a_series_is_counted(lit):
    found = lit.ask_identity("p0", "p1", ["h0", "p1"], count=5, first=False)
    assert (found["good"], found["asked"], found["answered"]) == (True, 5, 5)


def test_no_probe_is_answered_over_a_dark_circuit(lit):
    lit.ip("link", "set", "eth2", "down")
    lit.agent.events.wait_for("carrier", port="p0", up=False)
    found = lit.ask_identity("p0", "p1", ["h0", "p1"], limit=0.1)
    assert (found["good"], found["answered"], found["seen"]) == (False, 0, [])
    assert found["asked"] > 1


def test_a_port_does_not_answer_itself_where_both_ends_listen_at_the_same_number(wired):
    one = "echo 40000 40000 > /proc/sys/net/ipv4/ip_local_port_range"
    wired.run("sh", "-c", one)
    wired.numbers = wired.set_up()["identity"]
    assert set(wired.numbers.values()) == {40000}
    for port in PORTS:
        wired.agent.events.wait_for("carrier", port=port, up=True)
    found = wired.ask_identity("p0", "p1", ["h0", "p1"], count=5, first=False)
    assert (found["seen"], found["answered"]) == ([["h0", "p1"]], 5)
    wired.ip("link", "set", "eth2", "down")
    wired.agent.events.wait_for("carrier", port="p0", up=False)
    assert wired.ask_identity("p0", "p1", ["h0", "p1"], limit=0.1)["seen"] == []


def test_a_probe_is_answered_as_soon_as_there_is_light(lit):
    lit.ip("link", "set", "eth2", "down")
    lit.agent.events.wait_for("carrier", port="p0", up=False)
    question = {"port": "p0", "peer": lit.numbers["p1"], "expect": ["h0", "p1"], "limit": 5.0}
    future = lit.agent.link.post(
        "ask-identity", **question, count=100_000, interval=0.001, first=True
    )
    lit.ip("link", "set", "eth2", "up")
    assert future.result(soon().left).value["good"]


def signed(message, token=TOKEN):
    """Return a datagram as a port of the run with that token sends it."""
    text = json.dumps(message)
    proof = hmac.new(token.encode(), text.encode(), "sha256").hexdigest()
    return json.dumps({"text": text, "proof": proof}).encode()


@pytest.mark.parametrize(
    "data",
    [
        signed({"ask": 1}, "another run's"),
        json.dumps({"ask": 1, "token": TOKEN}).encode(),
        json.dumps({"text": '{"ask": 1}', "proof": "é"}).encode(),
        b"[" * 2000,
        b"not JSON",
        b"\xff\xfe",
        b"5",
        b"",
    ],
)
def test_only_authenticated_probes_are_answered(lit, data):
    answer = lit.shout("p0", data, signed({"ask": 77}))
    assert json.loads(answer["text"])["answer"] == 77
    assert lit.ask_identity("p1", "p0", ["h0", "p0"])["good"]


@pytest.mark.parametrize("token", ["no", TOKEN], ids=["of a stranger", "without the nonce"])
def test_answers_without_a_matching_probe_are_ignored(lit, token):
    lies = [{"answer": n, "host": "h9", "port": "p9"} for n in range(50)]
    lit.shout("p0", *(signed(each, token) for each in lies), signed({"ask": 77}))
    assert lit.ask_identity("p0", "p1", ["h0", "p1"])["seen"] == [["h0", "p1"]]


PREFER = """
import json, sys
from testbed.onhost.agent.journal import HostJournal
from testbed.onhost.agent.preferred_routes import PreferredRoutes
from testbed.onhost.agent.undo import undo_journal
import subprocess

def way():
    lines = subprocess.run(["ip", "route", "get", "10.9.0.77"], capture_output=True, text=True)
    return lines.stdout.split()[2], len(journal.entries())

journal = HostJournal("a run", "h9")
routes = PreferredRoutes(journal)
said = [way()]
try:
    routes.prefer(0, [["eth2", "10.9.0.77"]])
except OSError as error:
    said.append(str(error))
routes.sudo = False
routes.prefer(0, [["eth2", "10.9.0.77"], ["eth1", "10.9.0.78"]])
said.append(way())
routes.prefer(0, [["eth1", "10.9.0.77"]])
said.append(way())
routes.end(0)
said.append(way())
routes.prefer(0, [["eth2", "10.9.0.77"]])  # and the agent is killed
said.append(way())
said.append(undo_journal(journal, is_told=True))
said.append(way())
journal.close()
print(json.dumps(said))
"""


def test_a_rank_has_a_peer_reached_over_a_port_of_its_choice_until_it_ends(wired):
    """Sockets that are bound to no port leave by the first, unless a route comes before it."""
    wired.set_up()
    before = wired.state()
    said = json.loads(wired.run(sys.executable, "-c", PREFER))
    assert said == [
        ["eth1", 0],
        "the network of this host is set up by others (`network: existing`)",
        ["eth2", 1],
        ["eth1", 1],
        ["eth1", 0],
        ["eth2", 1],
        [],
        ["eth1", 0],
    ]
    assert wired.state() == before
