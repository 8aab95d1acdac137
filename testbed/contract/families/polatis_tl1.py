"""Polatis over TL1."""

from pathlib import Path

from testbed.contract.family import Family
from testbed.secret import Secret

FAMILY = Family(
    "polatis-tl1",
    ("visa-tcp", "tcp"),
    inputs=70,
    outputs=70,
    options={"user": "lab", "password": Secret(file=str(Path(__file__).with_name("password.txt")))},
    impossible={"failed": "how its TL1 shows a port that has failed is not public"},
)
