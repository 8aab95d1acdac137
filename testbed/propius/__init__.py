"""The services of Propius (arXiv 2510.19617): jobs, clients and a scheduler over gRPC.

The rules are those of `testbed.tenancy`; here are the stores that keep their records, and the
processes that carry messages to them.
"""
