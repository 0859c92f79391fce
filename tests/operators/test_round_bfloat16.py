"""ELEMENT_WISE_ROUND_BFLOAT16, an operator of dmlvk's own: to the nearest number of bfloat16, beside ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.operators import ElementWiseRoundBfloat16

ml_dtypes = pytest.importorskip("ml_dtypes")

STRIDES = {
    "packed": (1024, 64, 1),
    "padded": (1056, 66, 1),
    "turned": (1, 384, 6),
    "repeated": (0, 64, 1),
    "one element": (0, 0, 0),
}


@pytest.mark.parametrize("layout", STRIDES)
def test_is_the_nearest_number_ties_to_even(layout: str, any_device: dml.Device) -> None:
    """Of every sign and exponent, about ties and what is infinite; denormals are the numbers they are."""
    dice = np.random.default_rng(0)
    high = dice.integers(0, 2**16, (6, 16, 64), np.uint32) << 16
    low = dice.choice(np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32), (6, 16, 64))
    values = (high | low).view(np.float32)
    strides = STRIDES[layout]
    shown = values[tuple(slice(0, 1) if step == 0 else slice(None) for step in strides)]
    values = np.ascontiguousarray(np.broadcast_to(shown, values.shape))
    desc = ElementWiseRoundBfloat16(
        input_tensor=dml.TensorDesc(dml.FLOAT32, values.shape, strides),
        output_tensor=dml.TensorDesc(dml.FLOAT32, values.shape),
    )
    found = any_device.run(desc, {"InputTensor": values})["OutputTensor"]
    with np.errstate(all="ignore"):
        wanted = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert (np.isnan(found) == np.isnan(wanted)).all()
    there = ~np.isnan(wanted)
    assert (found.view(np.uint32)[there] == wanted.view(np.uint32)[there]).all()
    assert (found.view(np.uint32)[~there] == 0x7FC00000).all()
