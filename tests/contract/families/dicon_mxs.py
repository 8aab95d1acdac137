"""DiCon MXS-9100."""

from family import Family

FAMILY = Family(
    "dicon-mxs",
    ("visa-tcp", "tcp", "visa-serial", "serial"),
    impossible={"partial": "it is told one circuit at a time"},
)
