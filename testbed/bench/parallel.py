"""Run one action on several items in parallel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def run_parallel(
    action: Callable[[_T], _R], items: list[_T], at_once: int | None = None
) -> dict[_T, _R]:
    """Call `action` with every item in parallel, `at_once` at most; return the results.

    Raise the first error. All calls have ended when it returns or raises, except where a signal
    ends this process.
    """
    pool = ThreadPoolExecutor(max(1, min(len(items), at_once or len(items))))
    try:
        futures = {item: pool.submit(action, item) for item in items}
        wait(futures.values())
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return {item: future.result() for item, future in futures.items()}
