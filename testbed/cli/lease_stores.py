"""Where the leases of a lab are, and its queue with them."""

from __future__ import annotations

import os

from testbed.record.lab_queue import LabQueue
from testbed.record.lease_store import FileStore, LeaseStore, PostgresStore
from testbed.record.leases import Leases
from testbed.schema import Lab
from testbed.twin.machine import TWIN_VARIABLE


def leases_of(lab: Lab | None) -> Leases:
    """Return the leases of a lab: on the server that it names, or on this machine or twin."""
    return Leases(_store_of(lab), lab=lab.lab if lab else "")


def queue_of(lab: Lab | None) -> LabQueue:
    """Return the queue of a lab, which is where its leases are."""
    return LabQueue(_store_of(lab), lab=lab.lab if lab else "")


def _store_of(lab: Lab | None) -> LeaseStore:
    if lab is None or lab.leases is None or TWIN_VARIABLE in os.environ:
        return FileStore()
    return PostgresStore(lab.leases.revealed_url())
