"""Jobs and clients over gRPC: offers, bindings, managers that die, and what is on the wire."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import SERVICE as CLIENTS
from testbed.propius.control_pb2 import DESCRIPTOR
from testbed.propius.participant import Participant
from testbed.propius.rpc import Caller, Unreachable
from testbed.propius.serve import serving
from testbed.tenancy.replies import Reply
from tests.unit.propius.tap import Tap

JOBS = DESCRIPTOR.services_by_name["JobManager"]
SCHEDULER = DESCRIPTOR.services_by_name["Scheduler"]
ANY = "127.0.0.1:0"


class Plane:
    """A control plane with two client managers behind a balancer, on ports of this machine."""

    def __init__(self, stack: ExitStack, store: str, policy: str = "fifo") -> None:
        self._stack = stack
        self.jobs = self._caller(stack.enter_context(serving("job-manager", ANY, store)), JOBS)
        at = stack.enter_context(serving("scheduler", ANY, store, policy))
        self.scheduler = self._caller(at, SCHEDULER)
        self.managers = [ExitStack(), ExitStack()]
        where = [
            each.enter_context(serving("client-manager", ANY, store)) for each in self.managers
        ]
        for each in self.managers:
            stack.callback(each.close)
        self.address = stack.enter_context(serving("balancer", ANY, managers=where))
        self.clients = self._caller(self.address, CLIENTS)
        self.direct = [self._caller(address, CLIENTS) for address in where]

    def _caller(self, address, service):
        caller = Caller(address, service)
        self._stack.callback(caller.close)
        return caller

    def register(self, job, demand, private=None, **public):
        asked = messages.Registration(
            job=job,
            public_constraints=public,
            private_constraints=private or {},
            rounds=3,
            demand=demand,
        )
        assert self.jobs("Register", asked).reply == Reply.OK
        return self.request(job, 1, demand)

    def request(self, job, round, demand):
        state = self.jobs("Request", messages.RoundRequest(job=job, round=round, demand=demand))
        assert state.reply == Reply.OK
        self.schedule()

    def schedule(self):
        assert self.scheduler("Schedule", messages.Nothing()).reply == Reply.OK

    def client(self, name, samples=100.0, speed=1.0, **attributes):
        return Participant(self.clients, name, attributes, {"samples": samples}, speed)

    def state(self, job):
        return self.jobs("Hear", messages.JobName(job=job))


@pytest.fixture
def plane(tmp_path) -> Iterator[Plane]:
    with ExitStack() as stack:
        yield Plane(stack, str(tmp_path / "records.db"))


def test_a_round_gets_its_clients_executes_and_the_next_one_begins(plane):
    plane.register("a", 2, ram=4.0)
    weak, one, two, three = (
        plane.client(name, ram=ram) for name, ram in zip("wxyz", (2.0, 4.0, 5.0, 6.0), strict=True)
    )
    assert weak.seek() is None
    first, second = one.seek(), two.seek()
    assert (first.job, first.round, second.job) == ("a", 1, "a")
    assert plane.state("a").phase == "executing"
    assert list(plane.state("a").members) == ["x", "y"]
    plane.schedule()
    assert three.seek() is None
    assert one.seek() == first  # it is bound, and is told so again
    assert one.release(first) is Reply.OK
    plane.request("a", 2, 1)
    assert one.seek().round == 2
    assert plane.jobs("Finish", messages.JobName(job="a")).phase == "finished"


def test_by_random_selection_a_client_picks_any_job_and_in_vain_one_that_it_cannot_serve(tmp_path):
    with ExitStack() as stack:
        plane = Plane(stack, str(tmp_path / "records.db"), "random-selection")
        plane.register("strong", 9, ram=8.0)
        plane.register("private", 9, {"samples": 500.0})
        plane.register("full", 1)
        assert plane.direct[0]("CheckIn", messages.Presence(client="first", speed=1.0)).offers
        filler = plane.client("filler", ram=4.0)
        found = next(found for _ in range(200) if (found := filler.seek()) is not None)
        assert (found.job, plane.state("full").phase) == ("full", "executing")
        plane.schedule()
        picked = Counter()
        for _ in range(60):
            asked = messages.Presence(client="c", attributes={"ram": 4.0}, speed=1.0)
            (offer,) = plane.clients("CheckIn", asked).offers
            picked[offer.job] += 1
        assert {*picked} == {"strong", "private", "full"}
        client = plane.client("d", ram=4.0)
        for _ in range(60):
            assert client.seek() is None
        assert {*client.refused} == {Reply.NOT_ELIGIBLE, Reply.OVER_ASSIGN}
        assert client.refused.total() < 60  # what is private it compares itself, and says nothing
        assert list(plane.state("strong").members) == list(plane.state("private").members) == []


def test_what_cannot_be_is_refused_by_code(plane):
    refused = messages.Registration(job="a", rounds=0, demand=1)
    assert plane.jobs("Register", refused).reply == Reply.REFUSED
    endless = messages.Registration(
        job="a", rounds=1, demand=1, public_constraints={"ram": float("inf")}
    )
    assert plane.jobs("Register", endless).reply == Reply.REFUSED
    absent = messages.RoundRequest(job="nobody", round=1, demand=1)
    assert plane.jobs("Request", absent).reply == Reply.UNKNOWN
    nan = messages.Presence(client="c", attributes={"ram": float("nan")}, speed=1.0)
    assert plane.clients("CheckIn", nan).reply == Reply.REFUSED
    for speed in (0.0, -1.0):
        slow = messages.Presence(client="c", attributes={"ram": 4.0}, speed=speed)
        assert plane.clients("CheckIn", slow).reply == Reply.REFUSED
    assert plane.clients("Ping", messages.ClientName(client="c")).reply == Reply.UNKNOWN


@pytest.mark.parametrize("policy", ["srsf", "irs", "irs-tiers", "fifo-offline"])
def test_offers_follow_the_policy(tmp_path, policy):
    with ExitStack() as stack:
        plane = Plane(stack, str(tmp_path / "records.db"), policy)
        plane.register("common", 9)
        plane.register("scarce", 2, ram=8.0)
        for number in range(8):
            presence = messages.Presence(
                client=f"c{number}", attributes={"ram": 8.0 if number < 2 else 2.0}, speed=1.0
            )
            plane.clients("CheckIn", presence)
        plane.schedule()
        rare = plane.client("c0", ram=8.0).seek()
        assert rare.job == ("common" if policy == "fifo-offline" else "scarce")


def test_private_attributes_are_not_on_the_wire_of_a_client(plane):
    secret, shown = 7319.0625, 46.8125
    plane.register("rich", 1, private={"samples": 10_000.0})
    plane.register("poor", 1, private={"samples": 100.0})
    with ExitStack() as stack:
        tap = Tap(stack, plane.address)
        caller = Caller(tap.address, CLIENTS)
        stack.callback(caller.close)
        client = Participant(caller, "c", {"ram": shown}, {"samples": secret}, 1.0)
        found = client.seek()
        client.release(found)
        heard = bytes(tap.heard)
    assert found.job == "poor"  # the client compared: the first offer was not for it
    assert b"ram" in heard and struct.pack("<d", shown) in heard
    assert b"samples" not in heard and struct.pack("<d", secret) not in heard
    assert b"rich" not in heard and b"poor" in heard


def test_a_client_keeps_its_manager_and_gets_another_when_that_one_dies(plane):
    plane.register("a", 20)
    clients = [plane.client(f"client {number}") for number in range(12)]
    bound = [client.seek() for client in clients[:6]]
    plane.managers[0].close()
    with pytest.raises(Unreachable):
        plane.direct[0]("Ping", messages.ClientName(client="client 0"))
    bound += [client.seek() for client in clients[6:]]
    assert all(offer.job == "a" for offer in bound)
    assert len(plane.state("a").members) == 12


def test_health_and_reflection_answer(plane):
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    with grpc.insecure_channel(plane.address) as channel:
        asked = health_pb2.HealthCheckRequest(service=CLIENTS.full_name)
        health = health_pb2_grpc.HealthStub(channel).Check(asked, timeout=5)
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        listed = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = stub.ServerReflectionInfo(iter([listed]), timeout=5)
        names = {each.name for each in answer.list_services_response.service}
    assert CLIENTS.full_name in names
