"""Instruments of the lab, both ends of each wire.

In the order of the layers, bottom up:

transport            which transport a resource takes; what a serial line's troubles mean
transport_visa       VISA resources: TCP sockets and serial lines (imports pyvisa)
transport_serial     serial devices (imports pyserial)
transport_tcp, transport_tls        TCP ports without VISA, and inside TLS
session              one line, one lock, one exchange at a time, a fresh line after any doubt
scpi_syntax, scpi    the SCPI dialect: words of the language; the host's manners
tl1_syntax, tl1_line, tl1            the TL1 dialect: words; replies paired by tags; logins
dialogue, text_line, frames         messages without tags: lines of text, frames of fixed length
http_line, rest      JSON over HTTP: one connection; log in, read, order, refusals in words
switch, selector     what drivers of switches do alike; those whose moves undo the one before
piecewise            switches that answer for each circuit of a change by itself
channels             what drivers of attenuators and power meters do alike
polatis, redfish     drivers, one per family of devices
armed_faults    what a far end can be told to do wrong
switch_box, selector_box            the inside of every switch: mirrors, light, its faults
scpi_far_end, http_far_end          a dialect, seen from the device
polatis_far_end, redfish_far_end    the device side of each driver
cards                what the entry points name: options and summaries, no instrument library

Refused here: plans, leases and decisions. A driver says what its device did, nothing more.
"""
