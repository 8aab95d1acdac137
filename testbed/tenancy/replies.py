"""The answers of the control plane to jobs and clients."""

from __future__ import annotations

from enum import StrEnum


class Reply(StrEnum):
    """An answer code; a repeated request, after a lost answer, gets the same answer."""

    OK = "ok"
    OVER_ASSIGN = "over-assign"
    """The job had all its clients when this one accepted; it tries the next offer."""
    STALE_ROUND = "stale round"
    """It is about a round that is not the job's present one."""
    NOT_OPEN = "not open"
    """The job asks for no clients now."""
    STILL_OPEN = "still open"
    """The job has not ended its request for the present round."""
    NOT_ELIGIBLE = "not eligible"
    """The client lacks what the job demands in public."""
    BOUND = "bound"
    """The client is bound to another job or round."""
    SERVED = "served"
    """The client has taken part in this round already."""
    UNKNOWN = "unknown"
    """There is no such record, or it has expired: register or check in first."""
    REFUSED = "refused"
    """What was sent makes no sense."""
