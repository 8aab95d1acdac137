"""Drivers of instruments, and the simulated far end of each.

In the order of the layers, bottom up:

transports      bytes to and from an instrument: TCP, TLS, serial, SSH, VISA; timeouts
dialects        languages, the host's side and the device's: SCPI, TL1, REST, lines of text, frames;
                sessions: one lock, one exchange at a time, a fresh line after any doubt
switches, power, light      drivers, one for each family of devices, with its far end beside it:
                optical switches; power units; attenuators and power meters

`descriptors` are what the entry points name: options and summaries, no instrument library.

Drivers know no plans, leases or decisions: a driver reports what its device did.
"""
