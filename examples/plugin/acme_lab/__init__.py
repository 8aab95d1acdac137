"""What the lab of Acme adds to the testbed: a switch, a job, a fault and a controller."""
