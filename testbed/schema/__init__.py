"""The two files people write, as checked, frozen models.

    read text → plain data with places → overrides → models → what is wrong between their parts

Every error says `file:line:column`, what was found there, what was expected, and the nearest known
name. Data is data: nothing in a file is ever executed, and nothing here opens an instrument. The
only package that imports pydantic and PyYAML.
"""

from testbed.schema.circuits import CircuitList
from testbed.schema.condition import Condition, Statistic
from testbed.schema.exclusions import avoided, check_quarantine
from testbed.schema.experiment import (
    MAX_TRIALS,
    Arm,
    Check,
    Experiment,
    Fault,
    Job,
    Policy,
    Target,
)
from testbed.schema.hosts import FabricKind, Host, Port
from testbed.schema.instruments import Attenuator, PacketSwitch, PowerMeter, PowerUnit, Switch
from testbed.schema.lab import Lab
from testbed.schema.load import (
    effective_text,
    experiment_source,
    lab_source,
    load,
    load_circuits,
    load_experiment,
    load_lab,
    split_overrides,
)
from testbed.schema.quarantine import Quarantine
from testbed.schema.source import Source
from testbed.schema.switch_ports import has_one_side, inputs_of
from testbed.schema.text_types import Outlet
from testbed.schema.twin import TUNABLE, TwinSettings
from testbed.schema.validation import SchemaError

__all__ = [
    "MAX_TRIALS",
    "TUNABLE",
    "Arm",
    "Attenuator",
    "Check",
    "CircuitList",
    "Condition",
    "Experiment",
    "FabricKind",
    "Fault",
    "Host",
    "Job",
    "Lab",
    "Outlet",
    "PacketSwitch",
    "Policy",
    "Port",
    "PowerMeter",
    "PowerUnit",
    "Quarantine",
    "SchemaError",
    "Source",
    "Statistic",
    "Switch",
    "Target",
    "TwinSettings",
    "avoided",
    "check_quarantine",
    "effective_text",
    "experiment_source",
    "has_one_side",
    "inputs_of",
    "lab_source",
    "load",
    "load_circuits",
    "load_experiment",
    "load_lab",
    "split_overrides",
]
