"""The far ends that speak TL1 as state machines, on a clock that only moves when told to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bench.sites import SwitchSite
from testbed.secret import Secret
from testbed_drivers.dialects.tl1_far_end import ROWS_PER_BLOCK
from testbed_drivers.dialects.tl1_syntax import Acknowledgement, Alarm, message, message_end
from testbed_drivers.switches.calient_far_end import CalientFarEnd
from testbed_drivers.switches.descriptors.calient import CalientOptions
from testbed_drivers.switches.descriptors.polatis import PolatisTl1Options
from testbed_drivers.switches.polatis_tl1_far_end import PolatisTl1FarEnd
from tests.contract.virtual_time import VirtualTime

SETTLE = 0.025


class Client:
    """One line to a far end, and what came back on it."""

    def __init__(self, far_end):
        self.said = b""
        self.hung_up = False
        self._line = far_end.session(self._hear, hang_up=self._hang_up)

    def _hear(self, data):
        self.said += data

    def _hang_up(self):
        self.hung_up = True

    def send(self, data):
        self._line.receive(data)

    def messages(self):
        """Return what came, one message after the other."""
        found = []
        while end := message_end(self.said):
            found.append(message(self.said[:end])[1])
            self.said = self.said[end:]
        return found

    def say(self, text):
        """Send a command; return its reply, `COMPLD` with rows or `DENY` with words."""
        self.send(text.encode())
        (reply,) = self.messages()
        return reply.words if reply.status == "DENY" else list(reply.rows)

    def log_in(self, user="lab", word="secret"):
        return self.say(f"ACT-USER::{user}:1::{word};")


class Box:
    """A switch of four inputs and four outputs, its time, the light it shows, and a client."""

    def __init__(self, make, options):
        self.time = VirtualTime()
        self.lit = {}
        ingress, egress = frozenset(range(1, 5)), frozenset(range(5, 9))
        self.site = SwitchSite(ingress, egress, "S1", SETTLE, 1, self.time, self._hear)
        self.far_end = make(self.site, options)
        self.client = Client(self.far_end)

    def _hear(self, lit):
        self.lit = lit

    def say(self, text):
        return self.client.say(text)


@pytest.fixture
def account(tmp_path):
    word = tmp_path / "word"
    word.write_text("secret")
    return {"user": "lab", "password": Secret(file=str(word))}


@pytest.fixture
def polatis(account):
    box = Box(PolatisTl1FarEnd, PolatisTl1Options(**account))
    box.client.log_in()
    return box


@pytest.fixture
def calient(account):
    box = Box(CalientFarEnd, CalientOptions(shape="1x2x2", **account))
    box.client.log_in()
    return box


class TestManners:
    def test_commands_before_a_login_are_refused_for_each_client(self, polatis):
        other = Client(polatis.far_end)
        assert other.say("ENT-PATCH::1,5:2:;") == "DENY PLNA Login Not Active"
        assert other.log_in(word="root") == "DENY PIUI Invalid User Identity"
        assert other.log_in() == ["lab:lab,2"]
        assert other.say("RTRV-PATCH:::2:;") == polatis.say("RTRV-PATCH:::2:;") == []
        assert other.say("CANC-USER::lab:3;") == []
        assert other.say("RTRV-PATCH:::4:;").startswith("DENY PLNA")

    def test_without_an_account_in_the_lab_file_a_polatis_has_its_default_account(self):
        box = Box(PolatisTl1FarEnd, None)
        assert box.client.log_in("admin", "root") == ["admin:admin,1"]

    def test_a_reply_repeats_the_tag_after_its_header(self, polatis):
        polatis.client.send(b"RTRV-NETYPE:::abc123:;")
        header = b"\r\n\n   OCS 00-01-01 00:00:00\r\nM  abc123 COMPLD\r\n"
        assert polatis.client.said.startswith(header)
        assert polatis.client.said.endswith(b'"\r\n;')

    def test_commands_may_come_in_pieces_and_two_in_one_piece(self, polatis):
        for piece in (b"\r\nRTRV-P", b"ATCH:::1:;RTRV-PATCH:::2", b":;"):
            polatis.client.send(piece)
        assert [reply.ctag for reply in polatis.client.messages()] == ["1", "2"]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("NONSENSE:::2;", "DENY ICNV"),
            ("RTRV-PATCH:::;", "DENY IICT"),
            ("RTRV-PATCH:::1234567;", "DENY IICT"),
            ("RTRV-PATCH:OTHER::2;", "DENY IITA"),
        ],
    )
    def test_an_invalid_command_is_refused_with_an_error_code(self, polatis, text, words):
        assert polatis.say(text).startswith(words)

    def test_an_idle_client_is_logged_out(self, polatis):
        assert polatis.say("ED-EQPT::TIMEOUT:2:::ADMIN=5;") == []
        polatis.time.advance(299)
        assert polatis.say("RTRV-PATCH:::3:;") == []
        polatis.time.advance(301)
        assert polatis.say("RTRV-PATCH:::4:;").startswith("DENY PLNA")

    def test_a_long_reply_comes_in_blocks_that_repeat_the_header(self, account):
        box = Box(CalientFarEnd, CalientOptions(shape="5x8x8", **account))
        box.client.log_in()
        box.client.send(b"RTRV-PORT-SUM::0:2;")
        blocks = box.client.messages()
        assert {(block.ctag, block.status) for block in blocks} == {("2", "COMPLD")}
        assert [block.more for block in blocks] == [True] * (320 // ROWS_PER_BLOCK - 1) + [False]
        assert sum(len(block.rows) for block in blocks) == 320


class TestFaultsOfTheLanguage:
    def test_alarms_come_before_and_after_the_answer_unless_they_are_inhibited(self, polatis):
        polatis.far_end.fault("alarms")
        polatis.client.send(b"RTRV-PATCH:::2:;")
        kinds = [type(spoken) for spoken in polatis.client.messages()]
        assert (kinds[0], kinds[-1], kinds.count(Alarm)) == (Alarm, Alarm, len(kinds) - 1)
        polatis.client.send(b"INH-MSG-ALL:::3;")
        polatis.client.messages()
        assert polatis.say("RTRV-PATCH:::4:;") == []
        polatis.client.send(b"ALW-MSG-ALL:::5;")
        polatis.client.messages()
        polatis.client.send(b"RTRV-PATCH:::6:;")
        assert len(polatis.client.messages()) == len(kinds)

    def test_a_command_in_progress_is_acknowledged_and_others_overtake_it(self, polatis):
        polatis.far_end.fault("in-progress", command="ENT-PATCH", delay=0.5)
        polatis.client.send(b"ENT-PATCH::1,5:2:;")
        assert polatis.client.messages() == [Acknowledgement("IP", "2")]
        assert polatis.say("RTRV-PATCH:::3:;") == ["1,5"]
        polatis.time.advance(0.5)
        assert [reply.ctag for reply in polatis.client.messages()] == ["2"]

    def test_a_logged_out_client_keeps_its_connection_and_must_log_in_again(self, polatis):
        polatis.far_end.fault("kicked")
        assert polatis.say("ENT-PATCH::1,5:2:;").startswith("DENY PLNA")
        polatis.client.log_in()
        assert polatis.say("RTRV-PATCH:::3:;") == []

    def test_a_busy_switch_refuses_changes(self, polatis):
        polatis.far_end.fault("busy", delay=1.0)
        assert polatis.say("ENT-PATCH::1,5:2:;") == "DENY SARB All Resources Busy"
        assert polatis.say("RTRV-PATCH:::3:;") == []
        polatis.time.advance(1.0)
        assert polatis.say("ENT-PATCH::1,5:4:;") == []

    def test_a_refused_command_changes_no_circuit(self, polatis):
        polatis.far_end.fault("error", count=1)
        assert polatis.say("ENT-PATCH::1,5:2:;").startswith("DENY SROF")
        assert polatis.say("RTRV-PATCH:::3:;") == []


class TestPolatis:
    def test_a_polatis_reports_its_identity_and_size(self, polatis):
        assert polatis.say("RTRV-NETYPE:::2:;") == ["Polatis,VST-4x4-LU1-DMHNS,OCS,6.5.2.18"]
        assert polatis.say("RTRV-INV::OCS:2:;") == ["OCS:SN=S1"]
        assert polatis.say("RTRV-EQPT::SYSTEM:2:::PARAMETER=SIZE;") == ["SYSTEM:SIZE=4x4"]

    def test_circuits_are_dark_until_they_settled_and_dark_at_once_when_deleted(self, polatis):
        polatis.say("ENT-PATCH::1&6,5&2:2:;")
        assert polatis.say("RTRV-PATCH:::3:;") == ["1,5", "2,6"]
        assert polatis.lit == {}
        polatis.time.advance(SETTLE)
        assert polatis.lit == {1: 5, 2: 6}
        polatis.say("DLT-PATCH::5:4:;")
        assert polatis.lit == {2: 6}
        assert polatis.say("RTRV-PATCH::1&&2:5:;") == ["2,6"]
        polatis.say("DLT-PATCH::ALL:6:;")
        assert polatis.lit == {}

    def test_monitors_report_the_level_of_every_port(self, polatis):
        polatis.say("ENT-PATCH::1,5:2:;")
        polatis.time.advance(SETTLE)
        levels = dict(row.split(":") for row in polatis.say("RTRV-PORT-POWER::1&5&6:3:;"))
        assert levels["1"] == "0.00"
        assert -2.0 < float(levels["5"]) < -0.5
        assert levels["6"] == "-60.00"

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("ENT-PATCH::1:2:;", "IPMS"),
            ("ENT-PATCH::1&2,5:2:;", "IIAC"),
            ("ENT-PATCH::1&2,5&5:2:;", "IIAC"),
            ("ENT-PATCH::1,2:2:;", "IIAC"),
            ("ENT-PATCH::1,9:2:;", "IIAC"),
            ("ENT-PATCH::1,x:2:;", "IIAC"),
            ("ENT-PATCH::3&1,7&5:2:;", "IEAE"),
            ("DLT-PATCH:::2:;", "IIAC"),
            ("RTRV-EQPT::SYSTEM:2:::PARAMETER=MOOD;", "IDNV"),
            ("ED-EQPT::TIMEOUT:2:::ADMIN=soon;", "IDNV"),
        ],
    )
    def test_an_invalid_command_is_refused_and_changes_nothing(self, polatis, text, code):
        polatis.say("ENT-PATCH::2,5:2:;")
        assert polatis.say(text).startswith(f"DENY {code}")
        assert polatis.say("RTRV-PATCH:::3:;") == ["2,5"]

    def test_after_a_power_loss_a_polatis_is_dark_and_all_clients_are_disconnected(self, polatis):
        polatis.say("ENT-PATCH::1,5:2:;")
        polatis.far_end.fault("restart")
        assert polatis.client.hung_up
        polatis.client = Client(polatis.far_end)
        polatis.client.log_in()
        assert polatis.say("RTRV-PATCH:::3:;") == []


def states(box):
    """Return administrative, operational and optical state of each circuit, by name."""
    rows = [row.partition(":") for row in box.say("RTRV-CRS:::9::ALL;")]
    return {
        name: "/".join(part.split("=")[1] for part in rest.split(",")[5:8])
        for name, _, rest in rows
    }


class TestCalient:
    def test_a_calient_reports_its_identity(self, calient):
        assert calient.say("RTRV-NE:::2;") == [
            "SERIALNUMBER=S1,SWPACKAGE=6.1.0,STATUS=OK,CHASSISTYPE=S4"
        ]

    def test_a_circuit_is_defined_then_in_service_then_steady_then_gone(self, calient):
        name = "1.1.1>1.1.2"
        calient.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
        assert (states(calient), calient.lit) == ({name: "UMA/RDY/OK"}, {})
        calient.say(f"ACT-CRS::1.1.1,1.1.2:3::{name};")
        assert (states(calient), calient.lit) == ({name: "IS/RDY/OK"}, {})
        calient.time.advance(SETTLE)
        assert (states(calient), calient.lit) == ({name: "IS/IS/OK"}, {1: 6})
        assert calient.say(f"DLT-CRS:::4::,SYSTEM,{name};").startswith("DENY SROF")
        calient.say(f"CANC-CRS:::5::,SYSTEM,{name};")
        assert (states(calient), calient.lit) == ({name: "UMA/RDY/OK"}, {})
        calient.say(f"DLT-CRS:::6::,SYSTEM,{name};")
        assert states(calient) == {}

    def test_listed_circuits_have_every_field_that_drivers_read(self, calient):
        calient.say("ENT-CRS::1.1.1,1.2.1:2::EXP7,1WAY,patch 7;")
        assert calient.say("RTRV-CRS:::3::EXP7,patch 7;") == [
            "patch 7:SRCPORT=1.1.1,DSTPORT=1.2.1,GRPNAME=EXP7,CONNNAME=patch 7,CONNTYPE=1WAY,"
            "AS=UMA,OS=RDY,OC=OK,PS=UPR,AL=CL"
        ]

    @pytest.mark.parametrize(
        ("conflict", "shown", "lit"),
        [("move", {"1.1.1>1.2.1"}, {1: 7}), ("ignore", {"1.1.1>1.1.2"}, {1: 6})],
    )
    def test_a_port_in_use_is_moved_or_refused_as_the_characterisation_card_says(
        self, calient, conflict, shown, lit
    ):
        calient.site.conflict = conflict
        for ends in ("1.1.1,1.1.2", "1.1.1,1.2.1"):
            assert calient.say(f"ENT-CRS::{ends}:3::,1WAY;") == []
            assert calient.say(f"ACT-CRS:::4::{ends.replace(',', '>')};") == []
        calient.time.advance(SETTLE)
        assert (states(calient).keys(), calient.lit) == (shown, lit)

    def test_a_bidirectional_circuit_is_one_circuit_with_two_light_paths(self, calient):
        calient.say("ENT-CRS::1.1.1,1.1.2:2::,2WAY;")
        calient.say("ACT-CRS:::3::1.1.1-1.1.2;")
        calient.time.advance(SETTLE)
        assert calient.lit == {1: 6, 2: 5}
        assert states(calient) == {"1.1.1-1.1.2": "IS/IS/OK"}

    def test_a_port_in_use_by_a_definition_alone_is_refused(self, calient):
        calient.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
        for ends in ("1.1.1,1.2.1", "1.2.1,1.1.2", "1.1.1,1.1.2"):
            words = calient.say(f"ENT-CRS::{ends}:3::,1WAY;")
            assert words == "DENY IEAE Invalid Connection"
        assert calient.say("ENT-CRS::1.1.2,1.1.1:4::,1WAY;") == []

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("ENT-CRS::1.1.1:2::,1WAY;", "IPMS"),
            ("ENT-CRS::1.1.1,1.1.2:2::,3WAY;", "IDNV"),
            ("ENT-CRS::1.1.1,5.8.8:2::,1WAY;", "IIAC"),
            ("ACT-CRS:::2::1.1.1>1.1.2;", "IENE"),
            ("RTRV-CRS:::2::1.1.1>1.1.2;", "IENE"),
            ("RTRV-PORT::5.8.8:2;", "IIAC"),
        ],
    )
    def test_an_invalid_command_is_refused(self, calient, text, code):
        assert calient.say(text).startswith(f"DENY {code}")

    def test_a_port_reports_both_levels_and_its_circuits(self, calient):
        calient.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
        calient.say("ACT-CRS:::3::1.1.1>1.1.2;")
        assert calient.say("RTRV-PORT::1.1.2:4;") == [
            "1.1.2:ALIAS=,INPWR=0.00,OUTPWR=NONE,CONNNAME1=1.1.1>1.1.2"
        ]
        calient.time.advance(SETTLE)
        (row,) = calient.say("RTRV-PORT::1.1.2:5;")
        assert "OUTPWR=-" in row

    def test_one_command_deletes_all_circuits(self, calient):
        calient.say("ENT-CRS::1.1.1,1.1.2:2::,2WAY;")
        calient.say("ACT-CRS:::3::1.1.1-1.1.2;")
        assert calient.say("DLT-CRS-ALL:::4;") == []
        assert (states(calient), calient.lit) == ({}, {})

    def test_a_circuit_with_a_stuck_mirror_stays_in_service(self, calient):
        calient.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
        calient.say("ACT-CRS:::3::1.1.1>1.1.2;")
        calient.far_end.fault("stuck", port=1)
        assert calient.say("CANC-CRS:::4::1.1.1>1.1.2;") == []
        calient.time.advance(SETTLE)
        assert (states(calient), calient.lit) == ({"1.1.1>1.1.2": "IS/IS/OK"}, {1: 6})

    def test_a_failed_circuit_is_reported_and_a_removed_one_is_gone(self, calient):
        calient.far_end.fault("failed", port=1)
        calient.say("ENT-CRS::1.1.1,1.1.2:2::,1WAY;")
        calient.say("ACT-CRS:::3::1.1.1>1.1.2;")
        calient.time.advance(SETTLE)
        assert (states(calient), calient.lit) == ({"1.1.1>1.1.2": "IS/RDY/FAIL"}, {})
        calient.far_end.fault("meddled", port=1)
        assert states(calient) == {}
        assert calient.say("ENT-CRS::1.1.1,1.1.2:4::,1WAY;") == []

    def test_after_a_power_loss_a_calient_restores_its_circuits_or_wrong_ones(self, calient):
        for ends in (("1.1.1", "1.1.1"), ("1.1.2", "1.1.2")):
            calient.say(f"ENT-CRS::{','.join(ends)}:2::,1WAY;")
            calient.say(f"ACT-CRS:::3::{'>'.join(ends)};")
        for fault, lit in (("restart", {1: 5, 2: 6}), ("restart-wrong", {1: 6, 2: 5})):
            calient.far_end.fault(fault)
            calient.time.advance(SETTLE)
            assert calient.lit == lit


NAMES = ("1.1.1", "1.1.2", "1.2.1", "1.2.2")
steps = st.lists(
    st.tuples(
        st.sampled_from(["ENT", "ACT", "CANC", "DLT", "wait"]),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.sampled_from(["1WAY", "2WAY"]),
    ),
    max_size=30,
)


@given(steps)
def test_no_port_of_a_calient_ever_has_two_circuits_and_only_those_in_service_are_lit(script):
    box = Box(CalientFarEnd, CalientOptions(user="lab", shape="1x2x2"))
    box.client.log_in(word="")
    for verb, source, destination, kind in script:
        name = source + (">" if kind == "1WAY" else "-") + destination
        if verb == "wait":
            box.time.advance(SETTLE / 2)
        else:
            payload = f",{kind}" if verb == "ENT" else name
            box.say(f"{verb}-CRS::{source},{destination}:2::{payload};")
        rows = [row.partition(":")[0] for row in box.say("RTRV-CRS:::3::ALL;")]
        pairs = [pair for row in rows for pair in paths(row)]
        assert len({i for i, _ in pairs}) == len({e for _, e in pairs}) == len(pairs)
        in_service = {name for name, words in states(box).items() if words.startswith("IS/")}
        assert box.lit.items() <= {pair for name in in_service for pair in paths(name)}


def paths(name):
    """Return the paths of light of a circuit by its own name."""
    two = "-" in name
    source, destination = (NAMES.index(end) + 1 for end in name.replace("-", ">").split(">"))
    there, back = (source, 4 + destination), (destination, 4 + source)
    return {there, back} if two else {there}
