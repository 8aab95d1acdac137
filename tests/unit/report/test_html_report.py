"""The report as one HTML file."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from testbed.analysis.checks import CheckResult
from testbed.analysis.clocks import Instant
from testbed.analysis.marks import Marks
from testbed.analysis.settings import Profile
from testbed.report.html import write_html
from tests.unit.report.runs_by_hand import ZERO, lost, recovery, removed, summary, trial, unrepaired

VOID = {"meta", "br", "link", "img", "hr"}


class Balance(HTMLParser):
    """Collect the text of a page and every element that is not closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.rows: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if self.rows and "tr" in self.open:
            self.rows[-1] += f"{data}|"


def parsed(html: str) -> Balance:
    reader = Balance()
    reader.feed(html)
    reader.close()
    return reader


@pytest.fixture
def report(tmp_path):
    """Write a report and return its text."""

    def written(found, events=()):
        write_html(found, events, tmp_path / "report.html")
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    return written


@pytest.fixture(scope="module")
def real(recoveries, summarised, tmp_path_factory):
    """Return the report of the real run of two recoveries."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_html(summarised(recoveries), recoveries, path)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def various(tmp_path_factory):
    """Return the report of two arms, one trial not recovered, with checks, settings and flags."""
    late = recovery(0)
    late = replace(late, marks=Marks(late.marks.at | {"t0": Instant(ZERO, ZERO + 0.049)}))
    found = summary(
        late,
        lost(1),
        recovery(2, "cold"),
        settings={"warm": {"settle": 0.025, "heartbeat": 0.2}},
        profiles=(Profile("polatis-6000", 0.2, 3.0, True, "<a book>", {"warm": 3.4}),),
        flags={"warm.busbw": "above the rate of a port"},
        checks=(
            CheckResult("warm.recovery_time every", "< 1 s", 0.5, "passed"),
            CheckResult("warm.recovery_time median", "< 100 ms", 0.5, "failed", unit="s"),
        ),
    )
    path = tmp_path_factory.mktemp("various") / "report.html"
    write_html(found, (), path)
    return path.read_text(encoding="utf-8")


def test_the_report_refers_to_no_other_file(real):
    links = re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)""", real)
    assert [link for link in links if not link.startswith("#")] == []
    assert re.findall(r"url\((?!#)|@import|<script|<link|<iframe", real) == []
    outside = re.findall(r"https?://[^\s\"'<)]+", real)
    assert set(outside) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_every_html_element_of_the_report_is_closed(real):
    reader = parsed(real)
    assert (reader.wrong, reader.open) == ([], [])


def test_every_figure_is_well_formed_and_uses_the_colours_of_the_page(real):
    drawn = re.findall(r"<svg.*?</svg>", real, flags=re.DOTALL)
    assert len(drawn) == 10  # five, broad and narrow
    for svg in drawn:
        ET.fromstring(svg)
        assert "var(--ink)" in svg
        assert "#010101" not in svg


def test_references_inside_a_figure_have_exactly_one_target(real):
    ids = re.findall(r'\bid="([^"]*)"', real)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', real)) <= set(ids)


def test_the_html_report_has_a_row_for_every_trial_with_all_its_values(
    real, recoveries, summarised
):
    rows = parsed(real).rows
    faults = [event for event in recoveries if event.kind == "fault.inject"]
    for one, fault in zip(summarised(recoveries).trials, faults, strict=True):
        row = next(row for row in rows if row.startswith(f"{one.number}|{one.arm}|"))
        assert f"power-cut of {fault.subject}" in row
        assert f"{one.marks.relative()['t10'] * 1e3:.1f}" in row
        assert one.receipt["observer"] in row


def test_a_trial_that_did_not_recover_is_in_the_table_and_in_the_figure(various):
    assert any("not recovered within 60 s" in row for row in parsed(various).rows)
    assert "1 not recovered</text>" in various


def test_a_ridden_out_trial_is_counted_neither_as_recovered_nor_as_lost(report):
    html = report(summary(recovery(0), unrepaired(1, "ridden out")))
    (row,) = [row for row in parsed(html).rows if row.startswith("1|")]
    assert "ridden out" in row and "no step took longer" in row
    assert "not recovered</text>" not in html
    alone = report(summary(unrepaired(0, "ridden out")))
    assert "recovery_time" not in alone and "ridden out" in alone


