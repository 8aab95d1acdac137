"""Hardware-in-the-loop testbed for optical-fabric ML research.

Rooms, bottom up; each imports only rooms named before it:

words        errors, units, clock, events, plugins
schema       YAML files to checked models
fabric       optics on paper: ports, circuits, topologies, plans of change (pure)
collectives  communication on paper: schedules and their cost (pure)
analysis     events to marks, metrics and statistics (pure)
record       event log, run directory, journal, locks
bench        the lab, opened: instruments, hosts, the one door to the fabric
jobs, faults, control    what runs, what we break, what reacts
run          planner and orchestrator
twin         the lab, simulated on one Linux machine
report       terminal and HTML
cli          the `testbed` command

`onhost` runs on GPU hosts and imports nothing of the above.
"""

__version__ = "0.1.0"
