"""Optical switches, one driver for each family of devices, with its far end beside it."""
