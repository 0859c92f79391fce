"""Parts of a program on the device: what is bound once, and what a call changes of that."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.datatypes import DataType, checked_data_type
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.binding import BufferBinding
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import RESOURCE_ALIGNMENT
from dmlvk.running.resident_runs import BoundMemory
from dmlvk.tensors import TensorDesc
from dmlvk.torch.lazy import DeviceTensor
from dmlvk.torch.lowering import lowered
from dmlvk.torch.residency import Lying, Residency, Resident, check_argument, reference
from dmlvk.torch.types import from_numpy

if TYPE_CHECKING:
    from dmlvk.device import Device


class DevicePart(torch.nn.Module):
    """A part of a graph on the device.

    Weights are bound once, and known again as :class:`Residency` knows tensors. What follows from lasting ones alone is
    computed once, until one of them changes. Other inputs have memory of the part's own, which every run uploads,
    unless they lie on the device already; results have new memory in every call.

    While the device computes, the host compares the contents of what was on the device before the call: where one has
    changed unseen, it is uploaded, and all is computed again. Where that happened in a call, the next one compares
    first.

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
        self._known: dict[int, Resident] = {}  # weights that are bound, by their places
        self._owners: dict[int, weakref.ref[Any]] = {}  # of those
        self._compares_first = False
        self._inputs: dict[int, TensorMemory | Buffer] = {}
        self._scratch = [device.create_buffer(size) for size in self._compiled.temporary_pages]
        self._memory: list[BoundMemory] = []  # one, unless it must be bound anew
        self._read = [
            (BindingKind.OUTPUT, index)
            for index, is_unread in zip(self._outputs, self._unread, strict=True)
            if index is not None and not is_unread
        ]

    def forward(self, *tensors: Any) -> Any:
        """Runs it.

        Raises:
            InvalidArgumentError: when a tensor has another shape or type than the graph was compiled for.
        """
        with self._lock:
            lying = self._lying(tensors)
            has_changed = self._compares_first and self._residency.refresh(lying)
            made = self._run(tensors, lying)
            if not self._compares_first and self._residency.refresh(lying):
                has_changed = True
                made = self._run(tensors, lying, uploads=False)
            self._compares_first = has_changed
        results = [self._result(number, made) for number in range(len(self._examples))]
        return results[0] if self._is_single else results

    def _lying(self, tensors: Sequence[torch.Tensor]) -> Lying:
        """What lies on the device before a call."""
        used = {id(tensor): tensor for tensor in (tensors[argument] for argument in self._arguments)}
        known = ((tensor, self._residency.known(tensor)) for tensor in used.values())
        return {id(tensor): (tensor, resident) for tensor, resident in known if resident is not None}

    def _run(self, tensors: Sequence[torch.Tensor], lying: Lying, *, uploads: bool = True) -> dict[int, TensorMemory]:
        """Hands it to the device; returns where results will be, without waiting for them.

        Args:
            tensors: the arguments.
            lying: those that lie on the device.
            uploads: whether the part's own memory is written.
        """
        others = self._taken(tensors, lying, uploads=uploads)
        memory = self._memory[0] if self._memory else self._bound()
        self._memory[:] = [memory]
        made = self._new()
        others.update(((BindingKind.OUTPUT, number), array) for number, array in made.items())
        self._device.arrays.run_again(self._compiled, memory, others, self._read)
        return made

    def _taken(
        self, tensors: Sequence[torch.Tensor], lying: Lying, *, uploads: bool
    ) -> dict[tuple[BindingKind, int], TensorMemory]:
        """Brings to the device what is not there; gives what lies in memory that is not the part's."""
        others: dict[tuple[BindingKind, int], TensorMemory] = {}
        inputs = [(number, tensors[argument]) for number, argument in enumerate(self._arguments)]
        lasting = self._weights if self._are_lasting else range(len(inputs))  # the backward graph reads the rest, too
        missing = [tensor for number, tensor in inputs if id(tensor) not in lying and number in lasting]
        there = {id(tensor): resident for tensor, resident in lying.values()}
        there |= zip(map(id, missing), self._residency.residents(missing), strict=True)
        self._take_weights({n: (tensor, there[id(tensor)]) for n, tensor in inputs if n in self._weights})
        for number, tensor in inputs:
            if number in self._weights:
                continue
            resident = there.get(id(tensor))
            if resident is None:
                if uploads:
                    self._upload(number, tensor)
            else:
                self._check(number, resident.array.data_type, resident.array.shape)
                others[BindingKind.INPUT, number] = resident.array
        return others

    def _take_weights(self, weights: Mapping[int, tuple[torch.Tensor, Resident]]) -> None:
        """Binds weights that are new or have changed, and has computed what follows from them alone."""
        taken = {number: each for number, each in weights.items() if self._known.get(number) is not each[1]}
        if not taken:
            return
        for number, (_, resident) in taken.items():
            self._check(number, resident.array.data_type, resident.array.shape)
            if self._inputs.get(number) is not resident.array:
                self._memory.clear()
            self._known.pop(number, None)  # until what follows from it is computed
            self._inputs[number] = resident.array
        if self._are_lasting:
            lies = {n: weight for n in self._weights if isinstance(weight := self._inputs[n], TensorMemory)}
            self._compiled.prepare({n: (weight.storage.allocation, weight.offset) for n, weight in lies.items()})
        for number, (tensor, resident) in taken.items():
            self._known[number] = resident
            self._owners[number] = reference(tensor, self._forgets(number))

    def _forgets(self, number: int) -> Callable[[object], None]:
        """For when a weight is gone: its memory is not kept for the part."""
        inputs, memory, known = self._inputs, self._memory, self._known

        def forget(_: object) -> None:
            inputs.pop(number, None)
            known.pop(number, None)
            memory.clear()

        return forget

    def _upload(self, number: int, tensor: torch.Tensor) -> None:
        """Writes an input into memory of the part's own."""
        values = self._residency.host_values(tensor)
        self._check(number, checked_data_type(values.dtype, "dmlvk.torch"), values.shape)
        buffer = self._inputs.get(number)
        if not isinstance(buffer, Buffer):
            buffer = self._inputs[number] = self._device.create_buffer(self._compiled.inputs[number].size_in_bytes)
            self._memory.clear()
        buffer.upload(values)

    def _check(self, number: int, data_type: DataType, shape: tuple[int, ...]) -> None:
        wanted = self._compiled.input_tensors[number]
        assert wanted is not None  # a graph's inputs are never absent
        check_argument(self._arguments[number], data_type, shape, wanted.data_type, wanted.sizes)

    def _bound(self) -> BoundMemory:
        """Where everything is that is the same in many calls."""
        locations: dict[tuple[BindingKind, int], TensorMemory | BufferBinding] = {
            (BindingKind.INPUT, number): memory if isinstance(memory, TensorMemory) else BufferBinding(memory)
            for number, memory in self._inputs.items()
        }
        locations |= {
            (BindingKind.TEMPORARY, number): BufferBinding(buffer) for number, buffer in enumerate(self._scratch)
        }
        uploads = [memory for memory in self._inputs.values() if isinstance(memory, Buffer)]
        return self._device.arrays.bound(locations, uploads)

    def _new(self) -> dict[int, TensorMemory]:
        """Memory for the results; those that stay on the device lie together."""
        pool, made, together = self._device.arrays.pool, {}, []
        for number, is_unread in zip(self._outputs, self._unread, strict=True):
            if number is None or number in made:
                continue
            if is_unread:
                together.append(number)
            else:
                tensor, size = self._tensor(number)
                made[number] = TensorMemory(self._device, Storage(pool, size), tensor)
        sizes = [-(-self._tensor(number)[1] // RESOURCE_ALIGNMENT) * RESOURCE_ALIGNMENT for number in together]
        is_one = sum(sizes) <= self._device.info.limits.largest_buffer
        shared = Storage(pool, sum(sizes)) if is_one and together else None
        offset = 0
        for number, size in zip(together, sizes, strict=True):
            tensor = self._tensor(number)[0]
            if shared is None:
                made[number] = TensorMemory(self._device, Storage(pool, size), tensor)
            else:
                made[number] = TensorMemory(self._device, shared, tensor, offset, is_whole=False)
                offset += size
        return made

    def _tensor(self, number: int) -> tuple[TensorDesc, int]:
        point = self._compiled.outputs[number]
        assert point.tensor is not None  # results are never absent
        return point.tensor, point.size_in_bytes

    def _result(self, number: int, arrays: dict[int, TensorMemory]) -> Any:
        example, index = self._examples[number], self._outputs[number]
        if index is None or not isinstance(example, torch.Tensor):
            return example
        if self._unread[number]:
            tensor: torch.Tensor = DeviceTensor(arrays[index], example)
        else:
            tensor = from_numpy(arrays[index].numpy(), example)
        self._residency.keep(tensor, arrays[index])
        return tensor


def _example(item: Any) -> Any:
    """A tensor of the type, shape and strides of a node's result, without memory; what is no tensor as it is."""
    value = item.meta["val"] if isinstance(item, Node) else item
    if not isinstance(value, torch.Tensor):
        return value
    shape, strides = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
