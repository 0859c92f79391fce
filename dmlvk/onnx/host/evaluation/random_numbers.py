"""Operators whose results differ from run to run. With a seed they are the same in every run, on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from dmlvk.onnx.host.evaluation.call import Array, Call, NotComputed, computes


def _generator(call: Call) -> np.random.Generator:
    seed = call.attribute("seed")
    return np.random.default_rng(None if seed is None else np.float32(seed).view(np.uint32))


def _type(call: Call, otherwise: np.dtype[Any]) -> np.dtype[Any]:
    given = call.attribute("dtype")
    return otherwise if given is None else np.dtype(helper.tensor_dtype_to_np_dtype(int(given)))


@computes("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", draws=0)
def of_a_distribution(call: Call) -> Array:
    """Of a normal distribution, or evenly between two bounds."""
    if call.op_type.endswith("Like"):
        shape, dtype = call.array(0).shape, _type(call, call.array(0).dtype)
    else:
        shape, dtype = tuple(call.list("shape") or ()), _type(call, np.dtype(np.float32))
    call.checked_shape(shape, np.dtype(np.float64))
    if dtype.kind != "f":
        raise NotComputed(f"random numbers of {dtype}")
    if "Normal" in call.op_type:
        made = _generator(call).normal(call.attribute("mean"), call.attribute("scale"), shape)
    else:
        made = _generator(call).uniform(call.attribute("low"), call.attribute("high"), shape)
    return np.asarray(made).astype(dtype)


def trained(call: Call) -> tuple[Array, Array]:
    """Dropout while a network is trained: what is left is larger, so that sums stay what they are."""
    array = call.array(0)
    ratio = float(call.array(1).reshape(-1)[0]) if call.has(1) else 0.5
    if not 0 <= ratio < 1 or array.dtype.kind != "f":
        raise ValueError(f"leaves out {ratio} of {array.dtype}")
    seed = call.attribute("seed")
    kept = np.random.RandomState(seed).uniform(0, 1, array.shape) >= ratio
    return (array * kept * (1 / (1 - ratio))).astype(array.dtype), kept


@computes("Bernoulli", draws=0)
def bernoulli(call: Call) -> Array:
    """One with the probability that the input says."""
    array = call.array(0)
    made = _generator(call).random(array.shape) < array.astype(np.float64)
    return np.asarray(made).astype(_type(call, array.dtype))


@computes("Multinomial", draws=0)
def multinomial(call: Call) -> Array:
    """Classes, with probabilities whose logarithms, but for a summand, are the input's rows."""
    array, count = call.array(0).astype(np.float64), call.integer("sample_size", 1)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"needs rows of logarithms; got {list(array.shape)}")
    call.checked_shape((array.shape[0], count), np.dtype(np.int64))
    weights = np.cumsum(np.exp(array - array.max(axis=1, keepdims=True)), axis=1)
    drawn = _generator(call).random((array.shape[0], count)) * weights[:, -1:]
    found = [np.searchsorted(row, numbers, "right") for row, numbers in zip(weights, drawn, strict=True)]
    dtype = helper.tensor_dtype_to_np_dtype(call.integer("dtype", TensorProto.INT32))
    return np.array(found, dtype).reshape(array.shape[0], count)
