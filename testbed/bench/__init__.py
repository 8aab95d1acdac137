"""The lab, opened: instruments, hosts and the one door to the fabric."""
