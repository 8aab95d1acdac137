"""Every kind of event of the testbed itself, by name; other packages may register more."""

from __future__ import annotations

from collections.abc import Mapping

from testbed.events.kind import EventKind
from testbed.events.lab_kinds import LAB_KINDS
from testbed.events.rank_kinds import RANK_KINDS
from testbed.events.run_kinds import RUN_KINDS
from testbed.events.trial_kinds import TRIAL_KINDS

KINDS: Mapping[str, EventKind] = {**RUN_KINDS, **LAB_KINDS, **TRIAL_KINDS, **RANK_KINDS}
