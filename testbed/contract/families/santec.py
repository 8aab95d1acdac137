"""One module of a Santec OSX or SX1."""

from testbed.contract.family import Family

FAMILY = Family(
    "santec",
    ("visa-tcp", "tcp"),
    inputs=1,
    impossible={
        "swept": "it has one circuit, or one position",
        "partial": "it does one thing at a time",
        "vanish": "it always lights something",
    },
)
