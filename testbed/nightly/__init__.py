"""The nightly: every experiment on the twin of every lab that it fits, within a budget of time.

    files → pairs → order → one `testbed run` each → cases → table, Markdown, JUnit, JSON

What ran when is read from the run directories, and so is how long it took: there is no other state
but the baselines. Each run is a process of its own, so that nothing it does can end the night.
"""
