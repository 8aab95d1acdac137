"""Calient over REST."""

from tests.contract.family import Family

FAMILY = Family("calient-rest", ("http", "https"), inputs=70, outputs=70)
