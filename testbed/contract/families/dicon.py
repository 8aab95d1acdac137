"""DiCon 1×N module."""

from testbed.contract.family import Family

FAMILY = Family(
    "dicon",
    ("serial", "visa-serial"),
    inputs=1,
    impossible={
        "swept": "it has one circuit, or one position",
        "partial": "it does one thing at a time",
        "error": "it has no words for an error",
        "busy": "it has no words for it",
    },
)
