"""What the driver of a Polatis asks its web service, and what it makes of every kind of answer."""

import pytest

from testbed.bench.cross_connect_rows import read_rows
from testbed.clock import Deadline
from testbed.errors import Garbled, InstrumentError, NoReply, Rejected, UsageError
from testbed.fabric.change import Change
from testbed.fabric.reading import DARK, NOT_MEASURED, measured
from testbed.schema import load_lab
from testbed.secret import Secret
from testbed_drivers.dialects.http_far_end import Answer
from testbed_drivers.switches.descriptors.polatis import PolatisRestconfOptions
from testbed_drivers.switches.polatis_restconf import PolatisRestconf
from tests.contract.scripted_http import Web

DATA = "/api/data/optical-switch:"
ABOUT = {
    "manufacturer": "Polatis",
    "model-name": "VST-4x4-LU1",
    "serial-number": "S1",
    "software-version": "6.5",
}
LAB = """\
lab: web
hosts: {h0: {ssh: h0, network: existing}}
switches: {ocs: {driver: polatis-restconf, resource: "http://192.0.2.10", ports: [1-8]}}
"""
IDENTITY = (
    f"GET {DATA}product-information",
    Answer(200, {"optical-switch:product-information": ABOUT}),
)
LIST = f"GET {DATA}cross-connects"
NO_MONITORS = (f"GET {DATA}opm-power", Answer(404, {}))
OPENING = [IDENTITY, IDENTITY, NO_MONITORS]
EMPTY = (LIST, Answer(204))
MOVE = Change({1: 5}, {1: 6})


def soon():
    return Deadline.after(5)


def shows(state, **headers):
    pairs = [{"ingress": i, "egress": e} for i, e in state.items()]
    return LIST, Answer(200, {"optical-switch:cross-connects": {"pair": pairs}}, headers)


def delete(ingress, answer=Answer(204)):  # noqa: B008 - an answer never changes
    return f"DELETE {DATA}cross-connects/pair={ingress}", answer


def put(ingress, egress, answer=Answer(201)):  # noqa: B008 - an answer never changes
    body = {"optical-switch:pair": [{"ingress": ingress, "egress": egress}]}
    return f"PUT {DATA}cross-connects/pair={ingress}", body, answer


def refusal(status, words):
    errors = {"error": [{"error-tag": "in-use", "error-message": words}]}
    return Answer(status, {"ietf-restconf:errors": errors})


@pytest.fixture
def web():
    web = Web()
    yield web
    web.done()


def polatis(web, identity="S1", ports=range(1, 9), url="http://192.0.2.10:8008", **options):
    options = PolatisRestconfOptions(**options)
    return PolatisRestconf(
        "ocs", url, frozenset(ports), identity, options, web.tracer, dial=web.dial
    )


def opened(web, *script, **options):
    web.line(*OPENING, *script)
    driver = polatis(web, **options)
    driver.open(soon())
    return driver


class TestOpening:
    def test_the_ports_are_derived_from_the_model_name(self, web):
        web.line(*OPENING)
        driver = polatis(web)
        assert str(driver.open(soon())) == "Polatis VST-4x4-LU1, serial S1, firmware 6.5"
        assert driver.capabilities.ingress == {1, 2, 3, 4}
        assert driver.capabilities.egress == {5, 6, 7, 8}
        assert driver.capabilities.monitored == frozenset()

    def test_a_size_given_in_the_lab_file_is_used(self, web):
        assert opened(web, size=(2, 3)).capabilities.egress == {3, 4, 5}

    def test_a_model_name_without_a_size_needs_one_in_the_lab_file(self, web):
        about = {"optical-switch:product-information": {**ABOUT, "model-name": "OST"}}
        web.line(*[(IDENTITY[0], Answer(200, about))] * 2)
        with pytest.raises(UsageError, match=r"'OST' does not say .* write 'size'"):
            polatis(web).open(soon())

    def test_a_serial_number_other_than_that_of_the_lab_file_is_refused(self, web):
        web.line(IDENTITY)
        with pytest.raises(InstrumentError, match="S1 instead of S2"):
            polatis(web, identity="S2").open(soon())
        assert web.opened[0].closed

    def test_a_wrong_password_is_refused_with_a_hint(self, web):
        web.line((IDENTITY[0], Answer(401, b"<h1>Unauthorized</h1>")))
        with pytest.raises(Rejected, match=r"401 <h1>Una.*give 'user' and 'password'"):
            polatis(web).open(soon())

    def test_the_password_is_sent_with_every_request_and_never_recorded(self, web, tmp_path):
        (tmp_path / "word").write_text("sesame\n")
        opened(web, user="lab", password=Secret(file=str(tmp_path / "word")))
        assert {r.headers["authorization"] for r in web.requests} == {"Basic bGFiOnNlc2FtZQ=="}
        assert not any(b"bGFiOn" in data or b"sesame" in data for _, data in web.trace)

    def test_a_resource_without_a_url_is_refused(self, web):
        with pytest.raises(UsageError, match="is not a URL"):
            polatis(web, url="/dev/ttyUSB0")


