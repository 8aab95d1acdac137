"""The contract of switch drivers as tests for pytest: `pytest --testbed-driver NAME`.

A driver is tested against its far end, over every wire that it claims, with every fault that the
far end can simulate. It needs pytest, which the extra `contract` installs.
"""
