"""Traces of clients that come and go: a format, a canonical hash, and a seeded generator.

A trace is a period that repeats. Instants are whole milliseconds, so that a trace is the same on
every machine although logarithms may differ in their last digit.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from random import Random

from testbed.tenancy.attributes import Attributes

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class ClientTrace:
    """The availability, speed and attributes of one client."""

    id: str
    available: tuple[tuple[int, int], ...]
    """Beginnings and ends within the period, in ms, one after the other."""
    latency_per_sample: float
    """Milliseconds of computation for a sample."""
    rate: float
    """kbit/s to and from it."""
    samples: int
    """Size of its data set, which is private."""
    attributes: Attributes

    @property
    def speed(self) -> float:
        """Return the client's speed in samples per second."""
        return 1000.0 / self.latency_per_sample


@dataclass(frozen=True, slots=True)
class Trace:
    """Clients over a period of `period` ms that repeats."""

    period: int
    clients: tuple[ClientTrace, ...]

    def __post_init__(self) -> None:
        for client in self.clients:
            instants = [instant for interval in client.available for instant in interval]
            inside = not instants or (instants[0] >= 0 and instants[-1] <= self.period)
            if not inside or any(later <= earlier for earlier, later in pairwise(instants)):
                raise ValueError(f"the availability of {client.id} is not in order")

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the trace in its canonical form, a line for each client."""
        whole = hashlib.sha256(f"{self.period}\n".encode())
        for client in self.clients:
            whole.update(_line(client).encode())
        return whole.hexdigest()

    @property
    def available_share(self) -> float:
        """Return the share of the period for which a client is available, over all clients."""
        spans = (end - start for client in self.clients for start, end in client.available)
        return sum(spans) / (self.period * max(len(self.clients), 1))


def _line(client: ClientTrace) -> str:
    spans = ",".join(f"{start}-{end}" for start, end in client.available)
    had = ",".join(f"{name}={value:g}" for name, value in sorted(client.attributes.items()))
    numbers = f"{client.latency_per_sample:.6g} {client.rate:.6g} {client.samples}"
    return f"{client.id} {numbers} [{had}] {spans}\n"


@dataclass(frozen=True, slots=True)
class Population:
    """The distributions from which clients are drawn; none is fitted to data.

    Availability: sessions and gaps alternate. A session is log-normal; a gap is exponential, its
    mean divided by 1 + `diurnal` cos(2π (t − φ) / day), with t its beginning and φ one hour of the
    day per client, normal around `peak` (in hours) with `peak_spread`. A client begins at a random
    point of its cycle.

    Devices: a quality q, uniform in [0, 1), gives attributes and speed, so that better phones are
    faster: the latency of a sample is `latency` × `latency_span` ** (1/2 − q) × log-normal noise;
    attributes are drawn from ranges whose place in the range is q, moved by up to half of
    `attribute_width`. The rate is log-normal and does not depend on q; neither does the number of
    samples, log-normal too.
    """

    clients: int
    days: int = 2
    session: float = 3_600.0
    """Median of a session in seconds."""
    session_sigma: float = 1.0
    gap: float = 10_800.0
    """Mean of a gap in seconds, before the hour of the day counts."""
    diurnal: float = 0.5
    peak: float = 2.0
    peak_spread: float = 2.0
    latency: float = 50.0
    """Milliseconds a sample of the middling device."""
    latency_span: float = 8.0
    latency_sigma: float = 0.25
    rate: float = 5_000.0
    """Median in kbit/s."""
    rate_sigma: float = 1.0
    rate_least: float = 250.0
    rate_most: float = 100_000.0
    samples: float = 100.0
    """Median of the data set's size."""
    samples_sigma: float = 1.0
    attribute_width: float = 0.25

    @property
    def text(self) -> str:
        """Return all parameters in one line, in the order of their definition.

        Traces are drawn from it. A width of 1/4 is left out: those drawn before there was another
        do not name it.
        """
        named = asdict(self)
        if self.attribute_width == 0.25:
            del named["attribute_width"]
        return " ".join(f"{name}={value:g}" for name, value in named.items())


