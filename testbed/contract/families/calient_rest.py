"""Calient over REST."""

from testbed.contract.family import Family

FAMILY = Family("calient-rest", ("http", "https"), inputs=70, outputs=70)
