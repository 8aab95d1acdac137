"""The kinds of events that hosts report: of ranks, of their steps, and of symptoms of a failure."""

from __future__ import annotations

from testbed.events.kind import event_kind, flag, integer, items, mapping, number, text
from testbed.events.lab_kinds import STAMP

_GENERATION = integer("the generation of the job")
_STEP = integer("the number of the step, from 0")
_BEGIN = number("s", "when it began, on the host's monotonic clock")
_END = number("s", "when it was committed, on the host's monotonic clock")
_VERIFIED = flag("whether the rank verified the values")
_DELAYED = number("s", "how late the rank was made to come", optional=True)
_PACED = number("s", "how long it waited to have computed as long as stated", optional=True)
_OVERRUN = number("s", "how much longer than stated it computed", optional=True)
_WAITS = mapping("how long the rank waited for each neighbour", "s", optional=True)
_STAGE = items("its group, its number there, its ranks, and its place in an iteration")

RANK_KINDS = {
    "rank.ready": event_kind(
        "a rank's process is up and its imports are done",
        **STAMP,
        address=text("where it listens"),
        port=integer("the TCP port there"),
        second=items("address and TCP port on its other fabric port", optional=True),
        local=items("address and TCP port for ranks of its own host", optional=True),
        own=items("on rails, address and TCP port on each of its ports", optional=True),
        beside=items("the same on the ports of each rank of its host", optional=True),
        state_bytes=integer("the size of its state", "B"),
    ),
    "rank.left": event_kind(
        "a rank left the broken generation, with the last step it committed",
        **STAMP,
        generation=_GENERATION,
        committed=integer("how many steps are in its state; null if it has none", nullable=True),
        started=flag("whether its job had begun to run"),
    ),
    "rank.exit": event_kind(
        "a rank's process ended",
        **STAMP,
        slot=integer("which of its host's processes it was"),
        code=integer("its exit code, negative for a signal"),
    ),
    "generation": event_kind(
        "a rank has connected to both neighbours in a new generation",
        **STAMP,
        generation=_GENERATION,
    ),
    "state.restored": event_kind(
        "a rank holds the agreed step's state",
        **STAMP,
        generation=_GENERATION,
        step=integer("the step that comes next"),
        bytes=integer("how much of its state it was sent, or read from disk", "B"),
        seconds=number("s", "how long that took"),
    ),
    "step": event_kind(
        "a rank finished a step: verified values, loss, digest",
        **STAMP,
        generation=_GENERATION,
        step=_STEP,
        begin=_BEGIN,
        end=_END,
        collective=items("when it entered the AllReduce and left it, on that clock", "s"),
        algorithm=text("what summed the gradients"),
        choice=integer("the number of the choice that it followed, 0 for none"),
        loss=number("1", "the training loss; null where it is not known", nullable=True),
        digest=text("a checksum of the parameters afterwards"),
        part=integer("which part of the parameters it has, where ranks differ", optional=True),
        verified=_VERIFIED,
        elements=integer("how many values of the sum it verified", optional=True),
        skipped=integer("its steps before this one that are not in the record", optional=True),
        skipped_bytes=integer("what it sent in these", "B", optional=True),
        bytes=integer("what it sent in the AllReduce", "B"),
        delayed=_DELAYED,
        paced=_PACED,
        overrun=_OVERRUN,
        waits=_WAITS,
        wire=integer("what its ports have sent since they are up", "B", nullable=True),
    ),
    "sample": event_kind(
        "one timed collective of one size on one rank, with verified values",
        **STAMP,
        generation=_GENERATION,
        step=_STEP,
        size=integer("the size of the message", "B"),
        iteration=integer("which one of this size, from 0"),
        operation=text("its name in nccl-tests; `all_reduce` where it is missing", optional=True),
        algorithm=text("what ran it, where there are several", optional=True),
        dimension=text("in a mesh, the dimension along which the groups run", optional=True),
        members=items("in a mesh, the ranks of this rank's group", optional=True),
        reached=number("s", "on rails, when it came to the collective", optional=True),
        lit=number("s", "on rails, when it knew that it has its circuits", optional=True),
        matchings=items(
            "on rails, where its group exchanges in pairs: with whom, when it came to that, knew "
            "that it has its circuit, began and ended, and the bytes that it sent",
            "s",
            optional=True,
        ),
        retransmitted=integer(
            "on rails, segments that TCP has sent again since its connections were made",
            optional=True,
        ),
        dropped=integer(
            "on rails, frames that its fabric ports have dropped since they were made",
            optional=True,
        ),
        begin=_BEGIN,
        end=_END,
        verified=_VERIFIED,
        bytes=integer("what it sent; null where a library does not say", "B", nullable=True),
        delayed=_DELAYED,
        paced=_PACED,
        overrun=_OVERRUN,
        waits=_WAITS,
        rounds=items("number, begin and end of each round", "s", optional=True),
        counted=items("bytes and frames that its ports sent meanwhile", optional=True),
        changes=items("how long each change of circuits before it took", "s", optional=True),
        slots=items(
            "of each time slot that it used: the number of its circuits, when it was told of them "
            "on that clock, the bytes that it received, and whether there was more than fitted in",
            optional=True,
        ),
    ),
    "operations": event_kind(
        "what one rank of a mesh communicated in a step of training, in order",
        **STAMP,
        generation=_GENERATION,
        step=_STEP,
        begin=_BEGIN,
        end=_END,
        groups=mapping("the ranks of its groups, by name"),
        operations=items(
            "of each its group, number there, name in nccl-tests, ranks, when the rank came to it, "
            "could begin and ended it, bytes sent, and whom it waited for: all, send or receive"
        ),
    ),
    "reach": event_kind(
        "a rank has asked all others on one matching of circuits, and who has asked it there",
        **STAMP,
        generation=_GENERATION,
        step=integer("the number of the matching, from 0"),
        begin=number("s", "when it began to ask, on the host's monotonic clock"),
        end=number("s", "when it waited for answers no longer, on that clock"),
        peer=integer("the rank that its circuit leads to; null if it has none", nullable=True),
        asked=integer("how often it asked each of the others"),
        answered=mapping("by rank, how many answers came", "1"),
        heard=mapping("by rank, how often that one was heard asking", "1"),
        rtt=mapping("by rank that answered, the median time until it did", "s"),
    ),
    "checkpoint": event_kind(
        "a rank's state before a step is on the disk of its host",
        **STAMP,
        generation=_GENERATION,
        step=integer("the step that comes next"),
        bytes=integer("the size of the state", "B"),
        seconds=number("s", "from when it was copied until it was durable"),
    ),
    "checkpoint.missed": event_kind(
        "a rank's state was to be written to disk and was not",
        **STAMP,
        generation=_GENERATION,
        step=integer("the step that comes next"),
        why=text("the reason"),
    ),
    "checkpoints": event_kind(
        "a rank has verified its checkpoints",
        **STAMP,
        steps=items("the steps that it could go on with, the last first"),
        refused=items("why it could not with others"),
    ),
    "symptom": event_kind(
        "a symptom of a failure was observed: carrier, heartbeat, exit, peer, channel",
        "what the report of its source has besides",
        **STAMP,
        source=text("what observed it: carrier, heartbeat-missed, peer-lost, corrupt, …"),
        port=text("the fabric port that lost its carrier, or has it again", optional=True),
        up=flag("whether the carrier is there", optional=True),
        neighbour=text("the neighbour that was lost: next or previous", optional=True),
        error=text("what the connection to it ended with", optional=True),
        generation=integer("the generation of the job", optional=True),
        slot=integer("which of its host's processes it is", optional=True),
        silence=number("s", "how long a rank has been silent", optional=True),
        why=text("what is wrong, in words", optional=True),
    ),
    "link.probe": event_kind(
        "delivered rate of one circuit: long messages, and short ones after a pause",
        **STAMP,
        generation=_GENERATION,
        long_bytes=integer("the size of the long message", "B"),
        long_seconds=number("s", "how long it took"),
        short_bytes=integer("the size of the short message", "B"),
        short_seconds=number("s", "how long it took until the answer, in the median"),
        credit=number("B", "what passed at once after a pause", optional=True),
        dimensions=mapping("in a mesh, the same along each dimension", optional=True),
        changes=items("how long each change of circuits took", "s", optional=True),
    ),
    "circuits.asked": event_kind(
        "a rank is through with a round and asks for the circuits of the next",
        **STAMP,
        generation=_GENERATION,
        number=integer("which request of the generation"),
        circuits=integer("which of the job's matchings it asks for"),
        of=items("the ranks that ask for it together"),
    ),
    "circuits.lit": event_kind(
        "the circuits that ranks asked for are made and proved; how long that took",
        generation=_GENERATION,
        number=integer("which request of the generation"),
        circuits=integer("which of the job's matchings it is"),
        seconds=number("s", "from the last rank's request"),
    ),
    "group.joined": event_kind(
        "a rank is ready to take part in a group on a rail",
        **STAMP,
        generation=_GENERATION,
        group=text("its name"),
    ),
    "stage.reached": event_kind(
        "a rank on a rail has come to a stage and needs its circuits",
        **STAMP,
        generation=_GENERATION,
        stage=_STAGE,
    ),
    "stage.left": event_kind(
        "a rank on a rail has ended its traffic in a stage",
        **STAMP,
        generation=_GENERATION,
        stage=_STAGE,
        following=items("the same of the next one, where it is known", optional=True),
    ),
    "stage.held": event_kind(
        "the circuits of a stage are not requested yet, although all its ranks left for it",
        rail=text("the rail"),
        stage=_STAGE,
        seconds=number("s", "until they are, unless its ranks reach it before"),
    ),
    "stages.forwarded": event_kind(
        "stages are forwarded over other rails from now on, or no longer, as is cheaper",
        forward=flag("whether they are"),
        repointing=number("s", "of an iteration, by the model, where circuits are re-pointed"),
        forwarding=number("s", "the same where they are not, and carry what several groups send"),
        paths=mapping("by group that is not at home there, the circuits that it is forwarded over"),
    ),
    "stage.lit": event_kind(
        "the circuits of a stage are lit, and its ranks are told",
        rail=text("the rail"),
        stage=_STAGE,
        changed=flag("whether circuits had to change for it"),
        seconds=number("s", "from the last request that it needed, 0 without a change"),
    ),
    "program.begin": event_kind(
        "a rank has started an ordinary program; its command line",
        **STAMP,
        argv=items("the command line"),
    ),
    "program.end": event_kind(
        "an ordinary program ended: exit code, bytes left out of its output",
        **STAMP,
        seconds=number("s", "how long it ran"),
        left_out=integer("bytes of its output that were not passed on", "B"),
        pid=integer("its process", optional=True),
        code=integer("its exit code, negative for a signal", optional=True),
        left=integer("how many of its processes survived SIGKILL", optional=True),
        failed=text("why it could not be started", optional=True),
    ),
    "reading": event_kind(
        "a metric was read from what programs printed: value, unit, which way is better",
        value=number("1", "the value, in the unit beside it"),
        unit=text("the unit"),
        better=text("lower, higher or neither"),
        count=integer("how many numbers it is the median, or the worst, of"),
    ),
    "job.done": event_kind(
        "the job ended on its own; final digest",
        **STAMP,
        generation=_GENERATION,
        step=integer("how many steps are in its state", nullable=True),
        digest=text("SHA-256 of the state"),
        part=integer("which part of a model the state is of, where ranks differ", optional=True),
        loss=number("1", "the last training loss, where there is one", nullable=True),
    ),
}
"""By name."""
