"""The code that runs on GPU hosts: one agent per host and the ranks that it starts.

Standard library and NumPy, Python 3.9 or newer, and nothing of the rest of `testbed`: the package
travels as one zip archive in which it is named `onhost`, so its modules import each other
relatively.

`agent` is the process that serves the orchestrator; it never imports NumPy. `jobs` is what a rank
runs, and `communication` how ranks connect, exchange bytes and receive commands; neither of
the two knows the package `agent`. `frames` and `errors` serve all three.
"""