def test_the_head_of_the_report_shows_verdict_label_question_and_command(real):
    assert '<div class="verdict passed">' in real
    assert "measured-twin." in real
    assert "How soon is the job &lt;back&gt;?" in real
    assert "testbed run experiments/lumion.yaml --twin --seed 7" in real
    assert "0123abcd, with changes" in real


def test_text_of_users_and_hosts_is_escaped(report):
    evil = "<script>alert('$x$')</script>"
    check = CheckResult(f"{evil}.recovery_time every", "< 1 s", 0.5, "failed", evil)
    found = summary(
        recovery(0, evil), lost(1, evil), checks=(check,), reason=evil, left=(evil,), lab=evil
    )
    html = report(found)
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") >= 7
    assert parsed(html).wrong == []


def test_the_report_states_the_settings_behind_its_numbers(various):
    found = parsed(various)
    assert found.wrong == []
    assert "settle 25 ms, heartbeat 200 ms" in various
    assert "polatis-6000|200 ms|3 s|3.4 s|<a book>|" in found.rows
    assert "warm.busbw: above the rate of a port" in various


def test_the_html_report_states_the_uncertainty_of_t0(various):
    assert "it began up to 49 ms later" in various


def test_the_html_report_lists_failed_checks_first(various):
    rows = parsed(various).rows
    rows = rows[rows.index("verdict|check|limit|value|") :]
    assert rows[1].startswith("failed|warm.recovery_time median|< 100 ms|500 ms|")


def test_the_html_report_begins_with_the_table_of_arms(various):
    rows = parsed(various).rows
    assert rows[0] == "metric|arm|n|no value|median|95 % interval|predicted|"
    assert rows[1:3] == ["recovery_time|cold|1|500 ms|n < 6|", "warm|1|1|500 ms|n < 6|"]
    assert various.index("<h2>Arms</h2>") < various.index("<h2>Recovery</h2>")


def test_an_allreduce_is_drawn_as_bandwidth_over_size_in_every_form(report, allreduce, summarised):
    html = report(summarised(allreduce), allreduce)
    drawn = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(drawn) == 2
    for svg in drawn:
        words = "".join(ET.fromstring(svg).itertext())
        for size in ("4 KiB", "64 KiB", "1 MiB", "4 MiB", "16 MiB", "busbw"):
            assert size in words
    assert "Recovery</h2>" not in html


def test_figures_on_a_narrow_screen_keep_a_legible_font_size(real):
    """A figure of 9 inches came down to letters of 5 pixels on a screen of 390."""
    narrow = re.findall(r'<div class="narrow">(<svg.*?</svg>)\s*</div>', real, flags=re.DOTALL)
    broad = re.findall(r'<div class="broad">(<svg.*?</svg>)\s*</div>', real, flags=re.DOTALL)
    assert len(narrow) == len(broad) > 3
    for svg in narrow:
        points = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
        smallest = min(map(float, re.findall(r"font-size: ([\d.]+)px", svg)))
        assert smallest * (390 - 2 * 13) / points >= 8.5
    assert "figure .narrow { display: block; }" in real


@pytest.mark.parametrize("trials", [(), (trial(0),), (lost(0),), (recovery(0, valid=False),)])
def test_a_run_without_a_single_recovery_still_has_a_report(report, trials):
    html = report(summary(*trials, outcome="failed"))
    assert parsed(html).wrong == []
    assert ("no trial was begun" in html) == (not trials)


def test_the_same_run_gives_the_same_html_report(real, report, recoveries, summarised):
    assert report(summarised(recoveries), recoveries) == real


def test_the_page_says_which_removed_circuits_had_traffic_or_are_not_judged(report):
    bad = removed(under_traffic=True, judged=False)
    page = report(summary(trial(0), removed_circuits=bad))
    for line in (str(bad), *bad.found, *bad.gaps):
        assert line in page
    assert parsed(page).wrong == []
    assert "none of them had traffic" in report(summary(trial(0), removed_circuits=removed()))
    assert "Removed circuits" not in report(summary(trial(0)))
