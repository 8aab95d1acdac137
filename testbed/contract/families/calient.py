"""Calient over TL1."""

from pathlib import Path

from testbed.contract.family import Family
from testbed.secret import Secret

FAMILY = Family(
    "calient",
    ("visa-tcp", "tcp"),
    inputs=32,
    outputs=32,
    options={
        "user": "lab",
        "password": Secret(file=str(Path(__file__).with_name("password.txt"))),
        "shape": "1x8x4",
    },
    impossible={
        "partial": "it is told one circuit at a time",
        "lag": "its far end lists circuits by name, and forgets the names of those that are gone",
        "flap": "its far end lists circuits by name, and forgets the names of those that are gone",
    },
)
