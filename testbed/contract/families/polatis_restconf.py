"""Polatis over RESTCONF."""

from testbed.contract.family import Family

FAMILY = Family(
    "polatis-restconf",
    ("http", "https"),
    inputs=16,
    outputs=16,
    impossible={"partial": "every cross-connect is an order of its own, so no list is half done"},
)
