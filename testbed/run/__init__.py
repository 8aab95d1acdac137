"""Plan a run, and run it: the planner, the orchestrator and what they work with.

`docs/lifecycle.md` says in which order, and what happens on every early exit.
"""
