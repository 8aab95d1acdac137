"""A host that dies while rails follow its job: both controllers, in every order of events.

Three ranks on one rail have one port each, so that every stage takes other circuits. The host of
rank 1 may die at any time; what ranks, workers and the switch say comes in any order after that.
"""

from dataclasses import dataclass, field, replace

import pytest

from testbed.control import protocol
from testbed.control.controller import (
    CommandJob,
    Fail,
    JobObserved,
    JobView,
    MembershipChanged,
    PolicyController,
    TimerExpired,
    View,
)
from testbed.control.descriptors import RailsOptions, ReplaceOptions
from testbed.control.rail_moves import MoveRail, RailMoved, RecordAnswer, RecordHeld
from testbed.control.rails import Rails
from testbed.control.replace import Replace
from testbed.fabric.circuits import HostPort
from testbed.rails.stage import Stage
from tests.unit.control.model_checker import explore

GROUPS = {"dp": (0, 1), "pp": (0, 2)}
HOSTS = ("h0", "h1", "h2")
RANKS = len(HOSTS)
DEAD = "h1"


def job(hosts, generation=1):
    ports = tuple((HostPort(host, "p0"),) for host in hosts)
    about = {"groups": GROUPS, "replicas": tuple(GROUPS.values()), "is_recovered": True}
    return JobView(tuple(hosts), ports, generation, **about)


@dataclass(frozen=True)
class World:
    policy: object = field(hash=False)
    rails: object = field(hash=False)
    hosts: tuple = HOSTS
    generation: tuple = (1,) * RANKS
    """That each rank is in, or has left: then it is not at work."""
    at: tuple = (0,) * RANKS
    """The stage of its programme."""
    doing: tuple = ("starts",) * RANKS
    """starts, computes, waits, sends, is done, is gone; or has left."""
    told_to_leave: frozenset = frozenset()
    lit: frozenset = frozenset()
    moves: tuple = ()
    answered: frozenset = frozenset()
    """Generation, group and number of a stage."""
    outcomes: tuple = ()
    """What workers will report to the policy, in any order."""
    is_dead: bool = False
    wrong: str = ""


