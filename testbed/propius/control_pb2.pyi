from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Registration(_message.Message):
    __slots__ = ("job", "public_constraints", "private_constraints", "rounds", "demand", "done")
    class PublicConstraintsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class PrivateConstraintsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    job: str
    public_constraints: _containers.ScalarMap[str, float]
    private_constraints: _containers.ScalarMap[str, float]
    rounds: int
    demand: int
    done: int
    def __init__(self, job: _Optional[str] = ..., public_constraints: _Optional[_Mapping[str, float]] = ..., private_constraints: _Optional[_Mapping[str, float]] = ..., rounds: _Optional[int] = ..., demand: _Optional[int] = ..., done: _Optional[int] = ...) -> None: ...

class RoundRequest(_message.Message):
    __slots__ = ("job", "round", "demand")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    job: str
    round: int
    demand: int
    def __init__(self, job: _Optional[str] = ..., round: _Optional[int] = ..., demand: _Optional[int] = ...) -> None: ...

class JobRound(_message.Message):
    __slots__ = ("job", "round")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    job: str
    round: int
    def __init__(self, job: _Optional[str] = ..., round: _Optional[int] = ...) -> None: ...

class JobName(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: str
    def __init__(self, job: _Optional[str] = ...) -> None: ...

class JobState(_message.Message):
    __slots__ = ("reply", "phase", "round", "demand", "members")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    reply: str
    phase: str
    round: int
    demand: int
    members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, reply: _Optional[str] = ..., phase: _Optional[str] = ..., round: _Optional[int] = ..., demand: _Optional[int] = ..., members: _Optional[_Iterable[str]] = ...) -> None: ...

class Presence(_message.Message):
    __slots__ = ("client", "attributes", "speed")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    client: str
    attributes: _containers.ScalarMap[str, float]
    speed: float
    def __init__(self, client: _Optional[str] = ..., attributes: _Optional[_Mapping[str, float]] = ..., speed: _Optional[float] = ...) -> None: ...

class ClientName(_message.Message):
    __slots__ = ("client",)
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    client: str
    def __init__(self, client: _Optional[str] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("job", "round", "private_constraints")
    class PrivateConstraintsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    job: str
    round: int
    private_constraints: _containers.ScalarMap[str, float]
    def __init__(self, job: _Optional[str] = ..., round: _Optional[int] = ..., private_constraints: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Offers(_message.Message):
    __slots__ = ("reply", "offers", "job", "round")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    reply: str
    offers: _containers.RepeatedCompositeFieldContainer[Offer]
    job: str
    round: int
    def __init__(self, reply: _Optional[str] = ..., offers: _Optional[_Iterable[_Union[Offer, _Mapping]]] = ..., job: _Optional[str] = ..., round: _Optional[int] = ...) -> None: ...

class Acceptance(_message.Message):
    __slots__ = ("client", "job", "round")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    client: str
    job: str
    round: int
    def __init__(self, client: _Optional[str] = ..., job: _Optional[str] = ..., round: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("reply",)
    REPLY_FIELD_NUMBER: _ClassVar[int]
    reply: str
    def __init__(self, reply: _Optional[str] = ...) -> None: ...
