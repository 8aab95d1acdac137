"""Record the choices of the controller `collective-choice` and what is predicted of them."""

from __future__ import annotations

from testbed.control.collective_chooser import RecordChoice
from testbed.events.origin import Origin, attributed
from testbed.record.log import EventLog
from testbed.run.active_controller import ActiveController
from testbed.run.controllers import Handlers
from testbed.run.running_job import RunningJob


def handlers(job: RunningJob, log: EventLog) -> Handlers:
    """Return what carries out the commands of the controller on a running job."""

    def record(command: RecordChoice, sender: ActiveController) -> None:
        choice, collective = command.choice, command.collective
        name = choice.schedule.name
        chosen = log.append(
            "collective.chosen",
            name,
            choice=collective.number,
            because=choice.because,
            straggler=choice.straggler and choice.straggler.rank,
            expected=choice.expected,
            present=choice.present,
        )
        job.collective = collective
        if command.predicted and collective.links:  # before anything changes
            links = {"alpha": collective.links.alpha, "beta": collective.links.beta}
            with attributed(Origin(cause=chosen.seq)):
                log.append("prediction", name, values=command.predicted, **links)

    return {RecordChoice: record}
