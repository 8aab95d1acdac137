"""Thorlabs OSW22."""

from testbed.contract.family import Family

FAMILY = Family(
    "thorlabs",
    ("serial", "visa-serial"),
    inputs=2,
    outputs=2,
    impossible={
        "swept": "it has one circuit, or one position",
        "partial": "it does one thing at a time",
        "vanish": "it always lights something",
        "misrouted": "of two positions, the wrong one is the old one: `stuck`",
        "error": "it has no words for an error",
        "busy": "it has no words for it",
    },
    nameless=True,
)
