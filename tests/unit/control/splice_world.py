"""A world around the policy: hosts, light and workers, whose reports come in any order.

Only what one source says keeps its order: the agent of one host, or the worker of one command. What
each observation means to the policy is as the orchestrator translates it: a rank's word is that of
the rank that its host is when it is heard.
"""

from collections import deque

from testbed.control.descriptors import SpliceOptions
from testbed.control.policy import Situation
from testbed.control.protocol import (
    AgentLost,
    CarrierLost,
    CommandFailed,
    Decide,
    Fence,
    Fenced,
    GiveUp,
    HeartbeatMissed,
    HostAnswered,
    HostSilent,
    Join,
    Leave,
    LinksGood,
    PrepareSpare,
    ProbeHost,
    RankEnded,
    RankLeft,
    SetCircuits,
    SpareReady,
    StepDone,
    Superseded,
)
from testbed.control.splice import Splice
from testbed.fabric.topology import ring


class World:
    """A job of some ranks, with spares, that the policy `splice` looks after."""

    def __init__(self, ranks=4, spares=2, committed=None, *, hasty=False):
        """Have all fences permitted, and all come up.

        `hasty` workers have their outcome at once, and it may be old when it is heard.
        """
        hosts = [f"h{n}" for n in range(ranks + spares)]
        ports = dict.fromkeys(hosts, ("p0", "p1"))
        self.policy = Splice(SpliceOptions())
        fences = dict.fromkeys(hosts, ("power", "network", "process"))
        situation = Situation(tuple(hosts[:ranks]), tuple(hosts[ranks:]), ports, 1, fences)
        self.state = self.policy.begin(situation)
        self.hosts = list(hosts[:ranks])
        self.ports = ports
        self.generation = 1
        self.lit = ring(self.hosts, ports)
        self.dead, self.broken, self.fenced = set(), set(), set()
        self.mute = set()
        """Hosts that failed without an end of a line or a process that somebody would report."""
        self.committed = dict.fromkeys(hosts, 8) | (committed or {})
        self.sources = {host: deque() for host in hosts}
        self.left, self.good, self.ready = set(), set(), set()
        self.shut_out = set()
        """The fenced hosts of which the policy may know it."""
        self.new = set()
        """The spares that the next generation begins with."""
        self.commanded = None
        """The circuits that were commanded last."""
        self.with_state = set(self.hosts)
        self._hasty = hasty
        self.asked = 0
        """The number of the last probe."""
        self.done = []
        """Every command, in order."""

    # --- what goes wrong --------------------------------------------------------------------

    def cut_power(self, host, *, last_words=False, line_breaks=True):
        """Have a host lose its power; with `last_words` its own agent saw the darkness first."""
        if last_words:
            self._report_dark(host, [end for end in self._ends(host) if end.host == host])
        self.dead.add(host)
        for end in self._ends(host):
            if end.host != host:
                self._report_dark(end.host, [end])
        if line_breaks:
            self.sources[host].append(AgentLost(host))
        else:
            self.mute.add(host)

    def kill(self, host):
        """Have the rank's process on a host end."""
        self.broken.add(host)
        self.sources[host].append(("ended", -9))

    def freeze(self, host):
        """Have the rank's process on a host stop."""
        self.broken.add(host)
        self.mute.add(host)
        self.sources[host].append(("silent",))

    def darken(self, circuit):
        """Take the light of one circuit."""
        self.lit -= {circuit}
        for end in circuit.ends:
            self._report_dark(end.host, [end])

    def _ends(self, host):
        return [e for c in self.lit if host in {x.host for x in c.ends} for e in c.ends]

    def _report_dark(self, host, ports):
        if host not in self.dead:
            self.sources[host].extend(CarrierLost(port) for port in ports)

    # --- who speaks next --------------------------------------------------------------------

    @property
    def speakers(self):
        return sorted((name for name, said in self.sources.items() if said), key=str)

    def hear(self, speaker):
        """Deliver the next word of one source."""
        said = self.sources[speaker].popleft()
        observation = said() if callable(said) else self._translated(speaker, said)
        if observation is not None:
            self.tell(observation)

    def hear_all(self, choose=lambda speakers: speakers[0]):
        """Deliver everything, in the order that `choose` says; tell whether that had an end."""
        for _ in range(500):
            if not self.speakers:
                return
            self.hear(choose(self.speakers))
        raise AssertionError("the recovery never comes to rest")

    def _translated(self, host, said):
        if not isinstance(said, tuple):
            return said
        if host not in self.hosts or host in self.fenced:
            return None
        rank = self.hosts.index(host)
        match said:
            case ("ended", code):
                return RankEnded(rank, code)
            case ("silent",):
                return HeartbeatMissed(rank)
            case ("left", generation, committed) if generation == self.generation:
                self.left.add(host)
                return RankLeft(rank, committed)
            case ("ready",):
                self.ready.add(host)
                return SpareReady(host)
            case ("step", generation) if generation == self.generation:
                return StepDone(rank, 9)
        return None

    def tell(self, observation):
        """Let the policy observe something, check what it commands, and do it."""
        gave_up = self.gave_up
        self.state, commands = self.policy.step(self.state, observation)
        assert not (gave_up and commands), "it goes on after having given up"
        repair = self.state.repair
        if repair and not repair.joined and not self.gave_up and not repair.failure:
            assert self.state.evidence.circuits == repair.unchanged(self.state.now)
        for command in commands:
            self._check_fenced(command)
            self.done.append(command)
            self._obey(command)

    # --- what the policy commands -----------------------------------------------------------

    def _obey(self, command):
        match command:
            case ProbeHost(host, _, number):
                assert number >= self.asked, "an old answer would pass for one to a later probe"
                self.asked = number
                self._work(lambda: self._probed(host, number))
            case Fence(rank, host, _):
                assert self.hosts[rank] == host
                self.fenced.add(host)
                self.sources["fence", len(self.done)] = deque([lambda: self._fence_is_up(host)])
            case SetCircuits(circuits):
                assert self.fenced <= self.shut_out
                self.lit, self.commanded = circuits, command
                self.good &= circuits
                self._work(lambda: self._verified(command))
            case Leave(ranks, generation):
                assert generation == self.generation
                for rank in ranks:
                    self._say(
                        self.hosts[rank], "left", generation, self.committed[self.hosts[rank]]
                    )
            case PrepareSpare(rank, host):
                self.hosts[rank] = host
                self.new.add(host)
                if host in self.dead:
                    self._work(lambda: CommandFailed("it did not start", True, host))
                self._say(host, "ready")
            case Join():
                self._check_join(command)
                self.left = set()
                self.generation = command.generation
                if not {*self.dead, *self.broken} & {*self.hosts}:
                    self.with_state |= {*self.hosts}
                    for host in self.hosts:
                        self._say(host, "step", self.generation)

    def _say(self, host, *words):
        if host not in self.dead | self.broken:
            self.sources[host].append(words)

    def _work(self, outcome):
        """Have a worker of its own bring the outcome, whenever that is heard."""
        if self._hasty:
            known = outcome()
            self.sources["worker", len(self.done)] = deque([lambda: known])
        else:
            self.sources["worker", len(self.done)] = deque([outcome])

    def _fence_is_up(self, host):
        self.shut_out.add(host)
        return Fenced(host)

    def _probed(self, host, number):
        return HostSilent(host) if host in self.dead else HostAnswered(host, number)

    def _verified(self, command):
        of = command.newcomer, command.number
        if command is not self.commanded:
            return Superseded(*of)
        bad = {c for c in command.verify if c.hosts & self.dead}
        if not bad:
            self.good |= command.verify
            return LinksGood(*of)
        spare = any(command.newcomer in circuit.hosts for circuit in bad)
        return CommandFailed("nobody answered", spare, *of)

    # --- what must never happen -------------------------------------------------------------

    def _check_fenced(self, command):
        """No command is about a host that was shut out before."""
        if not isinstance(command, Decide | GiveUp | Leave):
            assert not self.fenced & _hosts_of(command), command

    def _check_join(self, join):
        """A generation forms only of survivors that left and a newcomer that can be reached."""
        assert join.generation == self.generation + 1
        assert list(join.hosts) == self.hosts
        assert self.lit == ring(self.hosts, self.ports)
        restored = {self.hosts[rank] for rank in join.restore}
        survivors = set(self.hosts) - restored
        assert survivors and survivors <= self.left & self.with_state
        newcomers = restored & self.new
        assert newcomers <= self.ready
        assert {c for c in self.lit if c.hosts & newcomers} <= self.good
        assert join.committed == min(self.committed[host] for host in survivors)
        for rank, source in join.restore.items():
            assert source == (rank - 1) % len(self.hosts)
        self.new = set()

    # --- how it ended -----------------------------------------------------------------------

    @property
    def gave_up(self):
        return self.state.gave_up

    @property
    def recovered(self):
        whole = not {*self.dead, *self.broken} & {*self.hosts}
        return not self.gave_up and not self.policy.is_recovering(self.state) and whole

    @property
    def waits_for_a_mute_survivor(self):
        """Only the limit of the trial ends a repair that waits for one of these to leave."""
        repair = self.state.repair
        waiting = repair is not None and not repair.joined and not self.gave_up
        return waiting and bool(self.mute & set(self.hosts))

    def of(self, kind):
        """Return the commands of one kind, in order."""
        return [command for command in self.done if isinstance(command, kind)]


def _hosts_of(command):
    match command:
        case ProbeHost(host) | PrepareSpare(_, host) | Fence(_, host, _):
            return {host}
        case SetCircuits(circuits):
            return {end.host for circuit in circuits for end in circuit.ends}
        case Join(_, hosts, _, _):
            return set(hosts)
    return set()
