"""Optics on paper: ports, circuits, matchings, topologies and plans of change.

Pure: no clock, no files, no threads. Light goes through `bench.fabric`, never through here.
"""
