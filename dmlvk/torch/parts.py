"""Parts of a program on the device: planned once for all sizes that are planned alike, bound once, and run."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch.fx import GraphModule, Node

from dmlvk.arrays.memory_pool import Storage
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.datatypes import DataType, checked_data_type
from dmlvk.dynamic.sizes import FEWEST, Guards, is_dynamic
from dmlvk.errors import DeviceRemovedError, DmlError
from dmlvk.graphs.launching import Lies, PlaceNumber
from dmlvk.graphs.network import network
from dmlvk.graphs.plan import Plan, open_sizes
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.compilation import RESOURCE_ALIGNMENT
from dmlvk.running.bound import Bound
from dmlvk.support.recent import Recent
from dmlvk.tensors import TensorDesc
from dmlvk.torch.lazy import DeviceTensor
from dmlvk.torch.lowering import NotLowered, OpenArgument, OpenFloat, described
from dmlvk.torch.residency import Lying, Residency, Resident, check_argument
from dmlvk.torch.sizes import NoNumber, Shown, Sizes, is_computed, terms_of
from dmlvk.torch.types import DATA_TYPES, from_numpy

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.runtime.kompute import Recording

_MOST_PLANS = 64  # Plans that are kept; those not used for longest go first

_MOST_RESULTS = 64  # Sets of sizes for which a plan keeps its results' shapes

_Shaped: TypeAlias = tuple[list[Any], Sequence[Any], list[tuple[int, TensorDesc, bool]]]
"""Results, tensors without memory and numbers; of what is taken the shapes, and the numbers themselves; and of what the
device gives the number of the output, its tensor, and whether only other graphs read it."""


class DevicePart(torch.nn.Module):
    """A part of a graph on the device.

    Weights are bound once, and known again as :class:`Residency` knows tensors. What follows from lasting ones alone is
    computed once, until one of them changes. Other inputs have memory of the part's own, which every run uploads,
    unless they lie on the device already; results have new memory in every call.

    While the device computes, the host compares the contents of what was on the device before the call: where one has
    changed unseen, it is uploaded, and all is computed again. Where that happened in a call, the next one compares
    first.

    Raises:
        NotLowered: with a node that cannot be computed, for the sizes that it was traced with.
    """

    def __init__(
        self,
        device: Device,
        residency: Residency,
        module: GraphModule,  # nodes that all have a lowering
        weights: Collection[int],  # those of its arguments, by their places, that are the same tensors in most calls
        *,
        are_lasting: bool,
        # those of its results, by their places, that only other graphs read: they stay on the device until something
        # else does
        unread: Collection[int] = (),
        # whether sizes that were traced open are; there is a plan for all that are planned alike
        is_open: bool = False,
    ) -> None:
        super().__init__()
        self._device, self._residency, self._module = device, residency, module
        self._weights, self._are_lasting, self._unread = weights, are_lasting, unread
        self._lock = threading.Lock()
        placeholders = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
        self._sources = _sources(placeholders) if is_open else {}
        self._plans = [self._planned(tuple(_hint(placeholders, source) for source in self._sources.values()))]
        if not is_open:
            del self._module  # nothing is planned later

    def forward(self, *arguments: Any) -> Any:
        """Runs it.

        Raises:
            InvalidArgumentError: when a tensor has another shape or type than the graph was compiled for.
        """
        values = tuple(
            int(arguments[index] if axis is None else arguments[index].shape[axis])
            for index, axis in self._sources.values()
        )
        with self._lock:
            found = next((plan for plan in self._plans if plan.is_for(values)), None)
            if found is None:
                found = self._planned(values)
                self._plans.append(found)
                del self._plans[:-_MOST_PLANS]
            made = found.run(values, arguments)
        return found.results(values, made)

    def _planned(self, values: tuple[int, ...]) -> _PartPlan:
        return _PartPlan(
            self._device,
            self._residency,
            self._module,
            dict(zip(self._sources, values, strict=True)),
            self._weights,
            are_lasting=self._are_lasting,
            unread=self._unread,
        )


def _sources(examples: Sequence[Any]) -> dict[Any, tuple[int, int | None]]:
    """Where each size that is needed is read: an argument's place, and an axis of it, ``None``: it is a number."""
    found: dict[Any, tuple[int, int | None]] = {}
    for index, example in enumerate(examples):
        if isinstance(example, torch.SymInt):
            found.setdefault(terms_of(example), (index, None))
        elif isinstance(example, torch.Tensor):
            for axis, size in enumerate(example.shape):
                if isinstance(size, torch.SymInt):
                    found.setdefault(terms_of(size), (index, axis))
    symbols = {terms for terms in found if terms.is_Symbol}
    return {
        terms: at
        for terms, at in found.items()
        if terms.is_Symbol or not (terms.free_symbols <= symbols and is_computed(terms))
    }


