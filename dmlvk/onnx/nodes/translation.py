"""From nodes of a model to DirectML's operators: the table of translators, and what each of them works with."""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto

from dmlvk.onnx.model.node_attributes import NodeAttributes
from dmlvk.onnx.nodes.assembly import Assembly, New
from dmlvk.onnx.nodes.ranges import Range
from dmlvk.onnx.nodes.values import (
    DATA_TYPES,
    MOST_DIMENSIONS,
    Array,
    Awaited,
    Derived,
    Known,
    NeedsValue,
    NodeInputError,
    NotOnDevice,
    Tensor,
    Value,
    element_name,
    element_of,
    fix,
    shape_of,
)
from dmlvk.operators import OPERATORS, FusedActivation
from dmlvk.operators.declaration import OWN_OPERATORS

if TYPE_CHECKING:
    from dmlvk.device import Device

DMLVK, MICROSOFT = "dmlvk", "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

_MOST_SIZES = 64  # Elements of an input that may be sizes, scales or the like

Translator = Callable[["Node"], None]

BatchRule = Callable[[Any], bool]  # Whether a node treats each item of a batch by itself: a function of batch_rules.py

EmptyRule = Callable[[Any, Sequence[Any], Sequence[tuple[np.dtype[Any], tuple[int, ...]]]], list[Array] | None]
"""What a node gives where its first input has no elements, and results have some: a function of emptiness.py."""


@dataclasses.dataclass(frozen=True)
class Appending:
    """Where a node that appends to caches has what. Its outputs 1 and 2 are all keys and values, new ones behind."""

    past: tuple[int, int]  # its inputs of keys and values from before
    ends: int  # its input that says where sequences end; without a total, how many rows there are
    total: int | None = None  # its input that says how long the longest sequence is; ``None``: it has none
    is_optional: bool = False  # whether caches grow where ``ends`` is not given: then they have the rows that there are
    counts: int | None = None  # its input that says how many new tokens of each sequence count; ``None``: it has none
    # its input of new keys, which may have none: then it sees the caches of another node; ``None``: there is always one
    keys: int | None = None
    # its inputs that have a number for each key. Caches that grow beside one of them are appended to where the host
    # makes it, as wide as they are: else each length would be a plan of its own, where open sizes have few
    masks: tuple[int, ...] = ()

    def grows_in(self, given: Sequence[str], widened: Collection[str]) -> bool:
        """Whether caches grow, and are appended to, in a node with these inputs, some of which are widened masks."""
        is_given = self.ends < len(given) and given[self.ends]
        return self.is_optional and not is_given and all(name in widened for name in self.masks_in(given))

    def masks_in(self, given: Sequence[str]) -> tuple[str, ...]:
        return tuple(given[index] for index in self.masks if index < len(given) and given[index])


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translator as it is registered."""

    domain: str  # of the operator; empty for ONNX's own
    op_type: str  # its name
    since: int  # the version of the operator from which on this one holds, up to the next
    translate: Translator  # the function
    # DirectML's operators that the node becomes; those that only some nodes need are not among them
    operators: tuple[str, ...]
    note: str = ""  # what else a user should know
    batch: BatchRule | None = None  # says whether each item of a batch is treated by itself; ``None``: it is not
    # refuses inputs that contradict one another, before anything else looks at the node; ``None``: none does
    check: Translator | None = None
    # gives the results where inputs have no elements and results do; ``None``: somebody has to compute them
    empty: EmptyRule | None = None
    # the attribute that says along which axis the input 1 names parts of the input 0; empty: none does
    rows_along: str = ""
    # the input that says from which sequence each one takes keys, and that of how many; ``None``: none does
    beams: tuple[int, int] | None = None
    appends: Appending | None = None  # where it appends to caches, what it has where
    # whether further inputs may follow from the size of the batch, as its results' shapes tell then whether that is
    # right
    reads_sizes: bool = False

    @property
    def missing(self) -> str | None:
        """The first operator that this version of dmlvk does not have."""
        return next((name for name in self.operators if name not in OPERATORS and name not in OWN_OPERATORS), None)


TRANSLATIONS: dict[tuple[str, str], list[Translation]] = {}
"""All translators by domain and name, each list by rising version."""


def translates(
    *op_types: str,
    by: Sequence[str] = (),
    since: int = 1,
    domain: str = "",
    note: str = "",
    batch: BatchRule | None = None,
    check: Translator | None = None,
    empty: EmptyRule | None = None,
    rows_along: str = "",
    beams: tuple[int, int] | None = None,
    appends: Appending | None = None,
    reads_sizes: bool = False,
) -> Callable[[Translator], Translator]:
    """Registers a translator.

    Args:
        op_types: the names of the nodes that it translates.
        by: DirectML's operators that every such node needs.
        since: the first version of the operator that it knows.
        note: for the table of what is supported.
        batch: a rule of batch_rules.py, of ONNX's operators; without one, no batch that is too large runs in parts.
        check: as of :class:`Translation`.
        rows_along: as of :class:`Translation`.
    """

    def register(function: Translator) -> Translator:
        for op_type in op_types:
            facts = (batch, check, empty, rows_along, beams, appends, reads_sizes)
            record = Translation(domain, op_type, since, function, tuple(by), note, *facts)
            bisect.insort(TRANSLATIONS.setdefault((domain, op_type), []), record, key=lambda item: item.since)
        return function

    return register


def translation_of(domain: str, op_type: str, version: int) -> Translation | None:
    known = [item for item in TRANSLATIONS.get((domain, op_type), []) if item.since <= version]
    return known[-1] if known else None


def record_of(domain: str, op_type: str, version: int) -> Translation | None:
    """The same; for an older version that no translator knows, the first one that one does."""
    return translation_of(domain, op_type, version) or next(iter(TRANSLATIONS.get((domain, op_type), [])), None)


def tensor_of(value: Value, assembly: Assembly) -> Tensor:
    """A value on the device.

    Raises:
        NotOnDevice: when the device has no such type.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Awaited):
        raise NotOnDevice("an input is not computed yet")
    if isinstance(value, Derived):
        return assembly.derived(value)
    array = value.value
    element = element_of(array) if isinstance(array, np.ndarray) else None
    if element is None or not isinstance(array, np.ndarray):
        raise NotOnDevice(f"the device has no values of type {getattr(array, 'dtype', type(array).__name__)}")
    if array.size == 0:
        raise NotOnDevice("DirectML has no tensors without elements")
    return assembly.constant(array, element)


