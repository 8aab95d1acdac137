"""Jobs of which messages are mutated, sent twice, lost or out of turn: no hang, no wrong circuit.

Every word is held against what the ranks have sent byte by byte; a rank that did nothing wrong is
answered or told by the end of its line.
"""

import random
import re
from collections import defaultdict

import pytest

from testbed.opus.communicators import Close, Send, SetWord
from testbed.opus.controller_side import ControllerSide
from testbed.opus.word_rails import WordRails
from testbed.opus.worker_side import CHANGED, NEGATIVE, NO_NUMBER, UNCHANGED, WorkerSide

from .stranger import COMM, CONFIG_REQ, Job, answer_to, mutated, word_after
from .transcript import RANKS, transactions

RAILS = 2


def test_a_stranger_sends_what_was_recorded():
    sent = defaultdict(list)
    for row in transactions():
        for exchange in row:
            if exchange.to_controller and not exchange.who[0].startswith("rail"):
                for who in exchange.who:
                    sent[int(who[1:])].append(exchange.line)
    job = Job(stages=2, datas=2, tensors=2)
    assert [job.script(rank, 2) for rank in range(RANKS)] == [sent[rank] for rank in range(RANKS)]


class Conversation:
    """A job's ranks and the controller's side, and what may come of what the ranks have sent."""

    def __init__(self, rng, job, wrong):
        self.rng, self.job, self.wrong = rng, job, wrong
        nodes = {job.address_of(rank): rank // job.tensors for rank in range(job.ranks)}
        self.side = ControllerSide(WordRails(RAILS), nodes)
        self.scripts = [job.script(rank, 2) for rank in range(job.ranks)]
        for rank in range(job.ranks):
            self.side.connected(rank, job.address_of(rank))
        self.now, self.mutations = 0.0, 0
        self.waits = {}
        """What a rank waits for, by rank."""
        self.live = set(range(job.ranks))
        self.strange = set()
        """Ranks that have sent what they should not, and may wait for what never comes."""
        self.streams = defaultdict(bytes)
        self.joined = defaultdict(set)
        self.groups = {}
        """Members and rail of each communicator that was checked in."""
        self.asked = defaultdict(set)
        self.due = [[] for _ in range(RAILS)]
        """What each rail's words are for, in order: a request, and who has asked for it."""
        self.words, self.sent = [0] * RAILS, [None] * RAILS

    def play(self):
        """Go on until every rank has ended, one way or the other."""
        while True:
            can = [rank for rank in self.live if rank not in self.waits and self.scripts[rank]]
            rails = [rail for rail in range(RAILS) if self.sent[rail] is not None]
            if can or rails:
                self.step(self.rng.choice([*can, *[("rail", rail) for rail in rails]]))
            elif not self.end_wait():
                return

    def step(self, who):
        self.now += self.rng.random() / 100
        if isinstance(who, tuple):
            self.work(who[1])
        elif self.rng.random() < self.wrong:
            self.mutations += 1
            self.strange.add(who)
            self.misbehave(who, self.scripts[who].pop(0))
        else:
            self.say(who, self.scripts[who].pop(0))

    def misbehave(self, rank, line):
        others = [other for other in self.scripts if other]
        match self.rng.randrange(8):
            case 0:
                self.take(self.side.left(rank, self.now))
            case 1:
                self.say(rank, line + line)
            case 2 if others:
                self.say(rank, self.rng.choice(others)[0])
            case 3:
                self.waits[rank] = answer_to(line)  # it was lost
            case _:
                self.waits[rank] = answer_to(line)
                self.say(rank, mutated(line, self.rng), waits=False)

    def say(self, rank, data, waits=True):
        if waits:
            self.waits[rank] = answer_to(data)
        self.streams[rank] += data
        *lines, self.streams[rank] = self.streams[rank].split(b"\n")
        for line in filter(None, (line.removesuffix(b"\r") for line in lines)):
            was_live = rank in self.live
            effects = self.side.received(rank, line, self.now)
            assert was_live or not effects
            is_taken = was_live and Close not in map(type, effects)
            rail = None
            if is_taken and (found := COMM.fullmatch(line)):
                self.joined[found[1], int(found[2])].add(rank)
                rail = int(found[3])
            elif is_taken and (found := CONFIG_REQ.fullmatch(line)):
                self.count(rank, (found[1], int(found[2]), int(found[3])))
            elif was_live:
                assert not is_taken, line
            self.take(effects, rail)

    def count(self, rank, request):
        """Note who has asked for a stage; when all have, its word is due."""
        members, rail = self.groups[request[0]]
        assert rank in members
        self.asked[request].add(rank)
        needed = min(2, len(members)) if request[1] > 10 else len(members)
        if len(self.asked[request]) == needed:
            self.due[rail].append((request, self.asked.pop(request)))

    def take(self, effects, rail=None):
        """Hold what the side does against what the ranks have sent."""
        checked_in = defaultdict(set)
        for effect in effects:
            match effect:
                case Close(rank, why):
                    assert why
                    assert rank in self.live
                    self.live.discard(rank)
                    self.waits.pop(rank, None)
                    for asked in self.asked.values():
                        asked.discard(rank)
                    for asked in self.joined.values():
                        asked.discard(rank)
                case Send(rank, line):
                    assert rank in self.live
                    assert rank in self.strange or line.startswith(self.waits[rank])
                    self.waits.pop(rank, None)
                    if line.startswith(b"CHECKIN_ACK;"):
                        name = line.partition(b";")[2].partition(b",")[0]
                        checked_in[name].add(rank)
                case SetWord(rail_, word):
                    (_, number, counter), _ = self.due[rail_][0]
                    assert self.sent[rail_] is None
                    assert word == word_after(self.words[rail_], number, counter)
                    self.sent[rail_] = word
        for name, members in checked_in.items():
            assert members <= self.joined.pop((name, len(members)))
            self.groups[name] = members, rail

    def work(self, rail):
        """Have the worker of a rail apply its word, or fail."""
        (name, _, _), asked = self.due[rail].pop(0)
        word, self.sent[rail] = self.sent[rail], None
        told = {(rank, b"CONFIG_ACK;" + name + b"\n") for rank in asked & self.live}
        if self.rng.random() < self.wrong / 10:
            effects = self.side.worker_failed(rail, "it is gone", self.now)
            assert not [effect for effect in effects if isinstance(effect, Send)]
            self.take(effects)
            assert not asked & self.live
        else:
            self.words[rail] = word
            effects = self.side.worker_done(rail, word, self.now)
            sends = [(e.client, e.line) for e in effects if isinstance(e, Send)]
            assert sorted(sends) == sorted(told)
            self.take(effects)
        assert self.side.rails.words == self.words

    def end_wait(self):
        """Have the limit pass for those who wait; tell whether anything is left to be done."""
        due = self.side.wake_at()
        if due is not None:
            before = len(self.live)
            self.now = max(self.now, due)
            self.take(self.side.expire(self.now))
            assert len(self.live) < before
            return True
        assert set(self.waits) <= self.strange, "a rank that did nothing wrong waits for ever"
        for rank in sorted(self.live):
            self.take(self.side.left(rank, self.now))
        assert self.side.wake_at() is None
        assert not any(self.sent)
        return False


def play_until(count, seed):
    """Play jobs until so many messages were mutated; return how many jobs, and lines that ended."""
    rng, mutations, jobs = random.Random(seed), 0, 0
    while mutations < count:
        job = rng.choice([Job(2, 2, 2), Job(4, 2, 1), Job(3, 1, 2)])
        played = Conversation(rng, job, rng.choice([0.01, 0.03, 0.1]))
        played.play()
        mutations += played.mutations
        jobs += 1
    return jobs


@pytest.mark.parametrize("job", [Job(2, 2, 2), Job(4, 2, 1), Job(3, 1, 2)])
def test_a_job_whose_messages_are_right_comes_to_its_end(job):
    played = Conversation(random.Random(3), job, wrong=0.0)
    played.play()
    assert not any(played.scripts)
    assert not played.waits


def test_mutated_messages_set_no_word_that_nobody_asked_for_and_keep_nobody():
    assert play_until(300, seed=5) > 20


@pytest.mark.soak
def test_ten_thousand_mutated_messages_set_no_word_that_nobody_asked_for_and_keep_nobody():
    assert play_until(10_000, seed=7) > 500


def send_words(count, seed):
    """Send mutated words to a worker; only a plain number is applied, and as that number."""
    rng, applied = random.Random(seed), []
    worker = WorkerSide(lambda before, word: applied.append(word))
    for _ in range(count):
        data = mutated(b"%d\n" % rng.choice([0, 1, 2, 3, 7, 14, 15]), rng)
        before, present = len(applied), worker.word
        reply = worker.received(data)
        is_number = re.fullmatch(rb"-?[0-9]{1,10}", data.strip())
        if is_number and 0 <= int(data) < 2**31:
            assert reply == (UNCHANGED if int(data) == present else CHANGED)
            assert worker.word == int(data)
        else:
            assert reply in (NO_NUMBER, NEGATIVE, b"")
            assert worker.word == present
        assert len(applied) == before + (reply == CHANGED)


def test_mutated_words_are_applied_as_numbers_or_not_at_all():
    send_words(500, seed=5)


@pytest.mark.soak
def test_ten_thousand_mutated_words_are_applied_as_numbers_or_not_at_all():
    send_words(10_000, seed=7)
