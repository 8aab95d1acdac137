"""Names in files to code, through real entry points of real (if small) packages."""

from itertools import count

import pytest

from testbed.errors import TestbedError, UsageError
from testbed.plugins import GROUPS, Kind, kind, kinds, nearest

_numbers = count()

GOOD = "from testbed.plugins import Kind\nGOOD = Kind('does good', 'json:dumps')\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install packages that register in a group nobody else has; return its name."""
    group = f"tried{next(_numbers)}"

    def install(package, code, **names):
        (tmp_path / f"{package}.py").write_text(code)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        rows = [f"{name} = {value}" for name, value in names.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[testbed.{group}]", *rows]) + "\n")
        return group

    monkeypatch.syspath_prepend(tmp_path)
    return install


def test_a_package_registers_its_kinds_by_name_and_they_are_sorted(install):
    group = install("goodlab", GOOD, zebra="goodlab:GOOD", ant="goodlab:GOOD")
    assert list(kinds(group)) == ["ant", "zebra"]
    assert kind(group, "ant").summary == "does good"
    assert kind(group, "ant").load()([1]) == "[1]"


@pytest.mark.parametrize("group", GROUPS)
def test_every_built_in_kind_can_be_loaded(group):
    assert kinds(group)
    for known in kinds(group).values():
        if known.role != "far-end":  # those happen on the twin's side of the wire
            assert callable(known.load())


@pytest.mark.parametrize("group", GROUPS)
def test_an_unknown_name_is_answered_with_the_nearest_known_one(group):
    name = next(iter(kinds(group)))
    with pytest.raises(UsageError, match=f"did you mean '{name}'"):
        kind(group, name + "x")
    with pytest.raises(UsageError, match="known: ") as refusal:
        kind(group, "qqqqqq")
    assert all(known in str(refusal.value) for known in kinds(group))


def test_a_group_without_plug_ins_is_reported():
    with pytest.raises(UsageError, match="known: none"):
        kind("emptiness", "anything")
    assert nearest("a", []) == "known: none"


def test_a_name_that_only_shares_some_letters_is_not_suggested():
    assert nearest("spares", ["pace", "ranks"]) == "known: pace, ranks"
    assert nearest("spare", ["pace", "spares"]) == "did you mean 'spares'?"


@pytest.mark.parametrize(
    ("code", "value", "complaint"),
    [
        ("import no_such_package", "brokenlab:X", "no_such_package"),
        ("", "brokenlab:X", "has no attribute 'X'"),
        ("X = 5", "brokenlab:X", "which is no Kind"),
        ("raise RuntimeError('out of cheese')", "brokenlab:X", "out of cheese"),
        ("def", "brokenlab:X", "invalid syntax"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_group_and_reason(install, code, value, complaint):
    name = f"broken{next(_numbers)}lab"
    group = install(name, code, sad=value.replace("brokenlab", name))
    with pytest.raises(TestbedError) as problem:
        kinds(group)["sad"]
    said = str(problem.value)
    assert "'sad'" in said
    assert f"testbed.{group}" in said
    assert complaint in said


def test_a_broken_plug_in_hides_no_other_of_its_group(install):
    install("brokenone", "import no_such_package", sad="brokenone:X")
    group = install("wholeone", GOOD, good="wholeone:GOOD")
    assert list(kinds(group)) == ["good", "sad"]
    assert kind(group, "good").summary == "does good"


def test_two_packages_cannot_have_one_name(install):
    install("onelab", GOOD, same="onelab:GOOD")
    group = install("otherlab", GOOD, same="otherlab:GOOD")
    with pytest.raises(TestbedError, match="two packages register 'same'"):
        kinds(group)


@pytest.mark.parametrize(
    ("implementation", "complaint"),
    [
        ("no_such_package.driver:Driver", "needs the package 'no_such_package'"),
        ("json:no_such_name", "no_such_name"),
        ("json.decoder:JSONDecoder.nothing", "nothing"),
    ],
)
def test_an_implementation_that_cannot_be_loaded_is_named(implementation, complaint):
    with pytest.raises(TestbedError, match=complaint) as problem:
        Kind("broken", implementation).load()
    assert implementation in str(problem.value)
    assert problem.value.hint
