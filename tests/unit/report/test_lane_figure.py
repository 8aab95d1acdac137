"""The picture of an iteration: a lane for each rank, predicted above measured."""

from dataclasses import replace

import pytest

from testbed.events import Event
from testbed.events.origin import Origin
from testbed.rails.rail_replay import Rails
from testbed.report.canvas import NARROW, WIDE, svg
from testbed.report.figure_files import write_figures
from testbed.report.html import write_html
from testbed.report.lane_figure import lane_drawings
from tests.unit.rails.profiles import two_stages
from tests.unit.report.runs_by_hand import summary, trial

PROFILE = replace(two_stages(forward=0.4, between=0.2), source="trial 7")
EVERY = [f"rank {number}" for number in range(4)]


def on_rails(number, arm, mode="on-demand", delay=0.05, **changes):
    more = {"rail_profile": PROFILE, "rails": Rails(delay, mode), "replayed_from": PROFILE}
    return trial(number, arm, values={"iteration_time": 1.0}, **more | changes)


def change(seq, at, lit, circuit="h0.p0–h1.p0", number=0):
    data = {"circuits": [circuit], "commanded": at, "read_back": at}
    yield Event(seq, at, "fabric.change", "rails", number, data, Origin(owner="main.rail0.dp0"))
    yield Event(seq + 1, lit, "link.good", circuit, number, {"host": "h0", "mono": at})


def titles(drawing, form=WIDE):
    return [ax.get_title(loc="left") for ax in drawing.draw(form).axes]


def lanes_of(drawing, panel):
    return list(dict.fromkeys(row[1] for row in drawing.rows if row[0] == panel))


def test_the_prediction_stands_above_what_was_measured_on_one_time_axis():
    (drawing,) = lane_drawings(summary(on_rails(0, "slow")), change(0, 0.45, 0.5))
    assert drawing.name == "lanes-slow"
    assert titles(drawing) == [
        "predicted: a replay of trial 7 with 50 ms a change (model)",
        "measured: slow, trial 0 (measured-twin)",
    ]
    for panel in ("predicted", "measured"):
        assert lanes_of(drawing, panel) == [*EVERY, "rail0"]
    upper, lower = drawing.draw(WIDE).axes
    ends = [row[4] for row in drawing.rows]
    assert upper.get_xlim() == lower.get_xlim() == pytest.approx((0, max(ends)))


def test_each_bar_is_drawn_where_its_row_of_the_table_says():
    (drawing,) = lane_drawings(summary(on_rails(0, "slow")), change(0, 0.45, 0.5))
    for panel, ax in zip(("predicted", "measured"), drawing.draw(WIDE).axes, strict=True):
        names = [label.get_text() for label in ax.get_yticklabels()]
        drawn = []
        for collection in ax.collections:
            for path in collection.get_paths():
                box = path.get_extents()
                drawn.append((names[round((box.y0 + box.y1) / 2)], box.x0, box.x1))
        said = [(lane, begin, end) for of, lane, _, begin, end in drawing.rows if of == panel]
        assert len(drawn) == len(said) > 0
        for one, other in zip(sorted(drawn), sorted(said), strict=True):
            assert one[0] == other[0] and one[1:] == pytest.approx(other[1:])


@pytest.mark.parametrize("form", [WIDE, NARROW])
def test_the_legend_names_what_is_drawn(form):
    (drawing,) = lane_drawings(summary(on_rails(0, "slow")), change(0, 0.45, 0.5))
    text = svg(drawing.draw(form), drawing.name, form)
    for name in ("compute", "dp", "pp", "stall", "re-pointing", *EVERY, "rail0"):
        assert f">{name}<" in text
    assert "time since the iteration began (s)" in text
    still = on_rails(0, "still", rails=None, replayed_from=None)
    (drawing,) = lane_drawings(summary(still), [])
    text = svg(drawing.draw(form), drawing.name, form)
    assert ">compute<" in text and ">stall<" not in text and ">re-pointing<" not in text


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rails": None}, "only iterations on rails are replayed"),
        ({"replayed_from": None}, "its job has no valid trial on demand with less delay"),
        ({"replayed_from": "part lost"}, "dp0 0: the part of rank 1 is missing"),
    ],
)
def test_a_panel_without_a_prediction_says_why(changes, why):
    if changes.get("replayed_from") == "part lost":
        (ranks,) = PROFILE.iterations
        lost = replace(ranks[1], operations=ranks[1].operations[:1])
        changes = {"replayed_from": replace(PROFILE, iterations=((ranks[0], lost, *ranks[2:]),))}
    (drawing,) = lane_drawings(summary(on_rails(0, "one", **changes)), [])
    assert titles(drawing)[0] == f"no prediction of one: {why}"
    assert {row[0] for row in drawing.rows} == {"measured"}
    narrow = titles(drawing, NARROW)[0]
    assert max(map(len, narrow.splitlines())) <= NARROW.letters


def test_of_each_way_to_request_circuits_the_arm_with_the_longest_delay_is_drawn():
    found = summary(
        on_rails(0, "demand-3", delay=3.0, valid=False),
        on_rails(1, "demand-1", delay=1.0),
        on_rails(2, "ahead-1", "provisioned", 1.0),
        on_rails(3, "demand-3", delay=3.0),
        on_rails(4, "demand-3", delay=3.0),
    )
    drawings = list(lane_drawings(found, []))
    assert [drawing.name for drawing in drawings] == ["lanes-ahead-1", "lanes-demand-3"]
    assert titles(drawings[1])[1] == "measured: demand-3, trial 3 (measured-twin)"


def test_of_arms_with_one_delay_the_first_with_a_prediction_is_drawn():
    found = summary(
        on_rails(0, "source", replayed_from=None),
        *(on_rails(n, arm) for n, arm in enumerate(("one", "other", "other", "one"), 1)),
    )
    assert [drawing.name for drawing in lane_drawings(found, [])] == ["lanes-one"]


def test_no_more_than_four_arms_off_rails_are_drawn():
    found = summary(*(on_rails(n, f"arm-{n}", rails=None) for n in range(6)))
    names = [drawing.name for drawing in lane_drawings(found, [])]
    assert names == [f"lanes-arm-{n}" for n in range(4)]


def test_reports_of_jobs_in_groups_have_the_picture(tmp_path):
    found = summary(on_rails(0, "slow"), trial(1, "other"))
    write_html(found, change(0, 0.45, 0.5), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "An iteration, rank by rank" in page
    assert page.count('aria-label="lanes-slow"') == 2
    files = write_figures(found, tmp_path / "figures", tmp_path)
    assert {file.name for file in files} == {f"lanes-slow.{kind}" for kind in ("svg", "pdf", "csv")}
    write_html(summary(trial(1, "other")), [], tmp_path / "report.html")
    assert "An iteration, rank by rank" not in (tmp_path / "report.html").read_text("utf-8")
