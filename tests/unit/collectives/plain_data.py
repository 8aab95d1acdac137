"""Read schedules back from the plain data that the ranks receive."""

from collections.abc import Mapping
from typing import Any

from testbed.collectives.schedule import Round, Schedule, Send


def schedule_of(data: Mapping[str, Any]) -> Schedule:
    """Return the schedule that `to_json` wrote."""
    rounds = tuple(
        Round.of(
            Send(here, there, chunk, operation, count)
            for here, there, chunk, count, operation in rows
        )
        for rows in data["rounds"]
    )
    return Schedule(**{**data, "rounds": rounds})
