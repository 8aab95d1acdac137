"""Descriptors of switch drivers for entry points: options, capabilities, place of the code.

Importing these modules loads no instrument library and no driver.
"""