class TestReading:
    def test_an_empty_list_means_no_circuits(self, web):
        assert opened(web, EMPTY).state(soon()) == {}

    def test_a_listed_pair_may_have_its_ingress_or_its_egress_first(self, web):
        assert opened(web, shows({5: 1, 2: 6})).state(soon()) == {1: 5, 2: 6}

    def test_an_unchanged_list_is_not_transferred_again(self, web):
        driver = opened(web, shows({1: 5}, ETag='"a"'), (LIST, Answer(304)))
        assert driver.state(soon()) == driver.state(soon()) == {1: 5}
        assert [r.headers.get("if-none-match") for r in web.requests[-2:]] == [None, '"a"']

    def test_after_a_change_the_list_is_read_in_full(self, web):
        tagged = shows({1: 5}, ETag='"a"')
        driver = opened(web, tagged, (LIST, Answer(304)), delete(1), shows({}, ETag='"a"'))
        driver.state(soon())
        assert driver.apply(Change({1: 5}, {}), soon()).state == {}
        assert "if-none-match" not in web.requests[-1].headers

    def test_on_a_new_connection_the_list_is_read_in_full(self, web):
        driver = opened(web, shows({1: 5}, ETag='"a"'))
        driver.state(soon())
        driver.close()
        web.line(IDENTITY, shows({1: 6}, ETag='"a"'))
        assert driver.state(soon()) == {1: 6}
        assert "if-none-match" not in web.requests[-1].headers

    @pytest.mark.parametrize(
        "trouble",
        [
            None,
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
            b"ready\r\n",
            Answer(200, b"<html>"),
            Answer(200, {}),
            Answer(200, []),
            Answer(200, {"optical-switch:cross-connects": {"pair": [{"ingress": 1}]}}),
            Answer(200, {"optical-switch:cross-connects": {"pair": 7}}),
            shows({1: 5, 2: 5})[1],
            shows({1: 9})[1],
            shows({1: 2})[1],
        ],
    )
    def test_a_failed_read_is_repeated_once_on_a_new_connection(self, web, trouble):
        driver = opened(web, (LIST, trouble))
        web.line(IDENTITY, EMPTY)
        assert driver.state(soon()) == {}
        assert web.opened[0].closed

    def test_a_read_that_fails_twice_is_an_error(self, web):
        driver = opened(web, (LIST, Answer(200, {})))
        web.line(IDENTITY, (LIST, Answer(200, {"pair": []})))
        with pytest.raises(Garbled, match="cannot be used: no 'optical-switch:cross-connects'"):
            driver.state(soon())

    def test_bytes_after_a_response_are_not_taken_for_the_next_one(self, web):
        twice = b"HTTP/1.1 204 No Content\r\n\r\n" * 2
        driver = opened(web, (LIST, twice))
        web.line(IDENTITY, shows({1: 5}))
        assert driver.state(soon()) == {}
        assert driver.state(soon()) == {1: 5}

    def test_a_chunked_http_body_is_reassembled(self, web):
        body = b'{"optical-switch:cross-connects": {}}'
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:9], body[9:], b""))
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert opened(web, (LIST, head + chunks)).state(soon()) == {}

    def test_a_connection_closed_by_the_service_is_reopened_for_the_next_request(self, web):
        closing = shows({1: 5}, Connection="close")
        driver = opened(web, closing)
        web.line(shows({1: 6}))
        assert [driver.state(soon()), driver.state(soon())] == [{1: 5}, {1: 6}]
        assert web.opened[0].closed

    def test_power_monitors_are_read_in_dbm_down_to_their_noise_floor(self, web):
        readings = [
            {"port-id": 5, "power": "-3.25"},
            {"port-id": 6, "power": "-60.0"},
            {"port-id": 7},
        ]
        powers = Answer(200, {"optical-switch:opm-power": {"port": readings}})
        asked = (NO_MONITORS[0], powers)
        web.line(IDENTITY, IDENTITY, asked, asked)
        driver = polatis(web)
        driver.open(soon())
        assert driver.capabilities.monitored == {5, 6}
        assert driver.power([6, 5, 7], soon()) == {6: DARK, 5: measured(-3.25), 7: NOT_MEASURED}
        assert driver.power([1, 7], soon()) == {1: NOT_MEASURED, 7: NOT_MEASURED}
        assert driver.power([], soon()) == {}

    def test_a_port_that_is_not_enabled_makes_its_circuit_unsteady(self, web):
        words = {1: "ENABLED", 2: "ENABLED", 5: "DISABLED", 6: "ENABLED"}
        rows = [{"port-id": port, "status": word} for port, word in words.items()]
        table = Answer(200, {"optical-switch:port-config": {"port": rows}})
        driver = opened(web, shows({1: 5, 2: 6}), (f"GET {DATA}port-config", table))
        assert driver.unsteady(soon()) == {1: "disabled"}


