"""Attacks by Dask's arrays: odd chunks, data types and masks; models, axes and halos that do not fit them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import dmlvk as dml
import dmlvk.functions

F: Any = dmlvk.functions  # some of what is asked of it is not there
_DATA_TYPES = ("f4", "f4", "f4", "f2", "f8", "i4", "i8", "u1", "?", "c8", "U3", "O", "M8[s]")
_STRANGE: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    2,
    9,
    2**40,
    0.5,
    float("nan"),
    "x",
    "",
    (),
    [0, 0],
    (0, 5),
    {},
    {0: 1},
    {7: 1},
)
_BOUNDARIES: tuple[Any, ...] = (None, "none", "reflect", "periodic", "nearest", 0, 1.5, "x", [], float("nan"))
_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    lambda x: F.relu(2 * x + 1),
    lambda x: F.reduce(x, function=dml.ReduceFunction.SUM, axes=[0]),
    lambda x: {"a": x + 1, "b": F.exp(x)},
    lambda x: F.softmax(x, axes=[1]),
    lambda x: x[:, :3],
    lambda x: None,
    lambda x: [x, x],
    lambda x, y: x + y,
)


def dask_array(seed: int, device: dml.Device) -> str:
    """A model is mapped over an array, or the array is reduced; what comes has the shape and type that were said."""
    from dmlvk.dask import map_blocks, map_overlap, reduce

    choose = random.Random(seed)
    arrays = [_array(choose) for _ in range(choose.choice((1, 1, 1, 2)))]
    way = choose.randrange(3)
    if way == 0:
        extra = {choose.choice(("drop_axis", "new_axis", "outputs", "name")): choose.choice(_STRANGE)}
        made = map_blocks(_model(choose), *arrays, **(extra if choose.random() < 0.4 else {}))
    elif way == 1:
        depth = choose.choice((1, 1, 2, {0: 1}, *_STRANGE))
        made = map_overlap(_model(choose), *arrays, depth=depth, boundary=choose.choice(_BOUNDARIES))
    else:
        function = choose.choice((*dml.ReduceFunction, "SUM", "x", None, 3))
        axis = choose.choice((None, 0, 1, *_STRANGE))
        extra = {"split_every": choose.choice(_STRANGE)} if choose.random() < 0.3 else {}
        made = reduce(function, arrays[0], axis, keepdims=choose.random() < 0.5, **extra)
    for result in made.values() if isinstance(made, dict) else [made]:
        computed = np.asarray(result.compute(scheduler="sync"))
        said = tuple(size for size in result.shape)
        assert computed.dtype == result.dtype, f"{computed.dtype} for {result.dtype}"
        is_known = not np.isnan(said).any() and all(map(_is_as_said, arrays))
        assert not is_known or computed.shape == said, f"{computed.shape} for {said}"
    return "runs"


def _is_as_said(array: Any) -> bool:
    """Whether an array has the shape that Dask believes: Dask lets functions of others lie about it."""
    import dask.array as da

    return not isinstance(array, da.Array) or np.shape(array.compute(scheduler="sync")) == array.shape


def _model(choose: random.Random) -> Any:
    if choose.random() < 0.8:
        return choose.choice(_FUNCTIONS)
    sizes = [choose.choice((1, 2, 4)) for _ in range(2)]
    tensor = dml.TensorDesc(dml.FLOAT32, sizes)
    return choose.choice((dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor), None, 3, "x", object()))


def _array(choose: random.Random) -> Any:
    import dask.array as da

    shape = [choose.choice((1, 2, 4, 4, 5, 8, 0)) for _ in range(choose.choice((2, 2, 2, 1, 3, 0)))]
    values = np.asarray(np.arange(int(np.prod(shape))).reshape(shape) % 5).astype(choose.choice(_DATA_TYPES))
    way = choose.randrange(8)
    if way == 0:
        return values
    if way == 1 and values.dtype.kind in "fiu":
        values = np.ma.masked_greater(values, 2)  # type: ignore[no-untyped-call]
    array = da.from_array(values, chunks=choose.choice((1, 2, 3, -1)))
    if way == 2 and len(shape) == 1:
        return array[array == array]  # of a size that nobody knows
    if way == 3 and shape:
        return array.rechunk({0: -1} if shape else -1).map_blocks(
            lambda block: block[..., :1], dtype=array.dtype
        )  # it lies
    if way == 4:
        return choose.choice((None, 3.5, "x", [1, 2], values.tolist()))
    return array
