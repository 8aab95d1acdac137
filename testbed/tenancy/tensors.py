"""Serialise models: a header with names, dtypes and shapes, then the values; never pickled.

    TSR1 | length of the header (4 bytes, little-endian) | header | values

The header is JSON, `[["conv1", "float32", [3, 3]], ...]`, without spaces; values follow tensor by
tensor, little-endian, in C order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

MAGIC = b"TSR1"
LARGEST_HEADER = 2**20
"""The most bytes of a header, which the first piece of a message on a line has as a whole."""
DTYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}
Values = npt.NDArray[np.float64]
"""All elements of a model, tensor after tensor."""


class Refusal(StrEnum):
    """The reason why an update was refused."""

    MALFORMED = "malformed"
    TOO_LARGE = "too large"
    """More bytes than the model has, so none of them is looked at."""
    WRONG_TENSORS = "wrong tensors"
    WRONG_DTYPE = "wrong dtype"
    WRONG_SHAPE = "wrong shape"
    NOT_FINITE = "not finite"
    BAD_WEIGHT = "bad weight"
    DOUBLED = "doubled"
    """It holds a client that is in the sum already."""
    COMPLETE = "complete"
    """The sum of the round was given out, and must not change any more."""


class Refused(ValueError):
    """The bytes are not a valid update of the model."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(f"an update was refused: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The name, dtype and shape of a tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Return how many numbers it holds."""
        return math.prod(self.shape)


Model = tuple[TensorSpec, ...]


def elements(model: Model) -> int:
    """Return the number of values of a model."""
    return sum(tensor.elements for tensor in model)


def header(model: Model) -> bytes:
    """Return the header with which every update of a model begins."""
    rows = [[tensor.name, tensor.dtype, list(tensor.shape)] for tensor in model]
    text = json.dumps(rows, separators=(",", ":")).encode()
    return MAGIC + len(text).to_bytes(4, "little") + text


def size(model: Model) -> int:
    """Return the size of an update of a model in bytes."""
    return len(header(model)) + sum(
        tensor.elements * np.dtype(DTYPES[tensor.dtype]).itemsize for tensor in model
    )


def encode(tensors: Sequence[npt.NDArray[Any]], model: Model) -> bytes:
    """Serialise tensors; raise ValueError unless they match the model."""
    parts = [header(model)]
    for tensor, spec in zip(tensors, model, strict=True):
        if tensor.shape != spec.shape:
            raise ValueError(f"{spec.name} has the shape {tensor.shape}, and not {spec.shape}")
        parts.append(np.ascontiguousarray(tensor, DTYPES[spec.dtype]).tobytes())
    return b"".join(parts)


def decode(data: bytes, model: Model) -> Values:
    """Return the values of an update; raise Refused with the reason if it is invalid."""
    begin = header(model)
    if len(data) > size(model):
        raise Refused(Refusal.TOO_LARGE)
    if not data.startswith(begin):
        raise Refused(_difference(data, model))
    if len(data) < size(model):
        raise Refused(Refusal.MALFORMED)
    values = _values(data, len(begin), model)
    if not np.isfinite(values).all():
        raise Refused(Refusal.NOT_FINITE)
    return values


def _values(data: bytes, offset: int, model: Model) -> Values:
    values = np.empty(elements(model), np.float64)
    at = 0
    for tensor in model:
        dtype = np.dtype(DTYPES[tensor.dtype])
        read = np.frombuffer(data, dtype, tensor.elements, offset)
        with np.errstate(invalid="ignore"):  # a signalling NaN; whether it is finite is seen later
            values[at : at + tensor.elements] = read
        at += tensor.elements
        offset += tensor.elements * dtype.itemsize
    return values


def model_of(data: bytes) -> Model:
    """Return the model that the header of parameters describes; raise Refused if it is malformed.

    Whether the values are there is not looked at.
    """
    rows = _rows(data)
    if not rows or any(dtype not in DTYPES for _, dtype, _ in rows):
        raise Refused(Refusal.MALFORMED)
    model = tuple(TensorSpec(name, dtype, shape) for name, dtype, shape in rows)
    if not data.startswith(header(model)):
        raise Refused(Refusal.MALFORMED)
    return model


def _rows(data: bytes) -> list[tuple[str, str, tuple[int, ...]]] | None:
    """Return name, dtype and shape of each tensor of a header; None if it is malformed."""
    length = int.from_bytes(data[4:8], "little")
    if data[:4] != MAGIC or len(data) < 8 + length or 8 + length > LARGEST_HEADER:
        return None
    try:
        rows = json.loads(data[8 : 8 + length])
        told = [(str(name), str(dtype), tuple(shape)) for name, dtype, shape in rows]
    except (ValueError, TypeError, RecursionError):
        return None
    sizes = [size for _, _, shape in told for size in shape]
    return told if all(type(size) is int and size >= 0 for size in sizes) else None


def _difference(data: bytes, model: Model) -> Refusal:
    """Return what is wrong with a header that is not the model's."""
    told = _rows(data)
    if told is None:
        return Refusal.MALFORMED
    if [row[0] for row in told] != [tensor.name for tensor in model]:
        return Refusal.WRONG_TENSORS
    if [row[1] for row in told] != [tensor.dtype for tensor in model]:
        return Refusal.WRONG_DTYPE
    return Refusal.WRONG_SHAPE
