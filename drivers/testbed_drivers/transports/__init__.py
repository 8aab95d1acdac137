"""Transports of bytes to and from an instrument, one module for each library."""
