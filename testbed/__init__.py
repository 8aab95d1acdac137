"""Hardware-in-the-loop testbed for optical-fabric ML research.

Packages, bottom up; each imports only packages named before it:

modules      commands, concealed, errors, units, clock, events, files, plugins, printable, resource,
             secret
fabric       optics on paper: ports, circuits, topologies, plans of change (pure)
collectives  communication on paper: schedules, their verifier, their cost (pure)
tenancy      many jobs that share many clients, on paper: policies, bindings, aggregation (pure)
rack         torus racks on paper: slices, the circuits that join them, their failures (pure)
rails        rails on circuit switches, on paper: requests, replay, predicted times (pure)
schema       YAML files to checked models
analysis     events to marks, metrics, statistics and checks (pure)
record       event log, run directory, undo journal, locks
bench        the lab, opened: instruments, hosts, circuits, power, attenuation
jobs, faults, control    what runs, what we break, what reacts
opus         the control protocol of the authors of Opus on real lines, both sides
propius      services for jobs that share clients: stores, managers, scheduler, over gRPC
run          planning, the live run, recovery after a crash, the fibre check
twin         the lab, simulated on one Linux machine
report       terminal, HTML, JUnit
nightly      every experiment on every twin that it fits, within a budget
cli          the `testbed` command
contract     the contract of switch drivers, as tests for pytest

`onhost` runs on GPU hosts and imports nothing of the above.
"""

__version__ = "0.1.0"
