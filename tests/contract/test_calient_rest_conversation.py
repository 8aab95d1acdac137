"""What the driver of a Calient asks its web service, and what it makes of every kind of answer."""

import pytest

from testbed.clock import Deadline
from testbed.errors import Garbled, Rejected, UsageError
from testbed.fabric.change import Change
from testbed.fabric.reading import DARK, NOT_CONNECTED, NOT_MEASURED, measured
from testbed_drivers.dialects.http_far_end import Answer
from testbed_drivers.switches.calient_rest import CalientRest
from testbed_drivers.switches.descriptors.calient import CalientRestOptions
from tests.contract.scripted_http import Web

NAMES = ("1.1.1", "1.1.2", "1.1.3", "1.1.4")
ABOUT = [
    (
        "GET /rest/node/?id=summary&detail=SYSCFG",
        Answer(200, {"serialnumber": "S1", "partnumber": "S320"}),
    ),
    ("GET /rest/info/?id=softwareversion", Answer(200, {"version": "6.1"})),
]
LIST = "GET /rest/crossconnects/?id=list"


def soon():
    return Deadline.after(5)


def opening(names=NAMES):
    return [
        *ABOUT,
        *ABOUT,
        ("GET /rest/ports/?id=summary", Answer(200, [{"port": name} for name in names])),
    ]


def half(circuit, status="IS/IS/OK", inp="-1.5", outp="NONE"):
    admin, operational, capability = status.split("/")
    return {
        "conn": circuit,
        "inp": inp,
        "outp": outp,
        "as": admin,
        "os": operational,
        "oc": capability,
    }


def one_way(circuit, group="SYSTEM", **more):
    return {"name": circuit, "group": group, "dir": "uni", "half1": half(circuit, **more)}


def both_ways(first, last):
    halves = {"half1": half(f"{first}>{last}"), "half2": half(f"{last}>{first}")}
    return {"name": f"{first}-{last}", "group": "SYSTEM", "dir": "bi", **halves}


def shows(*rows):
    return LIST, Answer(200, [one_way(r) if isinstance(r, str) else r for r in rows])


def add(circuit, group="SYSTEM"):
    first, last = circuit.split(">")
    return {"in": first, "out": last, "dir": "uni", "group": group}


def badd(circuits, answer):
    return "POST /rest/crossconnects/?id=badd", [add(each) for each in circuits], answer


def bdel(circuits, answer):
    return "POST /rest/crossconnects/?id=bdel", [{"conn": each} for each in circuits], answer


def statuses(*words):
    """Return one status per word; an empty word is a success."""
    items = [{"status": "0" if word else "1", "msg": word, "description": ""} for word in words]
    return Answer(200, [{"response": item} for item in items])


@pytest.fixture
def web():
    web = Web()
    yield web
    web.done()


def calient(web, *script, names=NAMES, **options):
    web.line(*opening(names), *script)
    ports = frozenset(range(1, 2 * len(names) + 1))
    options = CalientRestOptions(**options)
    driver = CalientRest(
        "ocs", "https://192.0.2.10", ports, "S1", options, web.tracer, dial=web.dial
    )
    driver.open(soon())
    return driver


