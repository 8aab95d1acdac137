"""What a fault is aimed at, as an experiment file names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a fault: any host of its job, a rank, a named host, or a port.

    Or all hosts of the job in one rack, or on one feed, which fail together.
    """

    kind: Literal["random", "rank", "host", "port", "rack", "feed"]
    rank: int | None = None
    host: str = ""
    port: str = ""
    group: str = ""
    """The name of the rack or the feed."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Return the target that `text` names; raise ValueError otherwise."""
        if text == "random":
            return cls("random")
        if match := re.fullmatch(r"rank ([0-9]{1,6})", text):
            return cls("rank", rank=int(match[1]))
        if match := re.fullmatch(r"(rack|feed) ([\w-]+)", text, re.ASCII):
            return cls("rack" if match[1] == "rack" else "feed", group=match[2])
        match = re.fullmatch(r"([\w-]+)(?:\.([\w-]+))?", text, re.ASCII)
        if match is None:
            known = "'random', 'rank 2', 'h0', 'h0.p1', 'rack r1' or 'feed a'"
            raise ValueError(f"{text!r} is not a target; write {known}")
        host, port = match.groups()
        return cls("port", host=host, port=port) if port else cls("host", host=host)

    def __str__(self) -> str:
        if self.group:
            return f"{self.kind} {self.group}"
        words = {"random": "random", "rank": f"rank {self.rank}", "host": self.host}
        return words.get(self.kind, f"{self.host}.{self.port}")
