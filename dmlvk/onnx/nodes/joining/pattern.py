"""What patterns of nodes look at: who writes and who reads a value, and which numbers are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from dmlvk.onnx.model.loading import Step

JOINED = "dmlvk.joined"  # The domain of joined nodes: dmlvk's own

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)


@dataclasses.dataclass(frozen=True, eq=False)
class Joined(Step):
    """A node that stands for several."""

    body: tuple[Step, ...] = ()  # the nodes, in order; the last one gives the result


class Nodes:
    """The nodes of a graph.

    Args:
        shown: values that must be there whoever reads them.
    """

    def __init__(self, steps: Sequence[Step], constants: Mapping[str, Any], shown: Collection[str]) -> None:
        self._constants = constants
        self._shown = set(shown)
        self._writers = {name: step for step in steps for name in step.proto.output if name}
        self._readers: dict[str, list[Step]] = {}
        for step in steps:
            for name in step.reads:
                self._readers.setdefault(name, []).append(step)

    def writer(self, name: str, *op_types: str) -> Step | None:
        """The node that gives a value, where it is one of these operators of ONNX with one result."""
        step = self._writers.get(name)
        if step is None or step.domain or step.proto.op_type not in op_types or len(step.proto.output) != 1:
            return None
        return step

    def reader(self, name: str, *op_types: str) -> Step | None:
        """The only node that reads a value, where it is one of these operators of ONNX with one result."""
        readers = self._readers.get(name, [])
        if len(readers) != 1 or name in self._shown:
            return None
        return self.writer(readers[0].proto.output[0], *op_types) if len(readers[0].proto.output) == 1 else None

    def has_one_reader(self, name: str) -> bool:
        """Whether no two nodes read a value, nor a node and whoever is shown it."""
        return len(self._readers.get(name, [])) + (name in self._shown) <= 1

    def is_constant(self, name: str) -> bool:
        return isinstance(self._constants.get(name), np.ndarray)

    def array(self, name: str) -> npt.NDArray[Any] | None:
        value = self._constants.get(name)
        return value if isinstance(value, np.ndarray) else None

    def constant_behind(self, name: str, op_type: str, within: list[Step]) -> tuple[str, str]:
        """What a value is multiplied by, or added to, where it is known already; and the name of the result.

        Args:
            op_type: ``"Mul"`` or ``"Add"``, of the only node that reads it.
        """
        step = self.reader(name, op_type)
        if step is None or step.proto.input[0] == step.proto.input[1]:
            return "", name
        other = step.proto.input[1] if step.proto.input[0] == name else step.proto.input[0]
        if not self.is_constant(other):
            return "", name
        within.append(step)
        return other, str(step.proto.output[0])

    def is_filled(self, name: str, number: float) -> bool:
        """Whether a value is known to be one number everywhere."""
        value = self._constants.get(name)
        return isinstance(value, np.ndarray) and value.size > 0 and bool((value == number).all())

    def number(self, name: str) -> float | None:
        """A known value of one element, as a number; ``None``: it is none."""
        value = self._constants.get(name)
        if not isinstance(value, np.ndarray) or value.size != 1 or value.dtype.kind not in "fiu":
            return None
        return float(value.reshape(-1)[0])

    def is_number(self, name: str, *wanted: float) -> bool:
        """Whether a value is known to be one of these numbers, as exporters round them to FLOAT16."""
        found = self.number(name)
        return found is not None and any(abs(found - number) <= 2.0**-10 * abs(number) for number in wanted)

    def integers(self, name: str) -> list[int] | None:
        value = self._constants.get(name)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or value.size > 8:
            return None
        return [int(number) for number in value.reshape(-1)]

    def with_number(self, step: Step) -> tuple[str, float] | None:
        """The operand of a node of two that is no known number, and the one that is."""
        first, second = step.proto.input[:2]
        for operand, other in ((first, second), (second, first)):
            number = self.number(other)
            if number is not None and self.number(operand) is None:
                return operand, number
        return None

    def factors(self, name: str, within: list[Step], most: int = 4) -> list[str]:
        """The factors of a product of products; the nodes that multiply are added to a list."""
        step = self.writer(name, "Mul")
        if step is None or most < 2:
            return [name]
        within.append(step)
        first = self.factors(step.proto.input[0], within, most - 1)
        return first + self.factors(step.proto.input[1], within, most - len(first))

    def uncast(self, name: str, within: list[Step]) -> str:
        """A value before it became another type of floats; the node that did it is added to a list."""
        step = self.writer(name, "Cast")
        if step is None or attribute(step, "to") not in _FLOATS:
            return name
        within.append(step)
        return str(step.proto.input[0])

    def join(self, op_type: str, inputs: Sequence[str], body: Iterable[Step], **attributes: Any) -> Joined | None:
        """A node in the place of others; ``None`` where more than their last one's result is needed elsewhere.

        Args:
            body: the nodes, in any order.
            attributes: of the node; those that are ``None`` are left out.
        """
        members = {step.index: step for step in body}
        inside = {name for step in members.values() for name in step.proto.output}
        # The last one is what no other one reads: indices need not rise in the order of the nodes.
        read = {name for step in members.values() for name in step.reads}
        ends = [step for step in members.values() if not read & set(step.proto.output)]
        if len(ends) != 1 or min(members, default=-1) < 0 or inside & set(inputs):
            return None
        end = ends[0]
        for step in members.values():
            for name in step.proto.output:
                readers = self._readers.get(name, [])
                if step is not end and (name in self._shown or any(r.index not in members for r in readers)):
                    return None
        given = {name: value for name, value in attributes.items() if value is not None}
        name = end.proto.name or end.proto.output[0]
        proto = helper.make_node(op_type, list(inputs), [end.proto.output[0]], name=name, domain=JOINED, **given)
        reads = tuple(dict.fromkeys(name for name in inputs if name))
        return Joined(end.index, proto, None, reads, body=_in_order(list(members.values())))


def attribute(step: Step, name: str, default: Any = None) -> Any:
    found = next((item for item in step.proto.attribute if item.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def _in_order(steps: list[Step]) -> tuple[Step, ...]:
    order: list[Step] = []
    there: set[str] = set()
    written = {name for step in steps for name in step.proto.output}
    while steps:
        ready = [step for step in steps if all(name in there or name not in written for name in step.reads)]
        order += ready
        there |= {name for step in ready for name in step.proto.output}
        steps = [step for step in steps if step not in ready]
    return tuple(order)
