"""Owners of circuits, against the rule that every port is in at most one circuit of anybody."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.circuits import Circuit, HostPort
from testbed.fabric.owners import CircuitOfAnother, change_own, merged

PORTS = [HostPort(host, "p0") for host in "abcdef"]
CIRCUITS = [Circuit.between(one, other) for one, other in combinations(PORTS, 2)]
some = st.frozensets(st.sampled_from(CIRCUITS), max_size=4)


@given(st.lists(st.tuples(st.sampled_from("xyz"), some, some), max_size=8))
def test_a_change_is_made_exactly_when_it_affects_no_circuit_of_another_owner(changes):
    owned = {}
    for owner, remove, add in changes:
        mine = owned.get(owner, frozenset())
        others = {end for who, has in owned.items() if who != owner for c in has for end in c.ends}
        wanted = (mine - remove) | add
        uses = Counter(end for circuit in wanted for end in circuit.ends)
        possible = remove <= mine and max(uses.values(), default=0) < 2 and not others & {*uses}
        if not possible:
            with pytest.raises(CircuitOfAnother):
                change_own(owned, owner, remove, add)
            continue
        after = change_own(owned, owner, remove, add)
        assert after == {**owned, owner: wanted}
        assert len(merged(after)) == sum(map(len, after.values()))
        owned = after


def test_a_refused_change_names_the_owner_of_the_conflicting_circuit():
    owned = {"x": frozenset({Circuit.parse("a.p0", "b.p0")})}
    refusal = r"y cannot have circuit b\.p0–c\.p0: port b\.p0 is in use by .* of x"
    with pytest.raises(CircuitOfAnother, match=refusal):
        change_own(owned, "y", frozenset(), frozenset({Circuit.parse("b.p0", "c.p0")}))
    with pytest.raises(CircuitOfAnother, match=r"y has no circuit a\.p0–b\.p0: it is a circuit of"):
        change_own(owned, "y", owned["x"], frozenset())
    with pytest.raises(CircuitOfAnother, match=r"^x has no circuit c\.p0–d\.p0$"):
        change_own(owned, "x", frozenset({Circuit.parse("c.p0", "d.p0")}), frozenset())


def test_a_port_can_move_from_one_circuit_to_another_in_one_change():
    before, after = Circuit.parse("a.p0", "b.p0"), Circuit.parse("a.p0", "c.p0")
    owned = {"x": frozenset({before})}
    assert change_own(owned, "x", frozenset({before}), frozenset({after})) == {"x": {after}}
