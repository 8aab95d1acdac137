"""Switches whose replies never end: real far ends on real wires, from some point on."""

import secrets
import threading
import time
from contextlib import suppress

from testbed.bench.sites import SwitchSite
from testbed.twin.far_end_ssh import SshServer
from testbed.twin.keys import write_ssh_key
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.switches.descriptors.polatis import PolatisTl1Options
from testbed_drivers.switches.polatis_far_end import PolatisFarEnd
from testbed_drivers.switches.polatis_restconf_far_end import PolatisRestconfFarEnd
from testbed_drivers.switches.polatis_tl1_far_end import PolatisTl1FarEnd
from testbed_drivers.switches.sonic_ocs_far_end import SonicOcsFarEnd
from testbed_drivers.switches.switch import sides
from tests.wire.endless_replies import REPLIES
from tests.wire.listener import Listener

SINCE = {
    "a look": {
        "scpi": b"CONN:STAT?",
        "tl1": b"RTRV-PATCH",
        "rest": b"GET /api/data/optical-switch:cross-connects",
        "ssh": b"cross-connect status",
    },
    "an order": {
        "scpi": b"CONN:ADD",
        "tl1": b"ENT-PATCH",
        "rest": b"PUT ",
        "ssh": b"cross-connect add",
    },
}
"""What the first question about circuits holds, and the order to make one; by language."""
RESOURCES = {
    "scpi": ("polatis", "tcp://127.0.0.1:{}"),
    "tl1": ("polatis-tl1", "tcp://127.0.0.1:{}"),
    "rest": ("polatis-restconf", "http://127.0.0.1:{}"),
    "rest before TLS": ("polatis-restconf", "https://127.0.0.1:{}"),
    "ssh": ("sonic-ocs", "ssh://lab@127.0.0.1:{}"),
    "ssh before the login": ("sonic-ocs", "ssh://lab@127.0.0.1:{}"),
}


class EndlessBox:
    """A switch that sends without end, from the first byte or after it received some of `SINCE`.

    It still carries out what it receives; only its reply is endless.
    """

    def __init__(self, language, way, since="", home=None):
        self.driver, resource = RESOURCES[language]
        self.talking = not since
        self.begun = threading.Event()
        """Set when the endless reply begins."""
        self.lit = {}
        """The circuits that carry light."""
        self._endless_reply = REPLIES[language][way]
        self._since = SINCE[since][language] if since else None
        self._speaks_first = "before" in language
        self._scheduler = WallScheduler()
        self._closed = threading.Event()
        self._far_end = self._made(language)
        self._wire = self._served(language, home)
        self.resource = resource.format(self._wire.port)

    def admits(self, user, password):
        """Admit every user who has a key."""
        return True

    def session(self, send, *, serial=False, hang_up=None):
        """Open a session of the far end, up to the endless reply."""
        return _Session(self, send, hang_up)

    def close(self):
        """Stop sending and close the wire."""
        self._closed.set()
        self._wire.close()
        self._scheduler.close()

    def hears(self, data):
        """Begin the endless reply if `data` holds what starts it."""
        self.talking = self.talking or (self._since is not None and self._since in data)

    def behave(self):
        """Answer normally from now on."""
        self._since, self.talking = None, False

    def talk(self, send, asked):
        """Send the endless reply until the client disconnects."""
        self.begun.set()
        with suppress(OSError, RuntimeError):
            for piece in self._endless_reply(asked):
                if self._closed.is_set() or not self.talking:
                    return
                send(piece)

    def _show(self, lit):
        self.lit = dict(lit)

    def _made(self, language):
        serial = secrets.token_hex(8)  # what it is leased by, beside whatever else runs here
        site = SwitchSite(*sides(8, 8), serial, 0.01, 1, self._scheduler, self._show)
        match language:
            case "scpi":
                return PolatisFarEnd(site)
            case "tl1":
                return PolatisTl1FarEnd(site, PolatisTl1Options(user="lab"))
            case "rest" | "rest before TLS":
                return PolatisRestconfFarEnd(site)
            case _:
                return SonicOcsFarEnd(site)

    def _serve(self, line):
        """Serve one TCP connection."""
        session = self._far_end.session(
            lambda data: None if self.talking else line.sendall(data), hang_up=line.close
        )
        with suppress(OSError), line:
            if self._speaks_first:
                self.talk(line.sendall, b"")
            while asked := line.recv(65536):
                self.hears(asked)
                session.receive(asked)
                if self.talking:
                    self.talk(line.sendall, asked)

    def _served(self, language, home):
        if language != "ssh":
            return Listener(self._serve)
        keys = home / ".ssh"
        keys.mkdir(exist_ok=True)
        client, server = write_ssh_key(keys / "id_ed25519"), write_ssh_key(keys / "server")
        wire = SshServer(self, host_key=keys / "server", client_key=client)
        (keys / "known_hosts").write_text(f"[127.0.0.1]:{wire.port} {server}\n")
        return wire


class _Session:
    """One conversation over SSH."""

    def __init__(self, box, send, hang_up):
        self._box = box
        self._send = send
        self._inner = box._far_end.session(self._answer, hang_up=hang_up)

    def receive(self, data):
        self._box.hears(data)
        self._inner.receive(data)
        if self._box.talking:
            arguments = (self._slowly, data)
            threading.Thread(target=self._box.talk, args=arguments, daemon=True).start()

    def _answer(self, data):
        if not self._box.talking:
            self._send(data)

    def _slowly(self, piece):
        """Send a piece to an SSH server, which takes all at once and keeps what is not read."""
        self._send(piece)
        time.sleep(0.002)
