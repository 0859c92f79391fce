"""The machinery that turns one declaration into an operator's description class.

A family module (``elementwise.py``) holds a class for each operator: its members in DirectML's order as dataclass
fields, and a :class:`Declaration` with everything else that DirectML's page states. The description class, its checks,
its shader variants, its row in ``dmlvk operators`` and its test cases all follow from these.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.errors import CallError, UnsupportedError
from dmlvk.operators.fusion import FusedActivation, activations_attribute, fused_activation_attribute
from dmlvk.operators.levels import FeatureLevel
from dmlvk.operators.members import (
    Field,
    FieldKind,
    axes_attribute,
    bits_of,
    boolean_attribute,
    checked_member,
    count_attribute,
    data_type_attribute,
    directml_name,
    enum_attribute,
    float_array_attribute,
    float_attribute,
    integer_array_attribute,
    integer_attribute,
    scalar_union_attribute,
    scale_bias_attribute,
    size_attribute,
    tensor_array_input,
    tensor_array_output,
    tensor_input,
    tensor_output,
    unsigned_array_attribute,
    unsigned_attribute,
)
from dmlvk.operators.shapes import ShapeRule
from dmlvk.support.suggestions import suggestion
from dmlvk.support.tokens import token_of
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:  # type checkers carry typing_extensions' declarations with them; nothing is imported when running
    from typing_extensions import dataclass_transform
elif sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:  # Python 3.10: only type checkers need the real one

    def dataclass_transform(**_: object) -> Any:
        """Stand-in for ``typing.dataclass_transform``."""
        return lambda decorated: decorated


Pattern: TypeAlias = Literal[
    "elementwise",
    "rows",
    "copies",
    "conversion",
    "fill",
    "indexed",
    "scan",
    "sort",
    "reduction",
    "normalization",
    "window",
    "resample",
    "regions",
    "matrix",
    "convolution",
    "recurrent",
    "quantization",
    "random",
    "composed",
]
"""How an operator's results come from its operands.

elementwise: each from the elements in its own place. rows: each from a whole row that it belongs to. copies: elements
are moved by a rule that sizes and attributes tell. conversion: each from the one in its place, which has another data
type. fill: from attributes and places alone. indexed: elements are moved by a rule that an operand tells. scan: each
from those before it. sort: rows are put in order. reduction: rows become one element. normalization: elements are
shifted and scaled by what a mean and a variance say. window: each from a window over its surroundings. resample: from
places between elements. regions: from parts of the input that an operand tells. matrix and convolution: sums of
products. recurrent: from a state that steps hand on. quantization: with scales for blocks of elements. random: from a
counter. composed: several of these.
"""

_NAME_PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z])(?=\dd)")
"""Where the words of a class's name begin: ``TopK1`` is TOP_K1, ``Upsample2d`` is UPSAMPLE_2D."""

OPERATORS: dict[str, type[OperatorDesc]] = {}
"""Every operator that dmlvk has, by DirectML's name without ``DML_`` and ``_OPERATOR_DESC``."""

OWN_OPERATORS: dict[str, type[OperatorDesc]] = {}
"""Operators that DirectML does not have, by name: what nodes of models become that no few of DirectML's compute."""


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """What is promised of an operator's results.

    Attributes:
        promise: ``"exact"``, ``"correctly rounded"`` or ``"accurate"``.
        maximum_ulp: largest error in units in the last place of the result's data type.
        remark: what else a user should know, or an empty string. ``measured: N ULP`` is the largest error of FLOAT32 in
            docs/accuracy.md, rounded up; ``largest found by search: N ULP`` one that was sought for
            with other attributes or rows than those. tests/scripts/test_make_docs.py compares both with that file.
        maximum_ulp_of_half: the same for FLOAT16, where it has a function of its own; ``None``: its results are those
            of FLOAT32, rounded once more.
    """

    promise: Literal["exact", "correctly rounded", "accurate"]
    maximum_ulp: float
    remark: str = ""
    maximum_ulp_of_half: float | None = None


EXACT = Accuracy("exact", 0.0)


