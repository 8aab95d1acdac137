"""Any state, any wish, any trouble: a switch ends as it was wanted or as it was, or says it is not.

Real drivers and far ends on an injected clock. The checker knows only what stood on the box before,
what was wanted, what others did meanwhile, and what the box shows at another console afterwards.
"""

import re
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from testbed.bench.multi_switch_change import PlannedChange, change_all
from testbed.errors import BusyError, InstrumentError, TestbedError, UnsafeError, UsageError
from tests.contract.virtual_time import VirtualTime
from tests.unit.bench.switches_in_memory import EGRESS, INGRESS, Box

SOAK = 10_000

OF_THE_BOX = ("stuck", "partial", "misrouted", "failed", "slow", "vanish")
"""Not `lie` and `dim`: nothing but light shows them, which this switch does not measure."""
OF_THE_LINE = (
    "silent", "late", "after-next", "merged", "garbled", "truncated", "wrong-end", "banner",
    "doubled", "drip", "cut", "reset", "refuse",
)  # fmt: skip
COMMANDS = ("", "ADD", "SUB", "CONN", "STAT?", "PORT:STAT?")


@dataclass
class Story:
    """One switch: what may be touched, what stands there, what is wanted, what goes wrong."""

    usable: frozenset
    ports: frozenset
    first: dict
    """Ours, made before anything goes wrong."""
    others: dict
    """Made by others, on their ports or on unused ones of ours."""
    wanted: dict
    faults: list
    actor: tuple | None
    """Before which of our lines somebody does what."""


@st.composite
def crossings(draw, ports):
    ingress, egress = sorted(ports & set(INGRESS)), sorted(ports & set(EGRESS))
    count = draw(st.integers(0, min(len(ingress), len(egress))))
    ends = draw(st.permutations(egress))
    return dict(zip(draw(st.permutations(ingress))[:count], ends, strict=False))


@st.composite
def faults(draw):
    """Draw up to two faults of the box, and at most one of the language or the line."""
    ports = st.sampled_from([None, None, None, *INGRESS, *EGRESS])
    counts = st.sampled_from([1, 2, 5, None])
    drawn = []
    least = draw(st.integers(0, 2))
    for name in draw(
        st.lists(st.sampled_from(OF_THE_BOX), min_size=least, max_size=2, unique=True)
    ):
        scope = {"port": draw(ports) if name != "partial" else None, "count": draw(counts)}
        drawn.append((name, scope | ({"delay": 0.5} if name == "vanish" else {})))
    if draw(st.booleans()):
        name = draw(st.sampled_from(("error", "busy", "stale", *OF_THE_LINE)))
        scope = {"command": draw(st.sampled_from(COMMANDS)), "count": draw(counts)}
        if name in ("busy", "late", "drip"):
            scope["delay"] = draw(st.sampled_from([0.01, 0.1, 0.9]))
        drawn.append((name, scope))
    return drawn


@st.composite
def stories(draw):
    everything = frozenset(INGRESS + EGRESS)
    protected = frozenset(draw(st.sets(st.sampled_from(sorted(everything)), max_size=3)))
    usable = everything - protected
    ports = usable - draw(st.sets(st.sampled_from(sorted(usable)), max_size=5))
    first = draw(crossings(ports))
    free = everything - {*first, *first.values()}
    acts = st.sampled_from(["take", "grab", "restart", "restart-wrong"])
    actor = (draw(st.integers(1, 6)), draw(acts), draw(st.randoms(use_true_random=False)))
    return Story(
        usable,
        ports,
        first,
        draw(crossings(free - ports if draw(st.integers(0, 3)) else free)),
        draw(crossings(ports if draw(st.integers(0, 9)) else everything)),
        draw(faults()),
        actor if draw(st.integers(0, 2)) == 0 else None,
    )


