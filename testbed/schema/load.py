"""Read files into checked models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from testbed.errors import FileError
from testbed.schema.circuits import CircuitList
from testbed.schema.experiment import Experiment
from testbed.schema.lab import Lab
from testbed.schema.lab_overrides import changed
from testbed.schema.override import Override
from testbed.schema.source import Place, Source, read_bytes
from testbed.schema.validation import shown
from testbed.schema.yaml12 import parse, written

MAX_BYTES = 2**20


def load_lab(path: str | Path, overrides: Iterable[str] = ()) -> Lab:
    """Return the lab of a file, with the `lab.…` overrides of `-S` applied.

    Raise UsageError when the file cannot be read, FileError for everything that is wrong in it.
    """
    return Lab.read(lab_source(path, overrides))


def load_experiment(path: str | Path, overrides: Iterable[str] = ()) -> Experiment:
    """Return the experiment of a file, with overrides of `-S` applied; raise as `load_lab`."""
    return Experiment.read(experiment_source(path, overrides))


def load_circuits(path: str | Path) -> CircuitList:
    """Return the list of circuits in a file; raise as `load_lab`."""
    return CircuitList.read(read_source(path))


def load(path: str | Path) -> Lab | Experiment | CircuitList:
    """Return the model of a file: a lab, an experiment, or a list of circuits, by its keys."""
    source = read_source(path)
    if "circuits" in source.data:
        return CircuitList.read(source)
    return Experiment.read(source) if "experiment" in source.data else Lab.read(source)


def split_overrides(overrides: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the `-S` overrides of the experiment, and the `lab.…` ones of the lab."""
    texts = list(overrides)
    lab = [text for text in texts if text.startswith("lab.")]
    return [text for text in texts if text not in lab], lab


def lab_source(path: str | Path, overrides: Iterable[str] = ()) -> Source:
    """Return the data of a lab file with the `lab.…` overrides of `-S`, unchecked."""
    return changed(read_source(path), map(Override.parse, overrides))


def experiment_source(path: str | Path, overrides: Iterable[str] = ()) -> Source:
    """Return the data of an experiment file with overrides of `-S`, unchecked."""
    source = read_source(path)
    for text in overrides:
        source = Override.parse(text).applied(source)
    return source


def effective_text(source: Source, overrides: Sequence[str]) -> str:
    """Return a file's original text, or its data with the overrides applied.

    Overrides change nothing in it that they have set already.
    """
    if not overrides:
        return source.text
    return f"# As used, with {json.dumps(overrides, ensure_ascii=False)}\n{written(source.data)}"


def read_source(path: str | Path) -> Source:
    """Return the text and plain data of a file of keys with values, unchecked."""
    name = str(path)
    text = _decoded(name, read_bytes(path, MAX_BYTES))
    data, marks = parse(name, text)
    if not isinstance(data, dict):
        where = str(marks[()].value)
        raise FileError(where, f"expected keys with values, got {shown(data)}")
    return Source(text, data, marks)


def _decoded(name: str, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        raise FileError(
            str(Place.after(name, before)),
            f"byte 0x{error.object[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
        ) from error
