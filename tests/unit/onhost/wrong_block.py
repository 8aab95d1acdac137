"""A rank that sends one peer what it has for another.

Run in the place of `testbed.onhost.jobs.rank`.
"""

from collections.abc import Mapping

from testbed.onhost.communication import time_slots
from testbed.onhost.jobs.rank import main

exchange = time_slots.SlotGroup.exchange


def exchange_wrongly(
    self: time_slots.SlotGroup,
    outgoing: Mapping[int, memoryview],
    incoming: Mapping[int, memoryview],
) -> list[time_slots.SlotUse]:
    one, other, *_ = outgoing
    return exchange(self, {**outgoing, one: outgoing[other]}, incoming)


if __name__ == "__main__":
    time_slots.SlotGroup.exchange = exchange_wrongly  # type: ignore[method-assign]
    main()
