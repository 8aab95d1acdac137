"""When the clients of a trace come and go, in the order of time and without an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from testbed.tenancy.traces import ClientTrace


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A client comes or goes."""

    at: int
    """Milliseconds since the beginning, which need not be that of the trace."""
    is_arrival: bool
    """Where both happen at one instant, clients go first."""
    client: int
    """Its place among the clients of the trace."""


def changes(clients: Sequence[ClientTrace], period: int, start: int = 0) -> Iterator[Change]:
    """Yield all arrivals and departures from `start` on; the trace repeats each `period`, in ms.

    Clients that are available at `start` come at 0. One whose session ends with the period and
    goes on with the next goes and comes again at once.
    """
    if not any(client.available for client in clients):
        return
    once = sorted(
        Change(instant, is_arrival, place)
        for place, client in enumerate(clients)
        for session in client.available
        for instant, is_arrival in zip(session, (True, False), strict=True)
    )
    begin = start % period
    for place, client in enumerate(clients):
        if any(first < begin < last for first, last in client.available):
            yield Change(0, True, place)
    for turn in count():
        for each in once:
            at = each.at + turn * period - begin
            if at >= 0 and not (at == 0 and not each.is_arrival):
                yield Change(at, each.is_arrival, each.client)
