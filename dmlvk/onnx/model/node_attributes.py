"""A node's attributes, with what its operator's definition says of those that are not given."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper


class NodeAttributes:
    """What a node is and has beside its inputs and outputs.

    Args:
        proto: the node.
        schema: what ONNX says of its operator.

    Attributes:
        proto: the same.
        op_type: the operator.
        version: since which version of its domain that has been so.
    """

    def __init__(self, proto: onnx.NodeProto, schema: onnx.defs.OpSchema | None) -> None:
        self.proto = proto
        self.op_type = proto.op_type
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
        """Whether the node itself has an attribute."""
        return name in self._given

    def integer(self, name: str, default: int = 0) -> int:
        """An INT attribute."""
        value = self.attribute(name)
        return default if value is None else int(value)

    def real(self, name: str, default: float = 0.0) -> float:
        """A FLOAT attribute."""
        value = self.attribute(name)
        return default if value is None else float(value)

    def text(self, name: str, default: str = "") -> str:
        """A STRING attribute."""
        value = self.attribute(name)
        return default if value is None else bytes(value).decode(errors="replace")

    def list(self, name: str) -> list[int] | None:
        """An INTS attribute."""
        value = self.attribute(name)
        return None if value is None else [int(number) for number in value]
