"""Ways to move bytes to and from an instrument, one module for each library."""
