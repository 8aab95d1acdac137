"""The contract of a power unit, kept by every power driver over HTTP and HTTPS to its far end."""

import contextlib
import datetime
import ipaddress
import shutil
import ssl
import subprocess
import urllib.request
from types import MappingProxyType
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from testbed.bench.sites import PowerSite
from testbed.clock import Deadline, now
from testbed.errors import Garbled, InstrumentError, LinkLost, NoReply, Rejected, UsageError
from testbed.secret import Secret
from testbed.twin.far_end_tcp_pty import serve_tcp
from testbed.twin.scheduler import WallScheduler
from testbed_drivers.dialects.options import HttpOptions
from testbed_drivers.power.redfish import Redfish, RedfishHost
from testbed_drivers.power.redfish_far_end import RedfishFarEnd, RedfishHostFarEnd

UNITS = {
    "redfish": (Redfish, RedfishFarEnd, "outlet", "Twin PDU"),
    "redfish-host": (RedfishHost, RedfishHostFarEnd, "system", "Twin BMC"),
}


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1, with its key, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "pdu")])
    today = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "pdu.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Rig:
    """A power unit twin on a TCP port, what it feeds, and drivers for it."""

    def __init__(self, scheme, certificate, unit="redfish"):
        self._driver, self._far_end, self.noun, self.model = UNITS[unit]
        self.scheduler = WallScheduler()
        self.power = {"1": True, "2": True, "a b": False}
        self.turned = []
        self.trace = []
        self._drivers = []
        self._certificate = certificate
        self.options = {"ca_file": str(certificate)} if scheme == "https" else {}
        self.tls = None
        if scheme == "https":
            self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self.tls.load_cert_chain(certificate)
        self.far_end = self.build("P1")
        self.wire = serve_tcp(self.far_end, tls=self.tls)
        self.url = f"{scheme}://127.0.0.1:{self.wire.port}"

    def build(self, serial, **options):
        return self._far_end(
            PowerSite(dict(self.power), serial, self.scheduler, self.turn),
            HttpOptions(**options),
        )

    def turn(self, outlet, on):
        self.power[outlet] = on
        self.turned.append((outlet, on))

    def driver(self, identity="P1", **options):
        options = HttpOptions(**{**self.options, **options})
        tracer = lambda way, data: self.trace.append((way, data))  # noqa: E731
        driver = self._driver("pdu", self.url, identity, options, tracer)
        self._drivers.append(driver)
        return driver

    def replace(self, far_end):
        port = self.wire.port
        self.wire.close()
        self.wire = serve_tcp(far_end, port=port, tls=self.tls)

    def close(self):
        for driver in self._drivers:
            driver.close()
        self.wire.close()
        self.scheduler.close()


def soon():
    return Deadline.after(5)


@pytest.fixture(
    params=[(scheme, unit) for unit in UNITS for scheme in ("http", "https")], ids="-".join
)
def rig(request, certificate):
    scheme, unit = request.param
    rig = Rig(scheme, certificate, unit)
    yield rig
    rig.close()


@pytest.fixture
def unit(rig):
    driver = rig.driver()
    driver.open(soon())
    return driver


