"""Find the code for names in files: drivers, far ends, faults, jobs, policies, controllers, ….

Each registers under an entry-point group `testbed.<group>`; the built-in ones do the same. The
entry point names a `Kind`, a light description, so that reading and validating files loads no
instrument library and no implementation.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from testbed.errors import TestbedError, UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = (
    *("drivers", "transports", "far_ends", "faults", "jobs"),
    *("policies", "controllers", "scheduling_policies"),
)
_PARTS = {"controllers": ("policies",)}
"""By group, the groups whose plug-ins it has besides its own: a recovery policy is a controller."""

JobPart = Literal["membership", "circuits", "collective"]
"""What of a job a controller may act on: who is which rank, which circuits the job has, and what
its ranks follow to sum."""

RECOVERS: tuple[JobPart, ...] = ("membership", "circuits")
"""What of its job a recovery policy acts on that does not say so."""


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a plug-in that has none."""


@dataclass(frozen=True, slots=True)
class FaultProperties:
    """State what the planner and the model of a recovery need to know of a kind of fault."""

    hits: Literal["rank", "circuit", "port"] = "rank"
    """What of its target it hits: a rank or its host, the circuit from a rank to its successor, or
    the fabric port that the target must be then."""
    instrument: Literal["", "power", "attenuator"] = ""
    """What of the lab it takes: an outlet for the host, or an attenuator in a fibre of the port."""
    symptom: Literal["light", "silence", "exit"] = "light"
    """What is noticed first: that light is lost, that a rank misses its heartbeats, or, at once,
    that a process has ended."""
    repair: Literal["spare", "circuit", "undo"] = "spare"
    """What gets the job over it: a spare host for the victim, the same circuit made again, or the
    end of the fault itself. But for the first, the same hosts go on."""
    not_on_packet: str = ""
    """Why it cannot be injected where a packet switch joins the ranks; empty where it can."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a recovery, which begins where the one before ends.

    It `ends` at a mark (t2 … t10) or, with `ready`, once all is there that the new generation is
    formed of. `predicted_as` is the metric that is predicted for it.
    """

    name: str
    ends: str
    predicted_as: str
    what: str


PHASES = (
    Phase("detection", "t2", "detection", "until the failure is decided"),
    Phase("fencing", "t3", "fencing", "until the victim is provably out"),
    Phase("planning", "t4", "planning", "until the switch is commanded"),
    Phase("reconfiguration", "t6", "reconfiguration", "until light, link and identity are good"),
    Phase("waiting", "ready", "waiting", "for the switch's answer, the spare or the last survivor"),
    Phase("joining", "t8", "joining", "until the new generation is complete"),
    Phase("restoring", "t9", "restoring", "until every rank holds the agreed state"),
    Phase("first step", "t10", "first_step", "until the last rank finished a verified step"),
)
"""The phases of a recovery for which a spare host is brought in."""


@dataclass(frozen=True, slots=True)
class RecoveryProperties:
    """State what planner and reports need to know of a recovery policy."""

    newcomer: Literal["always", "host", "never"] = "always"
    """Whether a spare host takes the place of a rank that failed: always, only where its host did
    not survive, or never."""
    restarts: bool = False
    """Whether all ranks are started again, from their checkpoints."""
    moves_all: bool = False
    """Whether all of them go to other hosts, which read the checkpoints of those before."""
    shares_hosts: bool = False
    """Whether it tells ranks on one host apart, so that a spare may be on a host in use."""
    finds_fibres: bool = False
    """Whether it finds the fibres of circuits that pass several switches."""
    phases: tuple[Phase, ...] = PHASES
    """What a recovery consists of, in order."""

    def takes_spare(self, fault: FaultProperties) -> bool:
        """Tell whether a spare host takes the place of the rank that a fault hits."""
        if self.newcomer == "host" and fault.instrument != "power":
            return False
        return fault.repair == "spare" and self.newcomer != "never"

    def moves_circuits(self, fault: FaultProperties) -> bool:
        """Tell whether circuits are made after a fault: ranks restarted in place have theirs."""
        return not self.restarts or self.takes_spare(fault) or fault.repair == "circuit"


