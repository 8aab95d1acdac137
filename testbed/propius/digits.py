"""A small model to learn by federated averaging: the digits of scikit-learn, softmax regression.

Nothing is downloaded: the 1 797 images of 8 × 8 pixels are part of scikit-learn.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.errors import UsageError
from testbed.tenancy.tensors import TensorSpec, Values, encode

MODEL = (TensorSpec("weights", "float32", (64, 10)), TensorSpec("biases", "float32", (10,)))
SIZE = 650
"""Parameters of the model."""
_TESTED, _BATCH = 360, 16
PASSES = 5
"""How often a client trains on each of its images in a round."""

_FILE = Path("datasets", "data", "digits.csv.gz")

Array = npt.NDArray[Any]


class Digits:
    """Images and labels, shared out to clients of unequal size; a fifth is kept to test with."""

    def __init__(self, clients: int, seed: int = 1) -> None:
        """Draw who has which images; raise UsageError where scikit-learn is missing."""
        images, labels = _digits()
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(labels))
        images, labels = images[order] / 16.0, labels[order]
        self._test = images[:_TESTED], labels[:_TESTED]
        places = np.arange(_TESTED + 10, len(labels) - 7)
        cuts = [_TESTED, *np.sort(rng.choice(places, clients - 1, replace=False))]
        parts = zip(np.split(images, cuts), np.split(labels, cuts), strict=True)
        self.of: dict[str, tuple[Array, Array]] = {
            f"client {number}": part for number, part in enumerate([*parts][1:])
        }
        """By client, its images and labels."""

    def accuracy(self, values: Values) -> float:
        """Return the share of test images that are told right."""
        images, labels = self._test
        return float((_scores(values, images).argmax(axis=1) == labels).mean())

    def update(self, values: Values, client: str, rate: float, draw: str) -> bytes:
        """Return what a client pushes that trains from parameters as they came to it."""
        return encoded(trained(values, *self.of[client], rate, f"{draw} {client}"))

    def in_one_process(
        self, rate: float, draw: str, members: Iterable[Iterable[str]]
    ) -> Iterator[Values]:
        """Yield the parameters after each round of FedAvg with these clients, without a service."""
        values = np.zeros(SIZE)
        for number, clients in enumerate(members, start=1):
            total, weight = np.zeros(SIZE), 0
            for client in sorted(clients):
                images, labels = self.of[client]
                seed = f"{draw} {number} {client}"
                total += _sent(trained(_sent(values), images, labels, rate, seed)) * len(labels)
                weight += len(labels)
            values = total / weight if weight else values
            yield values


def _digits() -> tuple[Array, Array]:
    """Return all images, row by row, and their labels.

    Of scikit-learn only the file is read: to import it takes seconds on each of many hosts that
    share a processor.
    """
    spec = find_spec("sklearn")
    place = Path(spec.origin).parent / _FILE if spec is not None and spec.origin else None
    if place is None or not place.is_file():
        raise UsageError(
            "the digits come with scikit-learn, and "
            + ("that is not installed" if place is None else f"its {place} is missing"),
            hint="pip install scikit-learn",
        )
    rows = np.loadtxt(place, delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(int)


def trained(values: Values, images: Array, labels: Array, rate: float, draw: str) -> Values:
    """Return parameters after five passes of gradient descent in batches of 16, drawn by a text."""
    rng = np.random.default_rng(zlib.crc32(draw.encode()))
    values = values.copy()
    for _ in range(PASSES):
        order = rng.permutation(len(labels))
        for batch in np.array_split(order, max(1, len(labels) // _BATCH)):
            shown, wanted = images[batch], labels[batch]
            scores = _scores(values, shown)
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            error = odds / odds.sum(axis=1, keepdims=True)
            error[np.arange(len(wanted)), wanted] -= 1.0
            error /= len(wanted)
            values[:640] -= rate * (shown.T @ error).ravel()
            values[640:] -= rate * error.sum(axis=0)
    return values


def encoded(values: Values) -> bytes:
    """Return parameters as bytes."""
    return encode([values[:640].reshape(64, 10), values[640:]], MODEL)


def _scores(values: Values, images: Array) -> Array:
    scores: Array = images @ values[:640].reshape(64, 10) + values[640:]
    return scores


def _sent(values: Values) -> Values:
    """Return parameters as they are after they were sent, in float32."""
    return values.astype(np.float32).astype(np.float64)
