"""PyTorch's data types, and those that the device computes with in their stead."""

from __future__ import annotations

from typing import Any

import torch

from dmlvk.datatypes import DataType

NAME = "dmlvk"  # Of the device, for PyTorch

DATA_TYPES: dict[torch.dtype, DataType] = {
    torch.float32: DataType.FLOAT32,
    torch.float16: DataType.FLOAT16,
    torch.bfloat16: DataType.FLOAT32,  # that are numbers of bfloat16: every operator's result is rounded
    torch.int64: DataType.INT64,
    torch.int32: DataType.INT32,
    torch.int16: DataType.INT16,
    torch.int8: DataType.INT8,
    torch.uint8: DataType.UINT8,
    torch.bool: DataType.UINT8,  # 0 and 1
}
"""What stands for each type on the device; others are the CPU's."""

_TORCH_TYPES = {DataType.FLOAT32: torch.float32, DataType.FLOAT16: torch.float16}

MOST_DIMENSIONS = 8  # Of a tensor on the device


def is_on_device(value: Any) -> bool:
    """Whether the device has tensors of this type and shape, of which a node's result is an example."""
    if not isinstance(value, torch.Tensor):
        return True
    if value.device.type == "meta":  # it has a shape and no contents
        return False
    plain = value.layout == torch.strided and not value.is_complex() and not value.is_quantized
    return plain and value.dtype in DATA_TYPES and value.dim() <= MOST_DIMENSIONS and all(s != 0 for s in value.shape)


def to_numpy(tensor: torch.Tensor) -> Any:
    """A tensor's elements as an array of the type that the device has for it, with a dimension at least."""
    plain = tensor.detach().cpu()
    wanted = DATA_TYPES[plain.dtype]
    if plain.dtype is torch.bfloat16:
        plain = plain.to(torch.float32)
    array = plain.contiguous().numpy()
    return array.reshape(array.shape or (1,)).view(wanted.numpy_dtype)


def from_numpy(array: Any, example: torch.Tensor) -> torch.Tensor:
    """A tensor of an array, with the type, shape and strides of an example."""
    made = torch.from_numpy(array).reshape(tuple(example.shape))
    if example.dtype is torch.bool:
        made = made.view(torch.bool)
    made = made.to(example.dtype)
    if made.stride() == tuple(example.stride()):
        return made
    # Elements that are repeated by strides of 0 lie in memory once.
    repeated = [step == 0 and size > 1 for step, size in zip(example.stride(), example.shape, strict=True)]
    once = made[tuple(slice(0, 1) if is_repeated else slice(None) for is_repeated in repeated)]
    strided = torch.empty_strided(tuple(once.shape), tuple(example.stride()), dtype=example.dtype)
    return strided.copy_(once).expand(tuple(example.shape))
