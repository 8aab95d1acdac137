"""Polatis over SCPI."""

from testbed.contract.family import Family

FAMILY = Family("polatis", ("visa-tcp", "tcp", "visa-serial", "serial"), inputs=70, outputs=70)
