"""Compute the trials of a model one after the other here, or side by side on workers of Dask."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from testbed.errors import LabError, UsageError
from testbed.jobs.contracts import DividedModel, Values
from testbed.plugins import kind

if TYPE_CHECKING:
    from distributed import Client, Future

    from testbed.jobs.contracts import Model

MAX_WORKERS = 256
_CONNECT_S = 10.0
_PARTS_OF_A_WORKER = 32
"""Of the tasks of one worker: Dask takes milliseconds for each part, some trials take fewer."""
_FETCH_S = 10.0
"""Seconds that the fetch of a result may take, without a look in between; Dask fails where a wait
for one ends in the middle of a fetch."""
_LOOK_EVERY_S = 0.2
"""Seconds from one look for a signal or the deadline to the next."""


@dataclass(frozen=True, slots=True)
class ModelTask:
    """One trial: the kind of the job, its options, and the seed of all that it draws."""

    job: str
    options: Any
    seed: int


Compute = Callable[[Sequence[ModelTask], Callable[[], None]], Iterator[Values]]
"""Yields the metrics of all tasks in their order; calls its second argument while it waits for
one, and what that raises ends the wait."""


def values_of(task: ModelTask) -> Values:
    """Return the metrics of one trial, on whichever machine it is computed."""
    return _model(task).values(task.seed)


def _model(task: ModelTask) -> Model:
    model: Model = kind("jobs", task.job).load()(task.options)
    return model


def _values_of_all(tasks: Sequence[ModelTask]) -> list[Values]:
    return [values_of(task) for task in tasks]


def _part_of(task: ModelTask, number: int) -> Any:
    model = _model(task)
    assert isinstance(model, DividedModel)
    return model.part(task.seed, number)


def _values_of_parts(task: ModelTask, parts: Sequence[Any]) -> list[Values]:
    model = _model(task)
    assert isinstance(model, DividedModel)
    return [model.values_of_parts(task.seed, parts)]


def one_after_another(tasks: Sequence[ModelTask], check: Callable[[], None]) -> Iterator[Values]:
    """Compute each task in this process when its metrics are asked for."""
    return map(values_of, tasks)


@contextmanager
def workers_at(where: str) -> Iterator[Compute]:
    """Yield what computes tasks side by side, and a task whose worker died by another.

    `where` is a number of processes, which are started here and ended, or the address of a Dask
    scheduler, `HOST:PORT`. Raise UsageError where the library is missing or there is no scheduler,
    LabError for one without workers.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise UsageError(
            f"workers need a library that is not installed: {error}",
            hint="pip install 'optical-testbed[workers]'",
        ) from error
    with ExitStack() as stack:
        if where.isdecimal():
            if not 1 <= int(where) <= MAX_WORKERS:
                raise UsageError(f"{where} workers are not from 1 to {MAX_WORKERS}")
            local = LocalCluster(
                n_workers=int(where),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                # What fails is raised here; a heartbeat under way at the end is logged as an error.
                silence_logs=logging.CRITICAL,
            )
            client = stack.enter_context(Client(stack.enter_context(local)))
        else:
            client = stack.enter_context(_connected(Client, where))
        yield partial(_computed_by, client)


def _computed_by(
    client: Client, tasks: Sequence[ModelTask], check: Callable[[], None]
) -> Iterator[Values]:
    from distributed import wait

    futures = deque(_submitted(client, tasks))
    while futures:
        try:
            wait(futures[0], timeout=_LOOK_EVERY_S)
            found: list[Values] = futures[0].result(timeout=_FETCH_S)
        except TimeoutError:
            if futures[0].status == "error":  # the model's own
                raise
            check()
        else:
            futures.popleft()  # results are kept no longer than they are needed
            yield from found


def _submitted(client: Client, tasks: Sequence[ModelTask]) -> Iterator[Future]:
    """Yield what will be the metrics of all tasks in their order, of one or several each."""
    workers = max(1, len(client.scheduler_info()["workers"]))
    size = -(-len(tasks) // (workers * _PARTS_OF_A_WORKER))
    for divided, group in groupby(tasks, _parts):
        alike = list(group)
        if divided > 1:
            for task in alike:
                parts = client.map(_part_of, [task] * divided, range(divided), pure=False)
                yield client.submit(_values_of_parts, task, parts, pure=False)
            continue
        yield from client.map(_values_of_all, in_batches(alike, size), pure=False)


def in_batches(tasks: Sequence[ModelTask], size: int) -> list[list[ModelTask]]:
    """Return tasks in batches of at least `size`, but for the last, with those of a seed in one.

    Arms share the simulations of one seed, which only the process that computed them keeps.
    """
    batches: list[list[ModelTask]] = []
    for _, same in groupby(tasks, lambda task: task.seed):
        if not batches or len(batches[-1]) >= size:
            batches.append([])
        batches[-1] += same
    return batches


def _parts(task: ModelTask) -> int:
    """Return in how many parts a task is computed; they can be computed side by side."""
    model = _model(task)
    return model.parts() if isinstance(model, DividedModel) else 1


@contextmanager
def _connected(client: type[Client], address: str) -> Iterator[Client]:
    try:
        found = client(address, timeout=_CONNECT_S)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"connecting to a Dask scheduler at {address} failed: {error}",
            hint="start one with `dask scheduler`, and workers with `dask worker HOST:PORT`",
        ) from error
    with found:
        if not found.scheduler_info()["workers"]:
            raise LabError(
                f"the Dask scheduler at {address} has no workers",
                hint="start some with `dask worker HOST:PORT`, where the testbed is installed",
            )
        yield found
