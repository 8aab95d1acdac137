"""What a training script runs of ours: the backend `testbed` of torch.distributed.

A script that makes its groups with this backend has the circuits of its rails re-pointed for what
it communicates. The rank that runs it passes on what it says of its stages, and what it hears.
"""
