"""The scheduling policy `largest-demand`: the job that asks for most clients is served first."""

from __future__ import annotations

from testbed.tenancy.requests import Request


class LargestDemand:
    """Score a job by the clients that its round asks for, at each request for a round."""

    each_round = True

    def __init__(self, options: object = None) -> None:
        """Take no options."""

    def score(self, request: Request) -> float:
        """Return the score of a job; higher ones are offered first."""
        return float(request.demand)
