"""What DirectML's pages state of each operator, copied here as data; the declarations are held against it.

``*.json``: by operator the members in order, the inputs that may share their range with the output, the groups of
tensors that must agree, and by feature level what each tensor may be. Operators of which the same holds share an entry.

- A member is its kind and type, its name, and ``?`` where it may be absent: ``"input ScaleTensor?"``,
  ``"inputs InputTensors"`` for an array of tensors, ``"uint32_array Strides"`` for an attribute.
- ``support`` says for some tensors together, or for ``others``, or for all, the fewest and most dimensions and the data
  types: ``{"1_0": {"ATensor, BTensor": "4-5 FLOATS", "CTensor": "4-4 FLOAT32 or absent"}}``; ``_TYPES`` has words for
  several. It holds from its level up to the next one. The first one introduced the operator.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from dmlvk.datatypes import DataType

# DML_FEATURE_LEVEL, by number.
FEATURE_LEVELS = {label: 0x1000 * int(label[0]) + 0x100 * int(label[2]) for label in (
    *("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"),
)}  # fmt: skip

_TYPES = {"FLOATS": "FLOAT32 FLOAT16", "INTEGERS": "INT32 INT16 INT8 UINT32 UINT16 UINT8"}
_TYPES["INTEGERS64"] = "INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"

FUSABLE = [f"ACTIVATION_{name}" for name in (
    *("CELU", "ELU", "GELU", "HARD_SIGMOID", "IDENTITY", "LEAKY_RELU", "LINEAR", "PARAMETRIC_SOFTPLUS", "RELU"),
    *("SCALED_ELU", "SCALED_TANH", "SHRINK", "SIGMOID", "SOFTPLUS", "SOFTSIGN", "TANH", "THRESHOLDED_RELU"),
)]  # fmt: skip
"""What every operator with a fused activation may fuse; ``"fusable"`` has what else there is."""


@dataclasses.dataclass(frozen=True)
class TensorFacts:
    """What a tensor may be from a feature level on: fewest and most dimensions, data types, whether optional."""

    fewest: int
    most: int
    data_types: tuple[DataType, ...]
    optional: bool


@dataclasses.dataclass(frozen=True)
class OperatorFacts:
    name: str  # ``"ELEMENT_WISE_SIGN"``
    # ``{"name": …, "kind": …, "type": …, "optional": …}`` in order; also ``"minimum"`` where a FLOAT must not be
    # below a value until a level lifts that, and ``"fusable"``, the operators that may be fused
    members: list[dict[str, Any]]
    in_place: list[str]  # names of input members
    same_sizes: list[list[str]]  # groups of member names
    same_data_type: list[list[str]]  # groups of member names
    # ``{"member": …, "source": …, "exceptions": {…}}``: the member's data type is the source's, or what the
    # exceptions say for it
    data_type_rules: list[dict[str, Any]]
    one_element: list[str]  # names of input members that may hold a single element in Sizes of ones
    # further groups by feature level; they hold as long as that level's table
    same_data_type_at: dict[str, list[list[str]]]
    # how many dimensions there may be behind leading ones of size 1; ``None``: any number
    most_effective_dimensions: int | None
    support: dict[str, dict[str, TensorFacts]]  # by feature level and member name, by rising level

    def tensors(self) -> list[str]:
        """Names of the tensor members, and of arrays of tensors, in order."""
        return [member["name"] for member in self.members if member["type"] in ("tensor", "tensors")]


def _member(text: str, entry: dict[str, Any]) -> dict[str, Any]:
    word, _, name = text.rstrip("?").partition(" ")
    kind = word.rstrip("s") if word.rstrip("s") in ("input", "output") else "attribute"
    of_tensor = "tensors" if word.endswith("s") else "tensor"
    member: dict[str, Any] = {
        "name": name, "kind": kind, "type": word if kind == "attribute" else of_tensor, "optional": text.endswith("?")
    }  # fmt: skip
    if name in entry.get("minimum", {}):
        member["minimum"] = entry["minimum"][name]
    if name in entry.get("fusable", {}):
        member["fusable"] = sorted([*FUSABLE, *entry["fusable"][name]])
    return member


def _tensors(table: str | dict[str, str], names: list[str]) -> dict[str, TensorFacts]:
    by_names = {"others": table} if isinstance(table, str) else table
    listed = {name: text for members, text in by_names.items() for name in members.split(", ")}
    facts = {}
    for name in names:
        words = listed.get(name) or listed["others"]
        data_types, _, absent = words.partition(" or ")
        dimensions, *types = " ".join(_TYPES.get(word, word) for word in data_types.split()).split()
        fewest, _, most = dimensions.partition("-")
        facts[name] = TensorFacts(int(fewest), int(most), tuple(DataType[t] for t in types), absent == "absent")
    return facts


def _groups(groups: str | list[list[str]], names: list[str]) -> list[list[str]]:
    return [names] if groups == "all tensors" else [list(group) for group in groups]


def _operator(name: str, entry: dict[str, Any]) -> OperatorFacts:
    members = [_member(text, entry) for text in entry["members"]]
    names = [member["name"] for member in members if member["type"] in ("tensor", "tensors")]
    if "same" in entry:  # sizes and data type of all tensors
        entry = {**entry, "same_sizes": "all tensors", "same_data_type": "all tensors"}
    return OperatorFacts(
        name,
        members,
        entry.get("in_place", []),
        _groups(entry.get("same_sizes", []), names),
        _groups(entry.get("same_data_type", []), names),
        entry.get("data_type_rules", []),
        entry.get("one_element", []),
        entry.get("same_data_type_at", {}),
        entry.get("most_effective_dimensions"),
        {level: _tensors(table, names) for level, table in sorted(entry["support"].items())},
    )


def all_facts() -> dict[str, OperatorFacts]:
    facts: dict[str, OperatorFacts] = {}
    for file in sorted(Path(__file__).parent.glob("*.json")):
        for first, entry in json.loads(file.read_text(encoding="utf-8")).items():
            for name in (first, *entry.get("also", [])):
                assert name not in facts, f"{name} has two entries"
                facts[name] = _operator(name, entry)
    return facts
