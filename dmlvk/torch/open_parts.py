"""Parts of a program whose sizes are open: one plan for all sizes for which its guards hold."""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch.fx import GraphModule, Node

from dmlvk.datatypes import DataType, checked_data_type
from dmlvk.dynamic.sizes import FEWEST, Guards
from dmlvk.errors import DeviceRemovedError, DmlError
from dmlvk.graphs.dynamic import DynamicGraph, open_sizes
from dmlvk.kernels.program import BindingKind
from dmlvk.running.open_runs import OpenRuns
from dmlvk.torch.lowering import NotLowered, OpenArgument, OpenFloat, described
from dmlvk.torch.residency import Residency, Resident, check_argument
from dmlvk.torch.sizes import NoNumber, Shown, Sizes, is_computed, terms_of
from dmlvk.torch.types import DATA_TYPES, from_numpy

if TYPE_CHECKING:
    from dmlvk.device import Device

_MOST_PLANS = 64
"""Plans that are kept; those not used for longest go first."""

_MOST_RESULTS = 64
"""Sets of sizes for which a plan keeps its results' shapes."""

_Shaped: TypeAlias = tuple[list[Any], Sequence[Any]]
"""Results, tensors without memory and numbers; and of what is taken the shapes, and the numbers themselves."""


class OpenPart(torch.nn.Module):
    """A part of a graph with open sizes on the device: planned once for all sizes that are planned alike.

    Args:
        device: where it runs.
        residency: what lies there.
        module: nodes that all have a lowering.
        weights: those of its arguments, by their places, that are the same tensors in most calls.
        are_lasting: whether these seldom change.

    Raises:
        NotLowered: with a node that cannot be computed, for the sizes that it was traced with.
    """

    def __init__(
        self, device: Device, residency: Residency, module: GraphModule, weights: Collection[int], *, are_lasting: bool
    ) -> None:
        super().__init__()
        self._device, self._residency, self._module = device, residency, module
        self._weights = weights
        self._are_lasting = are_lasting
        self._lock = threading.Lock()
        self._sources = _sources([node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"])
        hints = tuple(_hint(module, source) for source in self._sources.values())
        self._plans: list[_OpenPlan] = [self._planned(hints)]

    def forward(self, *arguments: Any) -> Any:
        """Runs it."""
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
            results = found.run(values, arguments)
        return results

    def _planned(self, values: tuple[int, ...]) -> _OpenPlan:
        return _OpenPlan(
            self._device,
            self._residency,
            self._module,
            dict(zip(self._sources, values, strict=True)),
            self._weights,
            are_lasting=self._are_lasting,
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


def _hint(module: GraphModule, source: tuple[int, int | None]) -> int:
    """A size of those that the module was traced with."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    value = placeholders[source[0]].meta["val"]
    size = value if source[1] is None else value.shape[source[1]]
    hint = size.node.hint
    if hint is None:
        raise NotLowered("a size that depends on the data")
    return int(hint)


class _OpenPlan:
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
    ) -> None:
        self._device, self._residency, self._are_lasting = device, residency, are_lasting
        self._guards = Guards(tells_multiples=not device.target.is_cpu)
        self._is_open = [value >= FEWEST for value in values.values()]
        self._fixed = [None if value >= FEWEST else value for value in values.values()]
        opened, offsets = open_sizes(self._guards, [value for value in values.values() if value >= FEWEST])
        self._unused = (0,) * len(offsets)
        numbers = iter(opened)
        sizes = Sizes({terms: next(numbers) if value >= FEWEST else value for terms, value in values.items()})
        try:
            made = described(module, device, sizes)
            desc, _ = made.graph.described(made.outputs)
            self._arguments = made.arguments
            self._weights = [n for n, argument in enumerate(made.arguments) if argument in weights]
            lasting = self._weights if are_lasting else ()
            flags = device.own_flags
            graph = DynamicGraph(device, desc, flags, self._guards, offsets, fuse=True, lasting_inputs=lasting)
        except DeviceRemovedError:
            raise
        except (DmlError, NoNumber) as error:
            raise NotLowered(str(error)) from error
        given = next(iter(reversed(module.graph.nodes))).args[0]
        self._is_single = isinstance(given, Node)
        listed = [given] if isinstance(given, Node) else list(given)
        shown = [sizes.shown(item.meta["val"] if isinstance(item, Node) else item) for item in listed]
        self._kinds = [item.dtype if isinstance(item, Shown) else None for item in shown]
        floats = [argument.number for argument in made.arguments if isinstance(argument, OpenArgument)]
        self._others = [OpenFloat(terms_of(item)) if isinstance(item, torch.SymFloat) else item for item in shown]
        for number in (*floats, *self._others):
            if isinstance(number, OpenFloat) and number.argument is None and number.terms.free_symbols - set(values):
                raise NotLowered(f"the number {number.terms} follows from what is not known before a run")
        numbers_of = [
            (item.shape, item.strides) if isinstance(item, Shown) else 0 if isinstance(item, OpenFloat) else item or 0
            for item in self._others
        ]
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        taken = [
            sizes.shown(placeholders[argument].meta["val"]) if isinstance(argument, int) else argument.number
            for argument in made.arguments
        ]
        self._types = [_type_of(item) for item in taken]
        inputs = [
            (item.shape or (1,)) if isinstance(item, Shown) else 0 if isinstance(item, OpenFloat) else item
            for item in taken
        ]
        self._symbols = list(values)
        self._numbers_of = self._guards.function((tuple(numbers_of), tuple(inputs)))
        self._test = self._guards.test()
        self._uploads = [number for number in range(len(made.arguments)) if number not in self._weights]
        self._runs = OpenRuns(device, graph, self._uploads)
        self._known: list[weakref.ref[Resident]] = []
        self._compares_first = False
        self._examples: collections.OrderedDict[tuple[int, ...], _Shaped] = collections.OrderedDict()

    def is_for(self, values: Sequence[int]) -> bool:
        """Whether it is a plan for these sizes."""
        for fixed, value in zip(self._fixed, values, strict=True):
            if value < FEWEST if fixed is None else value != fixed:
                return False
        return bool(self._test(*self._opened(values), *self._unused))

    def _opened(self, values: Sequence[int]) -> tuple[int, ...]:
        return tuple(value for value, is_open in zip(values, self._is_open, strict=True) if is_open)

    def run(self, values: Sequence[int], arguments: Sequence[Any]) -> Any:
        """Uploads, runs, and copies the results to the host.

        As in parts of one size, contents are compared while the device computes, or before where they changed last
        time.
        """
        sizes = self._opened(values)
        examples, shapes = self._shaped(values)
        tensors = [arguments[self._place(number)] for number in self._weights]
        known = [(tensor, self._residency.known(tensor)) for tensor in tensors]
        lying = {id(tensor): (tensor, resident) for tensor, resident in known if resident is not None}
        has_changed = self._compares_first and self._residency.refresh(lying)
        contents = {number: self._contents(number, shapes[number], values, arguments) for number in self._uploads}
        self._submit(sizes, tensors, shapes, contents)
        if not self._compares_first and self._residency.refresh(lying):
            has_changed = True
            self._submit(sizes, tensors, shapes, contents)
        self._compares_first = has_changed
        index, results = 0, []
        for example in examples:
            if not isinstance(example, torch.Tensor):
                results.append(self._float(example, values) if isinstance(example, OpenFloat) else example)
                continue
            data_type = DATA_TYPES[example.dtype].numpy_dtype
            array = self._runs.buffers[BindingKind.OUTPUT, index].download(data_type, tuple(example.shape) or (1,))
            results.append(from_numpy(array, example))
            index += 1
        return results[0] if self._is_single else results

    def _submit(
        self,
        sizes: tuple[int, ...],
        tensors: Sequence[torch.Tensor],
        shapes: Sequence[Any],
        contents: Mapping[int, Any],
    ) -> None:
        """Hands it to the device with the weights as they are."""
        residents = self._residency.residents(tensors)
        for number, resident in zip(self._weights, residents, strict=True):
            self._check(number, resident.array.data_type, resident.array.shape, shapes[number])
        lies = {n: (r.array.storage.allocation, r.array.offset) for n, r in zip(self._weights, residents, strict=True)}
        have_changed = self._are_lasting and [known() for known in self._known] != residents
        self._known = []  # until what follows from them is computed
        recording = self._runs.recording(sizes, lies, have_changed=have_changed)
        self._known = [weakref.ref(resident) for resident in residents]
        for number, values in contents.items():
            self._runs.buffers[BindingKind.INPUT, number].upload(values)
        self._device.engine.submit(recording)

    def _place(self, number: int) -> int:
        """Which of the module's arguments an input is."""
        argument = self._arguments[number]
        assert isinstance(argument, int)  # a weight, or what is no number
        return argument

    def _contents(self, number: int, shape: Any, values: Sequence[int], arguments: Sequence[Any]) -> Any:
        """What an input is to be: an argument, or a number that follows from sizes."""
        argument = self._arguments[number]
        if isinstance(argument, int):
            contents = self._residency.host_values(arguments[argument])
            self._check(number, checked_data_type(contents.dtype, "dmlvk.torch"), contents.shape, shape)
            return contents
        if not isinstance(argument.number, OpenFloat):
            return np.array([shape], np.int64)
        place = argument.number.argument
        found = self._float(argument.number, values) if place is None else float(arguments[place])
        with np.errstate(over="ignore"):
            return np.array([found], np.float32)

    def _float(self, number: OpenFloat, values: Sequence[int]) -> float:
        """A number that follows from sizes."""
        return float(number.terms.subs(dict(zip(self._symbols, values, strict=True))))

    def _check(self, number: int, data_type: DataType, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
        check_argument(self._place(number), data_type, shape, self._types[number], expected)

    def _shaped(self, values: Sequence[int]) -> _Shaped:
        """What these sizes come to."""
        key = tuple(values)
        found = self._examples.get(key)
        if found is None:
            made: list[Any] = []
            all_numbers, taken = self._numbers_of(*self._opened(values), *self._unused)
            for dtype, other, numbers in zip(self._kinds, self._others, all_numbers, strict=True):
                if dtype is not None:
                    made.append(torch.empty_strided(*numbers, dtype=dtype, device="meta"))
                else:
                    made.append(other if other is None or isinstance(other, OpenFloat) else numbers)
            found = self._examples[key] = made, taken
            if len(self._examples) > _MOST_RESULTS:
                self._examples.popitem(last=False)
        self._examples.move_to_end(key)
        return found


def _type_of(taken: Any) -> DataType:
    """Of an input on the device: of a tensor, a floating-point number, an integer."""
    if isinstance(taken, Shown):
        return DATA_TYPES[taken.dtype]
    return DataType.FLOAT32 if isinstance(taken, OpenFloat) else DataType.INT64
