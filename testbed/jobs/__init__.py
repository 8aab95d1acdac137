"""Jobs: the options of each kind, and the configuration that its ranks receive.

The code of the ranks is in `onhost`; nothing here runs on a GPU host.
"""
