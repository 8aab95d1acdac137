"""Jobs: the options of each, and the configuration that its ranks are sent.

The programs themselves are in `onhost`; nothing here ever runs on a GPU host.
"""
