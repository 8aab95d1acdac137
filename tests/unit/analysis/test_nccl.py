"""nccl-tests and rccl-tests: every form gives the numbers that were printed, or a typed error."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import pytest

from testbed.analysis.nccl import (
    COLLECTIVES,
    Figures,
    Printed,
    RowChecker,
    UnreadableOutput,
    collective_of,
)
from testbed.analysis.nccl_files import read_output
from testbed.analysis.nccl_table import read_table
from tests.unit.analysis.nccl_outputs import DAMAGES, FORMS, PROGRAM, cut, miscopy, read, text_of

WHOLE = {
    "nccl-blank-half.txt": ("sendrecv", 2, 5, True),
    "nccl-cpu-time.txt": ("reduce_scatter", 8, 7, True),
    "nccl-exponents.txt": ("broadcast", 2, 4, True),
    "nccl-killed.txt": ("all_reduce", 4, 4, False),
    "nccl-per-iteration.txt": ("all_reduce", 4, 7, True),
    "nccl-plain.txt": ("all_reduce", 8, 25, True),
    "nccl-stamps-unchecked.txt": ("all_gather", 8, 9, True),
    "nccl-v3-killed.json": ("all_reduce", 4, 3, False),
    "nccl-v3.json": ("all_reduce", 4, 7, True),
    "rccl-in-place.txt": ("all_reduce", 4, 8, True),
    "rccl-plain.txt": ("all_reduce", 4, 8, True),
    "rccl.csv": ("all_reduce", 4, 8, True),
    "rccl.json": ("all_reduce", 4, 8, True),
}


def changed(form, old, new):
    text = text_of(form)
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


def refusal(text):
    with pytest.raises(UnreadableOutput) as refused:
        read_output(text, PROGRAM)
    return str(refused.value)


@pytest.mark.parametrize("form", FORMS)
def test_every_output_format_gives_all_rows(form):
    output = read(form)
    found = (output.collective, output.ranks, len(output.rows), output.is_complete)
    assert found == WHOLE[form]


def test_every_number_in_a_row_of_the_table_is_read_as_printed():
    row = read("nccl-plain.txt").rows[-1]
    assert (row.size, row.count, row.type, row.redop, row.root) == (
        134217728,
        33554432,
        "float",
        "sum",
        -1,
    )
    line = next(line for line in text_of("nccl-plain.txt").split("\n") if "134217728  " in line)
    time, algbw, busbw = map(float, line.split()[5:8])
    half = row.out_of_place
    assert (half.time, half.algbw, half.busbw) == (time * 1e-6, algbw * 8e9, busbw * 8e9)
    assert half.wrong == 0


def test_the_table_and_the_json_of_one_program_agree():
    table, report = read("nccl-per-iteration.txt"), read("nccl-v3.json")
    for printed, exact in zip(table.rows, report.rows, strict=True):
        assert printed.size == exact.size
        for one, other in zip(printed.halves, exact.halves, strict=True):
            assert one.time == pytest.approx(other.time, rel=1e-3)
            assert one.busbw == pytest.approx(other.busbw, abs=0.005 * 8e9)


def test_the_table_the_json_and_the_csv_of_rccl_agree():
    table, report, csv = (read(f"rccl{form}") for form in ("-plain.txt", ".json", ".csv"))
    for printed, one, other in zip(table.rows, report.rows, csv.rows, strict=True):
        assert one == other
        assert printed.in_place.busbw == pytest.approx(one.in_place.busbw, abs=0.005 * 8e9)


def test_unchecked_values_are_not_reported_as_correct():
    assert {h.wrong for r in read("nccl-stamps-unchecked.txt").rows for h in r.halves} == {None}


def test_numbers_with_exponents_and_counts_of_wrong_values_are_read():
    rows = read("nccl-exponents.txt").rows
    assert rows[1].out_of_place.wrong == 2_500_000
    assert rows[-1].out_of_place.time == pytest.approx(420)


def test_blank_columns_are_those_of_the_out_of_place_half():
    for row in read("nccl-blank-half.txt").rows:
        assert row.out_of_place is None
        assert row.in_place is not None


def test_a_table_with_one_half_is_assigned_to_it():
    for row in read("rccl-in-place.txt").rows:
        assert row.out_of_place is None
        assert row.in_place is not None


def test_bandwidth_is_not_checked_against_cpu_time():
    assert read("nccl-cpu-time.txt").is_complete
    assert "are not" in refusal(text_of("nccl-cpu-time.txt").replace("cputime", "   time"))


def test_output_of_other_programs_between_rows_is_skipped():
    rows = read("nccl-plain.txt").rows
    noisy = text_of("nccl-plain.txt").replace("\n", "\ngpu-1:1:2 [0] NCCL INFO comm 0x55 rank 0\n")
    assert read_output(noisy).rows == rows


def test_json_of_older_versions_and_with_nan_is_read():
    text = changed("nccl-v3.json", '"version":3', '"version":2')
    assert len(read_output(text).rows) == 7
    nan = re.sub(r'"bus_bw":[0-9.]+', '"bus_bw":"nan"', text, count=1)
    assert read_output(nan[: nan.index(',"out_of_bounds"')]).rows[0].out_of_place is None


@pytest.mark.parametrize(
    ("form", "old", "new", "complaint"),
    [
        ("nccl-plain.txt", "33554432     float", "33554433     float", "33554433 elements"),
        ("nccl-plain.txt", "33554432     float", "33554432    double", "elements of double are"),
        ("nccl-plain.txt", "33554432     float", "33554432    floaty", "not a type of nccl-tests"),
        (
            "nccl-per-iteration.txt",
            "68.38    68.38",
            "68.38    69.38",
            "are not in ascending order",
        ),
        ("nccl-v3.json", '"p99_us":62.984833', '"p99_us":63.984833', "are not in ascending order"),
        ("nccl-v3.json", '"version":3', '"version":4', "version 4 is not known"),
        ("nccl-v3.json", '"size":1048576,', '"size":1048576,"size":1,', "its first row"),
        ("nccl-v3.json", '"size":1048576', '"size":1048572', "row 1: 262144 elements"),
        ("nccl-v3.json", '"nccl_version":23007', '"nccl_version"23007', "not that of nccl-tests"),
    ],
)
def test_contradictory_output_is_refused_with_its_place(form, old, new, complaint):
    if complaint == "its first row":
        assert "twice" in refusal(changed(form, old, new))
    else:
        assert complaint in refusal(changed(form, old, new))


@pytest.mark.parametrize("form", ["nccl-plain.txt", "rccl-plain.txt"])
@pytest.mark.parametrize("column", [5, 6, 7])
def test_any_changed_number_of_a_large_row_is_detected(form, column):
    text = text_of(form)
    line = next(line for line in reversed(text.split("\n")) if line.startswith("    "))
    number = line.split()[column]
    other = str(float(number) * 2)[: len(number)].rjust(len(number), "1")
    number_of = 1 + text[: text.index(line)].count("\n")
    assert f"line {number_of} " in refusal(text.replace(line, line.replace(number, other, 1)))


def test_a_missing_row_is_detected_by_the_average():
    lines = text_of("nccl-plain.txt").split("\n")
    row = next(line for line in lines if " 1048576 " in line)
    lines.remove(row)
    assert "a row is missing or wrong" in refusal("\n".join(lines))


def test_a_row_that_was_cut_off_is_not_read():
    text = text_of("nccl-plain.txt")
    ends = [match.end() for match in re.finditer(r"\n", text)]
    head = next(end for end in ends if text[:end].count("(us)"))
    for end in [end for end in ends if end > head][:3]:
        rows = len(read_table(text[:end]).rows)
        assert len(read_table(text[: end - 1]).rows) == rows - 1


@pytest.mark.parametrize(
    "text",
    ["", "\n", "hello\n", "{}", "[]", "[1]", '{"version":3', "numCycle,x\n1\n", "collective,"],
)
def test_text_that_is_no_output_of_nccl_tests_is_refused(text):
    refusal(text)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_are_recognised_by_their_program_names(name):
    assert collective_of(f"build/{name}_perf") == name
    assert collective_of(f"{name}_perf_mpi") == name
    assert collective_of(name.replace("_", "").upper()) == name


def test_a_program_with_an_unknown_name_has_no_known_collective():
    assert collective_of("ncclras") == collective_of("") == "unknown"


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        ("all_reduce", 8, 2 * 7 / 8),
        ("all_gather", 8, 7 / 8),
        ("reduce_scatter", 4, 3 / 4),
        ("alltoall", 16, 15 / 16),
        ("broadcast", 8, 1),
        ("reduce", 8, 1),
        ("sendrecv", 2, 1),
        ("all_reduce", 1, 0),
    ],
)
def test_busbw_is_algbw_times_the_factor_of_the_collective(collective, ranks, factor):
    judge = RowChecker(collective, ranks)
    size, time = 1 << 30, 10_000.0
    algbw = size / 1e3 / time

    def figures(busbw):
        printed = (Printed(time, 0.005), Printed(algbw, 0.005), Printed(busbw, 0.005))
        return Figures(*printed, 0)

    judge.check(size, figures(algbw * factor))
    with pytest.raises(ValueError, match="is not"):
        judge.check(size, figures(algbw * factor + 1))


HALVES = ("out_of_place", "in_place")


def numbers_in(form, rows):
    """Return every half of every row with what it is about.

    The files of rccl-tests say nowhere how many values were wrong in all: such a count is taken as
    it stands.
    """
    unsure = form in ("rccl.json", "rccl.csv")
    return {
        (
            *(row.size, row.count, row.type, row.redop, row.root, name),
            replace(half, wrong=None) if unsure else half,
        )
        for row in rows
        for name in HALVES
        if (half := getattr(row, name)) is not None
    }


def never_printed(form, text):
    """Return the numbers that damaged text gives and the whole text does not."""
    try:
        found = read_output(text, PROGRAM).rows
    except UnreadableOutput:
        return set()
    return numbers_in(form, found) - numbers_in(form, read(form).rows)


def tried(count, seed):
    chance = random.Random(seed)
    for number in range(count):
        form, damage = FORMS[number % len(FORMS)], DAMAGES[number // len(FORMS) % len(DAMAGES)]
        text = damage(chance, text_of(form))
        yield number, damage.__name__, form, never_printed(form, text)


def test_damaged_output_gives_rows_that_were_printed_or_a_typed_error():
    wrong = [trial for trial in tried(400, seed=11) if trial[3]]
    assert not wrong


def exaggerated(form, text):
    """Return the sizes from 1 MiB on whose numbers are not within 1 % of those that were printed.

    A last digit that another column cannot tell is nothing that a reader could notice, nor is a
    count of wrong values before the end, which sums them up, has come.
    """
    known = {(row.size, name): getattr(row, name) for row in read(form).rows for name in HALVES}
    try:
        found = read_output(text, PROGRAM).rows
    except UnreadableOutput:
        return []
    pairs = [
        (size, one, known.get((size, name)))
        for row in found
        if (size := row.size) >= 1 << 20
        for name in HALVES
        if (one := getattr(row, name)) is not None
    ]
    is_summed_up = "killed" not in form and not form.endswith(("rccl.json", "rccl.csv"))
    return [size for size, one, true in pairs if not true or not alike(one, true, is_summed_up)]


def alike(one, true, with_wrong):
    mine, other = (one.time, one.algbw, one.busbw), (true.time, true.algbw, true.busbw)
    return mine == pytest.approx(other, rel=0.01) and (not with_wrong or one.wrong == true.wrong)


@pytest.mark.parametrize(
    "count", [300, pytest.param(5000, marks=pytest.mark.soak)], ids=["sample", "full"]
)
def test_a_changed_digit_is_detected_unless_below_the_printed_precision(count):
    chance = random.Random(count)
    forms = [form for form in FORMS if "cpu" not in form and "exponents" not in form]
    for number in range(count):
        form = forms[number % len(forms)]
        text = miscopy(chance, text_of(form))
        assert not exaggerated(form, text), (form, number)


@pytest.mark.soak
def test_five_thousand_times_damaged_output_gives_no_wrong_number():
    wrong = [trial for trial in tried(5000, seed=12) if trial[3]]
    assert not wrong


def test_output_cut_off_gives_the_rows_before_the_cut():
    chance = random.Random(5)
    for _ in range(100):
        text = cut(chance, text_of("nccl-plain.txt"))
        try:
            found = read_table(text).rows
        except UnreadableOutput as error:
            assert "no table" in str(error)
            continue
        assert found == read("nccl-plain.txt").rows[: len(found)]
        assert len(found) == sum(line.startswith(" ") for line in text.split("\n")[:-1])


def test_json_fixtures_are_valid_json():
    assert json.loads(text_of("nccl-v3.json"))["version"] == 3
    assert len(json.loads(text_of("rccl.json"))) == 16