class TestPowerUnit:
    def test_opening_a_power_unit_reads_its_identity(self, rig, unit):
        assert str(unit.identify(soon())) == f"Testbed {rig.model} 3, serial P1, firmware 1.0"

    def test_opening_reads_the_present_state_of_the_outlets(self, unit):
        assert [unit.is_on(outlet, soon()) for outlet in ("1", "2", "a b")] == [True, True, False]

    def test_power_is_off_and_on_when_turn_returns(self, rig, unit):
        for outlet, on in (("2", False), ("2", True), ("a b", True)):
            unit.turn(outlet, on, soon())
            assert rig.power[outlet] is on
            assert unit.is_on(outlet, soon()) is on
        assert rig.power["1"] is True

    def test_switching_an_outlet_to_its_present_state_changes_nothing(self, rig, unit):
        unit.turn("1", True, soon())
        assert rig.turned == []

    def test_an_unknown_outlet_is_refused(self, rig, unit):
        with pytest.raises(Rejected, match=rf"404 .*check the {rig.noun}'s id"):
            unit.turn("9", False, soon())
        with pytest.raises(Rejected, match="404"):
            unit.is_on("9", soon())

    def test_the_error_of_a_refused_order_quotes_the_power_unit(self, rig, unit):
        rig.far_end.fault("error", port="1")
        with pytest.raises(Rejected, match="503 the controller does not"):
            unit.turn("1", False, soon())
        assert unit.is_on("1", soon())
        rig.far_end.clear()
        unit.turn("1", False, soon())

    def test_a_stuck_outlet_raises_an_error_from_its_read_back(self, rig, unit):
        rig.far_end.fault("stuck", port="1")
        with pytest.raises(InstrumentError, match=rf"{rig.noun} 1 (Force)?Off, .* reads back On"):
            unit.turn("1", False, Deadline.after(1.0))
        assert rig.power["1"] is True

    def test_a_false_read_back_is_not_detected_by_the_driver(self, rig, unit):
        rig.far_end.fault("lie", port="1")
        unit.turn("1", False, soon())
        assert unit.is_on("1", soon()) is False
        assert rig.power["1"] is True

    def test_a_busy_power_unit_refuses_orders_and_is_usable_afterwards(self, rig, unit):
        rig.far_end.fault("busy", delay=60)
        with pytest.raises(Rejected, match="503 busy"):
            unit.turn("1", False, soon())
        rig.far_end.fault("busy", delay=0)  # it is over
        unit.turn("1", False, soon())
        assert rig.turned == [("1", False)]

    def test_a_read_answered_with_a_login_page_is_repeated(self, rig, unit):
        rig.far_end.fault("not-json", count=1)
        assert unit.is_on("1", soon())

    def test_an_order_answered_with_an_html_page_is_not_repeated(self, rig, unit):
        rig.far_end.fault("not-json", count=1, command="POST")
        with pytest.raises(Garbled, match="without JSON: '<html>"):
            unit.turn("1", False, soon())
        assert rig.turned == [("1", False)]

    def test_a_response_that_trickles_in_ends_at_the_deadline(self, rig, unit):
        rig.far_end.fault("drip", delay=0.01)
        deadline = Deadline.after(0.05)
        with pytest.raises(NoReply):
            unit.is_on("1", deadline)
        assert now() < deadline.at + 10, "it hung"

    @pytest.mark.parametrize("fault", ["cut", "reset"])
    def test_an_order_whose_connection_broke_is_not_repeated(self, rig, unit, fault):
        rig.far_end.fault(fault, count=1, command="POST")
        with pytest.raises(LinkLost):
            unit.turn("1", False, soon())
        assert rig.turned == [("1", False)]
        assert unit.is_on("1", soon()) is False

    def test_a_missing_response_ends_at_the_deadline_and_the_next_query_succeeds(self, rig, unit):
        rig.far_end.fault("silent", count=1, command="POST")
        deadline = Deadline.after(0.05)
        with pytest.raises(NoReply):
            unit.turn("1", False, deadline)
        assert now() < deadline.at + 10, "it hung"
        assert unit.is_on("1", soon()) is False
        assert rig.turned == [("1", False)]

    def test_an_idle_connection_that_was_cut_is_reopened(self, rig, unit):
        rig.wire.cut()
        unit.turn("1", False, soon())
        assert rig.turned == [("1", False)]

    def test_a_closed_port_raises_link_lost(self, rig, unit):
        rig.wire.close()
        with pytest.raises(LinkLost, match="nothing listens there"):
            unit.is_on("1", soon())

    def test_another_unit_at_the_same_address_is_refused(self, rig, unit):
        rig.replace(rig.build("P2"))
        with pytest.raises(InstrumentError, match="P2 instead of P1"):
            unit.turn("1", False, soon())
        assert rig.turned == []

    def test_a_password_is_needed_where_one_is_set_and_stays_out_of_the_record(
        self, rig, unit, tmp_path
    ):
        (tmp_path / "word").write_text("open sesame\n")
        login = {"user": "lab", "password": Secret(file=str(tmp_path / "word"))}
        rig.replace(rig.build("P1", **login))
        with pytest.raises(Rejected, match=r"401 .*give 'user' and 'password'"):
            unit.is_on("1", soon())
        knowing = rig.driver(**login)
        knowing.open(soon())
        knowing.turn("1", False, soon())
        assert rig.turned == [("1", False)]
        assert not any(b"Basic" in data or b"sesame" in data for _, data in rig.trace)

    def test_closing_a_power_unit_twice_is_harmless_and_changes_no_outlet(self, rig, unit):
        unit.close()
        unit.close()
        assert rig.turned == []
        assert unit.is_on("1", soon())


def test_an_untrusted_certificate_is_refused_unless_the_lab_file_disables_the_check(certificate):
    rig = Rig("https", certificate)
    try:
        with pytest.raises(LinkLost, match=r"certificate is not trusted.*'ca_file'"):
            rig.driver(ca_file="").open(soon())
        assert rig.driver(ca_file="", verify=False).open(soon()).serial == "P1"
    finally:
        rig.close()