class Node(NodeAttributes):
    def __init__(
        self,
        proto: onnx.NodeProto,
        schema: onnx.defs.OpSchema | None,  # what ONNX says of its operator
        inputs: Sequence[Value | None],  # its inputs; ``None`` for an absent optional one
        # element type and shape of each output, as far as they follow from the inputs
        outputs: Sequence[tuple[int, tuple[int, ...]] | None],
        assembly: Assembly,
        # the activation that alone reads the first output, where there is one that can be fused
        following: FusedActivation | None = None,
        unused: Collection[str] = (),  # names of outputs that nothing reads
    ) -> None:
        super().__init__(proto, schema)
        self.assembly = assembly
        assembly.label = self.name
        self.results: dict[int, Tensor] = {}
        self.fused = False
        self._inputs = inputs
        self._outputs = outputs
        self._following = following
        self._unused = unused

    refusal = NotOnDevice

    @property
    def device(self) -> Device:
        return self.assembly.device

    # Inputs.

    @property
    def input_count(self) -> int:
        """How many inputs are listed, absent ones among them."""
        return len(self._inputs)

    def has(self, index: int) -> bool:
        return index < len(self._inputs) and self._inputs[index] is not None

    def value(self, index: int) -> Value:
        """An input.

        Raises:
            NotOnDevice: when it is absent.
        """
        value = self._inputs[index] if index < len(self._inputs) else None
        if value is None:
            raise NotOnDevice(f"input {index} is absent")
        return value

    def tensor(self, index: int) -> Tensor:
        return tensor_of(self.value(index), self.assembly)

    def tensors(self) -> list[Tensor]:
        return [self.tensor(index) for index in range(len(self._inputs))]

    def known(self, index: int) -> Array | None:
        value = self._inputs[index] if index < len(self._inputs) else None
        if isinstance(value, Derived):
            return value.fixed()
        return np.asarray(value.value) if isinstance(value, Known) and isinstance(value.value, np.ndarray) else None

    def array(self, index: int) -> Array:
        """The contents of an input, which decide what is computed.

        Raises:
            NeedsValue: when they are not known yet.
        """
        value = self.value(index)
        if isinstance(value, Derived):
            return value.fixed()
        if not isinstance(value, Known) or not isinstance(value.value, np.ndarray):
            raise NeedsValue(self.proto.input[index])
        return np.asarray(value.value)

    def integers(self, index: int) -> list[int]:
        value = self.value(index)
        if isinstance(value, Derived):
            return list(value.numbers.reshape(-1))
        return [int(number) for number in self.array(index).reshape(-1)]

    def element(self, index: int) -> int:
        value = self.value(index)
        if isinstance(value, (Tensor, Derived)):
            return value.element
        element = element_of(value.value) if isinstance(value, Known) and isinstance(value.value, np.ndarray) else None
        if element is None:
            raise NotOnDevice(f"the device does not have the type of input {index}")
        return element

    def shape(self, index: int) -> tuple[int, ...]:
        found = shape_of(self.value(index))
        if found is None:
            raise NotOnDevice(f"input {index} is no tensor")
        return found

    def axis(self, value: int, rank: int) -> int:
        """An axis that may be counted from the end.

        Raises:
            NotOnDevice: when there is no such axis.
        """
        if not -rank <= value < rank:
            raise NotOnDevice(f"the axis {value} is not among {rank} dimensions")
        return value % rank

    # Outputs.

    @property
    def output_count(self) -> int:
        return len(self.proto.output)

    def wants(self, index: int) -> bool:
        name = self.proto.output[index] if index < len(self.proto.output) else ""
        return bool(name) and name not in self._unused

    def inferred(self, index: int = 0) -> New:
        """An output, as ONNX's rules give its type and shape for the sizes of now: a plan is for these only.

        Raises:
            NeedsValue: when they may follow from the contents of an input.
            NotOnDevice: when they do not follow from what is known, or the device has no such tensor.
        """
        found = self._outputs[index] if index < len(self._outputs) else None
        if found is None:
            for name, value in zip(self.proto.input[1:], self._inputs[1:], strict=True):
                if isinstance(value, Tensor) and value.rank <= 1 and math.prod(value.shape) <= _MOST_SIZES:
                    raise NeedsValue(name)
            raise NotOnDevice(f"the shape of output {index} depends on the data")
        if found[0] not in DATA_TYPES:
            raise NotOnDevice(f"the device has no {element_name(found[0])}")
        if 0 in found[1]:
            raise NotOnDevice("DirectML has no tensors without elements")
        for value in self._inputs:
            fix(value, f"ONNX's rules give the shape of {self.name}")
        return New(*found)

    def set(self, tensor: Tensor, index: int = 0) -> None:
        self.results[index] = tensor

    def apply(self, operator: str, element: int | None = None, /, **members: Any) -> Tensor:
        """Adds an operator with one output, as :meth:`Assembly.add` does."""
        return self.assembly.add(operator, members, element)[0]

    def apply_all(self, operator: str, **members: Any) -> tuple[Tensor, ...]:
        return self.assembly.add(operator, members)

    @property
    def name(self) -> str:
        return self.proto.name or f"{self.op_type} {next(iter(self.proto.output), '')}"

    def packed(self, tensor: Tensor) -> Tensor:
        """The tensor in order and without gaps, copied where it is not."""
        if tensor.is_packed:
            return tensor
        if tensor.rank > MOST_DIMENSIONS:
            return self.packed(tensor.collapsed()).viewed(tensor.shape)
        return self.apply("ELEMENT_WISE_IDENTITY", input_tensor=tensor)

    def reshaped(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements in another shape, copied where that is needed."""
        return tensor.reshaped(shape) or self.packed(tensor).viewed(shape)

    def cast(self, tensor: Tensor, element: int) -> Tensor:
        if tensor.element == element:
            return tensor
        return self.apply("CAST", element, input_tensor=tensor)

    def scalar(self, value: float, element: int) -> Tensor:
        """A tensor of one element that is known, without dimensions."""
        return self.assembly.scalar(value, element)

    def activation(self) -> FusedActivation | None:
        """The activation that is to be computed with this node; from then on it counts as done."""
        self.fused = self._following is not None
        return self._following

    def check_element(self, index: int, *elements: int) -> None:
        if self.element(index) not in elements:
            raise NotOnDevice(f"the device does not compute this with {element_name(self.element(index))}")

    def check_range(self, index: int, role: str, least: int, end: int) -> None:
        """Asks each run to refuse numbers of an input that are below ``least``, or not below ``end``.

        Raises:
            NodeInputError: when they are known, and some are.
        """
        name, value = self.proto.input[index], self.value(index)
        found = Range(self.name, role, name, least, end)
        self.assembly.ranges.setdefault((name, least, end), found)
        if isinstance(value, Known) and (broken := found.broken(value.value)):
            raise NodeInputError(broken)


FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)  # The floating-point types that the device computes with
