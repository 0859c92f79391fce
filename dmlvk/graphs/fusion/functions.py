"""Operators' functions in a form that can be put into one kernel with others.

They are taken from the operators' own shader files: ``OPERATION``, what it includes, and code of its own. Nothing is
written twice, so a fused kernel computes with the very functions of the single operators.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.elementwise.elementwise import lower
from dmlvk.kernels.library import glsl
from dmlvk.kernels.library.facts import facts_of
from dmlvk.kernels.library.sources import SourceFile
from dmlvk.kernels.special_values import is_told, special_attribute
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import attribute_words, operands_of, variant
from dmlvk.operators import OperatorDesc

_OPERANDS = "elementwise/elementwise_operands.glsl"
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)", re.DOTALL)
_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
_DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
_VARIANT_MACROS = re.compile(r"\b(?:INPUT_\w+|OUTPUT|OUTPUT_\w+|ATTRIBUTE_\w+|HAS_\w+|LANES|ACCESS_ORDER|TILE)\b")
_SMALLEST_VOLUME = 20  # Words of SPIR-V of what stands between two functions

_OF_THE_PATTERN = ("INPUT_COUNT", "ACCESS_ORDER", "LANES", "TILE", "LINES", "TILES", "ATTRIBUTE_WORDS")
_OF_LOOPS = ("LONG_", "ELEMENTS_IN_LOOP", "FOR_EACH_LANE")
"""How a file says that its function is to stand in a loop over the lanes, which no function of a fused kernel does."""

_ATTRIBUTE = re.compile(r"parameters\.attributes\[(\d+)\]")


@dataclasses.dataclass(frozen=True)
class OperatorSource:
    """A shader file of an element-wise operator, taken apart."""

    path: str  # below the shader directory
    directives: str  # includes and definitions, ``OPERATION`` too, in order: what every use needs again
    code: str  # functions of the file's own, which a kernel must have only once
    macros: tuple[str, ...]  # what the directives define, to be taken back after a use


@dataclasses.dataclass(frozen=True)
class Function:
    source: OperatorSource  # its shader file
    defines: tuple[tuple[str, str], ...]  # the macros that make a variant of the file, by name
    types: tuple[DataType, ...]  # data types as the shader sees them, inputs first, the output last
    attributes: tuple[int, ...]  # the words of its attributes
    volume: int  # words of SPIR-V that it takes, roughly
    promise: str  # of its results, as ``Accuracy.promise``

    def attribute(self, name: str) -> int:
        """The word of an attribute, as the shader file calls it: ``ATTRIBUTE_MIN``."""
        (number,) = _ATTRIBUTE.findall(dict(self.defines)[name])
        return self.attributes[int(number)]

    def defines_at(self, first_attribute: int) -> list[tuple[str, str]]:
        """The macros, with the attributes' words behind those of other operators."""

        def moved(match: re.Match[str]) -> str:
            return f"parameters.attributes[{int(match[1]) + first_attribute}]"

        return [(name, _ATTRIBUTE.sub(moved, value)) for name, value in self.defines]


def function_of(desc: OperatorDesc, target: Target) -> Function | None:
    """An operator's function; ``None`` when it is not element-wise, or its file cannot be put into another kernel."""
    if desc.declaration.pattern != "elementwise" or desc.activation is not None:
        return None  # fused activations come from a file that two different ones of a kernel could not share
    types, present = operands_of(desc)
    made = variant(type(desc), types, "contiguous", present)
    source = operator_source(made.source)
    if source is None or len(desc.outputs) != 1:
        return None
    words = attribute_words(type(desc), types[-1])
    given = [number for number, word in enumerate(words) if getattr(desc, word.field.attribute) is not None]
    attributes = lower(desc, target).attributes
    return Function(
        source=source,
        defines=(*_renumbered(made.defines, given), *_special(desc)),
        types=types,
        attributes=tuple(attributes[number] for number in given),
        volume=_SMALLEST_VOLUME + facts_of(made.name).words,
        promise=desc.declaration.accuracy.promise,
    )


def _special(desc: OperatorDesc) -> list[tuple[str, str]]:
    """What functions are told that are told something."""
    return [("SPECIAL_ATTRIBUTE", f"{special_attribute(desc):#x}u")] if is_told(desc) else []


def _renumbered(defines: Iterable[tuple[str, str]], given: Sequence[int]) -> Iterator[tuple[str, str]]:
    """The macros of a function, with the words of its attributes counted without those that are absent."""
    numbers = {old: new for new, old in enumerate(given)}
    for name, value in defines:
        if name in _OF_THE_PATTERN or any(int(word) not in numbers for word in _ATTRIBUTE.findall(value)):
            continue
        yield name, _ATTRIBUTE.sub(lambda match: f"parameters.attributes[{numbers[int(match[1])]}]", value)


@functools.cache
def operator_source(path: str) -> OperatorSource | None:
    """Takes a shader file apart.

    Returns:
        ``None`` when it is not an element-wise operator's, or when code of its own depends on the variant.
    """
    text = glsl.source_text(path)
    if text is None or not SourceFile(path, text).is_elementwise:
        return None
    directives: list[str] = []
    code: list[str] = []
    has_conditions = False
    for line in _logical_lines(_COMMENT.sub(" ", text)):
        directive = _DIRECTIVE.fullmatch(line)
        include = _INCLUDE.match(line)
        if directive is None:
            code += [line] if line.strip() else []
        elif include is not None and include[1] == _OPERANDS:
            continue
        elif directive[1] not in ("version", "extension") and not directive[2].startswith(_OF_LOOPS):
            has_conditions |= directive[1].startswith(("if", "el"))
            directives.append(line)
    own_code = "\n".join(code)
    if own_code and (has_conditions or _VARIANT_MACROS.search(own_code)):
        return None
    joined = "\n".join(directives)
    return OperatorSource(path, joined, own_code, tuple(sorted(_macros(joined))))


def _logical_lines(text: str) -> list[str]:
    """Lines, with those that end in a backslash joined to the next one."""
    lines: list[str] = []
    continues = False
    for line in text.split("\n"):
        if continues:
            lines[-1] += "\n" + line
        else:
            lines.append(line)
        continues = line.rstrip().endswith("\\")
    return lines


def _macros(directives: str) -> set[str]:
    """The macros that directives define, also in included files that are not guarded against being included again."""
    found = set(_DEFINE.findall(directives))
    for name in _INCLUDE.findall(directives):
        text = next((t for folder in ("include", "patterns") if (t := glsl.source_text(f"{folder}/{name}"))), None)
        if text is not None and not re.match(r"\s*#\s*ifndef\b", _COMMENT.sub(" ", text)):
            found |= _macros(_COMMENT.sub(" ", text))
    return found
