"""Shell completion: names of labs, twins, runs, instruments, faults, and keys of `-S`.

Errors are ignored: a file that cannot be read has no names. Code that reads files is imported late.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from testbed.record.rundir import RunDirectory

COMPLETE_VARIABLE = "_TESTBED_COMPLETE"
"""Set by a shell that asks for completions."""

_MOST_PORTS = 4096
"""That a switch has, whatever a file says that was not checked yet."""

_INSTRUMENTS = ("switches", "power", "attenuators", "meters")
"""The sections of a lab file that name them."""

Names = Callable[[typer.Context, str], list[str]]


def _names(find: Callable[[typer.Context], Iterator[str]]) -> Names:
    """Return a completer of the names that `find` yields; it completes nothing when that fails."""

    @functools.wraps(find)
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return sorted({name for name in find(ctx) if name.startswith(incomplete)})
        except Exception:  # a half-written file, a directory that is gone: no reason to disturb
            return []

    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str, "return": list[str]}
    del complete.__wrapped__  # its signature is not that of `find`
    return complete


def _files(of: str) -> Iterator[Path]:
    from testbed.cli.file_lookup import places

    for place in places(of)[:1]:
        yield from (file for file in place.iterdir() if file.suffix in (".yaml", ".yml"))


@_names
def labs(ctx: typer.Context) -> Iterator[str]:
    """Complete the names of labs."""
    yield from (file.stem for file in _files("configs"))


@_names
def experiments(ctx: typer.Context) -> Iterator[str]:
    """Complete the names and paths of experiments."""
    for file in _files("experiments"):
        yield from (file.stem, str(file))


@_names
def labs_and_experiments(ctx: typer.Context) -> Iterator[str]:
    """Complete the names and paths of files that `validate` accepts."""
    for of in ("configs", "experiments"):
        for file in _files(of):
            yield from (file.stem, str(file))


@_names
def twins(ctx: typer.Context) -> Iterator[str]:
    """Complete the names of running twins."""
    from testbed.twin import registry

    yield from (twin.name for twin in registry.standing())


@_names
def run_names(ctx: typer.Context) -> Iterator[str]:
    """Complete the names of runs, and unique ends of them."""
    yield "latest"
    for run in _runs(ctx):
        yield from (run.id, run.id.rpartition("-")[2])


def _runs(ctx: typer.Context) -> list[RunDirectory]:
    from testbed.cli.file_lookup import RESULTS, results_to_read
    from testbed.record.rundir import runs

    return list(runs(results_to_read(Path(_said(ctx, "results") or RESULTS))))


@_names
def switches(ctx: typer.Context) -> Iterator[str]:
    """Complete the switches of the lab on the command line, or of all labs."""
    return _entries(ctx, "switches")


@_names
def instruments(ctx: typer.Context) -> Iterator[str]:
    """Complete the instruments of the lab or twin on the command line, or of all labs."""
    return _entries(ctx, *_INSTRUMENTS)


def resources(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names that can be leased: hosts, instruments, and after a dot ports or outlets."""
    return (_parts if "." in incomplete else _whole)(ctx, incomplete)


@_names
def _whole(ctx: typer.Context) -> Iterator[str]:
    return _entries(ctx, "hosts", *_INSTRUMENTS)


def _entries(ctx: typer.Context, *sections: str) -> Iterator[str]:
    for lab in _labs_meant(ctx):
        for section in sections:
            yield from lab.get(section, ())


@_names
def _parts(ctx: typer.Context) -> Iterator[str]:
    for lab in _labs_meant(ctx):
        for name, switch in lab.get("switches", {}).items():
            yield from (f"{name}.{part}" for part in switch.get("ports", ()))
            for first, last in _ranges(switch.get("ports", ())):
                yield from (f"{name}.{port}" for port in range(first, last + 1))
        outlets = (host.get("power") for host in lab.get("hosts", {}).values())
        yield from (outlet for outlet in outlets if outlet)


def _ranges(ports: Iterable[Any]) -> Iterator[tuple[int, int]]:
    for part in ports:
        first, _, last = str(part).partition("-")
        yield int(first), min(int(last or first), _MOST_PORTS)


@_names
def queue_entries(ctx: typer.Context) -> Iterator[str]:
    """Complete the entries of the queue of the lab on the command line, or of this machine."""
    from testbed.cli.file_lookup import lab_file
    from testbed.cli.lease_stores import queue_of
    from testbed.schema import load_lab

    lab = load_lab(lab_file(str(name)), []) if (name := _said(ctx, "lab")) else None
    yield from (entry.name for entry in queue_of(lab).entries())