class Pair:
    """The policy `replace` beside the controller of rails."""

    def __init__(self, mode, order):
        """Take the groups in the order in which ranks use them."""
        self.order = order
        self.rails = Rails(RailsOptions(mode), "main")
        self.policy = PolicyController(Replace(ReplaceOptions()), "main", ("membership",))

    def start(self):
        fences = dict.fromkeys((*HOSTS, "h9"), ("power", "process"))
        view = View(0.0, {"main": job(HOSTS)}, ("h9",), {}, fences)
        return World(self.policy.begin(view), self.rails.begin(view))

    def programme(self, rank, generation):
        """Return the stages of a rank; those of replicas have one more for a newcomer's state."""
        restores = [Stage("dp", 1, GROUPS["dp"])] if generation > 1 else []
        found = []
        for name in (name for name in self.order if rank in GROUPS[name]):
            found += [Stage(name, 0, GROUPS[name]), *(restores if name == "dp" else ())]
        return tuple(found)

    # --- what may happen next ---------------------------------------------------------------

    def moves(self, world):
        if world.wrong:
            return
        for rank, doing in enumerate(world.doing):
            yield from self._of_rank(world, rank, doing)
        for move in world.moves:
            if not (world.is_dead and any(DEAD in c.hosts for c in move.add)):
                yield f"{move.stage} is lit", self._lit(world, move)
        for what in dict.fromkeys(world.outcomes):
            left = list(world.outcomes)
            left.remove(what)
            yield str(what), self._observed(replace(world, outcomes=tuple(left)), what)
        if not world.is_dead:
            doing = _with(world.doing, 1, "is gone")
            ended = (*world.outcomes, protocol.RankEnded(1, -9))
            yield "h1 dies", replace(world, is_dead=True, doing=doing, outcomes=ended)

    def _of_rank(self, world, rank, doing):
        own = self.programme(rank, world.generation[rank])
        if rank in world.told_to_leave:
            yield f"rank {rank} leaves its generation", self._gone(world, rank)
        elif doing == "starts":
            world = replace(world, doing=_with(world.doing, rank, "computes"))
            for name in (name for name, ranks in GROUPS.items() if rank in ranks):
                world = self._said(world, protocol.GroupJoined(rank, name))
            yield f"rank {rank} joins", world
        elif doing == "computes" and _are_whole(world, rank):
            stage = own[world.at[rank]]
            known = (world.generation[rank], stage.group, stage.number) in world.answered
            now = "sends" if known else "waits"
            world = replace(world, doing=_with(world.doing, rank, now))
            yield (
                f"rank {rank} reaches {stage}",
                self._said(world, protocol.StageReached(rank, stage)),
            )
        elif doing == "sends":
            yield f"rank {rank} is done with a stage", self._done(world, rank, own)

    def _done(self, world, rank, own):
        at = world.at[rank] + 1
        following = own[at] if at < len(own) else None
        doing = "computes" if following else "is done"
        world = replace(world, at=_with(world.at, rank, at), doing=_with(world.doing, rank, doing))
        world = self._said(world, protocol.StageLeft(rank, following))
        return world if following else self._observed(world, protocol.StepDone(rank, 8))

    def _gone(self, world, rank):
        world = replace(
            world,
            doing=_with(world.doing, rank, "has left"),
            told_to_leave=world.told_to_leave - {rank},
        )
        return self._observed(world, protocol.RankLeft(rank, 8))

    def _lit(self, world, move):
        left = tuple(one for one in world.moves if one != move)
        still = frozenset(c for c in move.add if _is_free(c, world.lit))
        world = replace(world, moves=left, lit=world.lit | still)
        return self._of_rails(world, RailMoved("rail0", move.number))

    # --- what the controllers make of it ----------------------------------------------------

    def _said(self, world, what):
        return self._of_rails(world, JobObserved("main", what))

    def _observed(self, world, what):
        world = self._said(world, what)
        state, commands = self.policy.step(world.policy, 0.0, JobObserved("main", what))
        world = replace(world, policy=state)
        for command in commands:
            world = self._of_policy(world, command.what)
        return world

    def _of_policy(self, world, what):
        match what:
            case protocol.GiveUp(reason):
                return replace(world, wrong=f"given up: {reason}")
            case protocol.Fence(_, host):
                return replace(world, outcomes=(*world.outcomes, protocol.Fenced(host)))
            case protocol.PrepareSpare(_, host):
                return replace(world, outcomes=(*world.outcomes, protocol.SpareReady(host)))
            case protocol.Leave(ranks):
                return replace(world, told_to_leave=ranks)
            case protocol.Join(generation, hosts):
                world = replace(
                    world,
                    hosts=hosts,
                    generation=(generation,) * RANKS,
                    at=(0,) * RANKS,
                    doing=("starts",) * RANKS,
                    moves=tuple(m for m in world.moves if all(DEAD not in c.hosts for c in m.add)),
                )
                return self._of_rails(world, MembershipChanged("main", job(hosts, generation)))
        return world

    def _of_rails(self, world, observation):
        state, commands = self.rails.step(world.rails, 0.0, observation)
        world = replace(world, rails=state)
        for command in commands:
            match command:
                case Fail(reason):
                    return replace(world, wrong=f"rails fail: {reason}")
                case MoveRail(_, move):
                    world = self._commanded(world, move)
                case CommandJob(_, protocol.Tell(_, {"do": "stage-lit"} as message)):
                    world = self._told(world, message)
                case RecordAnswer() | RecordHeld() | CommandJob():
                    pass
        return world

    def _commanded(self, world, move):
        """Take circuits away: those that the rails name, and those left behind at these ports."""
        ends = {end for circuit in move.add for end in circuit.ends}
        gone = move.remove | frozenset(c for c in world.lit if ends & {*c.ends})
        users = {rank for rank, doing in enumerate(world.doing) if doing == "sends"}
        for rank in users:
            stage = self.programme(rank, world.generation[rank])[world.at[rank]]
            if {HostPort(world.hosts[r], "p0") for r in stage.ranks} == {
                end for circuit in gone for end in circuit.ends
            }:
                return replace(world, wrong=f"unsafe: {stage} loses its circuit to {move.stage}")
        # A change for ranks that were replaced comes before it and is taken back, or is refused.
        others = tuple(m for m in world.moves if not any(ends & {*c.ends} for c in m.add))
        return replace(world, lit=world.lit - gone, moves=(*others, move))

    def _told(self, world, message):
        generation, name, number = (message[key] for key in ("generation", "group", "number"))
        if generation != max(world.generation):
            return replace(world, wrong="ranks are told of another generation")
        ranks, doing = GROUPS[name], world.doing
        wanted = {HostPort(world.hosts[rank], "p0") for rank in ranks}
        if not any({*circuit.ends} == wanted for circuit in world.lit):
            return replace(world, wrong=f"unsafe: {name} {number} is answered in the dark")
        for rank in ranks:
            own = self.programme(rank, generation)
            stage = own[world.at[rank]]
            if doing[rank] == "waits" and (stage.group, stage.number) == (name, number):
                doing = _with(doing, rank, "sends")
        known = world.answered | {(generation, name, number)}
        return replace(world, doing=doing, answered=known)

    def wrong(self, world):
        if world.wrong:
            return world.wrong
        is_over = all(doing == "is done" for doing in world.doing)
        if not is_over and not any(True for _ in self.moves(world)):
            return "deadlock"
        goes_on = world.generation[0] > 1 and self.policy.is_recovering(world.policy)
        if is_over and goes_on and not world.outcomes:
            return "the recovery never ends"
        return ""


