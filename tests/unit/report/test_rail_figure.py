"""Who is joined to whom on rails over time, from the event log."""

import pytest

from testbed.analysis.rail_spans import rail_spans
from testbed.events import Event
from testbed.events.origin import Origin
from testbed.report.canvas import NARROW, WIDE, svg
from testbed.report.rail_figure import rail_drawings
from tests.unit.report.runs_by_hand import summary, trial

DP, PP, ELSEWHERE = "h0.p0–h1.p0", "h0.p0–h2.p0", "h3.p0–h4.p0"


def change(seq, at, circuits, group="dp0", number=0):
    data = {"circuits": circuits, "commanded": at, "read_back": at + 0.001}
    origin = Origin(owner=f"main.rail0.{group}" if group else "main")
    return Event(seq, at + 0.002, "fabric.change", "rails", number, data, origin)


def good(seq, at, circuit, number=0):
    return Event(seq, at, "link.good", circuit, number, {"host": "h0", "mono": at})


LOG = [
    change(0, 1.0, [ELSEWHERE], group=""),
    change(1, 2.0, [DP, ELSEWHERE]),
    good(2, 2.1, DP),
    good(3, 2.2, DP),
    change(4, 3.0, [PP, ELSEWHERE], "pp0"),
    good(5, 3.5, PP),
    change(6, 9.0, [DP, ELSEWHERE], number=1),
]


def test_a_circuit_of_a_rail_lasts_from_its_command_to_that_of_its_end():
    spans = [(s.circuit, s.group, s.commanded, s.lit, s.removed) for s in rail_spans(LOG, 0)]
    assert spans == [(DP, "dp0", 2.0, 2.1, 3.0), (PP, "pp0", 3.0, 3.5, 9.0)]
    (later,) = rail_spans(LOG, 1)
    assert (later.rail, later.lit, later.removed) == ("rail0", None, None)


@pytest.mark.parametrize("form", [WIDE, NARROW])
def test_the_picture_has_a_row_for_each_port_and_names_who_is_at_the_other_end(form):
    run = summary(trial(0, "only", values={"iteration_time": 1.0}))
    (drawing,) = rail_drawings(run, LOG)
    assert drawing.name == "rails-only"
    assert [row[2] for row in drawing.rows] == [DP, PP]
    text = svg(drawing.draw(form), drawing.name, form)
    assert all(f">{port}<" in text for port in ("h0.p0", "h1.p0", "h2.p0"))
    assert ("h3.p0" in text) is False, "it is on no rail"
    assert (">h2<" in text) == (form is WIDE)