class TestReading:
    def test_opening_reads_the_identity_and_the_port_names(self, web):
        driver = calient(web, names=("1.2.1", "1.1.10", "1.1.9"))
        assert driver.capabilities.ingress == {1, 2, 3}
        assert driver.capabilities.egress == {4, 5, 6}

    def test_unidirectional_and_bidirectional_circuits_are_read(self, web):
        driver = calient(web, shows("1.1.1>1.1.2", both_ways("1.1.3", "1.1.4")))
        assert driver.state(soon()) == {1: 6, 3: 8, 4: 7}

    @pytest.mark.parametrize("nothing", [Answer(204), Answer(200, [])])
    def test_an_empty_list_is_read_as_no_circuits(self, web, nothing):
        assert calient(web, (LIST, nothing)).state(soon()) == {}

    def test_a_circuit_that_is_not_in_service_is_unsteady_with_the_status_of_the_switch(self, web):
        rows = [
            one_way("1.1.1>1.1.1", status="IS/RDY/OK"),
            one_way("1.1.2>1.1.2"),
            one_way("1.1.3>1.1.3", status="IS/RDY/FAIL"),
            one_way("1.1.4>1.1.4", status="UMA/RDY/OK"),
        ]
        assert calient(web, shows(*rows)).unsteady(soon()) == {
            1: "IS/RDY/OK",
            3: "failed (IS/RDY/FAIL)",
            4: "disabled: not put in service (UMA/RDY/OK)",
        }

    def test_power_is_measured_at_both_ends_of_a_circuit(self, web):
        driver = calient(web, shows("1.1.1>1.1.2"))
        read = driver.power([1, 6, 2, 99], soon())
        assert read == {1: measured(-1.5), 6: DARK, 2: NOT_CONNECTED, 99: NOT_MEASURED}
        assert driver.power([], soon()) == {}

    def test_a_circuit_end_without_a_level_counts_as_not_measured(self, web):
        driver = calient(web, shows(one_way("1.1.1>1.1.2", inp="", outp=None)))
        assert driver.power([1, 6], soon()) == {1: NOT_MEASURED, 6: NOT_MEASURED}

    def test_an_invalid_level_does_not_affect_other_readings(self, web):
        there = shows(one_way("1.1.1>1.1.2", inp="much", outp=None))
        driver = calient(web, there, there)
        web.line(*ABOUT, there)
        assert driver.state(soon()) == {1: 6}
        with pytest.raises(Garbled, match="'much'"):
            driver.power([1], soon())

    @pytest.mark.parametrize(
        "trouble",
        [
            Answer(200, b"<html>"),
            Answer(200, {"status": "1"}),
            shows("1.1.1>9.9.9")[1],
            shows("1.1.1")[1],
            shows("1.1.1>1.1.2", "1.1.1>1.1.3")[1],
            Answer(200, [{"name": "1.1.1>1.1.2"}]),
        ],
    )
    def test_an_invalid_list_is_requested_again(self, web, trouble):
        driver = calient(web, (LIST, trouble))
        web.line(*ABOUT, shows("1.1.1>1.1.2"))
        assert driver.state(soon()) == {1: 6}

    def test_a_session_cookie_is_sent_with_every_later_request(self, web):
        path, answer = shows()
        driver = calient(
            web, (path, answer._replace(headers={"Set-Cookie": "s=1; Path=/"})), shows()
        )
        driver.state(soon())
        driver.state(soon())
        assert [r.headers.get("cookie") for r in web.requests[-2:]] == [None, "s=1"]


