"""A group of more than two processes on a rail: our executor, one matching after the other.

gloo connects all pairs of a group at once and cannot have circuits changed inside a collective. So
the collectives of such a group run as schedules whose rounds are matchings: before each step a rank
asks for the circuit to its peer, and leaves it when all that it sent has been acknowledged. They
work in the memory of the script's tensors where these are contiguous.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Optional

import numpy as np
import torch
import torch.distributed as dist

from ..communication.communicator import Vector
from ..communication.pair_steps import PairStep, pair_steps
from ..communication.stages import Stage
from .operations import Begin
from .pair_lines import PairLines
from .rails import Rails
from .work import RailWork

Tensors = Sequence[torch.Tensor]
Do = Callable[[], object]

_SUMMED = {
    *(torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
}
"""What NumPy has numbers of, too."""

_REFUSED = (
    *("reduce", "gather", "scatter", "alltoall", "alltoall_base", "all_to_all_single"),
    *("send", "recv", "recv_anysource"),
    *("allgather_coalesced", "allgather_into_tensor_coalesced", "all_gather_single_coalesced"),
    *("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
)
"""The methods of what it cannot do, by name."""


class PairwiseGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A group of more than two ranks on a rail, which meet in pairs."""

    def __init__(
        self,
        rails: Rails,
        name: str,
        ranks: Sequence[int],
        schedules: Mapping[str, Mapping[str, Any]],
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
    ) -> None:
        """Take the ranks in the job, and the schedules by collective; block until connected."""
        super().__init__(rank, size)
        self._rails, self._name, self._ranks = rails, name, ranks
        self._rank, self._size = rank, size
        self._steps = {
            collective: pair_steps(schedule, rank) for collective, schedule in schedules.items()
        }
        self._submitting = threading.Lock()
        """So that the steps of a collective follow each other, whichever thread begins it."""
        seconds = timeout.total_seconds()
        self._lines = PairLines(rails.ports, (rank, size), rails.generation, store, seconds)
        self._connect()

    def getBackendName(self) -> str:  # noqa: N802
        """Return the name by which scripts know it."""
        return "testbed"

    # --- what scripts call

    def allreduce(self, tensors: Tensors, opts: Any = None) -> RailWork:
        """Sum tensors over all ranks, in place."""
        after = self._division(tensors, _operation(opts), "all_reduce")
        return self._on_all(tensors, None, after)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> RailWork:
        """Sum several tensors over all ranks, in place."""
        return self.allreduce(tensors, opts)

    def broadcast(self, tensors: Tensors, opts: Any) -> RailWork:
        """Copy tensors of one rank to all: the sum of its bytes and of zeros."""
        is_root = opts.rootRank == self._rank

        def before() -> None:
            if not is_root:
                for tensor in tensors:
                    tensor.detach().zero_()

        return self._on_all(tensors, before, None, as_bytes=True)

    def barrier(self, opts: Any = None) -> RailWork:
        """Wait until every rank has called this."""
        return self._run("all-reduce", np.zeros(self._size, np.uint8), [])

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> RailWork:
        """Copy a tensor of each rank to all."""
        whole = torch.empty(self._size * inputs[0].numel(), dtype=inputs[0].dtype)

        def after() -> None:
            for output, part in zip(outputs[0], whole.chunk(self._size)):  # noqa: B905 - Python 3.9
                output.detach().copy_(part.view_as(output))

        return self._gather(whole, inputs[0], after, outputs)

    def _allgather_base(
        self, output: torch.Tensor, given: torch.Tensor, opts: Any = None
    ) -> RailWork:
        if output.is_contiguous():
            return self._gather(output.detach().view(-1), given, None, [output])
        whole = torch.empty(output.numel(), dtype=output.dtype)
        return self._gather(
            whole, given, lambda: output.detach().copy_(whole.view_as(output)), [output]
        )

    all_gather_single = _allgather_base

    def reduce_scatter(
        self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None
    ) -> RailWork:
        """Sum a list of tensors over all ranks, of which each rank keeps the one of its number."""
        return self._scatter(outputs[0], inputs[0], opts)

    def _reduce_scatter_base(
        self, output: torch.Tensor, given: torch.Tensor, opts: Any = None
    ) -> RailWork:
        return self._scatter(output, [given], opts)

    reduce_scatter_single = _reduce_scatter_base

    # --- inside

    def _on_all(
        self, tensors: Tensors, before: Optional[Do], after: Optional[Do], *, as_bytes: bool = False
    ) -> RailWork:
        """Run the AllReduce on tensors, in their own memory where it is one."""
        self._check(tensors)
        if len(tensors) == 1 and tensors[0].is_contiguous():
            flat = tensors[0].detach().view(-1)
            return self._run("all-reduce", _vector(flat, as_bytes), tensors, before, after)
        flat = torch.empty(sum(one.numel() for one in tensors), dtype=tensors[0].dtype)

        def gather() -> None:
            if before is not None:
                before()
            torch.cat([one.detach().reshape(-1) for one in tensors], out=flat)

        def give() -> None:
            parts = flat.split([one.numel() for one in tensors])
            for one, part in zip(tensors, parts):  # noqa: B905 - Python 3.9
                one.detach().copy_(part.view_as(one))
            if after is not None:
                after()

        return self._run("all-reduce", _vector(flat, as_bytes), tensors, gather, give)

    def _gather(
        self, whole: torch.Tensor, given: torch.Tensor, after: Optional[Do], result: Any
    ) -> RailWork:
        self._check([given, whole])
        if whole.numel() != self._size * given.numel():
            raise ValueError(
                f"all_gather on {self._who} has room for {whole.numel()} elements, and "
                f"{self._size} ranks give {given.numel()} each"
            )
        collective = "all-gather" if "all-gather" in self._steps else "all-reduce"

        def before() -> None:
            own = given.detach().reshape(-1).clone()  # it may be a part of the whole
            if collective == "all-reduce":
                whole.zero_()
            whole.view(self._size, -1)[self._rank] = own

        kept = whole.view(torch.uint8).numpy() if collective == "all-gather" else None
        vector = _vector(whole, as_bytes=True) if kept is None else kept
        return self._run(collective, vector, result, before, after)

    def _scatter(self, output: torch.Tensor, inputs: Tensors, opts: Any) -> RailWork:
        self._check([output, *inputs])
        given = sum(one.numel() for one in inputs)
        if given != self._size * output.numel():
            raise ValueError(
                f"reduce_scatter on {self._who} is given {given} elements, and {self._size} ranks "
                f"keep {output.numel()} each"
            )
        whole = torch.empty(given, dtype=output.dtype)
        divide = self._division([output], _operation(opts), "reduce_scatter")

        def after() -> None:
            own = whole.view(self._size, -1)[self._rank]
            output.detach().copy_(own.view_as(output))
            if divide is not None:
                divide()

        collective = "reduce-scatter" if "reduce-scatter" in self._steps else "all-reduce"
        return self._run(
            collective,
            _vector(whole),
            [output],
            lambda: torch.cat([one.detach().reshape(-1) for one in inputs], out=whole),
            after,
        )

    def _division(self, tensors: Tensors, operation: Any, called: str) -> Optional[Do]:
        """Return what makes a mean of a sum, if that is asked for; raise ValueError for others."""
        kind = tensors[0].dtype
        if kind not in _SUMMED:
            raise ValueError(
                f"{called} on {self._who} cannot sum {kind}, for which NumPy has no numbers: "
                "convert to torch.float32 before"
            )
        if operation == dist.ReduceOp.SUM:
            return None
        if operation == dist.ReduceOp.AVG and (kind.is_floating_point or kind.is_complex):

            def divide() -> None:
                for tensor in tensors:
                    tensor.detach().div_(self._size)

            return divide
        raise ValueError(
            f"{called} on {self._who} cannot do {_named(operation)} of {kind}: it has SUM, and AVG "
            "of floating-point numbers; for others gather the values with all_gather"
        )

    def _check(self, tensors: Tensors) -> None:
        for tensor in tensors:
            if tensor.device.type != "cpu" or tensor.layout != torch.strided:
                raise ValueError(
                    f"{self._who} takes dense tensors in the memory of the host, and one is "
                    f"{tensor.layout} on {tensor.device}: copy it there before"
                )
        if len(kinds := {tensor.dtype for tensor in tensors}) > 1:
            names = " and ".join(sorted(map(str, kinds)))
            raise ValueError(f"{self._who} takes tensors of one type at a time, not {names}")

    @property
    def _who(self) -> str:
        return f"group {self._name} of {self._size} ranks on a rail"

    def _connect(self) -> None:
        """Connect to each partner over a circuit of the two; raise what that fails with."""
        met = list(dict.fromkeys(step.peer for step in self._steps["all-reduce"]))
        work = RailWork(None, len(met))

        def begins(peer: int) -> Begin:
            def connect(stage: Stage) -> None:
                self._lines.connect(peer, *self._rails.ends(stage))
                self._rails.note_connections()

            return lambda stage: lambda: connect(stage)

        for peer in met:
            self._submit(peer, begins(peer), work)
        work.wait()
        self._lines.stop_listening()

    def _run(
        self,
        collective: str,
        vector: Vector,
        result: Any,
        before: Optional[Do] = None,
        after: Optional[Do] = None,
    ) -> RailWork:
        """Run a collective, a step after the other; call `before` the first, `after` the last."""
        steps = self._steps[collective]
        work = RailWork(result, len(steps))

        def do(number: int, step: PairStep) -> None:
            if work.error is not None:
                return  # it is of an earlier step
            if number == 0 and before is not None:
                before()
            try:
                self._lines.run(step, vector)
            except Exception as error:
                pair = f"rank {self._ranks[self._rank]} and rank {self._ranks[step.peer]}"
                raise RuntimeError(
                    f"the {collective} of {self._who} failed between {pair}: {error}"
                ) from error
            if number == len(steps) - 1 and after is not None:
                after()

        def begins(number: int, step: PairStep) -> Begin:
            return lambda _: lambda: do(number, step)

        with self._submitting:
            for number, step in enumerate(steps):
                self._submit(step.peer, begins(number, step), work)
        return work

    def _submit(self, peer: int, begin: Begin, work: RailWork) -> None:
        pair = self._ranks[self._rank], self._ranks[peer]
        self._rails.operations.submit(self._name, pair, begin, work.end, takes_turn=True)


