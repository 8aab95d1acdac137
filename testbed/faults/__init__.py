"""Faults: each is injected, witnessed by an observer other than the injector, and undone."""
