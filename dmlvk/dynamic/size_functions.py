"""Functions of open sizes, written in Python: what a plan is for, and the numbers of its launches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from dmlvk.dynamic.polynomials import Applied, Atom, Terms

_WORD = re.compile(r"\w+")


class Texts:
    """Python for polynomials: each quotient is computed once, in a variable.

    Args:
        atoms: what polynomials are made of: numerator and divisor of quotients, ``None`` for an open size.
        sizes: how many of them are open sizes, the first ones.
    """

    def __init__(self, atoms: Sequence[Atom], sizes: int) -> None:
        self._atoms = atoms
        self._sizes = sizes
        self._names: dict[int, str] = {}
        self._functions: dict[str, Callable[[int], int]] = {}
        self.lines: list[str] = []  # those that set the variables

    def _atom(self, atom: int) -> str:
        made = self._atoms[atom]
        if made is None:
            return f"s{atom}"
        if atom not in self._names:
            self._names[atom] = f"q{atom}"
            if isinstance(made, Applied):
                self._functions[f"f{atom}"] = made.function
                text = f"f{atom}({self.of(dict(made.argument))})"
            else:
                text = f"({self.of(dict(made.numerator))}) // ({self.of(dict(made.divisor))})"
            self.lines.append(f"    q{atom} = {text}")
        return self._names[atom]

    def _inlined_atom(self, atom: int) -> str:
        made = self._atoms[atom]
        if made is None:
            return f"s{atom}"
        parts = [self.inlined(dict(part)) for part in made.parts]
        if isinstance(made, Applied):
            return f"{made.function.__name__}({parts[0]})"
        return f"(({parts[0]})//({parts[1]}))"

    def of(self, terms: Terms) -> str:
        """An expression of the open sizes and the variables."""
        parts = []
        for monomial, coefficient in sorted(terms.items()):
            factors = [self._atom(atom) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, f"{coefficient}" if coefficient >= 0 else f"({coefficient})")
            parts.append("*".join(factors))
        return " + ".join(parts) or "0"

    def inlined(self, terms: Terms) -> str:
        """The same for people, without variables."""
        parts = []
        for monomial, coefficient in sorted(terms.items()):
            factors = [] if coefficient == 1 and monomial else [str(coefficient)]
            for atom in monomial:
                factors.append(self._inlined_atom(atom))
            parts.append("*".join(factors))
        return " + ".join(parts) or "0"

    def function(self, lines: Iterable[str], result: str) -> Callable[..., Any]:
        parameters = ", ".join(f"s{number}" for number in range(self._sizes))
        source = "\n".join([f"def function({parameters}):", *lines, f"    return {result}", ""])
        names: dict[str, Any] = {}
        exec(
            compile(source, "<sizes of a plan>", "exec"), {"__builtins__": {}, **self._functions}, names
        )  # its own text
        return cast(Callable[..., Any], names["function"])


def ordered(tests: list[str]) -> list[str]:
    """Equations first: they fail most often."""
    return sorted(tests, key=lambda test: " == " not in test)


def interleaved(variables: list[str], tests: list[str]) -> list[str]:
    """Each test as early as the variables that it reads are there, in time that grows with their number alone."""
    numbers = {line.split(" = ")[0].strip(): number for number, line in enumerate(variables, 1)}
    ready: list[list[str]] = [[] for _ in range(len(variables) + 1)]
    for test in tests:
        ready[max((numbers.get(word, 0) for word in _WORD.findall(test)), default=0)].append(test)
    made = list(ready[0])
    for line, behind in zip(variables, ready[1:], strict=True):
        made += [line, *behind]
    return made