class TestNonsense:
    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n",
            b"HTTP/1.1 201 Created\r\nContent-Length: 99999999999999\r\n\r\n",
            b"HTTP/1.1 201 Created\r\n" + b"X-More: yes\r\n" * 200 + b"\r\n",
            b"HTTP/1.1 201 Created\r\nX-More: " + b"y" * 100_000 + b"\r\n\r\n",
            b"HTTP/1.1 201 Created\r\nContent-Length: 40000\r\n\r\n" + b"[" * 40_000,
        ],
    )
    def test_an_unknown_response_to_a_change_is_garbled(self, web, answer):
        driver = opened(web, EMPTY, put(1, 5, answer))
        with pytest.raises(Garbled, match=r"answer(ed)? PUT") as caught:
            driver.apply(Change({}, {1: 5}), soon())
        assert len(str(caught.value)) < 1000

    def test_a_refusal_with_an_undecodable_message_is_still_a_refusal(self, web):
        words = {"ietf-restconf:errors": {"error": [{"error-message": ["no"], "error-tag": "x"}]}}
        driver = opened(web, EMPTY, put(1, 5, Answer(409, words)), EMPTY)
        with pytest.raises(Rejected, match="no"):
            driver.apply(Change({}, {1: 5}), soon())

    def test_an_invalid_identity_is_reported_in_one_sentence(self, web):
        for _ in range(2):
            web.line((IDENTITY[0], Answer(200, {"optical-switch:product-information": {}})))
        with pytest.raises(Garbled, match="asked for its identity, it sent an answer that cannot"):
            polatis(web).open(soon())

    def test_an_overlong_serial_number_is_rejected(self, web):
        about = {"optical-switch:product-information": {**ABOUT, "serial-number": "S1" * 5000}}
        for _ in range(2):
            web.line((IDENTITY[0], Answer(200, about)))
        with pytest.raises(Garbled, match="a field of 10000 characters") as caught:
            polatis(web, identity=None).open(soon())
        assert len(str(caught.value)) < 1500

    def test_a_model_name_with_an_impossible_size_is_rejected(self, web):
        about = {**ABOUT, "model-name": "VST-99999999x99999999"}
        row = (IDENTITY[0], Answer(200, {"optical-switch:product-information": about}))
        web.line(row, row)
        with pytest.raises(Garbled, match="is not the size of a switch"):
            polatis(web).open(soon())

    def test_an_overlong_port_status_is_shortened(self, web, tmp_path):
        (tmp_path / "lab.yaml").write_text(LAB)
        rows = [{"port-id": port, "status": "X" * 100_000} for port in (1, 5)]
        table = (
            f"GET {DATA}port-config",
            Answer(200, {"optical-switch:port-config": {"port": rows}}),
        )
        driver = opened(web, shows({1: 5}), shows({1: 5}), table)
        (row,) = read_rows(load_lab(tmp_path / "lab.yaml"), "ocs", driver, soon())
        assert row.state.startswith("xxx") and len(row.state) < 100