class TestChanging:
    def test_a_move_sends_one_list_of_removals_and_one_of_additions(self, web):
        driver = calient(
            web,
            shows("1.1.1>1.1.2", "1.1.2>1.1.1"),
            bdel(["1.1.1>1.1.2", "1.1.2>1.1.1"], statuses("", "")),
            badd(["1.1.1>1.1.1", "1.1.2>1.1.2"], statuses("", "")),
            shows("1.1.1>1.1.1", "1.1.2>1.1.2"),
        )
        applied = driver.apply(Change({1: 6, 2: 5}, {1: 5, 2: 6}), soon())
        assert (applied.state, applied.refused) == ({1: 5, 2: 6}, {})

    def test_a_partial_refusal_is_found_although_http_reports_success(self, web):
        driver = calient(
            web,
            shows(),
            badd(["1.1.1>1.1.1", "1.1.2>1.1.2"], statuses("", "Invalid Connection")),
            *[shows("1.1.1>1.1.1")] * 2,
        )
        applied = driver.apply(Change({}, {1: 5, 2: 6}), soon())
        assert applied.refused == {2: "Invalid Connection"}
        assert applied.state == {1: 5}

    def test_a_list_refused_as_a_whole_raises_rejected(self, web):
        driver = calient(
            web, shows(), badd(["1.1.1>1.1.1"], statuses("Invalid Connection")), shows()
        )
        with pytest.raises(Rejected, match="Invalid Connection") as caught:
            driver.apply(Change({}, {1: 5}), soon())
        assert caught.value.reply == "Invalid Connection"

    def test_an_account_without_write_permission_is_refused(self, web):
        forbidden = Answer(403, {"status": "0", "msg": "read-only user"})
        driver = calient(web, shows(), badd(["1.1.1>1.1.1"], forbidden), shows())
        with pytest.raises(Rejected, match="read-only user"):
            driver.apply(Change({}, {1: 5}), soon())

    def test_a_bidirectional_circuit_is_removed_as_a_whole(self, web):
        there = shows(both_ways("1.1.3", "1.1.4"))
        driver = calient(web, there, bdel(["1.1.3-1.1.4"], statuses("")), shows())
        assert driver.apply(Change({3: 8, 4: 7}, {}), soon()).state == {}

    def test_one_direction_of_a_bidirectional_circuit_is_never_removed(self, web):
        there = shows(both_ways("1.1.3", "1.1.4"))
        driver = calient(web, there, there)
        with pytest.raises(
            Rejected, match=r"1\.1\.3-1\.1\.4 goes both ways and is taken down only as a whole"
        ):
            driver.apply(Change({3: 8}, {}), soon())

    def test_a_circuit_of_another_group_is_never_removed(self, web):
        there = shows(one_way("1.1.1>1.1.2", group="LAB2"))
        driver = calient(web, there, there)
        with pytest.raises(Rejected, match="is a circuit of the group LAB2"):
            driver.apply(Change({1: 6}, {}), soon())

    def test_circuits_are_made_with_the_group_label_of_the_lab_file(self, web):
        path, _, done = badd(["1.1.1>1.1.1"], statuses(""))
        driver = calient(
            web, shows(), (path, [add("1.1.1>1.1.1", "LAB")], done), shows(), group="LAB"
        )
        driver.apply(Change({}, {1: 5}), soon())

    def test_no_circuit_is_added_on_a_port_whose_removal_was_refused(self, web):
        there = shows("1.1.1>1.1.2")
        driver = calient(web, there, bdel(["1.1.1>1.1.2"], statuses("Locked")), there)
        with pytest.raises(Rejected, match="Locked"):
            driver.apply(Change({1: 6}, {1: 5}), soon())

    def test_more_than_64_circuits_are_sent_in_several_lists_until_one_is_refused(self, web):
        names = [f"{slot}.1.{port}" for slot in range(1, 18) for port in range(1, 9)]
        circuits = [f"{name}>{name}" for name in names]
        busy = Answer(503, {"response": {"msg": "busy"}})
        driver = calient(
            web,
            shows(),
            badd(circuits[:64], statuses(*[""] * 64)),
            badd(circuits[64:128], busy),
            *[shows(*circuits[:64])] * 2,
            names=names,
        )
        count = len(names)
        applied = driver.apply(Change({}, {n: n + count for n in range(1, count + 1)}), soon())
        assert applied.refused == dict.fromkeys(range(65, count + 1), "busy")

    @pytest.mark.parametrize(
        "answer",
        [statuses("", ""), Answer(204), Answer(200, [{"response": {"status": "maybe"}}])],
    )
    def test_invalid_statuses_do_not_count_as_success(self, web, answer):
        driver = calient(web, shows(), badd(["1.1.1>1.1.1"], answer))
        with pytest.raises(Garbled, match="ocs: sent an answer that cannot be used"):
            driver.apply(Change({}, {1: 5}), soon())

    @pytest.mark.parametrize("path", ["?id=deleteall", "?force=1&ID=DeleteAll"])
    def test_the_command_that_deletes_all_circuits_is_never_sent(self, web, path):
        driver = calient(web)
        with pytest.raises(UsageError, match="would remove circuits of other clients"):
            driver._dialect.order(
                "it", "POST", f"/rest/crossconnects/{path}", {}, soon(), parse=lambda _: None
            )
