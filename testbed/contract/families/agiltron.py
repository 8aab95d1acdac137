"""Agiltron FF 1×8."""

from testbed.contract.family import Family

FAMILY = Family(
    "agiltron",
    ("serial", "visa-serial"),
    inputs=1,
    impossible={
        "swept": "it has one circuit, or one position",
        "partial": "it does one thing at a time",
        "vanish": "it always lights something",
        "error": "it has no words for an error",
        "busy": "it has no words for it",
    },
    nameless=True,
)
