"""From events to numbers: marks, metrics, statistics and checks.

Pure: every number of a run is a function of its event log and can be computed again at any time.
"""
