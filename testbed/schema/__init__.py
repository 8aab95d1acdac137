"""The lab file and the experiment file, as checked, immutable models.

    read text → plain data with places → overrides → models → what is wrong between their parts

Every error says `file:line:column`, what was found there, what was expected, and the nearest known
name. Nothing in a file is ever executed, and no instrument is opened. The only package that imports
pydantic and PyYAML.
"""

from testbed.schema.circuits import CircuitList as CircuitList
from testbed.schema.condition import Condition as Condition
from testbed.schema.condition import Statistic as Statistic
from testbed.schema.controllers import ControllerSpec as ControllerSpec
from testbed.schema.exclusions import avoided as avoided
from testbed.schema.exclusions import check_quarantine as check_quarantine
from testbed.schema.exclusions import usable_fibres as usable_fibres
from testbed.schema.experiment import MAX_TRIALS as MAX_TRIALS
from testbed.schema.experiment import Arm as Arm
from testbed.schema.experiment import Check as Check
from testbed.schema.experiment import Experiment as Experiment
from testbed.schema.experiment import Fault as Fault
from testbed.schema.experiment import Target as Target
from testbed.schema.host_groups import expanded as expanded
from testbed.schema.hosts import FabricKind as FabricKind
from testbed.schema.hosts import Host as Host
from testbed.schema.instruments import Switch as Switch
from testbed.schema.lab import Lab as Lab
from testbed.schema.load import effective_text as effective_text
from testbed.schema.load import experiment_source as experiment_source
from testbed.schema.load import lab_source as lab_source
from testbed.schema.load import load as load
from testbed.schema.load import load_circuits as load_circuits
from testbed.schema.load import load_experiment as load_experiment
from testbed.schema.load import load_lab as load_lab
from testbed.schema.load import split_overrides as split_overrides
from testbed.schema.switch_ports import has_one_side as has_one_side
from testbed.schema.switch_ports import inputs_of as inputs_of
from testbed.schema.text_types import Outlet as Outlet
from testbed.schema.twin import TUNABLE as TUNABLE
from testbed.schema.twin import TwinSettings as TwinSettings
from testbed.schema.validation import SchemaError as SchemaError