@dataclasses.dataclass(frozen=True)
class TypeChoice:
    """The data types that an operator takes where an attribute has a certain value."""

    data_types: Mapping[str, tuple[DataType, ...]]  # by tensor member (Python names)
    are_same: bool  # whether all of these tensors must have one data type

    def accepts(self, given: Mapping[str, DataType]) -> bool:
        """Whether it takes these data types, by tensor member."""
        own = [given[member] for member in self.data_types if member in given]
        return all(given[member] in accepted for member, accepted in self.data_types.items() if member in given) and (
            not self.are_same or len(set(own)) <= 1
        )


class Support:
    """What an operator accepts from one feature level on, up to the next table of the same operator.

    Args:
        level: ``"4_1"``.
        dimensions: fewest and most dimensions of every tensor, but for those in ``dimensions_of``.
        data_types: the data types that a tensor may have.
        required: optional tensor members, by their Python names, that must be there all the same.
        same_data_type: further groups of tensor members that must agree in DataType, until the next table.
        dimensions_of: fewest and most dimensions of tensor members, by their Python names, that differ.
        choices: an enumeration attribute, by its Python name, on which data types depend, and for each of its values
            which they may be; ``None``: they depend on no attribute.
        elements: the data types of an array's tensors, by its Python name, where each tensor has others: what its
            ``data_types`` are is all of these.
        exceptions: the data types of tensor members, by their Python names, that differ.
    """

    def __init__(
        self,
        level: str,
        dimensions: tuple[int, int],
        data_types: tuple[DataType, ...],
        *,
        required: tuple[str, ...] = (),
        same_data_type: tuple[tuple[str, ...], ...] = (),
        dimensions_of: Mapping[str, tuple[int, int]] | None = None,
        choices: tuple[str, Mapping[Any, TypeChoice]] | None = None,
        elements: Mapping[str, tuple[tuple[DataType, ...], ...]] | None = None,
        **exceptions: tuple[DataType, ...],
    ) -> None:
        own = self.__dict__
        own["level"] = FeatureLevel.from_name(level)
        own["dimensions"] = dimensions
        own["required"] = required
        own["same_data_type"] = same_data_type
        own["choices"] = choices and (choices[0], MappingProxyType(dict(choices[1])))
        own["_default"] = data_types
        own["_dimensions_of"] = MappingProxyType(dict(dimensions_of or {}))
        own["_elements"] = MappingProxyType(dict(elements or {}))
        joined = {array: tuple(dict.fromkeys(itertools.chain(*each))) for array, each in self._elements.items()}
        own["_exceptions"] = MappingProxyType({**exceptions, **joined})
        own["data_types"] = MappingProxyType({})

    level: FeatureLevel
    dimensions: tuple[int, int]
    required: tuple[str, ...]
    same_data_type: tuple[tuple[str, ...], ...]
    choices: tuple[str, Mapping[Any, TypeChoice]] | None
    data_types: Mapping[str, tuple[DataType, ...]]
    _default: tuple[DataType, ...]
    _dimensions_of: Mapping[str, tuple[int, int]]
    _elements: Mapping[str, tuple[tuple[DataType, ...], ...]]
    _exceptions: Mapping[str, tuple[DataType, ...]]

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r} of a support table")

    def dimensions_for(self, member: str) -> tuple[int, int]:
        """Fewest and most dimensions of a tensor member, by its Python name."""
        return self._dimensions_of.get(member, self.dimensions)

    @property
    def operand_types(self) -> Mapping[str, tuple[DataType, ...]]:
        """``data_types``, with an entry for each tensor of an array whose tensors have types of their own."""
        types: dict[str, tuple[DataType, ...]] = {}
        for member, accepted in self.data_types.items():
            each = self._elements.get(member)
            types |= {member: accepted} if each is None else {f"{member}[{i}]": t for i, t in enumerate(each)}
        return types

    def types_for(self, field: Field) -> tuple[DataType, ...]:
        """The data types of a tensor, which may be one of an array."""
        return self.operand_types.get(field.attribute, self.data_types[field.member])

    def of(self, tensors: Sequence[str]) -> Support:
        """The same table with ``data_types`` for these tensor members.

        Raises:
            TypeError: when it names a member that is not among them.
        """
        named = itertools.chain(self._exceptions, self._dimensions_of, self.required, *self.same_data_type)
        unknown = set(named) - set(tensors)
        if unknown:
            raise TypeError(f"the support table of level {self.level.label} names unknown members {sorted(unknown)}")
        table = copy.copy(self)
        types = {tensor: self._exceptions.get(tensor, self._default) for tensor in tensors}
        table.__dict__["data_types"] = MappingProxyType(types)
        return table


