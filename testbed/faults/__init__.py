"""Faults: each is injected, confirmed by an observer other than the injector, and undone."""