@_names
def queue_policies(ctx: typer.Context) -> Iterator[str]:
    """Complete the policies that a queue can have."""
    from testbed.tenancy.lab_orders import policy_names

    yield from policy_names()


@_names
def circuit_ends(ctx: typer.Context) -> Iterator[str]:
    """Complete the host ports that are wired to the switch on the command line."""
    name = _said(ctx, "name")
    for lab in _labs_meant(ctx):
        for host, spec in lab.get("hosts", {}).items():
            for port, found in spec.get("ports", {}).items():
                ends = (str(found.get(key, "")) for key in ("tx", "rx", "bidi"))
                if name in {end.rpartition(".")[0] for end in ends}:
                    yield f"{host}.{port}"


@_names
def run_experiments(ctx: typer.Context) -> Iterator[str]:
    """Complete the names of experiments that have runs."""
    from testbed.cli.run_list import row_of

    yield from (row_of(run)["experiment"] for run in _runs(ctx))


@_names
def run_metrics(ctx: typer.Context) -> Iterator[str]:
    """Complete the metrics of runs, of one experiment if the command line names it."""
    from testbed.cli.run_list import metrics_of, row_of

    wanted = _said(ctx, "experiment")
    for run in _runs(ctx):
        if wanted in ("", row_of(run)["experiment"]):
            yield from metrics_of(run.path)


@_names
def far_end_faults(ctx: typer.Context) -> Iterator[str]:
    """Complete the faults of the far end on the command line; of all while its twin is not up."""
    from testbed.plugins import kinds
    from testbed.twin import registry
    from testbed.twin.control_socket import ask
    from testbed.twin.machine import SOCKET

    name, instrument = _said(ctx, "name"), _said(ctx, "instrument")
    for twin in registry.standing():
        if twin.name == name:
            place = Path(f"/proc/{twin.server}/root{SOCKET}")
            yield from ask({"do": "known-faults", "instrument": instrument}, place)
            return
    yield from (kind.far_end for kind in kinds("faults").values() if kind.far_end)


@_names
def set_keys(ctx: typer.Context) -> Iterator[str]:
    """Complete the fields that `-S` may set: those of the experiment, and `lab.…` of its lab."""
    from testbed.cli.file_lookup import EXPERIMENTS, found_file
    from testbed.schema import TwinSettings
    from testbed.schema.load import read_source

    data: Mapping[str, Any] = {}
    if name := _said(ctx, "experiment"):
        data = read_source(found_file(str(name), EXPERIMENTS)).data
        yield from (f"{key}=" for key in _dotted(data))
    yield from (f"lab.twin.{field}=" for field in TwinSettings.model_fields)
    for lab in _labs_meant(ctx, str(data.get("lab", ""))):
        yield from (f"lab.{key}=" for key in _dotted(lab))


def _labs_meant(ctx: typer.Context, usual: str = "") -> Iterator[Mapping[str, Any]]:
    """Yield the data of the lab that a half-typed command names; of all when it names none."""
    from testbed.cli.file_lookup import lab_file
    from testbed.schema.host_groups import expanded
    from testbed.schema.load import read_source

    twin = _said(ctx, "twin") or (_said(ctx, "name") if _is_of_twin(ctx) else "")
    if lab := _said(ctx, "lab"):
        files = [lab_file(lab)]
    elif twin and (file := _lab_of_twin(twin)):
        files = [file]
    else:
        files = [lab_file(usual)] if usual else list(_files("configs"))
    yield from (expanded(read_source(file)).data for file in files)


def _said(ctx: typer.Context, name: str) -> str:
    """Return what was said of a parameter.

    In front of an option that still lacks its value nothing is parsed: then the words tell it.
    """
    if found := ctx.params.get(name):
        return str(found)
    shell = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words, option = shell.split(), f"--{name}"
    if option in words[:-1]:
        return words[words.index(option) + 1]
    is_first = name == "experiment" and words[1:2] in (["run"], ["plan"]) and len(words) > 2
    return words[2] if is_first and not words[2].startswith("-") else ""


def _is_of_twin(ctx: typer.Context) -> bool:
    return ctx.parent is not None and ctx.parent.info_name == "twin"


def _lab_of_twin(name: str) -> Path | None:
    from testbed.twin import registry

    return next((Path(t.lab_file) for t in registry.standing() if t.name == name), None)


def _dotted(data: Any, before: str = "") -> Iterator[str]:
    """Yield the dotted keys of the plain values in data."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _dotted(value, f"{before}{key}.")
    elif isinstance(data, list) and any(isinstance(item, (Mapping, list)) for item in data):
        for index, item in enumerate(data):
            yield from _dotted(item, f"{before}{index}.")
    elif before:
        yield before[:-1]