@dataclasses.dataclass(frozen=True)
class DataTypeRule:
    """A data type that follows from another tensor's.

    Attributes:
        member: the tensor member whose data type follows, by its Python name.
        source: the tensor member that decides it.
        exceptions: by data type of ``source`` the one that ``member`` must have; for all others it is the same one.
    """

    member: str
    source: str
    exceptions: Mapping[DataType, DataType]

    def wanted(self, source_type: DataType) -> DataType:
        """What ``member`` must be where ``source`` is ``source_type``."""
        return self.exceptions.get(source_type, source_type)


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What DirectML's page states of an operator, beside its members.

    Attributes:
        pattern: how results come from operands, which decides who lowers the operator, and what is tried of it.
        formula: the function, in words or symbols.
        decisions: what this project decided where the page is silent, one sentence each.
        support: the tables, by rising feature level.
        name: ``"ELEMENT_WISE_SIGN"``; without one the operator has that of its class, ``ElementWiseSign``.
        shapes: what sizes have to do with one another, beside ``same_sizes``.
        same_sizes: groups of tensor members that must agree in DimensionCount and Sizes; ``None``: all of them of an
            operator whose results correspond to its operands element by element or row by row, none of others.
        same_data_type: groups of tensor members that must agree in DataType; ``None``: all of them.
        data_type_rules: what else data types have to do with one another.
        one_element: input members that may also hold a single element, of Sizes all 1, used for every element of the
            output. (All others broadcast by stride 0 only.)
        in_place: input members that may share their buffer range with the output; where there are several outputs,
            pairs of an input and its output.
        accuracy: the promise; exact results where none is made.
        moves: tensor members whose values are moved but never interpreted: only the width of their type matters.
        signs: tensor members, each of a group with a data type in common. The shader is told by a number whether their
            integers have a sign; only the width of their type matters besides.
        most_effective_dimensions: how many dimensions a tensor may have behind leading ones of size 1; ``None``: any.
        computed_as: the operator whose shaders compute it, where that is another one.
    """

    pattern: Pattern
    formula: str
    _: dataclasses.KW_ONLY
    support: tuple[Support, ...]
    accuracy: Accuracy = EXACT
    name: str = ""
    shapes: ShapeRule | None = None
    same_sizes: tuple[tuple[str, ...], ...] | None = None
    same_data_type: tuple[tuple[str, ...], ...] | None = None
    data_type_rules: tuple[DataTypeRule, ...] = ()
    one_element: tuple[str, ...] = ()
    in_place: tuple[str | tuple[str, str], ...] = ()
    moves: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    most_effective_dimensions: int | None = None
    computed_as: str | None = None
    decisions: tuple[str, ...] = ()

    @property
    def is_regular(self) -> bool:
        """Whether results correspond to operands element by element, or row by row: then all tensors have one size."""
        return self.pattern in ("elementwise", "rows")

    @property
    def in_place_inputs(self) -> tuple[str, ...]:
        """The input members that may share their buffer range with an output."""
        return tuple(dict.fromkeys(entry if isinstance(entry, str) else entry[0] for entry in self.in_place))

    def permits_in_place(self, source: str, output: str) -> bool:
        """Whether an input may share its buffer range with an output, both by their Python names."""
        return source in self.in_place or (source, output) in self.in_place

    def version(self, **members: Any) -> Declaration:
        """What the page of another version of the operator states: the same but for these members."""
        return dataclasses.replace(self, name="", **members)

    def support_at(self, level: FeatureLevel) -> Support:
        """The table that holds at ``level``.

        Raises:
            UnsupportedError: when the operator came with a higher level.
        """
        tables = [table for table in self.support if table.level <= level]
        if not tables:
            raise UnsupportedError(
                f"{self.name}: needs feature level {self.support[0].level.label}; "
                f"this device was opened at {level.label}"
            )
        return tables[-1]


class _Signature:
    """What ``inspect.signature`` and ``help`` say of a description class: its members, made when they ask."""

    def __get__(self, _: object, owner: type[Any]) -> inspect.Signature:
        if owner is OperatorDesc:
            raise AttributeError("__signature__")  # the base has no members
        return inspect.Signature(
            [
                inspect.Parameter(
                    member.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty if member.default is dataclasses.MISSING else member.default,
                    annotation=member.type,
                )
                for member in dataclasses.fields(owner)
            ],
            return_annotation=None,
        )


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        tensor_input,
        tensor_output,
        tensor_array_input,
        tensor_array_output,
        boolean_attribute,
        float_attribute,
        float_array_attribute,
        integer_attribute,
        integer_array_attribute,
        unsigned_attribute,
        unsigned_array_attribute,
        size_attribute,
        scale_bias_attribute,
        enum_attribute,
        data_type_attribute,
        scalar_union_attribute,
        count_attribute,
        axes_attribute,
        fused_activation_attribute,
        activations_attribute,
    ),
)
class OperatorDesc:
    """The base of all operator descriptions (DML_..._OPERATOR_DESC): immutable, keyword arguments only, hashable.

    Two descriptions are equal when they describe the same operator: floating-point members count by their bits, so that
    0.0 differs from -0.0, and NaN does not differ from itself.

    Members are checked for their Python type here; DirectML's rules are checked by ``Device.create_operator``.

    Raises:
        CallError: when a member is missing, or there is none of that name.
        InvalidArgumentError: when a member has the wrong type or a number does not fit its DirectML type.
    """

    declaration: ClassVar[Declaration]
    operator_name: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]
    same_sizes: ClassVar[tuple[tuple[str, ...], ...]]
    same_data_type: ClassVar[tuple[tuple[str, ...], ...]]
    _known: ClassVar[frozenset[str]]
    _required: ClassVar[frozenset[str]]

    def __init_subclass__(cls, *, is_listed: bool = True) -> None:
        super().__init_subclass__()
        # The methods stand here once: compiling them anew for each operator was a fifth of ``import dmlvk``.
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
        if "declaration" not in cls.__dict__:  # members that several operators have
            return
        cls.fields = tuple(
            Field(name=directml_name(member.name), attribute=member.name, **member.metadata)
            for member in dataclasses.fields(cls)  # type: ignore[arg-type]  # made a dataclass above
        )
        tensors = tuple(field.attribute for field in cls.fields if field.type in ("tensor", "tensors"))
        cls.operator_name = cls.declaration.name or _NAME_PARTS.sub("_", cls.__name__).upper()
        tables = tuple(table.of(tensors) for table in cls.declaration.support)
        cls.declaration = dataclasses.replace(cls.declaration, name=cls.operator_name, support=tables)
        default = (tensors,) if cls.declaration.is_regular else ()
        cls.same_sizes = default if cls.declaration.same_sizes is None else cls.declaration.same_sizes
        cls.same_data_type = (tensors,) if cls.declaration.same_data_type is None else cls.declaration.same_data_type
        cls._known = frozenset(field.attribute for field in cls.fields)
        cls._required = frozenset(field.attribute for field in cls.fields if not field.optional)
        (OPERATORS if is_listed else OWN_OPERATORS)[cls.operator_name] = cls

    if not TYPE_CHECKING:  # type checkers know what each class's members make of these
        __signature__ = _Signature()

        def __init__(self, /, *arguments: object, **members: object) -> None:
            if arguments or not self._required <= members.keys() <= self._known:
                raise CallError(f"{self.operator_name}: {_member_problem(type(self), arguments, members)}")
            own = self.__dict__
            for field in self.fields:
                own[field.attribute] = members.get(field.attribute)
            for field in self.fields:
                own[field.attribute] = checked_member(self.operator_name, field, own[field.attribute], own)

        def __setattr__(self, name: str, value: object) -> None:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        members = (f"{field.attribute}={getattr(self, field.attribute)!r}" for field in self.fields)
        return f"{type(self).__qualname__}({', '.join(members)})"

    @functools.cached_property
    def _identity(self) -> tuple[object, ...]:
        return (type(self), *(bits_of(getattr(self, field.attribute)) for field in self.fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperatorDesc) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), {field.attribute: getattr(self, field.attribute) for field in self.fields})

    def __dask_tokenize__(self) -> str:
        return token_of([self.operator_name, *(getattr(self, field.attribute) for field in self.fields)])

    @property
    def has_dynamic_sizes(self) -> bool:
        """Whether a tensor's size or an attribute follows from open sizes: whoever compares it makes it a plain one."""
        values = (getattr(self, field.attribute) for field in self.fields)
        return any(value.is_dynamic if isinstance(value, TensorDesc) else _has_dynamic(value) for value in values)

    @functools.cached_property  # graphs ask for them once for each edge
    def inputs(self) -> tuple[tuple[Field, TensorDesc | None], ...]:
        """The input members in DirectML's order, arrays tensor by tensor; an absent optional tensor is ``None``."""
        return tuple(self._tensors("input"))

    @functools.cached_property
    def outputs(self) -> tuple[tuple[Field, TensorDesc | None], ...]:
        """The output members in DirectML's order, likewise."""
        return tuple(self._tensors("output"))

    @property
    def attributes(self) -> tuple[tuple[Field, Any], ...]:
        """The members that are not tensors, with their values."""
        return tuple((field, getattr(self, field.attribute)) for field in self.fields if field.kind == "attribute")

    @property
    def output_type(self) -> DataType:
        """The data type of the first output."""
        return next(tensor.data_type for _, tensor in self.outputs if tensor is not None)

    @property
    def activation(self) -> FusedActivation | None:
        """The activation that is applied to the results, where there is one."""
        return next((value for _, value in self.attributes if isinstance(value, FusedActivation)), None)

    @property
    def accuracy(self) -> Accuracy:
        """What is promised of the results: with a fused activation, what that one's declaration promises.

        Where results are sums of products, that is what it does to them in turn, and the promise is that of the sums.
        """
        fused = self.activation if self.declaration.is_regular else None
        return self.declaration.accuracy if fused is None else fused.activation.declaration.accuracy

    @property
    def row_axes(self) -> tuple[int, ...]:
        """The axes along which the elements lie that a result depends on, rising: those named, else the last one."""
        tensor = next(tensor for _, tensor in self.inputs if tensor is not None)
        named = [value for field, value in self.attributes if field.axes_of is not None]
        return tuple(sorted(named[0])) if named else (tensor.dimension_count - 1,)

    def _tensors(self, kind: FieldKind) -> Iterator[tuple[Field, TensorDesc | None]]:
        for field in self.fields:
            if field.kind != kind:
                continue
            value = getattr(self, field.attribute)
            if field.type == "tensors":
                yield from ((field.element(number), tensor) for number, tensor in enumerate(value or ()))
            else:
                yield field, value


