"""Polatis over SCPI."""

from tests.contract.family import Family

FAMILY = Family("polatis", ("visa-tcp", "tcp", "visa-serial", "serial"), inputs=70, outputs=70)
