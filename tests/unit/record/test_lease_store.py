"""What the store of leases is asked: how many statements, and which."""

import json
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import asdict, replace

import pytest

from testbed.errors import BusyError
from testbed.record.claim_registry import ClaimRegistry
from testbed.record.lease_rules import Claim, Holder, Resource, ResourceIndex, release
from testbed.record.lease_store import FileStore, Ledger

HOLDER = Holder("u", "a-machine", 1)
MANY = 1_000


class Recorded:
    """The connection of a store, which writes down what it is asked."""

    def __init__(self, connection):
        self._connection = connection
        self.asked = []

    def execute(self, statement, values=()):
        self.asked.append(statement)
        return self._connection.execute(statement, values)

    @property
    def written(self):
        return [one for one in self.asked if not one.startswith("SELECT")]


class RecordedStore:
    """Claims in a file, with every statement of the last transaction."""

    def __init__(self, path):
        self._store = FileStore(path)
        self._path = path
        with self._store.open():
            pass
        self.last, self.now = None, 1000.0

    @contextmanager
    def open(self):
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            self.last = Recorded(connection)
            connection.execute("BEGIN IMMEDIATE")
            self.now += 1.0
            yield Ledger(self.last, self.now)
            connection.execute("COMMIT")


@pytest.fixture
def store(tmp_path):
    return RecordedStore(tmp_path / "leases.sqlite")


@pytest.fixture
def registry(store):
    """Claims of holders of whom nobody knows whether they run."""
    return ClaimRegistry(store, look=lambda claim: None)


def claim(token, box, parts):
    wanted = frozenset(Resource(box, str(part), f"ocs.{part}") for part in parts)
    return Claim(token, HOLDER, wanted, 0.0)


@pytest.mark.parametrize("parts", [1, MANY])
def test_a_renewal_writes_one_statement_whatever_is_held(registry, store, parts):
    for number in range(20):
        registry.claim(claim(f"other-{number}", f"box-{number}", range(50)))
    registry.claim(mine := claim("mine", "box", range(parts)))
    assert registry.renew(mine) == ""
    assert store.last.written == ["UPDATE testbed_claims SET expires = ? WHERE token = ?"]


def test_a_renewal_and_a_release_read_one_claim(registry, store):
    registry.claim(claim("other", "elsewhere", range(10)))
    mine = registry.claim(claim("mine", "box", range(3)))
    with store.open() as ledger:
        assert ledger.claims("mine") == {"mine": mine}
        assert ledger.claims("nobody's") == {}
        assert ledger.claims().keys() == {"mine", "other"}
    registry.end("mine")
    with store.open() as ledger:
        assert ledger.claims().keys() == {"other"}


def test_many_resources_are_written_in_few_statements(registry, store):
    registry.claim(wanted := claim("mine", "box", range(MANY)))
    assert len(store.last.written) == 1 + MANY // 200
    (found,) = registry.find()
    assert found.claim.resources == wanted.resources
    assert {r.name for r in found.claim.resources} == {r.name for r in wanted.resources}


def test_many_claims_are_removed_in_few_statements(registry, store):
    tokens = [f"claim-{number}" for number in range(MANY)]
    with store.open() as ledger:
        ledger.write({}, {token: claim(token, token, "1") for token in tokens})
        every = ledger.claims()
        assert {asdict(one.holder)["user"] for one in every.values()} == {HOLDER.user}
        before = len(store.last.written)
        ledger.write(every, release(every, *tokens[:-1]))
        assert len(store.last.written) - before == 2 * (MANY // 200)
        assert ledger.claims().keys() == {tokens[-1]}


def test_a_refusal_by_many_claims_names_what_each_has(registry):
    for number in range(3):
        registry.claim(claim(f"other-{number}", "box", [number]))
    with pytest.raises(BusyError) as refusal:
        registry.claim(claim("mine", "box", range(10)))
    for number in range(3):
        assert f"ocs.{number}: held by u " in str(refusal.value)


@pytest.mark.parametrize("part", ["", "1"])
def test_what_is_wanted_is_found_by_what_others_have(part):
    whole, one, two = (Resource("box", which) for which in ("", "1", "2"))
    theirs = [Resource("box", part), Resource("elsewhere", "1")]
    assert ResourceIndex([one, two]).overlapped_by(theirs) == ({one, two} if not part else {one})
    assert ResourceIndex([whole]).overlapped_by(theirs) == {whole}
    assert ResourceIndex([whole, one]).of_box("box") == {"": whole, "1": one}
    assert ResourceIndex([]).overlapped_by(theirs) == set()


def test_a_holder_is_kept_as_it_was_given(store):
    holder = replace(HOLDER, run="20260101T000000Z-x", reason='it\'s "quoted" {} ?', lab="rack")
    with store.open() as ledger:
        ledger.write({}, {"t": Claim("t", holder, frozenset({Resource("box")}), 7.0)})
        (found,) = ledger.claims().values()
    assert json.loads(json.dumps(asdict(found.holder))) == asdict(holder)
