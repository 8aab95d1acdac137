"""SONiC optical circuit switch."""

from testbed.contract.family import Family

FAMILY = Family("sonic-ocs", ("ssh",), outputs=9, options={"settle": 0.01, "settle_max": 0.1})
