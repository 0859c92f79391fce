"""Jinja's sandbox with a budget.

A template comes with a model from anywhere. Jinja's sandbox keeps it from files and from what is not its own, but not
from running for ever or from filling memory. So each step and each text or list that it makes is charged against a
budget: loops and calls by changes of its syntax tree, operators and methods where the sandbox asks, filters by
functions around them. What a step may make is found out before it is made.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

_BUDGET = 2**26  # Characters and elements that a template makes, in all, its steps by their price

_STEP = 64  # The price of a step: an iteration, a call, a filter

_MOST_SECONDS = 5.0

_MOST_BITS = 4096  # Of an integer that a product or power makes

_WIDE = {"%": re.compile(r"%[^a-zA-Z%]*(\d{4}|\*)"), "{": re.compile(r"\{[^{}]*:[^}]*\d{4}")}
"""Widths, by the kind of format, that make texts of another length than what is formatted."""

_NESTED = re.compile(r"\{[^{}]*:[^}]*\{")  # A format whose widths may be values

_NUMBERED_FILTERS = frozenset({"batch", "center", "indent", "slice", "tojson", "truncate", "wordwrap"})
"""Filters whose integers say how much they make."""


class _TooMuch(Exception):
    """A template makes, or takes, more than it may."""


class _Budget:
    def __init__(self) -> None:
        self._left, self._end = _BUDGET, time.monotonic() + _MOST_SECONDS

    def step(self, size: int = 0) -> str:
        """Charges a step and what it makes; an empty text, for templates."""
        self._left -= _STEP + size
        if self._left < 0:
            raise _TooMuch(f"it makes more than {_BUDGET} characters and elements, of which a step counts as {_STEP}")
        if time.monotonic() > self._end:
            raise _TooMuch(f"it takes more than {_MOST_SECONDS:.0f} s")
        return ""

    def measured(self, *values: object) -> int:
        """Characters of values as texts, about; lists may hold the same list many times."""
        total = 0
        for value in self.leaves(values):
            total += _length(value) + _STEP + (value.bit_length() // 3 if isinstance(value, int) else 0)
            if total > _BUDGET:
                self.step(total)
        return total

    def leaves(self, values: Iterable[object]) -> Iterator[object]:
        """Values with all that they hold, down to texts and numbers."""
        left = list(values)
        while left:
            value = left.pop()
            if isinstance(value, Mapping):
                left += [*value.keys(), *value.values()]
            elif isinstance(value, (list, tuple, set, frozenset)):
                left += value
            yield value

    def counted(self, values: Iterable[Any]) -> Iterator[Any]:
        """What a loop goes through."""
        for value in values:
            self.step()
            yield value

    def operation(self, operator: str, left: Any, right: Any) -> None:
        """Charges what an operator is about to make."""
        if operator == "%" and isinstance(left, (str, bytes)):
            self.formatting("%", str(left), right)
        elif isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
            if operator != "%" and bits > _MOST_BITS:
                raise _TooMuch(f"it makes an integer of more than {_MOST_BITS} bits")
        elif operator == "*":
            self.step(max(_length(left) * _number(right), _length(right) * _number(left)))
        elif operator == "+":
            self.step(_length(left) + _length(right))

    def formatting(self, kind: str, form: str, *values: Any) -> None:
        """Charges a text that is made by a format of ``%`` or ``{``."""
        if _WIDE[kind].search(form.replace("%%", "")):
            raise _TooMuch(f"it formats by {form[:80]!r}")
        widths = sum(map(_number, self.leaves(values))) if _NESTED.search(form) else 0
        self.step(len(form) + form.count(kind) * (self.measured(*values) + widths))

    def method(self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """Charges what a method of a text or number is about to make; its arguments, iterators made lists."""
        own, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if not isinstance(own, (str, bytes, int, float)):
            return arguments
        values = [*arguments, *named.values()]
        size = _length(own) + sum(_number(value) for value in values)
        if name == "replace" and len(values) > 1:
            size += _replaced(own, *values[:2])
        elif name == "join" and values:
            arguments = [values := list(self.counted(values[0]))]
            size += sum(_length(value) + _length(own) for value in values)
        elif name in ("format", "format_map"):
            self.formatting("{", str(own), *values)
        elif name == "expandtabs":
            size *= max([8, *(_number(value) for value in values)])
        elif name == "translate" and values:
            size *= 1 + max((_length(value) for value in getattr(values[0], "values", list)()), default=0)
        self.step(size)
        return arguments

    def filtering(self, name: str, arguments: list[Any], named: Mapping[str, Any]) -> None:
        """Charges what a filter is about to make; iterators among its arguments are made lists where that is seen."""
        place = next((n for n, value in enumerate(arguments) if not hasattr(value, "autoescape")), 0)
        values = arguments[place:]
        rest = [*values[1:], *named.values()]
        size = 0
        if name in _NUMBERED_FILTERS:
            size = sum(_number(value) + _length(value) for value in rest) * (1 + _length(values[0]))
        if name in ("join", "sum", "string", "tojson", "pprint", "xmlattr", "urlencode", "groupby", "unique", "sort"):
            if isinstance(values[0], Iterator):
                arguments[place] = values[0] = list(self.counted(values[0]))
            size += self.measured(values[0]) + _length(values[0]) * sum(_length(value) for value in rest)
        elif name == "replace" and len(rest) > 1:
            size += _replaced(str(values[0]), *rest[:2])
        elif name == "format":
            self.formatting("%", str(values[0]), *rest)
        self.step(size)


def _length(value: object) -> int:
    return len(value) if isinstance(value, (str, bytes, list, tuple, Mapping)) else 0


def _number(value: object) -> int:
    return abs(value) if isinstance(value, int) else 0


def _replaced(text: Any, old: Any, new: Any) -> int:
    """What replaced parts of a text will have."""
    is_alike = isinstance(old, type(text)) and isinstance(new, type(text))
    return text.count(old) * len(new) if is_alike else 0


def _filter(budget: _Budget, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that charges what it makes."""

    @functools.wraps(function)  # what Jinja notes at a filter comes with it
    def charged(*arguments: Any, **named: Any) -> Any:
        passed = list(arguments)
        budget.filtering(name, passed, named)
        result = function(*passed, **named)
        budget.step(_length(result))
        return result

    return charged


def _as_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(reason: object) -> NoReturn:
    raise TemplateError(str(reason))


class Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox that charges a budget for what its only template does."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, finalize=self.shown, cache_size=0)
        self.budget = budget = _Budget()
        self.step, self.counted = budget.step, budget.counted
        self.filters["tojson"] = _as_json
        for name in ("urlize", "random"):
            del self.filters[name]
        self.filters = {name: _filter(budget, name, function) for name, function in self.filters.items()}
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _refuse, "strftime_now": self.time}

    def priced(self, source: str) -> Any:
        """A template whose loops, calls and texts that are put together are charged."""
        tree = self.parse(source)
        bodies: list[Any] = list(tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock, nodes.Block)))
        for node in bodies:
            if isinstance(node, nodes.For):
                node.iter = self.charged_call("counted", [node.iter], node)
            price = nodes.Const(_constant_length(node.body), lineno=node.lineno)
            node.body.insert(0, nodes.ExprStmt(self.charged_call("step", [price], node), lineno=node.lineno))
        return self.from_string(_Changes(self).visit(tree).set_environment(self))

    def charged_call(self, name: str, values: list[Any], node: Any) -> Any:
        function = nodes.EnvironmentAttribute(name, lineno=node.lineno)
        return nodes.Call(function, values, [], None, None, lineno=node.lineno)

    def call(self, context: Any, function: Any, /, *arguments: Any, **named: Any) -> Any:
        self.budget.step()
        return super().call(context, function, *self.budget.method(function, arguments, named), **named)

    def wrap_str_format(self, value: Any) -> Any:
        """How Jinja from 3.1.5 on finds a text's ``format``."""
        wrapped: Any = super().wrap_str_format(value)
        form = getattr(value, "__self__", "")

        def charged(*arguments: Any, **named: Any) -> Any:
            self.budget.formatting("{", str(form), arguments, named)
            return wrapped(*arguments, **named)

        return None if wrapped is None else charged

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        self.budget.operation(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def shown(self, value: Any) -> str:
        self.budget.step(self.budget.measured(value))
        return str(value)

    def joined(self, *values: Any) -> str:
        """Texts that are put together."""
        return "".join(map(self.shown, values))

    def time(self, form: str) -> str:
        self.budget.formatting("%", form)
        return datetime.datetime.now().strftime(form)


class _Changes(NodeTransformer):
    """Concatenations become calls."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def visit_Concat(self, node: Any) -> Any:
        """Texts that are put together by ``~``."""
        self.generic_visit(node)
        return self._environment.charged_call("joined", node.nodes, node)


def _constant_length(body: Sequence[nodes.Node]) -> int:
    """Characters of a template's own text in a loop or macro."""
    return sum(len(text.data) for node in body for text in node.find_all(nodes.TemplateData))
