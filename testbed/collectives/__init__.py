"""Collectives as schedules of sends, with a cost model.

Pure: no clock, no files, no threads. Ranks on hosts carry schedules out; no code here does.
"""