class TestChanging:
    def test_a_move_deletes_the_old_circuit_makes_the_new_one_and_reads_back(self, web):
        driver = opened(web, shows({1: 5, 2: 7}), delete(1), put(1, 6), shows({1: 6, 2: 7}))
        applied = driver.apply(MOVE, soon())
        assert (applied.state, applied.refused) == ({1: 6, 2: 7}, {})
        assert applied.commanded <= applied.answered <= applied.read_back

    def test_a_circuit_that_exists_already_is_not_requested(self, web):
        driver = opened(web, shows({1: 6}), shows({1: 6}))
        assert driver.apply(MOVE, soon()).state == {1: 6}

    def test_a_circuit_removed_by_another_client_counts_as_removed(self, web):
        gone = delete(1, refusal(404, "not connected"))
        driver = opened(web, shows({1: 5}), gone, EMPTY)
        assert driver.apply(Change({1: 5}, {}), soon()).refused == {}

    @pytest.mark.parametrize("present", [{1: 7}, {3: 6}])
    def test_a_conflicting_circuit_of_another_client_is_not_removed(self, web, present):
        driver = opened(web, shows(present), shows(present))
        with pytest.raises(Rejected, match=r"not tried: .* is in the way"):
            driver.apply(Change({}, {1: 6}), soon())

    def test_a_conflict_on_one_circuit_does_not_stop_the_others(self, web):
        after = {3: 6, 2: 7}
        driver = opened(web, shows({3: 6}), put(2, 7), shows(after), shows(after))
        applied = driver.apply(Change({}, {1: 6, 2: 7}), soon())
        assert applied.refused == {1: "not tried: 3→6 is in the way"}
        assert applied.state == after

    def test_the_first_refusal_ends_a_change(self, web):
        after = {1: 5}
        busy = put(2, 6, refusal(409, "port 6 is in use"))
        driver = opened(web, EMPTY, put(1, 5), busy, shows(after), shows(after))
        applied = driver.apply(Change({}, {1: 5, 2: 6, 3: 7}), soon())
        assert applied.refused == {
            2: "port 6 is in use",
            3: "not tried after 2→6 was refused",
        }

    def test_no_circuit_is_made_on_a_port_whose_removal_was_refused(self, web):
        locked = delete(1, refusal(409, "locked"))
        driver = opened(web, shows({1: 5}), locked, shows({1: 5}))
        with pytest.raises(Rejected, match=r"-1→5 \+1→6: .*in the way|locked") as caught:
            driver.apply(MOVE, soon())
        assert caught.value.reply == "locked"

    def test_a_request_without_a_response_is_not_resent(self, web):
        driver = opened(web, EMPTY, put(1, 5, None))
        with pytest.raises(NoReply, match="did not answer PUT"):
            driver.apply(Change({}, {1: 5}), soon())
        web.line(IDENTITY, shows({1: 5}))
        assert driver.state(soon()) == {1: 5}

    def test_an_html_page_instead_of_json_is_no_success(self, web):
        driver = opened(web, EMPTY, put(1, 5, Answer(200, b"<html>")))
        with pytest.raises(Garbled, match="without JSON: '<html>'"):
            driver.apply(Change({}, {1: 5}), soon())

    @pytest.mark.parametrize("page", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000])
    def test_a_too_deeply_nested_response_is_garbled(self, web, page):
        driver = opened(web, EMPTY, put(1, 5, Answer(200, page)))
        with pytest.raises(Garbled, match="without JSON: '\\[\\["):
            driver.apply(Change({}, {1: 5}), soon())

    def test_a_forbidden_change_is_refused_before_the_first_byte(self, web):
        driver = opened(web, ports={1, 5})
        with pytest.raises(UsageError, match="port 6 is not among its ports"):
            driver.apply(Change({}, {1: 6}), soon())

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("PUT", f"{DATA}cross-connects"),
            ("DELETE", f"{DATA}cross-connects/"),
            ("PATCH", f"{DATA}cross-connects/pair"),
        ],
    )
    def test_a_request_that_replaces_the_whole_list_is_never_sent(self, web, method, path):
        driver = opened(web)
        with pytest.raises(UsageError, match="would remove circuits of other clients"):
            driver._dialect.order("it", method, path, {}, soon(), parse=lambda _: None)