class Scene:
    """A story up to its first change, and what the checker knows of it."""

    def __init__(self, name, story, time):
        self.name = name
        self.story = story
        self.box = Box(name, time, story.ports, story.usable)
        self.crossbar = self.box.crossbar
        self.crossbar.adopt({}, self.box.soon())
        change_all([PlannedChange(self.crossbar, *self.plan(story.first))], self.box.soon())
        for pair in story.others.items():
            self.box.say("ADD (@{}),(@{})".format(*pair))
        assert self.box.shows() == story.first | story.others
        self.others = set(story.others.items())
        self.box.sent.clear()
        self.acted = False
        self.box.meddle = self._meddle
        for fault, scope in story.faults:
            self.box.far_end.fault(fault, **scope)

    def plan(self, wanted):
        return self.crossbar.plan(wanted, self.box.soon())

    def _meddle(self):
        if not self.acted and self.story.actor and len(self.box.sent) + 1 == self.story.actor[0]:
            self.acted = True
            before = self.box.shows()
            if before is not None:
                self._act(before, *self.story.actor[1:])
                after = self.box.shows().items()
                self.others = (self.others & after) | (after - before.items())

    def _act(self, present, what, chance):
        """Do what somebody else does, at another console or to the power."""
        if what.startswith("restart"):
            self.box.far_end.fault(what)
        elif what == "take" and present:
            self.box.say("SUB (@{}),(@{})".format(*chance.choice(sorted(present.items()))))
        elif what == "grab":
            ends = [e for e in EGRESS if e not in present.values()]
            for ingress in (i for i in INGRESS if i not in present and ends):
                self.box.say(f"ADD (@{ingress}),(@{chance.choice(ends)})")
                break

    @property
    def changes_by_itself(self):
        """Tell whether what was true when it was read may be wrong a moment later."""
        return self.acted or self.circuits_vanish

    @property
    def circuits_vanish(self):
        return any(name == "vanish" for name, _ in self.story.faults)

    @property
    def has_trouble(self):
        return bool(self.acted or self.story.faults)

    # --- the verdicts ----------------------------------------------------------------------

    def is_(self, ours):
        """Check that the box holds exactly these of ours, or that the next look says it does not.

        The second is allowed only where the box changes without being told.
        """
        shown = {p for p in self.box.shows().items() if {*p} & self.story.ports}
        if not self.changes_by_itself:
            assert shown == ours.items() | {p for p in self.others if {*p} & self.story.ports}
        try:
            self.crossbar.check(self.box.soon())
        except BusyError:
            assert shown != ours.items()
        else:
            assert shown == ours.items()

    def was_only_looked_at(self):
        assert not self.box.mutations
        if not self.changes_by_itself:
            assert self.box.shows() == self.story.first | self.story.others

    def is_unsafe_as_declared(self, said):
        """Check that what an UnsafeError says of this box is exactly how it is."""
        end = r"; (?:\w+ could not be brought back|\w+ was brought back|look at it with)"
        told = re.search(rf"{self.name} could not be brought back: (.*?){end}", said)
        if told is None:
            return self.is_(self.story.first)
        if "cannot be read" in told[1]:
            assert any(name not in OF_THE_BOX for name, _ in self.story.faults) or self.acted
        elif not self.changes_by_itself:
            difference = told[1].rpartition("it shows ")[2]
            first = self.story.first.items()
            wanted = self.story.wanted.items() - self.story.others.items()
            moved = {port for pair in first ^ wanted for port in pair}
            shown = {p for p in self.box.shows().items() if {*p} & moved or p in first}
            assert _pairs(r"no (\d+)→(\d+)", difference) == first - shown
            assert _pairs(r"(\d+)→(\d+) instead", difference) == shown - first
            assert first != shown
        return None

    def did_no_harm(self):
        """Check that nothing but ours was ever touched, and nothing told twice without a look."""
        ours = self.story.first.items() | self.story.wanted.items()
        added = set()
        for verb, pairs in self.box.mutations:
            touched = {port for pair in pairs.items() for port in pair}
            assert touched <= self.story.usable, "a port was touched that the lab protects"
            if verb == "SUB":
                assert all(p in ours or p[0] in added for p in pairs.items())
            else:
                assert pairs.items() <= ours
                added |= pairs.keys()
        theirs = {p for p in self.others - ours if p[0] not in added}
        if not self.circuits_vanish:
            assert theirs <= self.box.shows().items(), "somebody else's light was taken"
        told = ["ADD" in line or "SUB" in line for line in self.box.sent]
        looked = ["STAT?" in line for line in self.box.sent]
        for number in [n for n, is_told in enumerate(told) if is_told][1:]:
            last = max(n for n in range(number) if told[n])
            assert any(looked[last:number]), "a mutation was sent again without a look"


def _pairs(pattern, text):
    return {(int(i), int(e)) for i, e in re.findall(pattern, text)}


def play(stories):
    """Play one change of one or two switches and judge how it ended; return that."""
    time = VirtualTime()
    scenes = [Scene(name, story, time) for name, story in zip("ab", stories, strict=False)]
    said, ending = "", "done"
    try:
        moves = [PlannedChange(scene.crossbar, *scene.plan(scene.story.wanted)) for scene in scenes]
    except (BusyError, UsageError, InstrumentError) as error:
        ending, said = "refused", str(error)
        assert _has_a_reason(error, scenes)
    else:
        try:
            change_all(moves, scenes[0].box.soon())
        except UnsafeError as error:
            ending, said = "unsafe", str(error)
            assert any(scene.has_trouble for scene in scenes)
        except TestbedError as error:
            ending, said = "rolled back", str(error)
            assert "rolled back" in said or isinstance(error, UsageError | BusyError)
            assert any(scene.has_trouble for scene in scenes)
    for scene in scenes:
        scene.box.meddle = lambda: None
        scene.box.calm_down()
        scene.did_no_harm()
        _judge(scene, ending, said)
    return ending


def _judge(scene, ending, said):
    match ending:
        case "done":
            scene.is_(scene.story.wanted)
        case "rolled back":
            scene.is_(scene.story.first)
        case "refused":
            scene.was_only_looked_at()
        case "unsafe":
            scene.is_unsafe_as_declared(said)


def _has_a_reason(error, scenes):
    """Tell whether a refusal before the first command is one that the checker understands."""
    if isinstance(error, UsageError):
        return any({*s.story.wanted, *s.story.wanted.values()} - s.story.ports for s in scenes)
    if isinstance(error, BusyError) and not any(s.has_trouble for s in scenes):
        return any(
            (i in others) != (others.get(i) == e) or (e in others.values() and others.get(i) != e)
            for s in scenes
            for others in [s.story.others]
            for i, e in s.story.wanted.items()
        )
    return any(s.has_trouble for s in scenes)


several = st.lists(stories(), min_size=1, max_size=2)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(several)
def test_a_change_is_complete_or_rolled_back_or_reported_unsafe(told):
    event(play(told))


@pytest.mark.soak
@settings(max_examples=SOAK, suppress_health_check=[HealthCheck.too_slow])
@given(several)
def test_ten_thousand_changes_are_complete_or_rolled_back_or_reported_unsafe(told):
    event(play(told))