@dataclass(frozen=True, slots=True)
class Kind:
    """The description of one plug-in, which is available before its code is loaded.

    `options` is a frozen dataclass whose fields are the keys a file may give; `implementation` is
    `package.module:name`; `role` says what a driver drives (`switch`, `power`, `attenuator`,
    `meter`), that a fault is one of a far end (`far-end`) or only slows a rank down (`slows`), that
    a job is computed and not run (`model`), or how a scheduling policy decides: by a score
    (`online`), by dividing the clients (`offline`), or not at all (`baseline`).
    """

    summary: str
    implementation: str
    options: type = NoOptions
    role: str = ""
    far_end: str = ""
    """For a driver: its far end, in the group `far_ends`. For a fault: its name at far ends."""
    resource: str = ""
    """For a driver: how its resource is usually written, with `{host}` or `{tty}` left open."""
    ways: tuple[str, ...] = ()
    """For a driver: how its boxes are reached, as `resource.way` names it; empty: anyhow."""
    needs: tuple[str, ...] = ()
    """Options that a file must give although they have defaults."""
    anonymous: bool = False
    """For a driver: whether its boxes cannot tell their serial number."""
    make: str = ""
    """For a driver: whose boxes it drives, where one may answer under several names or in several
    languages; among them a serial number comes once. Empty: maker and model, as a box says them."""
    whole: bool = False
    """For a driver of a switch: whether a change of one circuit may move others, so that it
    cannot be shared."""
    element: Callable[[Any], str] | None = None
    """For a driver of one of several elements behind a controller: by its options, which one.
    They share a resource, each is leased alone, and a driver is made `beside` the one before."""
    sides: Callable[[Any], tuple[int, int]] | None = None
    """For a driver of a switch: by its options, how many inputs it has, which are its ports 1…N,
    and how many outputs, which follow; 0 where only the box knows. None: numbered otherwise."""
    reciprocal: bool = False
    """For a driver of a switch: whether one cross-connect carries light both ways, so that a port
    of it can be `bidi`."""
    one_side: Callable[[Any], int] | None = None
    """For a driver of a switch: by its options, how many ports a model has that can join any two of
    them; 0 for one with inputs and outputs. None: this driver knows no such model."""
    outlets: Callable[[Any], int] | None = None
    """For a driver of a power unit: by its options, how many outlets it has, with the ids 1…N; 0
    where only the box knows. None: named otherwise."""
    fault: FaultProperties = FaultProperties()
    """For a fault of a job: what it hits and needs, and what it does to the job."""
    acts_on: tuple[JobPart, ...] = ()
    """For a controller: what of its job it acts on, where no other controller may. A policy that
    does not say so acts on membership and circuits."""
    measures: tuple[str, ...] = ()
    """For a controller: the metrics that trials in which a rank is slowed down have of it."""
    lives_with: Literal["trial", "job"] = "trial"
    """For a controller: whether it begins anew in each trial, or with its job and ends with it."""
    recovery: RecoveryProperties = RecoveryProperties()
    """For a recovery policy: what its recoveries take."""
    handlers: str = ""
    """For a controller that gives commands of its own: `package.module:name` of a function that
    returns, for a running job and the event log, what carries them out by their types."""

    def load(self) -> Any:
        """Import and return the implementation; raise TestbedError when that fails."""
        return _imported(self.implementation)

    def load_handlers(self) -> Any:
        """Import and return what makes the handlers of a controller's own commands, as `load`."""
        return _imported(self.handlers)


def _imported(path: str) -> Any:
    """Return what `package.module:name` is; raise TestbedError when it cannot be had."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise TestbedError(
            f"{path} needs the package {error.name!r}, which is not installed",
            hint=f"install it with: pip install {error.name}",
        ) from error
    except (ImportError, AttributeError) as error:
        raise TestbedError(
            f"loading {path} failed: {error}",
            hint="reinstall the package that registers it",
        ) from error


_T = TypeVar("_T")


class _Registered(Mapping[str, _T]):
    """What packages register in a group by name, each loaded when it is first asked for."""

    def __init__(self, points: Mapping[str, EntryPoint], of: type[_T]) -> None:
        self._points = points
        self._of = of
        self._loaded: dict[str, _T] = {}

    def __getitem__(self, name: str) -> _T:
        if name not in self._loaded:
            self._loaded[name] = _load(self._points[name], self._of)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._points

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)


@cache
def kinds(group: str) -> Mapping[str, Kind]:
    """Return every plug-in of a group by name, sorted; raise an error for a repeated name.

    A plug-in that cannot be loaded raises an error only when it is looked up.
    """
    return _Registered(_points(group, tuple(sys.path)), Kind)


def registered(group: str, of: type[_T]) -> Mapping[str, _T]:
    """Return what packages register in a group that needs no `Kind`, by name, as `kinds` does.

    Entry points name objects `of` some class, as descriptions of events or claims of papers.
    """
    return _Registered(_points(group, tuple(sys.path)), of)


def named(group: str) -> Mapping[str, str]:
    """Return what the entry points of a group name, as text by their own names; load nothing."""
    return {name: point.value for name, point in _points(group, tuple(sys.path)).items()}


@cache
def _points(group: str, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name, sorted."""
    found: dict[str, EntryPoint] = {}
    installed, names = _installed(path), (group, *_PARTS.get(group, ()))
    points = [point for name in names for point in installed.select(group=f"testbed.{name}")]
    for point in sorted(points, key=lambda point: point.name):
        if point.name in found:
            raise TestbedError(
                f"two packages register {point.name!r} in testbed.{group}",
                hint="uninstall one of them",
            )
        found[point.name] = point
    return found


@cache
def _installed(path: tuple[str, ...]) -> Any:
    """Read the entry points of every package on the import path, once for all groups.

    What it returns has a `select`, and is of another class in Python 3.11 than later.
    """
    from importlib.metadata import entry_points

    return entry_points()


def _load(point: EntryPoint, of: type[_T]) -> _T:
    try:
        found = point.load()
    except Exception as error:  # other people's code: whatever it does, say whose it is
        raise TestbedError(
            f"loading the plug-in {point.name!r} of {point.group} failed: {error}",
            hint="reinstall or uninstall the package that registers it",
        ) from error
    if not isinstance(found, of):
        raise TestbedError(
            f"the plug-in {point.name!r} of {point.group} names {point.value}, "
            f"which is no {of.__name__}",
            hint=f"name a `{of.__module__}.{of.__name__}`, as the recipes in CONTRIBUTING.md say",
        )
    return found


def kind(group: str, name: str) -> Kind:
    """Return one plug-in; raise UsageError with the nearest known name if it does not exist."""
    known = kinds(group)
    if name not in known:
        raise UsageError(f"{name!r} is not one of the {group}", hint=nearest(name, list(known)))
    return known[name]


MAX_NAMED = 100
"""Names that a hint lists."""


def nearest(name: str, known: list[str], *, cutoff: float = 0.65) -> str:
    """Return a hint with the nearest known name, or with all known names.

    A name is near if its similarity ratio of `difflib`, from 0 to 1, is at least `cutoff`.
    """
    close = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f", and {len(known) - MAX_NAMED} more" if len(known) > MAX_NAMED else ""
    return "known: " + (", ".join(known[:MAX_NAMED]) or "none") + more
