"""Communication on paper: collectives as schedules, their verifier and their cost.

Pure: no clock, no files, no threads. Schedules are run by ranks on hosts, never by anything here.
"""
