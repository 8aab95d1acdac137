"""A control plane of records in memory, with managers that may read now and write later."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.tenancy import clients, jobs
from testbed.tenancy.attributes import constraints
from testbed.tenancy.binding import accept
from testbed.tenancy.online import Fifo, offers, ranked
from testbed.tenancy.replies import Reply

PUBLIC = {"a": constraints({"ram": 2.0}), "b": constraints({"ram": 1.0}), "c": ()}
RAM = {"x": 1.0, "y": 2.0, "z": 3.0, "w": 0.0}


@dataclass
class Plane:
    """All records, the offers that clients hold, and every binding that anybody was told of."""

    now: float = 0.0
    jobs: dict = field(default_factory=dict)
    clients: dict = field(default_factory=dict)
    held: dict = field(default_factory=dict)
    told: list = field(default_factory=list)
    replies: list = field(default_factory=list)

    def __post_init__(self):
        for name, public in PUBLIC.items():
            _, self.jobs[name] = jobs.register(name, public, (), 3, 2, self.now)

    def request(self, name, demand):
        job = self.jobs[name]
        _, self.jobs[name] = jobs.request(job, job.round + 1, demand, self.now)

    def end(self, name):
        _, self.jobs[name] = jobs.end_request(self.jobs[name], self.jobs[name].round, self.now)

    def finish(self, name):
        _, self.jobs[name] = jobs.finish(self.jobs[name], self.now)

    def pass_time(self, seconds):
        self.now += seconds
        self.jobs = {name: jobs.prune(job, self.now) for name, job in self.jobs.items()}

    def check_in(self, name):
        known = self.clients.get(name)
        _, self.clients[name] = clients.check_in(known, name, {"ram": RAM[name]}, 1.0, self.now)

    def read(self, name):
        """Fetch offers, as a client does that then takes its time."""
        waiting = [job for job in self.jobs.values() if job.phase is jobs.Phase.OPEN]
        policy = Fifo()
        ranking = ranked((policy.score(r), r) for r in (job.as_request() for job in waiting))
        found = offers(ranking, {"ram": RAM[name]})
        self.held[name] = [(job, self.jobs[job].round) for job in found]

    def take(self, name):
        """Accept the first offer held, in one act."""
        if not self.held.get(name):
            return
        job, round = self.held[name].pop(0)
        self.accept(name, job, round)

    def accept(self, name, job, round):
        before = self.jobs[job].amount
        reply, self.jobs[job], known = accept(
            self.jobs[job], self.clients.get(name), round, self.now
        )
        self.clients[name] = known
        self.replies.append(reply)
        if reply is Reply.OK and self.jobs[job].amount > before:
            self.told.append((name, job, round, self.jobs[job].demand))

    def again(self, name):
        """Repeat the last acceptance that succeeded, whatever has happened since."""
        mine = [row for row in self.told if row[0] == name]
        if mine:
            self.accept(name, mine[-1][1], mine[-1][2])

    def release(self, name):
        known = self.clients.get(name)
        if known is not None:
            _, self.clients[name] = clients.release(known, known.job, known.round, self.now)

    def check(self):
        """Hold the records against what clients were told."""
        for name, job in self.jobs.items():
            told = [row for row in self.told if row[1:3] == (name, job.round)]
            assert job.amount == len(told) <= max(job.demand, 0)
            assert job.members == {row[0] for row in told}
        for (name, job, round, demand), count in _counted(self.told).items():
            assert count == 1, f"{name} was bound twice to round {round} of {job}"
            assert sum(row[1:3] == (job, round) for row in self.told) <= demand
        for name, known in self.clients.items():
            if known is not None and known.is_bound:
                assert known.id in {row[0] for row in self.told if row[1] == known.job}, name


def _counted(rows):
    return {row: rows.count(row) for row in rows}