def _are_whole(world, rank):
    """Tell whether all ranks of a rank's groups have joined these: it waits for that."""
    (rail,) = world.rails.rails.values()
    own = ((name, ranks) for name, ranks in GROUPS.items() if rank in ranks)
    return all(rail.rail.joined.get(name, frozenset()) >= {*ranks} for name, ranks in own)


def _with(row, at, value):
    return (*row[:at], value, *row[at + 1 :])


def _is_free(circuit, lit):
    return not any({*circuit.ends} & {*other.ends} for other in lit)


@pytest.mark.parametrize(
    ("mode", "order"),
    [("on-demand", ("dp", "pp")), ("on-demand", ("pp", "dp")), ("provisioned", ("pp", "dp"))],
)
def test_training_goes_on_whenever_a_host_dies_and_in_every_order_of_what_is_said_then(mode, order):
    pair = Pair(mode, order)
    found = explore(pair.start(), pair.moves, pair.wrong, 80)
    assert not found.wrong, (found.wrong, found.trace)
    assert found.states > 1_000


def test_a_host_that_is_not_replaced_is_named_once_ranks_have_waited_anew():
    rails = Rails(RailsOptions("on-demand", 10.0), "main")
    state = rails.begin(View(0.0, {"main": job(HOSTS)}))
    state, _ = rails.step(state, 5.0, JobObserved("main", protocol.GroupJoined(0, "dp")))
    died = JobObserved("main", protocol.RankEnded(1, -9))
    state, commands = rails.step(state, 12.0, died)
    assert commands == ()
    assert rails.wake_at(state) == 22.0, "the recovery has its chance"
    _, (failed,) = rails.step(state, 22.0, TimerExpired())
    assert failed.reason.startswith("rank 1 ended with code -9 and was not replaced; ")
    assert "; ranks have waited 10 s for rank 1 to join group dp" in failed.reason
