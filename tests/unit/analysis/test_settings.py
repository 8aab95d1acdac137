"""What the numbers of a run rest on, and which of them are not what they seem."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from testbed.analysis.metric_definitions import meaning
from testbed.analysis.metrics import Metric
from testbed.analysis.settings import flags, profiles_of, settings_of
from testbed.events import Event

TWIN = {"settle": 0.025, "heartbeat": 0.2, "rate": 1e8, "credit": 16384}


def predicted(trial: int, arm: str, **totals: float) -> Event:
    rows = [
        {"name": name, "settle": 0.2, "link_up": 3.0, "link_up_reported": True, "source": "a book",
         "total": total}
        for name, total in totals.items()
    ]  # fmt: skip
    return Event(trial, 1.0, "prediction", arm, trial, {"total": 0.5, "profiles": rows})


def test_the_summary_has_the_twin_settings_of_each_arm():
    events = [Event(n, 1.0, "settings", arm, n, {"settle": s})
              for n, (arm, s) in enumerate([("a", 0.1), ("b", 0.2)])]  # fmt: skip
    assert settings_of(events) == {"a": {"settle": 0.1}, "b": {"settle": 0.2}}
    assert settings_of([]) == {} and profiles_of([]) == []  # of a record from before


def test_a_profile_has_the_median_of_what_was_predicted_for_each_arm():
    events = [predicted(0, "a", box=3.1), predicted(1, "a", box=3.2), predicted(2, "a", box=3.6),
              predicted(3, "b", box=3.5, other=4.0)]  # fmt: skip
    box, other = profiles_of(events)
    assert (box.name, box.predicted) == ("box", {"a": 3.2, "b": 3.5})
    assert asdict(other) == {
        "name": "other",
        "settle": 0.2,
        "link_up": 3.0,
        "link_up_reported": True,
        "source": "a book",
        "predicted": {"b": 4.0},
    }


@pytest.mark.parametrize(
    ("metric", "median", "is_flagged"),
    [
        ("busbw_64kib", 118.9e6, True),
        ("busbw_16mib", 95.4e6, False),
        ("busbw", 101e6, True),
        ("busbw", 97e6, True),
        ("algbw_64kib", 118.9e6, True),
        ("time_64kib", 1e9, False),
    ],
)
def test_a_bandwidth_above_the_rate_of_a_port_is_flagged_with_its_cause(metric, median, is_flagged):
    metrics = {f"only.{metric}": Metric((median,), None, meaning(metric))}
    found = flags(metrics, {"only": TWIN})
    assert list(found) == ([f"only.{metric}"] if is_flagged else [])
    if metric == "busbw_64kib":
        assert found["only.busbw_64kib"].startswith(
            "118.9 Mbit/s is above the 100 Mbit/s of a port: after a pause the shaper of a twin's "
            "port lets a credit, 16 KiB by the probe of the links, pass at once"
        )
    if median == 97e6:
        words = "97 Mbit/s is above the 95.6 Mbit/s of payload that a port of 100 Mbit/s carries: "
        assert found["only.busbw"].startswith(words)
    assert flags(metrics, {"only": {"heartbeat": 0.2}}) == {}  # on hardware no rate is known


def test_groups_inside_hosts_are_not_held_against_the_rate_of_a_port():
    names = [f"busbw_4mib_along_{dimension}" for dimension in ("dp", "sp", "tp")]
    metrics = {f"only.{name}": Metric((118.9e6,), None, meaning(name)) for name in names}
    found = flags(metrics, {"only": TWIN | {"inside_hosts": "sp, tp"}})
    assert list(found) == ["only.busbw_4mib_along_dp"]


def test_two_rings_are_held_against_the_rate_of_two_ports():
    def found(value):
        metrics = {"only.busbw_4mib": Metric((value,), None, meaning("busbw"))}
        return flags(metrics, {"only": TWIN | {"rings": 2}})

    assert found(190e6) == {}
    words = "201 Mbit/s is above the 200 Mbit/s of two ports: after a pause"
    assert found(201e6)["only.busbw_4mib"].startswith(words)


def test_single_trials_above_the_rate_of_a_port_are_flagged_where_the_median_is_not():
    metrics = {
        "only.busbw_64kib": Metric((118.9e6, 60e6, 103e6, 70e6, 80e6), None, meaning("busbw"))
    }
    assert flags(metrics, {"only": TWIN})["only.busbw_64kib"].startswith(
        "2 of 5 trials, with up to 118.9 Mbit/s, are above the 100 Mbit/s of a port: after a pause"
    )


@pytest.mark.parametrize("algorithm", ["stragglar", "direct"])
def test_bandwidth_above_the_line_rate_is_explained_by_reductions_before_the_last_rank(algorithm):
    name = f"late.busbw_{algorithm}_7mib"
    metrics = {name: Metric((127.9e6,), None, meaning(name.partition(".")[2]))}
    assert flags(metrics, {"late": TWIN})[name].startswith(
        "127.9 Mbit/s is above the 100 Mbit/s of a port: the others had reduced among themselves"
    )
