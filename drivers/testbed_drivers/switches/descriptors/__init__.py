"""Describe switches to entry points: their options, what they can do and where their code is.

Importing these modules loads no instrument library and no driver.
"""
