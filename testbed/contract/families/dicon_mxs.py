"""DiCon MXS-9100."""

from testbed.contract.family import Family

FAMILY = Family(
    "dicon-mxs",
    ("visa-tcp", "tcp", "visa-serial", "serial"),
    impossible={
        "partial": "it is told one circuit at a time",
        "flap": "it is asked for one port at a time, so a read-back is no one answer",
    },
)
