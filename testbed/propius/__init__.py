"""The services of Propius (arXiv 2510.19617): jobs, clients and a scheduler over gRPC.

The rules are those of `testbed.tenancy`; here are the stores that keep their records, and the
processes that carry messages to them.
"""

import os

# Read once, when gRPC is imported. Nothing that we fork calls gRPC, and what it does in such a
# child before exec (to close its poller's file) aborts the child now and then.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