def test_a_missing_ca_file_is_reported_as_an_error_of_the_lab_file():
    with pytest.raises(UsageError, match=r"'ca_file' nowhere\.pem cannot be used"):
        Redfish("pdu", "https://192.0.2.11", None, HttpOptions(ca_file="nowhere.pem"), print)


def test_a_resource_without_a_url_is_refused():
    with pytest.raises(UsageError, match="is not a URL"):
        Redfish("pdu", "/dev/ttyUSB0", None, HttpOptions(), print)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_switches_an_outlet_off(certificate):
    rig = Rig("http", certificate)
    try:
        unit = f"{rig.url}/redfish/v1/PowerEquipment/RackPDUs/1"
        action = f"{unit}/Outlets/1/Actions/Outlet.PowerControl"
        body = ["--json", '{"PowerState": "Off"}']
        done = subprocess.run(
            ["curl", "--silent", "--fail", unit, "--next", "--silent", "--fail", action, *body],
            capture_output=True,
            timeout=10,
            text=True,
        )
        assert done.returncode == 0
        assert '"SerialNumber": "P1"' in done.stdout
        assert rig.turned == [("1", False)]
    finally:
        rig.close()


@contextlib.contextmanager
def opened(far_end, unit):
    """Put a far end of this kind on a wire; yield the rig and an open driver for it."""
    rig = Rig("http", None, unit)
    try:
        rig.replace(far_end(PowerSite(dict(rig.power), "P1", rig.scheduler, rig.turn)))
        driver = rig.driver()
        driver.open(soon())
        yield rig, driver
    finally:
        rig.close()


class OldController(RedfishHostFarEnd):
    """A controller that can only be asked to shut down."""

    resets = MappingProxyType({"On": (True,), "GracefulShutdown": (False,)})


class Elsewhere(RedfishFarEnd):
    """A rack unit under a name of its own, whose outlets name their own target."""

    unit = "/redfish/v1/PowerEquipment/RackPDUs/Rack7-A"
    outlets = f"{unit}/Outlets"
    action = "Actions/Oem/Switch"

    def _resources(self):
        known = super()._resources()
        (usual,) = (path for path in known if path.endswith("/RackPDUs/1"))
        known[self.unit] = known.pop(usual)
        known["/redfish/v1/PowerEquipment/RackPDUs"] = {"Members": [{"@odata.id": self.unit}]}
        return known


class ActionInfo(RedfishHostFarEnd):
    """A controller that names its resets in a resource of their own, as OpenBMC's bmcweb does."""

    info = "/redfish/v1/Systems/1/ResetActionInfo"

    def _outlet(self, action):
        reset = {"target": quote(action), "@Redfish.ActionInfo": self.info}
        return {"Actions": {"#ComputerSystem.Reset": reset}}

    def _resources(self):
        resets = {"Name": "ResetType", "DataType": "String", "AllowableValues": list(self.resets)}
        return {**super()._resources(), self.info: {"Parameters": [resets]}}


class Silent(RedfishHostFarEnd):
    """A controller that does not say which resets it takes."""

    def _outlet(self, action):
        return {"Actions": {"#ComputerSystem.Reset": {"target": quote(action)}}}


class OldActionInfo(ActionInfo):
    """One that can only be asked to shut down, and says so there."""

    resets = OldController.resets


@pytest.mark.parametrize("far_end", [OldController, OldActionInfo])
def test_a_reset_that_a_controller_does_not_list_is_never_sent(far_end):
    with opened(far_end, "redfish-host") as (rig, unit):
        with pytest.raises(Rejected, match=r"does not list ForceOff .*: On, GracefulShutdown"):
            unit.turn("1", False, soon())
        assert not any(way == "send" and b"POST" in data for way, data in rig.trace)
        unit.turn("a b", True, soon())
        assert rig.turned == [("a b", True)]


@pytest.mark.parametrize(
    ("far_end", "unit"),
    [(Elsewhere, "redfish"), (ActionInfo, "redfish-host"), (Silent, "redfish-host")],
)
def test_paths_and_reset_types_are_those_that_the_service_lists(far_end, unit):
    with opened(far_end, unit) as (rig, driver):
        driver.turn("1", False, soon())
        assert rig.turned == [("1", False)]


def test_a_forced_restart_switches_the_power_off_and_on(certificate):
    rig = Rig("http", certificate, "redfish-host")
    try:
        url = f"{rig.url}/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"
        ask = urllib.request.Request(url, b'{"ResetType": "ForceRestart"}', method="POST")
        with urllib.request.urlopen(ask, timeout=5) as answer:
            assert answer.status == 204
        assert rig.turned == [("1", False), ("1", True)]
    finally:
        rig.close()
