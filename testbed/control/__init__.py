"""The control plane: policies that react to what the bench reports.

Each is a pure step: a state and one observation in, the next state and commands out. It has no
clock and no side effects; `run` carries its commands out and returns their outcomes.
"""
