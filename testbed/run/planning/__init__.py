"""From an experiment and a lab to a plan: placement, feasibility, draws, predictions.

Nothing is opened here, and nothing of a running job is known.
"""
