"""The protocols (dialects) of instruments: the host's side of each, and the device's."""
