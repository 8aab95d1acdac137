"""Attenuators and power meters, with their far ends."""
