"""PyTorch's operators on the device: recorded by the table where it has them, else left to the CPU, which is said."""

from __future__ import annotations

import contextlib
import enum
import functools
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from dmlvk.arrays.values import Value
from dmlvk.datatypes import DataType
from dmlvk.errors import InvalidArgumentError, UnsupportedError
from dmlvk.support import faults
from dmlvk.support.recent import Recent
from dmlvk.torch.composites import COMPOSITES
from dmlvk.torch.device import tensors
from dmlvk.torch.device.recipes import Family, NumberForm, Recipe, TensorForm, fault_of
from dmlvk.torch.device.recorder import RECORDER, Recorded
from dmlvk.torch.device.tensors import (
    from_host,
    host_of,
    lying_tensor,
    reset,
    seen,
    tensor_of,
    value_of,
    view_of,
    write,
)
from dmlvk.torch.lowering import NotLowered
from dmlvk.torch.modes import without_gradients
from dmlvk.torch.refusals import is_refused
from dmlvk.torch.types import DATA_TYPES, NAME

if TYPE_CHECKING:
    from dmlvk.device import Device

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_log = logging.getLogger("dmlvk")

_MOST_FAMILIES = 4096  # Forms of calls whose graphs' parts are kept; the oldest go first

_TAKE_HOST_INDICES = ("aten::index", "aten::index_put", "aten::_index_put_impl")
"""Operators that PyTorch calls with indices on the CPU, too."""


class Fallback(enum.Enum):
    """What becomes of an operator that the device lacks."""

    WARN = "warn"
    RAISE = "raise"


class _Setting:
    fallback = Fallback.WARN


_counts: Counter[str] = Counter()
_said: set[str] = set()
_families: Recent[Any, Family | str] = Recent(_MOST_FAMILIES)
_families_lock = threading.RLock()  # of changes, in which a signal's handler may have operators recorded


def set_fallback(kind: str) -> None:
    """Says what becomes of operators that the device lacks, from now on.

    Args:
        kind: ``"warn"``, the default: the CPU computes them, and one warning of the logger ``dmlvk`` names each;
            ``"raise"``: an ``UnsupportedError`` names it.

    Raises:
        InvalidArgumentError: it is neither.
    """
    try:
        _Setting.fallback = Fallback(kind)
    except ValueError:
        raise InvalidArgumentError(f"dmlvk.torch: fallback must be warn or raise; got {kind!r}") from None


def fallbacks() -> dict[str, int]:
    """How often the CPU computed each operator of tensors on the device, by its name."""
    return dict(_counts)


@contextlib.contextmanager
def raising() -> Iterator[None]:
    """What falls back raises meanwhile."""
    before, _Setting.fallback = _Setting.fallback, Fallback.RAISE
    try:
        yield
    finally:
        _Setting.fallback = before