RANGES = {"cpu_f": (1, 10), "ram": (1, 12), "fp16_mem": (100, 1600), "android_os": (3, 10)}
"""The whole numbers that an attribute can be, from the worst device to the best."""


def generate(population: Population, seed: int) -> Trace:
    """Return a trace of clients, which depends only on the population and the seed."""
    chance = Random(f"{seed} {population.text}")
    period = population.days * DAY_MS
    clients = tuple(_client(number, population, chance) for number in range(population.clients))
    return Trace(period, clients)


SHARD = 1_000
"""Clients that are drawn from one random stream of their own."""


def shard_sizes(clients: int) -> tuple[int, ...]:
    """Return how many clients each shard of a population has; all but the last are full."""
    return tuple(min(SHARD, clients - first) for first in range(0, clients, SHARD))


def generate_shard(population: Population, seed: int, number: int) -> tuple[ClientTrace, ...]:
    """Return the clients of one shard, which depend on seed, number and distributions only.

    So shards can be drawn anywhere and in any order, and the clients of a smaller population are
    the first ones of a larger.
    """
    chance = Random(f"{seed} {replace(population, clients=0).text} shard {number}")
    first, size = number * SHARD, shard_sizes(population.clients)[number]
    return tuple(_client(first + place, population, chance) for place in range(size))


def _client(number: int, population: Population, chance: Random) -> ClientTrace:
    quality = chance.random()
    spread = population.latency_span ** (0.5 - quality)
    noise = _log_normal(1.0, population.latency_sigma, chance)
    rate = _log_normal(population.rate, population.rate_sigma, chance)
    return ClientTrace(
        id=f"client{number}",
        available=tuple(_sessions(population, chance)),
        latency_per_sample=float(f"{population.latency * spread * noise:.6g}"),
        rate=float(f"{min(max(rate, population.rate_least), population.rate_most):.6g}"),
        samples=max(1, round(_log_normal(population.samples, population.samples_sigma, chance))),
        attributes={
            name: _attribute(bounds, quality, population.attribute_width, chance)
            for name, bounds in RANGES.items()
        },
    )


def _attribute(bounds: tuple[int, int], quality: float, width: float, chance: Random) -> float:
    least, most = bounds
    place = min(max(quality + width * (chance.random() - 0.5), 0.0), 1.0)
    return float(least + round(place * (most - least)))


def _sessions(population: Population, chance: Random) -> Iterator[tuple[int, int]]:
    """Yield when a client is available, in ms, until the period is over."""
    end = float(population.days * DAY_MS // 1000)
    peak = 3_600.0 * (population.peak + population.peak_spread * _normal(chance))
    mean_session = population.session * math.exp(population.session_sigma**2 / 2)
    now = 0.0
    if chance.random() >= mean_session / (mean_session + population.gap):
        now = _gap(population, peak, now, chance)
    while now < end:
        until = min(now + _log_normal(population.session, population.session_sigma, chance), end)
        if round(until * 1000) > round(now * 1000):
            yield round(now * 1000), round(until * 1000)
        now = until + max(0.001, _gap(population, peak, until, chance))


def _gap(population: Population, peak: float, now: float, chance: Random) -> float:
    """Return an exponential gap, the shorter the nearer the client's hour."""
    haste = 1 + population.diurnal * math.cos(2 * math.pi * (now - peak) / 86_400.0)
    return -math.log(1.0 - chance.random()) * population.gap / haste


def _log_normal(median: float, sigma: float, chance: Random) -> float:
    return median * math.exp(sigma * _normal(chance))


def _normal(chance: Random) -> float:
    """Return a standard normal number (Box and Muller 1958), the cosine of each pair."""
    radius = math.sqrt(-2.0 * math.log(1.0 - chance.random()))
    return radius * math.cos(2 * math.pi * chance.random())
