"""Client managers shard by client: each client has one manager, whichever message it sends."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from testbed.propius import control_pb2 as messages
from testbed.propius.balancer import Balancer
from testbed.propius.opening import open_store
from testbed.propius.serve import serving
from testbed.tenancy.replies import Reply

MANAGERS = 4
CLIENTS = [f"client{number}" for number in range(200)]


class Shards:
    """Managers that each have a store of their own, which shows what came to each."""

    def __init__(self, stack: ExitStack, directory) -> None:
        paths = [str(directory / f"{number}.db") for number in range(MANAGERS)]
        self.stores = [open_store(path) for path in paths]
        self.running = [ExitStack() for _ in paths]
        where = [
            each.enter_context(serving("client-manager", "127.0.0.1:0", path))
            for each, path in zip(self.running, paths, strict=True)
        ]
        for each in (*self.stores, *self.running):
            stack.callback(each.close)
        self.balancer = Balancer(where)
        stack.callback(self.balancer.close)

    def check_in(self):
        for name in CLIENTS:
            presence = messages.Presence(client=name, attributes={"ram": 4.0}, speed=1.0)
            assert self.balancer.check_in(presence).reply == Reply.OK

    def held(self):
        return [{client.id for client in store.clients()} for store in self.stores]


@pytest.fixture
def shards(tmp_path):
    with ExitStack() as stack:
        yield Shards(stack, tmp_path)


def test_each_client_has_one_manager_and_all_managers_have_about_as_many(shards):
    shards.check_in()
    for name in CLIENTS:  # only a manager in whose store a client is knows it
        assert shards.balancer.ping(messages.ClientName(client=name)).reply == Reply.OK
    held = shards.held()
    assert set().union(*held) == set(CLIENTS)
    assert sum(map(len, held)) == len(CLIENTS)
    assert all(35 <= len(each) <= 65 for each in held), [len(each) for each in held]


def test_only_the_clients_of_a_manager_that_is_down_get_another(shards):
    shards.check_in()
    before = shards.held()
    shards.running[1].close()
    shards.check_in()
    after = shards.held()
    assert after == [before[0], before[1], before[2] | before[1], before[3]]
