"""A 2×2 interferometer in our own dialect."""

from testbed.contract.family import Family

FAMILY = Family(
    "mzi",
    ("visa-tcp", "tcp", "visa-serial", "serial"),
    inputs=2,
    outputs=2,
    impossible={
        "swept": "it has one circuit, or one position",
        "partial": "it does one thing at a time",
        "vanish": "it always lights something",
        "misrouted": "of two positions, the wrong one is the old one: `stuck`",
    },
)
