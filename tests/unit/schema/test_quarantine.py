"""What a lab sets aside for a while: never for ever, and never something that does not exist."""

from datetime import date

import pytest

from testbed.errors import FileError
from testbed.schema import SchemaError, avoided, check_quarantine, load_lab

LAB = """\
lab: small
hosts:
  h0: {ssh: h0, ports: {p0: {interface: eth1, address: 10.0.0.1/24, tx: ocs.1, rx: ocs.17}}}
  h1: {ssh: h1, ports: {p0: {interface: eth1, address: 10.0.0.2/24, tx: ocs.2, rx: ocs.18}}}
  h2: {ssh: h2, ports: {p0: {interface: eth1, address: 10.0.0.3/24, bidi: ocs.3}}}
switches: {ocs: {driver: toy-ocs, resource: "TCPIP::192.0.2.10::5025::SOCKET", ports: [1-32]}}
quarantine:
"""
DAY = date(2026, 12, 24)


@pytest.fixture
def lab(tmp_path):
    """Read the lab with entries, each given as what is set aside."""
    path = tmp_path / "lab.yaml"

    def read(*entries, until="2026-12-24", reason="its laser fades"):
        rows = [f"  - {{what: {w}, until: {until}, reason: {reason}}}\n" for w in entries]
        path.write_text(LAB + "".join(rows))
        return load_lab(path)

    return read


@pytest.mark.parametrize("what", ["h1", "h1.p0", "ocs.2", "ocs.18"])
def test_a_host_is_avoided_when_any_of_its_ports_or_instruments_is_quarantined(lab, what):
    (host,) = avoided(lab(what))
    assert host == "h1"
    assert str(avoided(lab(what))["h1"]) == (
        f"{what} is in quarantine until 2026-12-24: its laser fades"
    )


def test_an_unwired_port_quarantines_no_host(lab):
    assert avoided(lab("ocs.32")) == {}


def test_a_quarantine_entry_is_valid_to_the_end_of_its_day(lab):
    found = lab("h1", "h2")
    check_quarantine(found, DAY)
    with pytest.raises(SchemaError) as refused:
        check_quarantine(found, date(2026, 12, 25))
    (first, second) = (refused.value, *refused.value.others)
    assert str(first).endswith(
        "lab.yaml:8:23: quarantine.0.until: the quarantine of h1 ended on 2026-12-24; "
        "test it: if it works, remove the entry, else write a later day in `until`"
    )
    assert ":9:23: quarantine.1.until" in str(second)


def test_an_expired_quarantine_does_not_prevent_reading_the_record_of_a_run(lab):
    assert lab("h1", until="2001-01-01").quarantine[0].until.year == 2001


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["h7"], "h7 is neither a host nor a port of this lab; known: h0, h1, h2$"),
        (["h1.p9"], "h1.p9 is neither a host nor a port of this lab; did you mean .h1.p0.\\?$"),
        (["ocs.33"], "ocs.33 is neither a host nor a port"),
        (["h1", "h1"], "h1 is in quarantine twice"),
    ],
)
def test_an_unknown_resource_cannot_be_quarantined(lab, entries, words):
    with pytest.raises(FileError, match=words):
        lab(*entries)


@pytest.mark.parametrize("day", ["tomorrow", "2026-12", "2026-02-30", "24.12.2026", "20261224"])
def test_a_quarantine_date_in_any_other_format_is_refused(lab, day):
    with pytest.raises(FileError, match=r"is not a date; write it as '2026-12-24'|expected text"):
        lab("h1", until=day)


@pytest.mark.parametrize("key", ["what", "until", "reason"])
def test_a_quarantine_entry_without_a_date_or_a_reason_is_refused(lab, tmp_path, key):
    entry = {"what": "h1", "until": "2026-12-24", "reason": "its laser fades"}
    del entry[key]
    row = ", ".join(f"{name}: {value}" for name, value in entry.items())
    (tmp_path / "lab.yaml").write_text(f"{LAB}  - {{{row}}}\n")
    with pytest.raises(FileError, match=f"the key '{key}' is missing"):
        load_lab(tmp_path / "lab.yaml")
