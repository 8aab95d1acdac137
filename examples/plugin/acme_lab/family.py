"""What the contract suite must know of the driver `acme`: its twin has 8 inputs and 9 outputs."""

from testbed.contract.family import Family

FAMILY = Family("acme", ("visa-tcp", "tcp", "visa-serial", "serial"), outputs=9)
