"""Both formats are closed: no mutation of a valid file gets past the checks or out of them."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.errors import FileError
from testbed.schema import load
from testbed.schema.yaml12 import parse

BOGUS = "bogus key"


@pytest.fixture(params=["lab", "experiment"])
def data(request, lab_text, experiment_text):
    """Return the plain data of a valid file."""
    return parse("f", lab_text if request.param == "lab" else experiment_text)[0]


@pytest.fixture
def refusal_of(tmp_path, monkeypatch):
    """Read text as a file; return the error after checking that its place is in the file."""
    monkeypatch.chdir(tmp_path)

    def refusal_of(text):
        (tmp_path / "f").write_text(text, "utf-8")
        with pytest.raises(FileError) as caught:
            load("f")
        for error in (caught.value, *getattr(caught.value, "others", ())):
            file, line, column = error.where.rsplit(":", 2)
            assert file == "f"
            assert 1 <= int(column) <= len(text.split("\n")[int(line) - 1]) + 1
        return caught.value

    return refusal_of


def nodes(data, steps=()):
    """Yield the way to every value."""
    yield steps
    children = data.items() if isinstance(data, dict) else []
    for step, child in enumerate(data) if isinstance(data, list) else children:
        yield from nodes(child, (*steps, step))


def at(data, steps):
    for step in steps:
        data = data[step]
    return data


def test_an_unknown_key_in_any_mapping_is_refused_at_its_place(data, refusal_of):
    mappings = [steps for steps in nodes(data) if isinstance(at(data, steps), dict)]
    for steps in mappings:
        wrong = copy.deepcopy(data)
        at(wrong, steps)[BOGUS] = None
        text = json.dumps(wrong, indent=1)
        _, marks = parse("f", text)
        bogus = marks[*steps, BOGUS]
        expected = {
            "password": marks[steps].value,  # read as a whole: no message may hold a part of it
            "weights": bogus.value,  # takes any key, but only numbers
        }.get(steps[-1] if steps else "", bogus.key)
        assert refusal_of(text).where == str(expected)


def test_a_key_given_twice_in_any_mapping_is_refused(data, refusal_of):
    mappings = [
        steps for steps in nodes(data) if at(data, steps) and isinstance(at(data, steps), dict)
    ]
    for steps in mappings:
        wrong = copy.deepcopy(data)
        mapping = at(wrong, steps)
        key = next(iter(mapping))
        mapping[BOGUS] = mapping[key]
        text = json.dumps(wrong, indent=1).replace(BOGUS, key)
        assert f"key '{key}' is given twice" in str(refusal_of(text))


def test_a_missing_required_key_in_any_mapping_is_reported(data, refusal_of):
    required = {"lab": ["hosts", "lab"], "experiment": ["jobs", "needs", "question"]}
    for key in required["experiment" if "experiment" in data else "lab"]:
        wrong = {name: value for name, value in data.items() if name != key}
        assert f"the key '{key}' is missing" in str(refusal_of(json.dumps(wrong, indent=1)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_value_of_a_wrong_type_anywhere_in_a_file_is_refused(data, refusal_of, draw):
    steps = draw.draw(st.sampled_from([steps for steps in nodes(data) if steps]))
    here = at(data, steps)
    others = [[["x"]], {BOGUS: {}}] if not isinstance(here, (list, dict)) else [True, "x y", -1.5]
    wrong = copy.deepcopy(data)
    at(wrong, steps[:-1])[steps[-1]] = draw.draw(st.sampled_from(others))
    refusal_of(json.dumps(wrong, indent=1))
