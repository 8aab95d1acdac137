"""Make a plan from an experiment and a lab: placement, feasibility, random draws, predictions.

No device is opened here, and running jobs are not considered.
"""
