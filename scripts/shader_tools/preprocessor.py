"""Find macros that a shader compares although nothing defines them.

``#if DTYPE == FLOAT16`` with two unknown names is 0 == 0, so always true, and no GLSL compiler warns. This walks the
preprocessor lines of a variant as the compiler does (includes, macro expansion, branches taken) and reports each name
that an evaluated ``#if`` or ``#elif`` leaves undefined, also where a macro expands to such a name, and also where the
definition only comes further down.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dmlvk.kernels.library.sources import Directive, SourceError, SourceFile, SourceTree

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)"
    r"|(?P<other>##|<<|>>|<=|>=|==|!=|&&|\|\||\S))"
)
_DEFINE = re.compile(r"(\w+)(\(([^)]*)\))?\s*(.*)", re.DOTALL)

_OPERATORS: Final[Mapping[str, tuple[int, Callable[[int, int], int]]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))), "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, operator.or_), "^": (4, operator.xor), "&": (5, operator.and_),
    "==": (6, operator.eq), "!=": (6, operator.ne),
    "<": (7, operator.lt), ">": (7, operator.gt), "<=": (7, operator.le), ">=": (7, operator.ge),
    "<<": (8, operator.lshift), ">>": (8, operator.rshift), "+": (9, operator.add), "-": (9, operator.sub),
    "*": (10, operator.mul), "/": (10, lambda a, b: int(a / b)), "%": (10, lambda a, b: a - b * int(a / b)),
}  # fmt: skip

PREDEFINED: Final = {"VULKAN": "100", "GL_SPIRV": "100", "GL_core_profile": "1", "__VERSION__": "450"}
"""Macros that glslang defines itself when it compiles for Vulkan and that a condition may ask for."""


class _ExpressionError(Exception):
    """A condition cannot be read."""


@dataclass(frozen=True)
class Problem:
    """A condition that does not mean what it says.

    Attributes:
        file: path below the shader directory.
        line: line number.
        message: what is wrong.
    """

    file: str
    line: int
    message: str


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


@dataclass
class _Branch:
    """State of one #if: whether its present part is active, whether a part was, and what is around it."""

    active: bool
    taken: bool
    outer: bool


