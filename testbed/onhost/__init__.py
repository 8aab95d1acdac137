"""The only code that runs on GPU hosts: one agent per host and the ranks it starts.

Standard library and NumPy, Python 3.9 or newer, and nothing of the rest of `testbed`: the package
travels as one zip archive in which it is named `onhost`, so its modules import each other
relatively. `agent` never imports NumPy or any module of the ranks but `frames` and `errors`.

Reading order for the ranks: `rank` (the conversation with the agent), `sockets` (how neighbours
meet), `links` and `ring` (how they exchange), `state` (what survives), `train` and `allreduce`
(the jobs).
"""
