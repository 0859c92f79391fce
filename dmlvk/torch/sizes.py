"""Sizes of PyTorch's tensors: numbers, or what stands for them while they are open."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves


class NoNumber(ValueError):
    """A size follows from others by a function that is not known here."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """What is known of a tensor: its shape, strides and type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


def terms_of(size: Any) -> Any:
    """A size as SymPy's expression of the symbols that are open."""
    return size.node.expr


def is_computed(terms: Any) -> bool:
    """Whether a size follows from symbols by functions that are known here."""
    if terms.is_Symbol or terms.is_Integer:
        return True
    return type(terms).__name__ in _FUNCTIONS and all(map(is_computed, terms.args))


def depends_on_data(example: Any) -> bool:
    """Whether sizes in a node's example, or it itself, are known only when what is before it has run."""
    symbolic = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return any(free_unbacked_symbols(each) for each in tree_leaves(example) if isinstance(each, symbolic))


class Sizes:
    """What open sizes are.

    Args:
        numbers: for SymPy's expressions, integers or dynamic sizes (:mod:`dmlvk.dynamic.sizes`).
    """

    def __init__(self, numbers: Mapping[Any, int]) -> None:
        self._numbers = numbers

    def number(self, size: Any) -> int:
        """A size as a number.

        Raises:
            NoNumber: when there is none.
        """
        if isinstance(size, torch.SymInt):
            made: int = self._of_terms(terms_of(size))
            return made
        return int(size)

    def shown(self, example: Any) -> Any:
        """A node's example: tensors as :class:`Shown`, open sizes as numbers, what else there is as it is."""
        if isinstance(example, torch.Tensor):
            shape = tuple(self.number(size) for size in example.shape)
            strides = tuple(self.number(step) for step in example.stride()) if example.layout is torch.strided else ()
            return Shown(shape, strides, example.dtype)
        if isinstance(example, (tuple, list)):
            return tuple(self.shown(item) for item in example)
        return self.number(example) if isinstance(example, torch.SymInt) else example

    def _of_terms(self, terms: Any) -> Any:
        known = self._numbers.get(terms)
        if known is not None:
            return known
        if terms.is_Integer:
            return int(terms)
        function = _FUNCTIONS.get(type(terms).__name__)
        if function is None:
            raise NoNumber(f"the size {terms} follows from others by a function that is not known")
        return function(*(self._of_terms(argument) for argument in terms.args))


PLAIN = Sizes({})  # No size is open


def _power(base: int, exponent: int) -> int:
    return functools.reduce(operator.mul, [base] * exponent, 1)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: functools.reduce(operator.add, terms),
    "Mul": lambda *factors: functools.reduce(operator.mul, factors),
    "Pow": _power,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": max,
    "Min": min,
}
"""SymPy's and PyTorch's functions of sizes, by their classes' names."""