@dataclass
class _Walk:
    """One pass over the preprocessor lines of a variant."""

    tree: SourceTree
    macros: dict[str, _Macro]
    problems: list[Problem] = field(default_factory=list)
    open_files: list[str] = field(default_factory=list)

    def file(self, source: SourceFile) -> None:
        if source.path in self.open_files:
            raise SourceError(f"{source.path} includes itself: {' -> '.join((*self.open_files, source.path))}")
        self.open_files.append(source.path)
        branches: list[_Branch] = []
        for directive in source.directives:
            if directive.name in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
                self.condition(source, directive, branches)
            elif not branches or branches[-1].active:
                self.plain(source, directive)
        self.open_files.pop()

    def plain(self, source: SourceFile, directive: Directive) -> None:
        if directive.name == "include":
            name = source.included_name(directive)
            self.file(self.tree.file(self.tree.resolve(source.path, directive.line, name)))
        elif directive.name == "define":
            name, macro = _parse_definition(directive.text)
            self.macros[name] = macro
        elif directive.name == "undef":
            self.macros.pop(directive.text, None)
        elif directive.name == "version":
            self.macros["__VERSION__"] = _Macro(None, tuple(_tokens(directive.text)[:1]))

    def condition(self, source: SourceFile, directive: Directive, branches: list[_Branch]) -> None:
        kind = directive.name
        if kind in ("if", "ifdef", "ifndef"):
            outer = not branches or branches[-1].active
            value = outer and self.holds(source, directive)
            branches.append(_Branch(value, value, outer))
            return
        if not branches:
            self.report(source, directive, f"#{kind} without #if")
            return
        branch = branches[-1]
        if kind == "endif":
            branches.pop()
        else:
            wanted = branch.outer and not branch.taken
            branch.active = wanted and (kind == "else" or self.holds(source, directive))
            branch.taken = branch.taken or branch.active

    def holds(self, source: SourceFile, directive: Directive) -> bool:
        undefined: dict[str, None] = {}
        try:
            if directive.name in ("ifdef", "ifndef"):
                return self.is_defined(directive.text) == (directive.name == "ifdef")
            value = _MacroExpression(self.expand_condition(_tokens(directive.text)), undefined).value()
        except _ExpressionError as error:
            self.report(source, directive, f"#{directive.name} {directive.text}: {error}")
            return False
        for name in undefined:
            self.report(
                source, directive, f"#{directive.name} {directive.text}: {name} is not defined and would count as 0"
            )
        return bool(value)

    def report(self, source: SourceFile, directive: Directive, message: str) -> None:
        problem = Problem(source.path, directive.line, message)
        if problem not in self.problems:
            self.problems.append(problem)

    def is_defined(self, name: str) -> bool:
        """Whether a macro is defined; the compiler's own macros are known only as far as ``PREDEFINED`` lists them."""
        if name.startswith("GL_") and name not in self.macros:
            raise _ExpressionError(f"whether the compiler defines {name} is not known here")
        return name in self.macros

    def expand_condition(self, tokens: Sequence[str]) -> list[str]:
        """Replace ``defined`` and then the macros of a condition."""
        replaced: list[str] = []
        position = 0
        while position < len(tokens):
            if tokens[position] == "defined":
                parenthesis = tokens[position + 1 : position + 2] == ["("]
                name = tokens[position + 1 + parenthesis : position + 2 + parenthesis]
                if not name:
                    raise _ExpressionError("defined needs a name")
                replaced.append(str(int(self.is_defined(name[0]))))
                position += 4 if parenthesis else 2
            else:
                replaced.append(tokens[position])
                position += 1
        return self.expand(replaced, frozenset())

    def expand(self, tokens: Sequence[str], hidden: frozenset[str]) -> list[str]:
        """Expand macros, not expanding a macro inside its own expansion."""
        result: list[str] = []
        position = 0
        while position < len(tokens):
            name = tokens[position]
            position += 1
            macro = None if name in hidden else self.macros.get(name)
            if macro is None:
                result.append(name)
            elif macro.parameters is None:
                result += self.expand(_paste(macro.body), hidden | {name})
            elif tokens[position : position + 1] == ["("]:
                arguments, position = _arguments(tokens, position + 1)
                if arguments == [[]] and not macro.parameters:
                    arguments = []
                if len(arguments) != len(macro.parameters):
                    raise _ExpressionError(f"{name} takes {len(macro.parameters)} arguments, got {len(arguments)}")
                body = self.substitute(macro, arguments, hidden)
                result += self.expand(body, hidden | {name})
            else:
                result.append(name)
        return result

    def substitute(self, macro: _Macro, arguments: Sequence[Sequence[str]], hidden: frozenset[str]) -> list[str]:
        """Put arguments into a macro's body, unexpanded beside ``##`` and expanded elsewhere."""
        named = dict(zip(macro.parameters or (), arguments, strict=True))
        body: list[str] = []
        for index, token in enumerate(macro.body):
            if token not in named:
                body.append(token)
            elif "##" in (*macro.body[max(index - 1, 0) : index], *macro.body[index + 1 : index + 2]):
                body += named[token]
            else:
                body += self.expand(named[token], hidden)
        return _paste(body)


