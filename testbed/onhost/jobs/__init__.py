"""The code that a rank runs: its process, the jobs, and the model that the job `train` trains.

A job is a module of this package, named after its kind, with a class `Job` (see `member.Job`).
"""
