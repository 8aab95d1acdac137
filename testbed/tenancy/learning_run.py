"""What a run of learning jobs with real clients is told: as options, and as text for each rank."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from testbed.tenancy.traces import ClientTrace, Population, Trace, generate


@dataclass(frozen=True, slots=True)
class LearningRun:
    """Two jobs that learn digits from clients at the sites of all ranks but the first."""

    policy: str = "fifo"
    clients: int = 24
    rounds: int = 15
    demand: int = 8
    """Clients that a round asks for."""
    needed: int = 6
    """Updates that end it."""
    patience: float = 10.0
    """Seconds after which a round ends with the updates that came."""
    ask_every: float = 0.25
    """Seconds until a client without an offer asks again."""
    model: int = 14_000_000
    """Bytes of the model for whose transfers clients wait; the digits' real one has 2.7 kB."""
    seed: int | None = None
    """Of the trace that clients obey; without it, and without `traced`, all are there always."""
    traced: Trace | None = None
    """The trace that they obey, as a file had it; of a rank only its own clients."""
    speedup: float = 600.0
    """Seconds of the trace that pass in a second."""
    start: int = 0
    """Milliseconds into the trace at which the run begins."""

    def trace(self) -> Trace | None:
        """Return the trace that clients obey; None: all are there always."""
        if self.seed is None:
            return self.traced
        return generate(Population(clients=self.clients), self.seed)

    def of(self, rank: int, ranks: int) -> Sequence[int]:
        """Return the numbers of the clients at the site of a rank; rank 0 has none."""
        return range(rank - 1, self.clients, ranks - 1) if rank else ()

    def text_for(self, rank: int, ranks: int) -> str:
        """Return what the program of a rank is told, on one line: all that is not the default."""
        usual = asdict(LearningRun())
        own: dict[str, Any] = asdict(replace(self, traced=None))
        plain = {name: value for name, value in own.items() if value != usual[name]}
        if self.traced is not None:
            rows = [asdict(self.traced.clients[client]) for client in self.of(rank, ranks)]
            plain["trace"] = {"period": self.traced.period, "clients": rows}
        return json.dumps(plain, separators=(",", ":"))


def run_of(text: str) -> LearningRun:
    """Return what `text_for` wrote; raise ValueError for anything else."""
    try:
        plain = json.loads(text)
        told = plain.pop("trace", None)
        traced = None if told is None else Trace(told["period"], (*map(_client, told["clients"]),))
        return LearningRun(**plain, traced=traced)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{text!r:.80} does not describe a run: {error}") from error


def _client(row: Mapping[str, Any]) -> ClientTrace:
    spans = tuple((int(first), int(last)) for first, last in row["available"])
    return ClientTrace(**{**row, "available": spans})