class _MacroExpression:
    """A condition after macro expansion.

    Names that are left count as 0, as in the compiler, and are noted in ``undefined`` unless the operand is one that
    ``&&`` or ``||`` skips.
    """

    def __init__(self, tokens: Sequence[str], undefined: dict[str, None]) -> None:
        self._tokens = [*tokens, ""]
        self._position = 0
        self._undefined = undefined

    def value(self) -> int:
        value = self._binary(0, live=True)
        if self._peek():
            raise _ExpressionError(f"unexpected {self._peek()!r}")
        return value

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _next(self) -> str:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _binary(self, lowest: int, *, live: bool) -> int:
        left = self._unary(live=live)
        while (symbol := self._peek()) in _OPERATORS and _OPERATORS[symbol][0] > lowest:
            self._next()
            level, calculate = _OPERATORS[symbol]
            skipped = (symbol == "&&" and not left) or (symbol == "||" and bool(left))
            right = self._binary(level, live=live and not skipped)
            if symbol in ("/", "%") and right == 0:
                if live:
                    raise _ExpressionError("division by zero")
                right = 1
            if symbol in ("<<", ">>") and not 0 <= right < 64:
                raise _ExpressionError(f"shift by {right}")
            left = int(calculate(left, right))
        return left

    def _unary(self, *, live: bool) -> int:
        token = self._next()
        if token in ("!", "-", "+", "~"):
            operand = self._unary(live=live)
            return {"!": int(not operand), "-": -operand, "+": operand, "~": ~operand}[token]
        if token == "(":
            value = self._binary(0, live=live)
            if self._next() != ")":
                raise _ExpressionError("a ) is missing")
            return value
        if token[:1].isdigit():
            digits = token.rstrip("uU")
            octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
            try:
                return int(digits, 8 if octal else 0)
            except ValueError as error:
                raise _ExpressionError(f"{token} is no number") from error
        if re.fullmatch(r"[A-Za-z_]\w*", token):
            if live:
                self._undefined[token] = None
            return 0
        raise _ExpressionError(f"unexpected {token!r}" if token else "the condition ends too early")


def undefined_macros(tree: SourceTree, source: str, defines: Iterable[tuple[str, str]]) -> list[Problem]:
    """Report every condition of a variant that uses an undefined name or cannot be read.

    Args:
        tree: the shader sources.
        source: path of the variant's source below the shader directory.
        defines: (name, value) pairs that the compiler is given with ``-D``.

    Returns:
        Problems in the order in which the compiler would meet them, each once.

    Raises:
        SourceError: a source or include is missing, or includes itself.
    """
    values = {**PREDEFINED, **dict(defines)}
    walk = _Walk(tree, {name: _Macro(None, tuple(_tokens(value))) for name, value in values.items()})
    walk.file(tree.file(source))
    return walk.problems


def _tokens(text: str) -> list[str]:
    return [match[match.lastgroup or 0] for match in _TOKEN.finditer(text)]


def _parse_definition(text: str) -> tuple[str, _Macro]:
    """Read what follows ``#define``; a parameter list must touch the name."""
    match = _DEFINE.match(text)
    if match is None:
        return text, _Macro(None, ())
    name, brackets, inside, body = match.groups()
    parameters = None
    if brackets is not None:
        parameters = tuple(parameter.strip() for parameter in inside.split(",") if parameter.strip())
    return name, _Macro(parameters, tuple(_tokens(body)))


def _arguments(tokens: Sequence[str], position: int) -> tuple[list[list[str]], int]:
    """Read a call's arguments; returns them and the position behind the closing bracket."""
    arguments: list[list[str]] = [[]]
    depth = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token == ")" and depth == 0:
            return arguments, position
        if token == "," and depth == 0:
            arguments.append([])
            continue
        depth += (token == "(") - (token == ")")
        arguments[-1].append(token)
    raise _ExpressionError("a ) is missing")


def _paste(tokens: Sequence[str]) -> list[str]:
    """Join the neighbours of each ``##`` into one token."""
    result: list[str] = []
    position = 0
    while position < len(tokens):
        if tokens[position] == "##" and result and position + 1 < len(tokens):
            result[-1] += tokens[position + 1]
            position += 2
        else:
            result.append(tokens[position])
            position += 1
    return result
