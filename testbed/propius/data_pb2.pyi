from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Round(_message.Message):
    __slots__ = ("job", "round")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    job: str
    round: int
    def __init__(self, job: _Optional[str] = ..., round: _Optional[int] = ...) -> None: ...

class ClientRound(_message.Message):
    __slots__ = ("job", "round", "client")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    job: str
    round: int
    client: str
    def __init__(self, job: _Optional[str] = ..., round: _Optional[int] = ..., client: _Optional[str] = ...) -> None: ...

class Code(_message.Message):
    __slots__ = ("code", "reason", "clients")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    clients: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., clients: _Optional[_Iterable[str]] = ...) -> None: ...

class Parameters(_message.Message):
    __slots__ = ("code", "job", "round", "demand", "data", "counted", "size")
    CODE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    code: int
    job: str
    round: int
    demand: int
    data: bytes
    counted: _containers.RepeatedScalarFieldContainer[str]
    size: int
    def __init__(self, code: _Optional[int] = ..., job: _Optional[str] = ..., round: _Optional[int] = ..., demand: _Optional[int] = ..., data: _Optional[bytes] = ..., counted: _Optional[_Iterable[str]] = ..., size: _Optional[int] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("job", "round", "client", "weight", "data", "size")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    job: str
    round: int
    client: str
    weight: int
    data: bytes
    size: int
    def __init__(self, job: _Optional[str] = ..., round: _Optional[int] = ..., client: _Optional[str] = ..., weight: _Optional[int] = ..., data: _Optional[bytes] = ..., size: _Optional[int] = ...) -> None: ...

class LeafSum(_message.Message):
    __slots__ = ("job", "round", "leaf", "sequence", "weight", "clients", "values", "size")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    job: str
    round: int
    leaf: str
    sequence: int
    weight: int
    clients: _containers.RepeatedScalarFieldContainer[str]
    values: bytes
    size: int
    def __init__(self, job: _Optional[str] = ..., round: _Optional[int] = ..., leaf: _Optional[str] = ..., sequence: _Optional[int] = ..., weight: _Optional[int] = ..., clients: _Optional[_Iterable[str]] = ..., values: _Optional[bytes] = ..., size: _Optional[int] = ...) -> None: ...

class RoundSum(_message.Message):
    __slots__ = ("code", "weight", "clients", "values", "size")
    CODE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    code: int
    weight: int
    clients: _containers.RepeatedScalarFieldContainer[str]
    values: bytes
    size: int
    def __init__(self, code: _Optional[int] = ..., weight: _Optional[int] = ..., clients: _Optional[_Iterable[str]] = ..., values: _Optional[bytes] = ..., size: _Optional[int] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("answers", "received", "sent")
    class AnswersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.ScalarMap[str, int]
    received: int
    sent: int
    def __init__(self, answers: _Optional[_Mapping[str, int]] = ..., received: _Optional[int] = ..., sent: _Optional[int] = ...) -> None: ...
