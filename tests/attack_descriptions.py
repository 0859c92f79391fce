"""Attacks by descriptions: sound ones of every operator, of which members become something else."""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

import numpy as np

import dmlvk as dml
from dmlvk.conformance.samples import SampleCase, sample_cases
from dmlvk.operators import OPERATORS, Field

MOST_BYTES = 2**22
"""Of the tensors of what is run; what is larger is compiled only."""

_STRANGE: tuple[Any, ...] = (
    *(None, True, "x", "", b"x", 1j, object(), [], (), {}, [1], [-1], [2**32], [[1]], np.array([1, 2]), dml.FLOAT32),
    *(-1, 0, 1, 2, 3, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**64, -(2**63)),
    *(0.5, 1e39, float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.int64(3)),
)
_SIZES = (1, 1, 2, 3, 5, 8, 17, 64, 1000, 2**16, 2**20, 2**31, 0, -1)


@functools.cache
def _cases() -> dict[str, list[SampleCase]]:
    by_name: dict[str, list[SampleCase]] = {}
    for case in sample_cases():
        by_name.setdefault(case.desc_class.operator_name, []).append(case)
    return by_name


def description(seed: int, device: dml.Device) -> str:
    """A description that is nearly sound is made, compiled and run twice, with the same bits."""
    choose = random.Random(seed)
    kind = OPERATORS[choose.choice(sorted(OPERATORS))]
    members = _sound(kind, choose)
    for _ in range(choose.choice((0, 1, 1, 1, 2, 3))):
        field = choose.choice(kind.fields)
        members[field.attribute] = _changed(field, members.get(field.attribute), choose)
    desc = kind(**members)
    assert desc == desc and hash(desc) == hash(desc) and repr(desc)
    compiled = device.compile_operator(device.create_operator(desc))
    tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs) if tensor is not None]
    if sum(tensor.size_in_bytes for tensor in tensors) > MOST_BYTES:
        return "compiles"
    generator = np.random.default_rng(seed)
    feed = {
        field.name: generator.integers(0, 3, tensor.sizes).astype(tensor.data_type.numpy_dtype)
        for field, tensor in desc.inputs
        if tensor is not None
    }
    first, second = (device.run(compiled, feed) for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first), "other bits the second time"
    return "runs"


def _sound(kind: type[dml.OperatorDesc], choose: random.Random) -> dict[str, Any]:
    if kind.operator_name in _cases():
        samples = choose.choice(_cases()[kind.operator_name]).samples()
        sample = list(itertools.islice(samples, 3))[-1]
        return {field.attribute: getattr(sample.desc, field.attribute) for field in kind.fields}
    sizes = [choose.choice((1, 2, 3, 5)) for _ in range(choose.choice((1, 2, 4, 4, 5, 8)))]
    tensor = dml.TensorDesc(choose.choice((dml.FLOAT32, dml.FLOAT32, dml.FLOAT16, dml.INT32, dml.UINT8)), sizes)
    needed = (field for field in kind.fields if not field.optional)
    return {field.attribute: tensor if field.type == "tensor" else _changed(field, None, choose) for field in needed}


def _changed(field: Field, value: Any, choose: random.Random) -> Any:
    """Something else for a member."""
    if choose.random() < 0.15:
        return choose.choice(_STRANGE)
    if isinstance(value, dml.TensorDesc):
        return _changed_tensor(value, choose)
    if isinstance(value, (list, tuple)) and value:
        items = list(value)
        index = choose.randrange(len(items))
        is_tensor = isinstance(items[index], dml.TensorDesc)
        items[index] = _changed_tensor(items[index], choose) if is_tensor else choose.choice((*range(8), *_STRANGE))
        return choose.choice((items, items, items[:-1], items + items[:1]))
    if field.enumeration is not None:
        return choose.choice(list(field.enumeration))
    if field.type == "data_type":
        return choose.choice(list(dml.DataType))
    numbers: tuple[Any, ...] = (0.0, 1.0, -1.5, 1e-5, 1e30) if "float" in field.type else (0, 1, 2, 3, 4, 7, 100)
    drawn = [choose.choice(numbers) for _ in range(4)]
    return drawn[: choose.randint(1, 4)] if field.type.endswith("array") else drawn[0]


def _changed_tensor(tensor: dml.TensorDesc, choose: random.Random) -> dml.TensorDesc:
    sizes, strides, data_type = list(tensor.sizes), tensor.strides, tensor.data_type
    total, alignment, flags = None, tensor.guaranteed_base_offset_alignment, tensor.flags
    index, way = choose.randrange(len(sizes)), choose.randrange(6)
    if way == 0:
        sizes[index] = choose.choice(_SIZES)
    elif way == 1:
        data_type = choose.choice(list(dml.DataType))
    elif way == 2:
        changed = list(tensor.element_strides)
        changed[index] = choose.choice((0, 1, 2, 3, 5, 64, 2**20, -1))
        strides = changed
    elif way == 3:
        sizes, strides = choose.choice((sizes[1:], [1, *sizes], sizes[::-1])), None
    elif way == 4:
        total = choose.choice((0, 4, tensor.size_in_bytes + 4, 2**33))
    else:
        alignment, flags = choose.choice((0, 3, 16, 2**31)), choose.choice(list(dml.TensorFlags))
    return dml.TensorDesc(data_type, sizes, strides, total, alignment, flags)
