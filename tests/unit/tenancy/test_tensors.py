"""Updates as bytes: what was encoded comes back, and nothing else gets in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from testbed.tenancy.tensors import (
    Refusal,
    Refused,
    TensorSpec,
    decode,
    elements,
    encode,
    header,
    size,
)

MODEL = (
    TensorSpec("w", "float32", (2, 3)),
    TensorSpec("b", "float64", (3,)),
    TensorSpec("scale", "float16", ()),
)


def tensors(fill=None):
    chance = np.random.default_rng(1)
    made = [chance.normal(size=t.shape).astype(t.dtype) for t in MODEL]
    if fill is not None:
        made[1][1] = fill
    return made


def test_encoded_tensors_are_decoded_in_the_order_of_the_model():
    data = encode(tensors(), MODEL)
    assert len(data) == size(MODEL) == len(header(MODEL)) + 6 * 4 + 3 * 8 + 2
    assert elements(MODEL) == 10
    expected = np.concatenate([t.astype(np.float64).ravel() for t in tensors()])
    assert (decode(data, MODEL) == expected).all()


def changed(**changes):
    spec = {"name": "w", "dtype": "float32", "shape": (2, 3)} | changes
    model = (TensorSpec(**spec), *MODEL[1:])
    return encode([np.zeros(t.shape) for t in model], model)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed(name="v"), Refusal.WRONG_TENSORS),
        (changed(dtype="float16"), Refusal.WRONG_DTYPE),
        (changed(shape=(3, 2)), Refusal.WRONG_SHAPE),
        (changed(shape=(20, 30)), Refusal.TOO_LARGE),
        (encode(tensors(), MODEL) + b"\0", Refusal.TOO_LARGE),
        (encode(tensors(), MODEL)[:-1], Refusal.MALFORMED),
        (encode(tensors(np.nan), MODEL), Refusal.NOT_FINITE),
        (encode(tensors(np.inf), MODEL), Refusal.NOT_FINITE),
        (encode(tensors(-np.inf), MODEL), Refusal.NOT_FINITE),
        (b"", Refusal.MALFORMED),
        (b"TSR1\xff\xff\xff\xff[]", Refusal.MALFORMED),
        (b"TSR1\x02\0\0\0{}", Refusal.WRONG_TENSORS),
        (b"TSR1\x03\0\0\0[1]", Refusal.MALFORMED),
        (b"\x80\x04cos\nsystem\n.", Refusal.MALFORMED),
    ],
)
def test_an_update_of_another_model_is_refused_with_the_reason(data, reason):
    with pytest.raises(Refused) as refusal:
        decode(data, MODEL)
    assert refusal.value.reason is reason


@example(b"\x80\x7f", 96)  # a signalling NaN
@given(st.binary(max_size=200), st.integers(0, 120))
def test_any_bytes_are_decoded_as_an_update_or_refused(junk, at):
    whole = encode(tensors(), MODEL)
    for data in (junk, whole[:at] + junk + whole[at + len(junk) :]):
        try:
            values = decode(data, MODEL)
        except Refused:
            continue
        assert values.shape == (10,)
        assert np.isfinite(values).all()


def test_tensors_of_another_shape_are_not_encoded():
    with pytest.raises(ValueError, match="w has the shape"):
        encode([np.zeros((3, 2)), *tensors()[1:]], MODEL)