class Kernel:
    """One of PyTorch's operators.

    Args:
        functional: the one that computes the same and changes nothing; ``None``: there is none.
    """

    def __init__(self, operator: Any, functional: Any) -> None:
        self._operator, self._functional = operator, functional
        self._composite = COMPOSITES.get(functional)
        arguments = operator._schema.arguments
        self.name = str(operator).removeprefix("aten.")
        self._takes_host_indices = operator._schema.name.rstrip("_") in _TAKE_HOST_INDICES
        self._out = {one.name for one in arguments if one.is_out}
        self._is_in_place = bool(
            not self._out and arguments and arguments[0].alias_info and arguments[0].alias_info.is_write
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Records the operator."""
        targets: Sequence[Any] = ()
        if self._is_in_place:
            targets = args[:1]
        elif self._out:
            targets = [kwargs.pop(name) for name in list(kwargs) if name in self._out]
        return self._record(args, kwargs, targets)

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any], targets: Sequence[Any]) -> Any:
        if self._composite is not None:
            made = self._composed(args, kwargs, targets)
            if made is not NotImplemented:
                return made
        try:
            device = RECORDER.device
            recipe, operands = self._found(args, kwargs, device)
        except NotLowered as refusal:
            made = self._by_host(args, kwargs, targets, str(refusal))
            if (fault := fault_of(refusal)) is not None:
                faults.report(fault, f"tracing {self.name}")
            return made
        only = recipe.only
        if only is not None and len(targets) < 2 and None not in operands:
            data_type, operation, form = only
            made = Recorded(device, data_type, form.shape, operation, tuple(operands))
            RECORDER.add(made, is_product=recipe.is_product)
            if not targets:
                return lying_tensor(made, form)
            _assign(self.name, targets[0], recipe.results[0], made, resizes=not self._is_in_place)
            return targets[0]
        results = recorded(recipe, operands, device)
        if not targets:
            return tensors_of(recipe, results)
        for target, result, value in zip(targets, recipe.results, results, strict=True):
            _assign(self.name, target, result, value, resizes=not self._is_in_place)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _composed(self, args: tuple[Any, ...], kwargs: dict[str, Any], targets: Sequence[Any]) -> Any:
        """What other operators compute; ``NotImplemented``: they do not."""
        assert self._composite is not None
        if not self._takes_host_indices:
            # Arguments that PyTorch refuses it refuses here. It has no shapes for what depends on data.
            with contextlib.suppress(NotImplementedError), _disable_current_modes(), without_gradients():
                positional, named = tree_map_only(torch.Tensor, _shaped, (args, kwargs))
                self._functional(*positional, **named)
            for item in (*args, *kwargs.values()):
                if isinstance(item, torch.Tensor) and item.device.type == "cpu":
                    self._operand(item)
        made = self._composite(*args, **kwargs)
        if made is NotImplemented or not targets:
            return made
        for target, result in zip(targets, [made] if isinstance(made, torch.Tensor) else made, strict=True):
            _take(target, result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _found(self, args: tuple[Any, ...], kwargs: dict[str, Any], device: Device) -> tuple[Recipe, list[Any]]:
        """What computes it, and with what."""
        operands: list[Any] = []
        numbers: list[float] = []
        key: list[Any] = [self]
        self._describe(args, key, operands, numbers)
        if kwargs:
            key.extend(kwargs)
            self._describe(kwargs.values(), key, operands, numbers)
        known = tuple(key)
        family = _families.get(known)
        if family is None:
            made = self._family(args, kwargs)
            with _families_lock:
                family = _families.keep(known, made)
        if isinstance(family, str):
            raise NotLowered(family)
        recipe, takes_numbers = family.recipe(tuple(numbers), device)
        for one in operands:
            if one is not None and one.device is not device:
                check_place(self.name, one, device)
        if takes_numbers:
            operands += [RECORDER.numbers.value(device, one, DataType.FLOAT32) for one in numbers]
        return recipe, operands

    def _describe(self, items: Iterable[Any], key: list[Any], operands: list[Any], numbers: list[float]) -> None:
        """Adds what tells arguments from others to a key; values of tensors, and numbers, go into lists."""
        for item in items:
            kind = type(item)
            if kind is _Tensor or kind is _Parameter or isinstance(item, _Tensor):
                record = getattr(item.untyped_storage(), "record", None)
                if record is None:
                    operands.append(self._operand(item) if item.numel() else None)
                    key += item.device, item.shape, item.dtype, item.stride()
                    continue
                form = record.form  # as Record.is_lying, which a call would make slow
                is_alike = form.shape == item.shape and form.dtype is item.dtype
                if is_alike and item.is_contiguous() and not item.storage_offset():  # the most there are
                    operands.append(record._value)
                    key.append(form)
                else:
                    view = view_of(item.shape, item.stride(), item.storage_offset(), item.dtype)
                    is_alike = item.dtype is record.form.dtype and view.form.count
                    operands.append(seen(record, view) if is_alike else value_of(item) if item.numel() else None)
                    key.append(view.form)
            elif kind is float:
                numbers.append(item)
                key.append(float)
            elif kind is list or kind is tuple:
                key += kind, len(item)
                self._describe(item, key, operands, numbers)
            else:
                key += kind, item

    def _family(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Family | str:
        if self._functional is None:
            return "it has no lowering"
        if is_refused(self._functional, args, kwargs):
            positional, named = tree_map_only(torch.Tensor, _on_host, (args, kwargs))
            self._functional(*positional, **named)  # raises
        forms: list[TensorForm] = []
        count = 0

        def form(item: Any) -> Any:
            nonlocal count
            if isinstance(item, torch.Tensor):
                is_double = item.dtype is torch.float64 and not item.dim() and item.device.type == "cpu"
                dtype = torch.float32 if is_double else item.dtype
                forms.append(TensorForm(len(forms), tuple(item.shape), tuple(item.stride()), dtype))
                return forms[-1]
            if isinstance(item, float):
                count += 1
                return NumberForm(count - 1)
            if isinstance(item, (list, tuple)):
                return [form(each) for each in item]
            if isinstance(item, torch.device):
                tensors.check_index(item)
                return torch.device("cpu")
            return item

        described = [form(item) for item in args], {name: form(item) for name, item in kwargs.items()}
        return Family(self._functional, forms, described)

    def _operand(self, tensor: torch.Tensor) -> Value:
        if self._takes_host_indices and tensor.is_cpu and tensor.dim():
            return tensors.uploaded(tensor)
        return operand_of(self.name, tensor, None)

    def _by_host(self, args: tuple[Any, ...], kwargs: dict[str, Any], targets: Sequence[Any], reason: str) -> Any:
        """Has PyTorch's CPU compute it, of copies."""
        for item in (*args, *kwargs.values()):
            if isinstance(item, torch.Tensor) and item.device.type == "cpu" and item.dim():
                self._operand(item)
        if isinstance(kwargs.get("dtype"), torch.dtype):
            tensors.check_dtype(kwargs["dtype"])
        given = [item for item in tree_leaves((args, kwargs)) if isinstance(item, torch.Tensor)]
        has_elements = not given or any(item.numel() for item in given)
        if has_elements:
            check_fallback(self.name, reason)
        made = self._computed_by_host(args, kwargs, targets)
        if has_elements:
            tell(self.name, reason)  # now that PyTorch has not refused the arguments
        return made

    def _computed_by_host(self, args: tuple[Any, ...], kwargs: dict[str, Any], targets: Sequence[Any]) -> Any:
        copied = functools.partial(tree_map_only, torch.Tensor, _on_host)
        named = {
            name: torch.device("cpu") if isinstance(item, torch.device) else copied(item)
            for name, item in kwargs.items()
        }
        if targets and self._functional is not None and not any(isinstance(one, (list, tuple)) for one in targets):
            made = self._functional(*copied(args), **named)
        elif self._out:
            raise UnsupportedError(f"{self.name}: {NAME} has no such operator with results that are given")
        else:
            positional = copied(args)
            made = self._operator(*positional, **named)
            for declared, target, changed in zip(self._operator._schema.arguments, args, positional, strict=False):
                if declared.alias_info is not None and declared.alias_info.is_write:
                    for own, new in zip(tree_leaves(target), tree_leaves(changed), strict=True):
                        _take(own, new)
            if targets:
                return targets[0]
        if not targets:
            return tree_map_only(torch.Tensor, from_host, made)
        for target, result in zip(targets, [made] if isinstance(made, torch.Tensor) else made, strict=True):
            _take(target, result)
        return targets[0] if len(targets) == 1 else tuple(targets)


def operand_of(name: str, tensor: torch.Tensor, device: Device | None) -> Value:
    """A tensor's elements for an operator; those of a CPU's tensor without axes as a number.

    Args:
        name: of the operator.
        device: where they must be; ``None``: that is checked elsewhere.

    Raises:
        InvalidArgumentError: they are on another device.
    """
    if tensor.is_cpu and not tensor.dim():
        dtype = torch.float32 if tensor.dtype is torch.float64 else tensor.dtype
        tensors.check_dtype(dtype)
        return RECORDER.numbers.value(RECORDER.device, tensor.item(), DATA_TYPES[dtype])
    if tensor.device.type == NAME:
        value = value_of(tensor)
        if device is not None:
            check_place(name, value, device)
        return value
    raise InvalidArgumentError(f"{name}: all tensors must be on one device; got {NAME} and {tensor.device}: use .to()")


def check_place(name: str, value: Value, device: Device) -> None:
    """Checks that an operand is on the device.

    Raises:
        InvalidArgumentError: it is not.
    """
    if value.device is not device:
        raise InvalidArgumentError(
            f"{name}: a tensor is on another device of Vulkan's than {device!r}, or that one was closed"
        )


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return host_of(tensor) if tensor.device.type == NAME else tensor


def _shaped(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _take(target: torch.Tensor, result: torch.Tensor) -> None:
    """Gives a tensor on the device what the host, or other operators, computed."""
    own = result.to(target.dtype)
    value = None if not own.numel() else value_of(own) if own.device.type == NAME else tensors.uploaded(own)
    if target.shape != result.shape:
        reset(target, tuple(result.shape), value)
    elif value is not None:
        write(target, value)


def check_fallback(name: str, reason: str) -> None:
    """Checks that the CPU is to compute what the device lacks.

    Raises:
        UnsupportedError: it is not (:func:`set_fallback`).
    """
    if _Setting.fallback is Fallback.RAISE:
        raise UnsupportedError(f"torch: the device {NAME} does not compute {name}: {reason}")


def tell(name: str, reason: str) -> None:
    """Says once that the CPU computes an operator."""
    _counts[name] += 1
    if name not in _said:
        _said.add(name)
        _log.warning("torch: the CPU computes %s of tensors on the device: %s", name, reason)


def recorded(recipe: Recipe, operands: list[Any], device: Device) -> list[Value | None]:
    """A value for each of a recipe's results; ``None`` where it has no elements."""
    if None in operands:  # what has no elements only says of which form and type results are
        zero = RECORDER.numbers.value(device, 0.0, DataType.FLOAT32)
        operands = [zero if one is None else one for one in operands]
    held = tuple(operands)
    made: list[Value | None] = []
    for result in recipe.results:
        if result is None or result.operation is None:
            made.append(None)
            continue
        value = Recorded(device, result.data_type, result.shape, result.operation, held)
        made.append(value)
        RECORDER.add(value, is_product=recipe.is_product)
    return made


def tensors_of(recipe: Recipe, values: list[Value | None]) -> Any:
    """A recipe's results as tensors: one, or a tuple of them; ``None`` where PyTorch gives none."""
    made = [
        None if result is None else tensor_of(value, result.shape, result.dtype, result.strides)
        for result, value in zip(recipe.results, values, strict=True)
    ]
    return made[0] if recipe.is_single else tuple(made)


def _assign(name: str, target: torch.Tensor, result: Any, value: Value | None, *, resizes: bool) -> None:
    """Puts a result into a tensor that is there."""
    record = getattr(target.untyped_storage(), "record", None)
    is_alike = value is not None and value.shape == target.shape
    if is_alike and record is not None and result.dtype is record.form.dtype and record.is_all_of(target):
        record.become(value)
        return
    if result.dtype is not target.dtype and not torch.can_cast(result.dtype, target.dtype):
        made_of, wanted = (torch.empty(0, dtype=one.dtype, device="cpu").type()[6:-6] for one in (result, target))
        raise RuntimeError(f"result type {made_of} can't be cast to the desired output type {wanted}")
    if target.device.type != NAME:
        raise InvalidArgumentError(f"{name}: all tensors must be on one device; the result is on {target.device}")
    if result.shape != target.shape:
        if not resizes:
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(result.shape)}"
            )
        made = tensor_of(value, result.shape, result.dtype)
        value = None if value is None else value_of(made.to(target.dtype))
        reset(target, result.shape, value)
        return
    if value is None:
        return
    if result.dtype is not target.dtype:
        value = value_of(tensor_of(value, result.shape, result.dtype).to(target.dtype))
    write(target, value)


def functional_of(operator: Any) -> Any:
    """The overload that computes the same and changes nothing; itself if it is one; ``None``: there is none."""
    schema = operator._schema
    if not schema.is_mutable:
        return operator
    base = schema.name.removeprefix("aten::")
    is_out = any(one.is_out for one in schema.arguments)
    wanted = [(one.name, str(one.type)) for one in schema.arguments if not one.is_out]
    packet = getattr(torch.ops.aten, base if is_out else base.removesuffix("_"), None)
    for overload in () if packet is None else packet.overloads():
        found = getattr(packet, overload)
        if not found._schema.is_mutable and [(one.name, str(one.type)) for one in found._schema.arguments] == wanted:
            return found
    return None
