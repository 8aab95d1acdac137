"""Open instruments and hosts of a lab, and the only code that changes circuits, power and light."""