def _hint(placeholders: Sequence[Any], source: tuple[int, int | None]) -> int:
    """A size of those that the module was traced with."""
    value = placeholders[source[0]]
    size = value if source[1] is None else value.shape[source[1]]
    hint = size.node.hint
    if hint is None:
        raise NotLowered("a size that depends on the data")
    return int(hint)


class _PartPlan:
    """A plan for some sizes and all others for which its guards hold."""

    def __init__(
        self,
        device: Device,
        residency: Residency,
        module: GraphModule,
        values: Mapping[Any, int],
        weights: Collection[int],
        *,
        are_lasting: bool,
        unread: Collection[int],
    ) -> None:
        self._device, self._residency, self._are_lasting = device, residency, are_lasting
        self._guards = Guards(tells_multiples=not device.target.is_cpu)
        self._is_open = [value >= FEWEST for value in values.values()]
        self._fixed = [None if value >= FEWEST else value for value in values.values()]
        self._symbols = list(values)
        opened, offsets = open_sizes(self._guards, self._opened(tuple(values.values()))) if values else ([], [])
        self._unused = (0,) * len(offsets)
        numbers = iter(opened)
        sizes = Sizes({terms: next(numbers) if value >= FEWEST else value for terms, value in values.items()})
        try:
            made = described(module, device, sizes)
            if not values and not all(isinstance(argument, int) for argument in made.arguments):
                raise NotLowered("a number that is not known before a run")
            desc, _ = made.graph.described(made.outputs)
            self._arguments = made.arguments
            self._weights = [n for n, argument in enumerate(made.arguments) if argument in weights]
            lasting = self._weights if are_lasting else ()
            guards = self._guards if values else None
            self._plan = Plan(device, network(desc, device), device.own_flags, guards, offsets, lasting_inputs=lasting)
        except DeviceRemovedError:
            raise
        except (DmlError, NoNumber) as error:
            raise NotLowered(str(error)) from error
        given = next(iter(reversed(module.graph.nodes))).args[0]
        self._is_single = isinstance(given, Node)
        shown = [
            sizes.shown(item.meta["val"] if isinstance(item, Node) else item)
            for item in ([given] if isinstance(given, Node) else given)
        ]
        indices = {name: index for index, name in enumerate(made.outputs)}
        self._outputs = [indices.get(f"output {number}") for number in range(len(shown))]
        self._unread = frozenset(unread)
        self._note_numbers(module, shown, sizes)
        places = [(BindingKind.INPUT, number) for number in range(len(made.arguments))]
        places += [(BindingKind.OUTPUT, number) for number in range(len(made.outputs))]
        self._bound = Bound(device, self._plan, (), places)
        self._tensors = {n: argument for n, argument in enumerate(self._arguments) if isinstance(argument, int)}
        self._lasting = self._weights if are_lasting else list(self._tensors)  # the backward graph reads the rest, too
        self._inputs = [number for number in range(len(self._arguments)) if number not in self._weights]
        self._read = [
            (BindingKind.OUTPUT, index)
            for number, index in enumerate(self._outputs)
            if index is not None and number not in self._unread
        ]
        self._uploaded: dict[int, Buffer] = {}  # memory for inputs that do not lie on the device
        self._known: list[weakref.ref[Resident]] = []  # weights that are bound
        self._compares_first = False
        self._examples: Recent[tuple[int, ...], _Shaped] = Recent(_MOST_RESULTS)

    def _note_numbers(self, module: GraphModule, shown: Sequence[Any], sizes: Sizes) -> None:
        """Notes how the shapes of results and inputs, and numbers among them, follow from sizes."""
        self._kinds = [item.dtype if isinstance(item, Shown) else None for item in shown]
        self._others = [OpenFloat(terms_of(item)) if isinstance(item, torch.SymFloat) else item for item in shown]
        floats = [argument.number for argument in self._arguments if isinstance(argument, OpenArgument)]
        for number in (*floats, *self._others):
            known = set(self._symbols)
            if isinstance(number, OpenFloat) and number.argument is None and number.terms.free_symbols - known:
                raise NotLowered(f"the number {number.terms} follows from what is not known before a run")
        numbers_of = [
            (item.shape, item.strides) if isinstance(item, Shown) else item if is_dynamic(item) else 0
            for item in self._others
        ]
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        taken = [
            sizes.shown(placeholders[argument].meta["val"]) if isinstance(argument, int) else argument.number
            for argument in self._arguments
        ]
        self._types = [_type_of(item) for item in taken]
        inputs = [
            (item.shape or (1,)) if isinstance(item, Shown) else 0 if isinstance(item, OpenFloat) else item
            for item in taken
        ]
        self._numbers_of = self._guards.function((tuple(numbers_of), tuple(inputs)))
        self._test = self._guards.test()

    def is_for(self, values: Sequence[int]) -> bool:
        for fixed, value in zip(self._fixed, values, strict=True):
            if value < FEWEST if fixed is None else value != fixed:
                return False
        return bool(self._test(*self._opened(values), *self._unused))

    def _opened(self, values: Sequence[int]) -> tuple[int, ...]:
        return tuple(value for value, is_open in zip(values, self._is_open, strict=True) if is_open)

    def run(self, values: tuple[int, ...], arguments: Sequence[Any]) -> dict[int, TensorMemory]:
        """Uploads, and runs; returns where the results will be, without waiting for them."""
        used = {id(arguments[argument]): arguments[argument] for argument in self._tensors.values()}
        known = [(tensor, self._residency.known(tensor)) for tensor in used.values()]
        lying = {id(tensor): (tensor, resident) for tensor, resident in known if resident is not None}
        has_changed = self._compares_first and self._residency.refresh(lying)
        made = self._submit(values, arguments, lying)
        if not self._compares_first and self._residency.refresh(lying):
            has_changed = True
            made = self._submit(values, arguments, lying, uploads=False)
        self._compares_first = has_changed
        return made

    def _submit(
        self, values: tuple[int, ...], arguments: Sequence[Any], lying: Lying, *, uploads: bool = True
    ) -> dict[int, TensorMemory]:
        """Hands it to the device with weights as they are, and results in new memory.

        Args:
            lying: those that lie on the device.
        """
        sizes = self._opened(values)
        _, shapes, outputs = self._shaped(values)
        tensors = {number: arguments[argument] for number, argument in self._tensors.items()}
        missing = [tensors[number] for number in self._lasting if id(tensors[number]) not in lying]
        there = {id(tensor): resident for tensor, resident in lying.values()}
        there |= zip(map(id, missing), self._residency.residents(missing), strict=True)
        self._take_weights(sizes, [there[id(tensors[number])] for number in self._weights], shapes)
        arrays: dict[PlaceNumber, TensorMemory] = {}
        written: dict[PlaceNumber, Lies] = {}
        for number in self._inputs:
            resident = there.get(id(tensors[number])) if number in tensors else None
            if resident is not None:
                self._check(number, resident, shapes)
                arrays[BindingKind.INPUT, number] = resident.array
                continue
            if uploads:
                self._buffer(number).upload(self._contents(number, shapes[number], values, arguments))
            written[BindingKind.INPUT, number] = self._uploaded[number].allocation, 0
        made = self._new(outputs)
        arrays.update(((BindingKind.OUTPUT, number), array) for number, array in made.items())

        def recording() -> Recording:
            lies = {place: (array.storage.allocation, array.offset) for place, array in arrays.items()}
            sent = [allocation for allocation, _ in written.values()]
            fetched = [lies[place][0] for place in self._read]
            return self._bound.recording(sizes, written | lies, None, sent, fetched)

        self._device.engine.submit_prepared(recording)
        return made

    def _take_weights(self, sizes: tuple[int, ...], residents: list[Resident], shapes: Sequence[Any]) -> None:
        """Binds weights, and has computed what follows from lasting ones alone, where they are new or have changed."""
        self._bound.lay_out(sizes)
        if self._plan.is_prepared and [known() for known in self._known] == residents:
            return
        for number, resident in zip(self._weights, residents, strict=True):
            self._check(number, resident, shapes)
        lies = {
            number: (resident.array.storage.allocation, resident.array.offset)
            for number, resident in zip(self._weights, residents, strict=True)
        }
        self._known = []  # until what follows from them is computed
        self._bound.bind(lies)
        if self._are_lasting or not self._plan.is_prepared:
            assert self._bound.layout is not None  # made above
            self._plan.prepare(self._bound.layout, lies)
        self._known = [weakref.ref(resident) for resident in residents]

    def _buffer(self, number: int) -> Buffer:
        assert self._bound.layout is not None  # these sizes have one
        size = self._plan.input_bytes(self._bound.layout)[number]
        buffer = self._uploaded.get(number)
        if buffer is None or buffer.size_in_bytes < size:
            buffer = self._uploaded[number] = self._device.create_buffer(size, zeroed=False)
        return buffer

    def _contents(self, number: int, shape: Any, values: Sequence[int], arguments: Sequence[Any]) -> Any:
        """What an input is to be: an argument, or a number that follows from sizes."""
        argument = self._arguments[number]
        if isinstance(argument, int):
            contents = self._residency.host_values(arguments[argument])
            data_type = checked_data_type(contents.dtype, "dmlvk.torch")
            check_argument(argument, data_type, contents.shape, self._types[number], shape)
            return contents
        if not isinstance(argument.number, OpenFloat):
            return np.array([shape], np.int64)
        place = argument.number.argument
        found = self._float(argument.number, values) if place is None else float(arguments[place])
        with np.errstate(over="ignore"):
            return np.array([found], np.float32)

    def _float(self, number: OpenFloat, values: Sequence[int]) -> float:
        return float(number.terms.subs(dict(zip(self._symbols, values, strict=True))))

    def _check(self, number: int, resident: Resident, shapes: Sequence[Any]) -> None:
        array = resident.array
        check_argument(self._tensors[number], array.data_type, array.shape, self._types[number], shapes[number])

    def _shaped(self, values: tuple[int, ...]) -> _Shaped:
        found = self._examples.get(values)
        if found is None:
            made: list[Any] = []
            all_numbers, taken = self._numbers_of(*self._opened(values), *self._unused)
            for dtype, other, numbers in zip(self._kinds, self._others, all_numbers, strict=True):
                if dtype is not None:
                    made.append(torch.empty_strided(*numbers, dtype=dtype, device="meta"))
                else:
                    made.append(numbers if is_dynamic(other) else other)
            return self._examples.keep(values, (made, taken, self._described(made)))
        self._examples.move_to_end(values)
        return found

    def _described(self, examples: Sequence[Any]) -> list[tuple[int, TensorDesc, bool]]:
        """What the device gives: numbers of outputs, their tensors, and whether only other graphs read them."""
        return [
            (index, TensorDesc(DATA_TYPES[example.dtype], tuple(example.shape) or (1,)), number in self._unread)
            for number, (index, example) in enumerate(zip(self._outputs, examples, strict=True))
            if index is not None
        ]

    def _new(self, outputs: Sequence[tuple[int, TensorDesc, bool]]) -> dict[int, TensorMemory]:
        """Memory for the results; those that stay on the device lie together."""
        pool = self._device.arrays.pool
        made = {
            index: TensorMemory(self._device, Storage(pool, tensor.size_in_bytes), tensor)
            for index, tensor, is_unread in outputs
            if not is_unread
        }
        together = [(index, tensor) for index, tensor, is_unread in outputs if is_unread]
        if not together:
            return made
        sizes = [-(-tensor.size_in_bytes // RESOURCE_ALIGNMENT) * RESOURCE_ALIGNMENT for _, tensor in together]
        is_one = sum(sizes) <= self._device.info.limits.largest_buffer
        shared = Storage(pool, sum(sizes)) if is_one else None
        offset = 0
        for (index, tensor), size in zip(together, sizes, strict=True):
            if shared is None:
                made[index] = TensorMemory(self._device, Storage(pool, tensor.size_in_bytes), tensor)
            else:
                made[index] = TensorMemory(self._device, shared, tensor, offset, is_whole=False)
                offset += size
        return made

    def results(self, values: tuple[int, ...], arrays: Mapping[int, TensorMemory]) -> Any:
        """What the module gives, of arrays that :meth:`run` gave."""
        examples = self._shaped(values)[0]
        found = [self._result(number, example, values, arrays) for number, example in enumerate(examples)]
        return found[0] if self._is_single else found

    def _result(self, number: int, example: Any, values: tuple[int, ...], arrays: Mapping[int, TensorMemory]) -> Any:
        index = self._outputs[number]
        if isinstance(example, OpenFloat):
            return self._float(example, values)
        if index is None:
            return example
        if number in self._unread:
            tensor: torch.Tensor = DeviceTensor(arrays[index], example)
        else:
            tensor = from_numpy(arrays[index].numpy(), example)
        self._residency.keep(tensor, arrays[index])
        return tensor


def _type_of(taken: Any) -> DataType:
    """Of an input on the device: of a tensor, a floating-point number, an integer."""
    if isinstance(taken, Shown):
        return DATA_TYPES[taken.dtype]
    return DataType.FLOAT32 if isinstance(taken, OpenFloat) else DataType.INT64
