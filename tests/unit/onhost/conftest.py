from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.unit.onhost.rank_driver import Gang


@pytest.fixture
def gang() -> Iterator[Callable[..., Gang]]:
    """Start and configure the processes of a job; they end with the test."""
    with ExitStack() as stack:

        def begin(*arguments: Any, **more: Any) -> Gang:
            started = Gang(*arguments, **more)
            stack.callback(started.close)
            return started

        yield begin
