"""Single nodes, computed here and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models

Arrays = dict[str, npt.NDArray[Any]]


def numbers(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Normally distributed."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def compare(
    device: dml.Device,
    op_type: str,
    feed: Arrays,
    *,
    opset: int = 19,
    constants: Sequence[str] = (),
    names: Sequence[str] | None = None,
    outputs: Sequence[str] = ("y",),
    domain: str = "",
    strict: bool = True,
    tolerance: float = 1e-5,
    propagate_nan: bool = False,
    **attributes: Any,
) -> list[Any]:
    """Runs a node by both, and compares; returns what ONNX Runtime gives.

    Args:
        device: where dmlvk runs.
        op_type: the operator.
        feed: its inputs, in order.
        opset: of ONNX.
        constants: those of them that are initializers.
        names: the inputs in order, where some are absent.
        outputs: names of the outputs; empty for one that is not asked for.
        domain: of the operator.
        strict: whether the device alone must compute it.
        tolerance: the largest difference, relative to the largest result.
        propagate_nan: the option of that name.
        attributes: of the node.
    """
    node = helper.make_node(op_type, list(names or feed), list(outputs), domain=domain, **attributes)
    shown = [name for name in outputs if name]
    known = {name: feed[name] for name in constants}
    model = models.model([node], {name: feed[name] for name in feed if name not in known}, shown, known, opset=opset)
    given = {name: array for name, array in feed.items() if name not in constants}
    expected = models.onnx_runtime(model, is_optimized=False).run(None, given)
    own = ort.SessionOptions()
    own.propagate_nan = propagate_nan
    found = ort.InferenceSession(model, own, device=device, strict=strict).run(None, given)
    for name, a, b in zip(shown, found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (op_type, name, attributes)
        if b.dtype.kind != "f":
            np.testing.assert_array_equal(a, b, f"{op_type} {name} {attributes}")
            continue
        largest = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
        np.testing.assert_allclose(a, b, tolerance, tolerance * largest, err_msg=f"{op_type} {name} {attributes}")
    return list(expected)
