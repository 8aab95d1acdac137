"""Far ends behind HTTP as state machines, on a clock that only moves when told to."""

import base64
import json

import pytest

from testbed.bench.sites import SwitchSite
from testbed.secret import Secret
from testbed_drivers.switches.calient_rest_far_end import CalientRestFarEnd
from testbed_drivers.switches.descriptors.calient import CalientRestOptions
from testbed_drivers.switches.descriptors.polatis import PolatisRestconfOptions
from testbed_drivers.switches.polatis_restconf_far_end import PolatisRestconfFarEnd
from tests.contract.virtual_time import VirtualTime

SETTLE = 0.025
PAIRS = "/api/data/optical-switch:cross-connects"
CIRCUITS = "/rest/crossconnects/?id="


class Box:
    """A 4×4 switch behind HTTP, its time and the light it showed."""

    def __init__(self, far_end, options=None, ingress=range(1, 5), egress=range(5, 9)):
        self.time = VirtualTime()
        self.lit = {}
        self.hung_up = 0
        site = SwitchSite(
            frozenset(ingress), frozenset(egress), "S1", SETTLE, 1, self.time, self._hear
        )
        self.far_end = far_end(site, options)
        self._said = []
        self._line = self.far_end.session(self._said.append, hang_up=self._hang_up)

    def _hear(self, lit):
        self.lit = lit

    def _hang_up(self):
        self.hung_up += 1

    def ask(self, request, body=None, **headers):
        """Send a request; return status, content and the lines of the head of the answer."""
        data = b"" if body is None else json.dumps(body).encode()
        fields = {"Content-Length": len(data), **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        self._said.clear()
        self._line.receive(f"{request} HTTP/1.1\r\n{head}\r\n".encode() + data)
        head, _, content = self._said[0].partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        return int(lines[0].split()[1]), json.loads(content or b"null"), lines

    def settle(self):
        self.time.advance(SETTLE)
        return self.lit


def pair(ingress, egress):
    return {"ingress": ingress, "egress": egress}


def words(content):
    return content["ietf-restconf:errors"]["error"][0]["error-message"]


class TestPolatis:
    @pytest.fixture
    def box(self):
        return Box(PolatisRestconfFarEnd)

    def put(self, box, ingress, egress):
        body = {"optical-switch:pair": [pair(ingress, egress)]}
        return box.ask(f"PUT {PAIRS}/pair={ingress}", body)[0]

    def state(self, box):
        status, content, _ = box.ask(f"GET {PAIRS}")
        if status == 204:
            return {}
        rows = content["optical-switch:cross-connects"]["pair"]
        return {row["ingress"]: row["egress"] for row in rows}

    def test_a_circuit_is_listed_at_once_and_lit_after_settling(self, box):
        assert self.put(box, 1, 5) == 201
        assert self.state(box) == {1: 5}
        assert box.lit == {}
        assert box.settle() == {1: 5}

    def test_an_input_in_use_is_moved_and_an_output_in_use_is_a_conflict(self, box):
        assert [self.put(box, 1, 5), self.put(box, 1, 6)] == [201, 204]
        assert self.put(box, 2, 6) == 409
        assert self.state(box) == {1: 6}

    def test_repeating_a_circuit_moves_no_mirror(self, box):
        self.put(box, 1, 5)
        box.settle()
        assert self.put(box, 1, 5) == 204
        assert box.lit == {1: 5}

    def test_a_list_is_made_as_a_whole_or_not_at_all(self, box):
        both = {"optical-switch:pair": [pair(1, 5), pair(2, 6)]}
        assert box.ask(f"POST {PAIRS}", both)[0] == 201
        status, content, _ = box.ask(f"POST {PAIRS}", {"pair": [pair(3, 7), pair(4, 6)]})
        assert (status, words(content)) == (409, "port 6 is already in use")
        assert self.state(box) == {1: 5, 2: 6}

    def test_writing_the_whole_list_removes_circuits_that_it_does_not_contain(self, box):
        self.put(box, 1, 5)
        self.put(box, 2, 6)
        new = {"optical-switch:cross-connects": {"pair": [pair(2, 6), pair(3, 7)]}}
        assert box.ask(f"PUT {PAIRS}", new)[0] == 204
        assert self.state(box) == {2: 6, 3: 7}
        assert box.ask(f"DELETE {PAIRS}")[0] == 204
        assert self.state(box) == {}

    def test_a_single_circuit_can_be_read_and_can_be_removed_only_once(self, box):
        self.put(box, 1, 5)
        assert box.ask(f"GET {PAIRS}/pair=1")[1] == {"optical-switch:pair": pair(1, 5)}
        assert [box.ask(f"DELETE {PAIRS}/pair=1")[0] for _ in range(2)] == [204, 404]
        assert box.ask(f"GET {PAIRS}/pair=1")[0] == 404

    def test_the_etag_changes_with_the_list_of_circuits(self, box):
        def read(tag=""):
            status, _, head = box.ask(f"GET {PAIRS}", If_None_Match=tag)
            return status, next(line for line in head if line.startswith("ETag: "))[6:]

        _, dark = read()
        assert read(dark) == (304, dark)
        self.put(box, 1, 5)
        status, tag = read(dark)
        assert (status, tag != dark) == (200, True)
        box.ask(f"DELETE {PAIRS}/pair=1")
        assert read(tag) == (204, dark)

    @pytest.mark.parametrize(
        ("request_", "body", "status"),
        [
            (f"PUT {PAIRS}/pair=1", {"pair": [pair(2, 5)]}, 400),
            (f"PUT {PAIRS}/pair=1", {"pair": [pair(1, 2)]}, 400),
            (f"PUT {PAIRS}/pair=1", {"pair": [pair(1, 9)]}, 400),
            (f"PUT {PAIRS}/pair=1", {"pair": 1}, 400),
            (f"PUT {PAIRS}/pair=1", None, 400),
            (f"POST {PAIRS}", {"pair": [pair(1, 5), pair(2, 5)]}, 400),
            (f"POST {PAIRS}", {"pair": [pair(1, 5), pair(1, 6)]}, 400),
            (f"PATCH {PAIRS}", {}, 405),
            (f"PATCH {PAIRS}/pair=1", {}, 405),
            ("DELETE /api/data/optical-switch:port-config", None, 405),
            ("GET /api/data/optical-switch:aps", None, 404),
        ],
    )
    def test_an_invalid_request_is_refused_with_a_restconf_error(self, box, request_, body, status):
        answered, content, _ = box.ask(request_, body)
        assert answered == status
        assert words(content)
        assert self.state(box) == {}

    def test_monitors_measure_the_output_power(self, box):
        self.put(box, 1, 5)
        box.settle()
        content = box.ask("GET /api/data/optical-switch:opm-power")[1]["optical-switch:opm-power"]
        levels = {row["port-id"]: float(row["power"]) for row in content["port"]}
        assert -2 < levels.pop(5) < 0
        assert levels == {6: -60.0, 7: -60.0, 8: -60.0}

    def test_after_a_loss_of_power_a_polatis_has_no_circuits(self, box):
        self.put(box, 1, 5)
        box.settle()
        box.far_end.fault("restart")
        assert (self.state(box), box.lit, box.hung_up) == ({}, {}, 1)


class TestCalient:
    @pytest.fixture
    def box(self):
        return Box(CalientRestFarEnd)

    def post(self, box, verb, *items):
        status, content, _ = box.ask(f"POST {CIRCUITS}{verb}", list(items))
        assert status == 200
        return [item["response"]["status"] for item in content]

    def add(self, first, last, direction="uni"):
        return {"in": first, "out": last, "dir": direction}

    def names(self, box):
        return [row["name"] for row in box.ask(f"GET {CIRCUITS}list")[1]]

    def test_a_circuit_is_listed_at_once_and_in_service_after_settling(self, box):
        assert self.post(box, "badd", self.add("1.1.1", "1.1.2")) == ["1"]
        (row,) = box.ask(f"GET {CIRCUITS}list")[1]
        assert (row["name"], row["dir"], row["half1"]["os"]) == ("1.1.1>1.1.2", "uni", "RDY")
        assert (row["half1"]["inp"], row["half1"]["outp"]) == ("0.00", "NONE")
        assert box.settle() == {1: 6}
        (row,) = box.ask(f"GET {CIRCUITS}detail&conn=1.1.1%3E1.1.2")[1]
        assert row["half1"]["os"] == "IS"
        assert -2 < float(row["half1"]["outp"]) < 0

    def test_each_item_of_a_list_has_its_own_status(self, box):
        items = [
            self.add("1.1.1", "1.1.1"),
            self.add("1.1.2", "1.1.1"),
            self.add("1.1.1", "1.1.3"),
            self.add("9.9.9", "1.1.3"),
            self.add("1.1.4", "1.1.4"),
        ]
        assert self.post(box, "badd", *items) == ["1", "0", "0", "0", "1"]
        assert box.settle() == {1: 5, 4: 8}
        gone = [{"conn": "1.1.1>1.1.1"}, {"conn": "1.1.2>1.1.2"}]
        assert self.post(box, "bdel", *gone) == ["1", "0"]
        assert box.lit == {4: 8}

    def test_a_bidirectional_circuit_is_listed_as_one_circuit(self, box):
        assert self.post(box, "badd", self.add("1.1.1", "1.1.2", "bi")) == ["1"]
        assert box.settle() == {1: 6, 2: 5}
        assert self.names(box) == ["1.1.1-1.1.2"]
        assert self.post(box, "bdel", {"conn": "1.1.1>1.1.2"}) == ["0"]
        assert self.post(box, "bdel", {"conn": "1.1.1-1.1.2"}) == ["1"]
        assert box.lit == {}

    def test_one_direction_remains_when_another_client_removes_the_other(self, box):
        self.post(box, "badd", self.add("1.1.1", "1.1.2", "bi"))
        box.far_end.fault("meddled", port=1)
        assert self.names(box) == ["1.1.2>1.1.1"]

    def test_half_a_list_may_be_refused_item_by_item(self, box):
        box.far_end.fault("half-refused", count=1)
        items = [self.add(f"1.1.{n}", f"1.1.{n}") for n in (1, 2, 3)]
        assert self.post(box, "badd", *items) == ["1", "0", "0"]
        assert box.settle() == {1: 5}

    def test_one_circuit_can_be_made_and_deleted_without_a_list(self, box):
        status, content, _ = box.ask(f"POST {CIRCUITS}add", self.add("1.1.1", "1.1.1"))
        assert (status, content["response"]["status"]) == (200, "1")
        box.ask(f"DELETE {CIRCUITS}delete&conn=1.1.1%3E1.1.1")
        assert self.names(box) == []

    def test_all_circuits_can_be_deleted(self, box):
        self.post(box, "badd", self.add("1.1.1", "1.1.1"), self.add("1.1.2", "1.1.2"))
        assert box.ask(f"POST {CIRCUITS}deleteall", {})[0] == 200
        assert self.names(box) == []

    @pytest.mark.parametrize(
        ("request_", "body", "status"),
        [
            (f"POST {CIRCUITS}badd", {"in": "1.1.1"}, 400),
            (f"POST {CIRCUITS}badd", 7, 400),
            (f"POST {CIRCUITS}bdel", None, 400),
            (f"POST {CIRCUITS}activate", None, 404),
            ("GET /rest/ports/?id=all", None, 404),
            ("GET /api/", None, 404),
        ],
    )
    def test_an_invalid_request_is_refused_as_a_whole(self, box, request_, body, status):
        answered, content, _ = box.ask(request_, body)
        assert answered == status
        assert content["response"]["status"] == "0"

    def test_ports_are_listed_in_order_with_their_circuits(self, box):
        self.post(box, "badd", self.add("1.1.1", "1.1.3"))
        rows = box.ask("GET /rest/ports/?id=summary")[1]
        assert [row["port"] for row in rows] == ["1.1.1", "1.1.2", "1.1.3", "1.1.4"]
        assert [row["conn"] for row in rows] == ["1.1.1>1.1.3", "", "1.1.1>1.1.3", ""]

    def test_a_client_without_a_known_cookie_gets_one(self, box):
        _, _, head = box.ask(f"GET {CIRCUITS}list")
        (cookie,) = (line for line in head if line.startswith("Set-Cookie: "))
        known = cookie[12:].partition(";")[0]
        assert not any("Cookie" in line for line in box.ask(f"GET {CIRCUITS}list", Cookie=known)[2])
        assert any("Cookie" in line for line in box.ask(f"GET {CIRCUITS}list", Cookie="s=1")[2])

    def test_after_a_loss_of_power_a_calient_restores_its_circuits(self, box):
        self.post(box, "badd", self.add("1.1.1", "1.1.1"))
        box.settle()
        box.far_end.fault("restart")
        assert (box.lit, box.hung_up) == ({}, 1)
        assert box.settle() == {1: 5}

    def test_outputs_are_numbered_after_all_inputs(self):
        with pytest.raises(ValueError, match="numbers its outputs from 6"):
            Box(CalientRestFarEnd, egress=range(5, 11))


class TestAnyService:
    @pytest.fixture(
        params=[
            (PolatisRestconfFarEnd, PolatisRestconfOptions, PAIRS),
            (CalientRestFarEnd, CalientRestOptions, f"{CIRCUITS}list"),
        ],
        ids=["polatis-restconf", "calient-rest"],
    )
    def service(self, request):
        return request.param

    @pytest.mark.parametrize("word", ["wrong", "righ", "right\n", "RIGHT", "right"])
    def test_requests_without_the_password_are_refused(self, service, tmp_path, word):
        far_end, options, path = service
        (tmp_path / "word").write_text("right\n")
        login = options(user="lab", password=Secret(file=str(tmp_path / "word")))
        box = Box(far_end, login)
        assert box.ask(f"GET {path}")[0] == 401
        basic = base64.b64encode(f"lab:{word}".encode()).decode()
        answered = box.ask(f"GET {path}", Authorization=f"Basic {basic}")[0]
        assert (answered != 401) == (word == "right")

    def test_a_busy_service_refuses_everything_until_its_time_is_over(self, service):
        far_end, _, path = service
        box = Box(far_end)
        box.far_end.fault("busy", delay=2.0)
        assert box.ask(f"GET {path}")[0] == 503
        box.time.advance(2.0)
        assert box.ask(f"GET {path}")[0] in (200, 204)

    def test_faults_find_a_request_by_its_method_and_path(self, service):
        far_end, _, path = service
        box = Box(far_end)
        box.far_end.fault("login-rejected", command=path, count=1)
        assert box.ask("GET /elsewhere")[0] == 404
        assert box.ask(f"GET {path}")[0] == 401
        assert box.ask(f"GET {path}")[0] in (200, 204)
