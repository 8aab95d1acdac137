"""Undo the changes of a run that was killed or lost its controller.

Only the run's own directory is read: `docs/lifecycle.md`, section 7.
"""
