"""What runs on the hosts: each job's options, and what its ranks are told.

The programs themselves are in `onhost`; nothing here ever runs on a GPU host.
"""
