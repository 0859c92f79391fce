"""Runs the ONNX models of a model file on what is bound to their inputs and outputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError, ModelFileError, UnsupportedError
from dmlvk.models.json_source import shortened
from dmlvk.models.onnx_dispatchables import OnnxBinding, OnnxDispatchable
from dmlvk.models.resources import ArrayValues, Resource
from dmlvk.objects.buffers import Buffer

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.objects.recording import KernelTime
    from dmlvk.onnx import InferenceSession, NodeArg

_NUMPY_NAMES = {"float": "float32", "double": "float64"}


class OnnxRun:
    def __init__(self, dispatchable: OnnxDispatchable, device: Device) -> None:
        self._what = f"the dispatchable {shortened(dispatchable.name)}"
        self._session: InferenceSession = dispatchable.session(device)

    def close(self) -> None:
        """Frees what lies on the device."""
        self._session.close()

    def check(self, bindings: Mapping[str, OnnxBinding]) -> None:
        names = [argument.name for argument in (*self._session.get_inputs(), *self._session.get_outputs())]
        for name, binding in bindings.items():
            if name not in names:
                raise binding.node.error(
                    f"{self._what}: the model has no input or output {shortened(name)}; it has {names}"
                )

    def inputs(self, bindings: Mapping[str, OnnxBinding], buffers: Mapping[str, Buffer]) -> dict[str, npt.NDArray[Any]]:
        """The inputs: what the bound resources hold, and zeros where none is bound.

        Raises:
            ModelFileError: when a resource is too small, or an input is of a type that no resource has.
        """
        return {
            argument.name: self._input(argument, bindings.get(argument.name), buffers)
            for argument in self._session.get_inputs()
        }

    def _input(self, argument: NodeArg, binding: OnnxBinding | None, buffers: Mapping[str, Buffer]) -> npt.NDArray[Any]:
        dtype = _dtype_of(argument, self._what)
        shape = tuple(size if isinstance(size, int) else 1 for size in argument.shape)
        if binding is not None and binding.shape is not None:
            shape = binding.shape
        if binding is None:
            return np.zeros(shape, dtype)
        if binding.resource.name not in buffers:
            raise binding.node.error(
                f"the resource {shortened(binding.resource.name)} is deferred, and is used before an ONNX model "
                "gives it"
            )
        size, there = math.prod(shape) * dtype.itemsize, buffers[binding.resource.name].size_in_bytes
        if size > there:
            raise binding.node.error(
                f"{self._what}: {argument.name} {list(shape)} of {dtype} takes {size} bytes; the resource "
                f"{shortened(binding.resource.name)} has {there}"
            )
        return buffers[binding.resource.name].download(dtype, shape)

    def outputs(
        self, inputs: Mapping[str, npt.NDArray[Any]], bindings: Mapping[str, OnnxBinding]
    ) -> dict[str, npt.NDArray[Any]]:
        """Runs the model; gives the outputs that are bound.

        Raises:
            ModelFileError: when one has another shape than the file says, or is of a type that no resource has.
        """
        names = [argument.name for argument in self._session.get_outputs()]
        outputs = dict(zip(names, self._session.run(None, inputs), strict=True))
        bound = {name: outputs[name] for name in names if name in bindings}
        for name, output in bound.items():
            binding = bindings[name]
            if not isinstance(output, np.ndarray) or output.dtype.kind not in "fiub" or not output.size:
                raise binding.node.error(f"{self._what}: {name} is no tensor that a resource can hold: {output!r:.80}")
            if binding.shape not in (None, output.shape):
                raise binding.node.error(
                    f"{self._what}: {name} has the shape {list(output.shape)}, not {list(binding.shape or ())}"
                )
        return bound

    def kernel_times(self, inputs: Mapping[str, npt.NDArray[Any]]) -> list[KernelTime]:
        """What each kernel takes; nothing where the device has no clock."""
        try:
            return self._session.profile(inputs, 1)
        except UnsupportedError:
            return []


def stored(output: npt.NDArray[Any], binding: OnnxBinding, buffer: Buffer) -> None:
    """Writes an output where it is bound.

    Raises:
        ModelFileError: when the resource is too small.
    """
    if output.nbytes > buffer.size_in_bytes:
        raise binding.node.error(
            f"an output {list(output.shape)} of {output.dtype} takes {output.nbytes} bytes; the resource "
            f"{shortened(binding.resource.name)} has {buffer.size_in_bytes}"
        )
    buffer.upload(np.ascontiguousarray(output))


def resolved(resource: Resource, output: npt.NDArray[Any], node: OnnxBinding) -> Resource:
    """A deferred resource, with the type, size and shape that a run gave it.

    Raises:
        ModelFileError: when the file says another type.
    """
    try:
        found = DataType.UINT8 if output.dtype == np.bool_ else DataType(output.dtype)
    except (InvalidArgumentError, ValueError) as error:
        raise node.node.error(f"no resource has elements of {output.dtype}") from error
    wanted = resource.deferred_type
    if wanted not in (DataType.UNKNOWN, found):
        raise node.node.error(
            f"the resource {shortened(resource.name)} is to hold {wanted.name}; the output is {found.name}"
        )
    flat = np.ascontiguousarray(output).reshape(-1).view(found.numpy_dtype)
    values = ArrayValues(flat)
    sizes = tuple(output.shape) or (1,)
    return dataclasses.replace(
        resource, values=values, size_in_bytes=flat.nbytes, element_types=(found,), sizes=sizes, is_size_given=True
    )


def _dtype_of(argument: NodeArg, what: str) -> np.dtype[Any]:
    name = argument.type.removeprefix("tensor(").removesuffix(")")
    try:
        dtype = np.dtype(_NUMPY_NAMES.get(name, name))
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "fiub":
        raise ModelFileError(f"{what}: no resource has elements for the input {argument.name} of {argument.type}")
    return dtype
