"""Plan and run experiments: the planner, the orchestrator and their parts.

`docs/lifecycle.md` has the order of the steps, and what happens on every early exit.
"""
