"""Describe a driver and its far end to entry points, in one place."""

from __future__ import annotations

from functools import partial
from typing import Any

from testbed.plugins import Kind


def described(
    name: str, implementation: str, options: type, *, driver: str, far_end: str, **more: Any
) -> tuple[Kind, Kind]:
    """Return the descriptors of a driver and of its far end, with the same name and options.

    `driver` and `far_end` are the summaries; `more` are the other fields of the driver's `Kind`.
    The far end of `package.module:Class` is `package.module_far_end:ClassFarEnd`.
    """
    module, _, title = implementation.partition(":")
    return (
        Kind(driver, implementation, options, far_end=name, **more),
        Kind(far_end, f"{module}_far_end:{title}FarEnd", options),
    )


described_switch = partial(described, role="switch")
"""Returns the kinds of a driver of a switch and of its far end."""
