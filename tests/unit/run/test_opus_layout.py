"""Which ports of a lab are the ranks that speak the protocol of Opus, and what is refused."""

from pathlib import Path

import pytest

from testbed.bench.permission import Guard
from testbed.errors import UsageError
from testbed.run.opus_layout import rail_layout
from testbed.schema import load_lab

CONFIGS = Path(__file__).parents[3] / "configs"
SET_ASIDE = 'lab.quarantine=[{what: rail1.2, until: "2099-01-01", reason: "dirty"}]'


def lab(name="rails", *overrides):
    return load_lab(CONFIGS / f"{name}.yaml", overrides)


def test_a_rail_has_the_port_of_each_host_that_its_rank_has():
    layout = rail_layout(lab(), ["h2", "h0"], None)
    assert (layout.hosts, layout.rails) == (("h2", "h0"), 2)
    assert [[*map(str, own)] for own in layout.on_rail(1)] == [["h2.p1"], ["h0.p1"]]
    assert layout.switches(lab()) == ["rail0", "rail1"]
    named = sorted({resource.name for resource in layout.resources(lab())})
    assert named == [
        *("rail0.1", "rail0.3", "rail0.6", "rail0.8"),
        *("rail1.1", "rail1.3", "rail1.6", "rail1.8"),
    ]


def test_rails_that_share_a_switch_are_counted_by_the_user():
    wide = lab("rails-wide")
    assert rail_layout(wide, [], None).rails == 1
    layout = rail_layout(wide, ["h0", "h1"], 2)
    assert [[*map(str, own)] for own in layout.on_rail(1)] == [
        ["h0.p2", "h0.p3"],
        ["h1.p2", "h1.p3"],
    ]


@pytest.mark.parametrize(
    ("name", "hosts", "rails", "text"),
    [
        ("rails", ["h0", "h9"], None, "--hosts: 'h9' is not a host of lab rails"),
        ("rails", ["h0", "h1", "h0"], None, "--hosts names h0 twice"),
        ("rails", ["h0"], 3, "--rails 3: h0 has 2 fabric ports, which its 3 ranks cannot share"),
        ("packet-rails", [], None, "no host of lab packet-rails has a port with fibres"),
        ("packet-rails", ["h0"], None, "h0 of lab packet-rails has no port with fibres"),
        ("slices", [], None, "circuits of lab slices pass several switches"),
    ],
)
def test_hosts_that_are_no_ranks_on_rails_are_refused(name, hosts, rails, text):
    with pytest.raises(UsageError) as refused:
        rail_layout(lab(name), hosts, rails)
    assert text in str(refused.value)


def test_a_host_in_quarantine_is_refused_with_the_reason():
    aside = lab("rails", SET_ASIDE)
    with pytest.raises(UsageError, match=r"h1 may not be used: rail1\.2 is in quarantine.*dirty"):
        rail_layout(aside, [], None)
    assert rail_layout(aside, ["h0", "h2"], None).hosts == ("h0", "h2")


def test_a_lab_permits_programs_of_others_by_their_protocol():
    Guard(lab()).control("opus")
    with pytest.raises(UsageError, match="lab rack does not permit programs that speak opus"):
        Guard(lab("rack")).control("opus")