def _refusal(name: str) -> Any:
    def refuse(self: PairwiseGroup, *_: Any, **__: Any) -> RailWork:
        raise ValueError(
            f"{self._who} cannot do {name}: it has all_reduce, reduce_scatter, all_gather, "
            "broadcast and barrier; make groups of two ranks for all else"
        )

    refuse.__name__, refuse.__doc__ = name, f"Refuse {name}."
    return refuse


for _name in _REFUSED:
    setattr(PairwiseGroup, _name, _refusal(_name))


def _operation(options: Any) -> Any:
    """Return what values are reduced by; calls have it in their options, by itself, or not."""
    return dist.ReduceOp.SUM if options is None else getattr(options, "reduceOp", options)


def _named(operation: Any) -> str:
    names = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
    found = (name for name in names if operation == getattr(dist.ReduceOp, name))
    return next(found, str(operation))


def _vector(flat: torch.Tensor, as_bytes: bool = False) -> Vector:
    """Return the memory of a contiguous tensor, whose bytes are to be added to zeros if so said.

    Eight of them are added at once where they are as many; all ranks have equally many.
    """
    found: Vector = flat.view(torch.uint8).numpy() if as_bytes else flat.numpy()
    return found.view(np.int64) if as_bytes and not found.size % 8 else found
