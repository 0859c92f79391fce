"""A node's attributes, with what its operator's definition says of those that are not given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import onnx
from onnx import AttributeProto, helper


def subgraphs(proto: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


class NodeAttributes:
    """What a node is and has beside its inputs and outputs."""

    refusal: ClassVar[type[Exception]] = ValueError
    """What is raised of an attribute of another type than its operator's."""

    def __init__(self, proto: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> None:
        self.proto = proto  # the same
        self.op_type = proto.op_type  # the operator
        # since which version of its domain that has been so
        self.version = 1 if schema is None else schema.since_version
        self._schema = schema
        self._given = {attribute.name: attribute for attribute in proto.attribute}

    def attribute(self, name: str) -> Any:
        """An attribute's value; what the operator's definition has as default; else ``None``."""
        if name in self._given:
            return helper.get_attribute_value(self._given[name])
        known = None if self._schema is None else self._schema.attributes.get(name)
        if known is not None and known.default_value.type != onnx.AttributeProto.UNDEFINED:
            return helper.get_attribute_value(known.default_value)
        return None

    def is_given(self, name: str) -> bool:
        return name in self._given

    def integer(self, name: str, default: int = 0) -> int:
        value = self._of_type(name, AttributeProto.INT)
        return default if value is None else int(value)

    def real(self, name: str, default: float = 0.0) -> float:
        value = self._of_type(name, AttributeProto.FLOAT, AttributeProto.INT)
        return default if value is None else float(value)

    def text(self, name: str, default: str = "") -> str:
        value = self._of_type(name, AttributeProto.STRING)
        return default if value is None else bytes(value).decode(errors="replace")

    def list(self, name: str) -> list[int] | None:
        value = self._of_type(name, AttributeProto.INTS)
        return None if value is None else [int(number) for number in value]

    def reals(self, name: str) -> Sequence[float]:
        """A FLOATS attribute; none of them where it is not given."""
        return [float(number) for number in self._of_type(name, AttributeProto.FLOATS, AttributeProto.INTS) or ()]

    def texts(self, name: str) -> Sequence[str]:
        """A STRINGS attribute; none of them where it is not given."""
        return [bytes(text).decode(errors="replace") for text in self._of_type(name, AttributeProto.STRINGS) or ()]

    def _of_type(self, name: str, *types: int) -> Any:
        """An attribute's value, of a type that ONNX checks where it has a definition of the operator only."""
        given = self._given.get(name)
        if given is not None and given.type not in types:
            names = [AttributeProto.AttributeType.Name(kind) for kind in (*types[:1], given.type)]
            raise self.refusal(f"the attribute {name!r} must be {names[0]}; got {names[1]}")
        return self.attribute(name)
