"""The model of the optics: ports, circuits, matchings, topologies and plans of change.

Pure: no clock, no files, no threads. Only `bench.fabric` changes real circuits.
"""
