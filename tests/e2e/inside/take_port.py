"""Run inside a twin: take a port of its rack from whoever has it, and keep it."""

from __future__ import annotations

from testbed.bench.lease_resources import part_of
from testbed.record.leases import Leases
from testbed.schema import load_lab

port = part_of(load_lab("configs/rack.yaml"), "ocs", "1")
Leases().unlock(port, forced=True)
Leases().lock(port, "test", 600.0)