def _has_dynamic(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return any(item.is_dynamic if isinstance(item, TensorDesc) else _has_dynamic(item) for item in value)
    return is_dynamic(value)


def with_tensors(desc: OperatorDesc, changed: Callable[[TensorDesc], TensorDesc]) -> OperatorDesc:
    """The same description of other tensors.

    Args:
        desc: the description.
        changed: the tensor in the place of one of its own.
    """
    members: dict[str, object] = {}
    for field in desc.fields:
        value = members[field.attribute] = getattr(desc, field.attribute)
        if field.type == "tensor" and value is not None:
            members[field.attribute] = changed(value)
        elif field.type == "tensors" and value is not None:
            members[field.attribute] = [changed(tensor) for tensor in value]
    return type(desc)(**members)


def _member_problem(kind: type[OperatorDesc], arguments: Sequence[object], members: Mapping[str, object]) -> str | None:
    """What is wrong with the names of members; ``None``: nothing."""
    known = [field.attribute for field in kind.fields]
    unknown = [name for name in members if name not in known]
    missing = [field.attribute for field in kind.fields if not field.optional and field.attribute not in members]
    if arguments:
        return f"takes its members by name, {known[0]}=…; got {len(arguments)} without"
    if unknown:
        hint = suggestion(unknown[0], known) or f"; it has {', '.join(known)}"
        return f"has no member {unknown[0]!r}{hint}"
    return f"member {missing[0]!r} is required" if missing else None


def _remade(kind: type[OperatorDesc], members: dict[str, Any]) -> OperatorDesc:
    """A description that arrived pickled: its members are checked again."""
    return kind(**members)
