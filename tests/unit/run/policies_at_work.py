"""A recovery policy at work on a job, as it is in a trial."""

from testbed.control.controller import JobObserved, PolicyController
from testbed.run.controllers import ControllerExecutor
from testbed.run.job_commands import JobCommands
from testbed.run.job_view import view_of


def policy_at_work(policy, job, log):
    """Return the executor of a policy; the bench of the job has its fabric open."""
    controllers = {"policy": PolicyController(policy, job.name)}
    of_jobs = {job.name: JobCommands(job, log).handlers}
    return ControllerExecutor(controllers, view_of([job], job.bench), job.inbox, log, {}, of_jobs)


def of_job(observation):
    """Return an observation of the job `main`."""
    return JobObserved("main", observation)
