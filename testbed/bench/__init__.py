"""The lab, opened: instruments, hosts, and the only code that changes circuits, power and light."""
