"""Parts of a program on the device: what is bound once, and what a call changes of that."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from dmlvk.arrays.device_array import Array
from dmlvk.arrays.memory_pool import Storage
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import RESOURCE_ALIGNMENT
from dmlvk.running.resident_runs import BoundMemory
from dmlvk.tensors import TensorDesc
from dmlvk.torch.lazy import DeviceTensor
from dmlvk.torch.lowering import lowered
from dmlvk.torch.residency import Residency, version_of
from dmlvk.torch.types import from_numpy

if TYPE_CHECKING:
    from dmlvk.device import Device


class DevicePart(torch.nn.Module):
    """A part of a graph on the device.

    Weights are bound once, and known again by their identity and version, as :class:`Residency` knows tensors. What
    follows from lasting ones alone is computed once, until one of them changes. Other inputs have memory of the part's
    own, which every run uploads, unless they lie on the device already; results have new memory in every call.

    Args:
        device: where it runs.
        residency: what lies there.
        module: nodes that all have a lowering.
        weights: those of its arguments, by their places, that are the same tensors in most calls.
        are_lasting: whether these seldom change.
        unread: those of its results, by their places, that only other graphs read: they stay on the device until
            something else does.
    """

    def __init__(
        self,
        device: Device,
        residency: Residency,
        module: GraphModule,
        weights: Collection[int],
        *,
        are_lasting: bool,
        unread: Collection[int],
    ) -> None:
        super().__init__()
        self._device, self._residency = device, residency
        self._compiled, self._arguments = lowered(module, device, weights if are_lasting else ())
        self._weights = frozenset(n for n, argument in enumerate(self._arguments) if argument in weights)
        self._are_lasting = are_lasting
        given = next(iter(reversed(module.graph.nodes))).args[0]
        self._is_single = isinstance(given, Node)
        listed = [given] if isinstance(given, Node) else list(given)
        self._examples = [_example(item) for item in listed]
        indices = {point.name: number for number, point in enumerate(self._compiled.outputs)}
        self._outputs = [indices.get(f"output {number}") for number in range(len(listed))]
        self._unread = [index in unread for index in range(len(listed))]
        self._lock = threading.Lock()
        self._known: list[tuple[weakref.ref[torch.Tensor] | None, int]] = [(None, -1)] * len(self._arguments)
        self._inputs: dict[int, Array | Buffer] = {}
        self._scratch = [device.create_buffer(size) for size in self._compiled.temporary_pages]
        self._memory: list[BoundMemory] = []  # one, unless it must be bound anew
        self._read = [
            (BindingKind.OUTPUT, index)
            for index, is_unread in zip(self._outputs, self._unread, strict=True)
            if index is not None and not is_unread
        ]

    def forward(self, *tensors: Any) -> Any:
        """Runs it."""
        with self._lock:
            others = self._taken(tensors)
            memory = self._memory[0] if self._memory else self._bound()
            self._memory[:] = [memory]
            made = self._new()
            others.update(((BindingKind.OUTPUT, number), array) for number, array in made.items())
            self._device.arrays.run_again(self._compiled, memory, others, self._read)
        results = [self._result(number, made) for number in range(len(self._examples))]
        return results[0] if self._is_single else results

    def _taken(self, tensors: tuple[torch.Tensor, ...]) -> dict[tuple[BindingKind, int], Array]:
        """Brings to the device what is not there or has changed; gives what lies in memory that is not the part's."""
        others: dict[tuple[BindingKind, int], Array] = {}
        weights: list[int] = []
        for number, (argument, (known, version)) in enumerate(zip(self._arguments, self._known, strict=True)):
            tensor = tensors[argument]
            is_known = known is not None and known() is tensor
            if is_known and version == tensor._version:  # which is counted, or it would not be known
                continue
            if number in self._weights:
                weights.append(number)
                continue
            there = self._residency.found(tensor)
            if there is not None or not self._are_lasting:  # the backward graph reads it, too
                others[BindingKind.INPUT, number] = self._residency.array(tensor) if there is None else there
                continue
            self._upload(number, tensor)
            self._known[number] = self._noted(number, tensor), version_of(tensor)
        if weights:
            self._take_weights(weights, [tensors[self._arguments[number]] for number in weights])
        return others

    def _take_weights(self, numbers: Sequence[int], tensors: Sequence[torch.Tensor]) -> None:
        """Binds weights that are new or have changed, and has computed what follows from them alone."""
        for number, array in zip(numbers, self._residency.arrays(tensors), strict=True):
            if self._inputs.get(number) is not array:
                self._memory.clear()
            self._known[number] = None, -1  # until what follows from it is computed
            self._inputs[number] = array
        if self._are_lasting:
            lies = {n: weight for n in self._weights if isinstance(weight := self._inputs[n], Array)}
            self._compiled.prepare({n: (weight.storage.allocation, weight.offset) for n, weight in lies.items()})
        for number, tensor in zip(numbers, tensors, strict=True):
            self._known[number] = self._noted(number, tensor), version_of(tensor)

    def _upload(self, number: int, tensor: torch.Tensor) -> None:
        """Writes an input into memory of the part's own."""
        values = self._residency.host_values(tensor)
        buffer = self._inputs.get(number)
        if not isinstance(buffer, Buffer):
            buffer = self._inputs[number] = self._device.create_buffer(self._compiled.inputs[number].size_in_bytes)
            self._memory.clear()
        buffer.upload(values)

    def _noted(self, number: int, tensor: torch.Tensor) -> weakref.ref[torch.Tensor] | None:
        """An input's tensor, to be known again; when a weight is gone, its memory is not kept for the part."""
        if version_of(tensor) < 0:
            return None
        inputs, memory = self._inputs, self._memory

        def forget(_: object) -> None:
            inputs.pop(number, None)
            memory.clear()

        return weakref.ref(tensor, forget if number in self._weights else None)

    def _bound(self) -> BoundMemory:
        """Where everything is that is the same in many calls."""
        locations: dict[tuple[BindingKind, int], Array | BufferBinding] = {
            (BindingKind.INPUT, number): memory if isinstance(memory, Array) else BufferBinding(memory)
            for number, memory in self._inputs.items()
        }
        locations |= {
            (BindingKind.TEMPORARY, number): BufferBinding(buffer) for number, buffer in enumerate(self._scratch)
        }
        uploads = [memory for memory in self._inputs.values() if isinstance(memory, Buffer)]
        return self._device.arrays.bound(locations, uploads)

    def _new(self) -> dict[int, Array]:
        """Memory for the results; those that stay on the device lie together."""
        pool, made, together = self._device.arrays.pool, {}, []
        for number, is_unread in zip(self._outputs, self._unread, strict=True):
            if number is None or number in made:
                continue
            if is_unread:
                together.append(number)
            else:
                tensor, size = self._tensor(number)
                made[number] = Array(self._device, Storage(pool, size), tensor)
        sizes = [-(-self._tensor(number)[1] // RESOURCE_ALIGNMENT) * RESOURCE_ALIGNMENT for number in together]
        is_one = sum(sizes) <= self._device.info.limits.largest_buffer
        shared = Storage(pool, sum(sizes)) if is_one and together else None
        offset = 0
        for number, size in zip(together, sizes, strict=True):
            tensor = self._tensor(number)[0]
            if shared is None:
                made[number] = Array(self._device, Storage(pool, size), tensor)
            else:
                made[number] = Array(self._device, shared, tensor, offset, is_whole=False)
                offset += size
        return made

    def _tensor(self, number: int) -> tuple[TensorDesc, int]:
        point = self._compiled.outputs[number]
        assert point.tensor is not None  # results are never absent
        return point.tensor, point.size_in_bytes

    def _result(self, number: int, arrays: dict[int, Array]) -> Any:
        example, index = self._examples[number], self._outputs[number]
        if index is None or not isinstance(example, torch.Tensor):
            return example
        if self._unread[number]:
            tensor: torch.Tensor = DeviceTensor(arrays[index], example)
        else:
            tensor = from_numpy(arrays[index].numpy(), example)
        if example.dtype is not torch.bfloat16:  # the array has more digits than the tensor
            self._residency.keep(tensor, arrays[index])
        return tensor


def _example(item: Any) -> Any:
    """A tensor of the type, shape and strides of a node's result, without memory; what is no tensor as it is."""
    value = item.meta["val"] if isinstance(item, Node) else item
    if not isinstance(value, torch.Tensor):
        return value
    shape, strides = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
