"""``docs/decisions.md``: what was decided where DirectML is silent, why, and which tests hold it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.operators import OPERATORS
from scripts.docs_tools.markdown import page, table


@dataclasses.dataclass(frozen=True)
class Theme:
    title: str  # its heading
    reason: str  # why it was decided so
    pattern: str  # what in a decision's words tells that it belongs here; themes are asked in order


THEMES = (
    Theme(
        "x * Scale + Bias",
        "One rounding is the most exact meaning that the page allows, and the only one that leaves nothing to the "
        "order of operations or to whether a device fuses them. For integers it is C's conversion (truncation), "
        "completed by saturation where C leaves it undefined.",
        r"^x \* Scale \+ Bias",
    ),
    Theme(
        "Quantization",
        "With exact integers, products and quotients there is one rounding only, so nothing depends on the order of "
        "steps. Halves to even is what frameworks round by. The page calls a scale of zero undefined; IEEE 754's "
        "quotient, saturated, and the zero point for NaN are numbers that every device can give.",
        r"by the exact quotient|divided by a scale|absent zero point|integers is exact|[Zz]ero point may|"
        r"two products|sum of infinities|denormals count as zero in Scale and|integer sum|with both scales|OutputScale|"
        r"as by ELEMENT_WISE_QUANTIZE_LINEAR|range is widened|zero in scales|"
        r"QuantizationTensors|length of a block|scale has the data type",
    ),
    Theme(
        "Indices",
        "Indices are data, which nothing can check before a device computes. Whatever they hold, nothing outside of a "
        "tensor is read or written, and every device gives the same bits.",
        r"\b[Ii]ndex\b|[Ii]ndices|IndexDimensions",
    ),
    Theme(
        "Rows",
        "What depends on many elements depends on the order in which they are taken: one that follows from the row "
        "alone gives the same bits on every device and wherever the row lies. The special rows are what IEEE 754 gives "
        "when the formula is evaluated after the largest element was taken off.",
        r"\b[Rr]ow\b|order of the sum",
    ),
    Theme(
        "Fused activations",
        "Fusing is a matter of speed, so it must not change a bit: a program's results are the same without it.",
        r"[Ff]used activation|followed by the activation",
    ),
    Theme(
        "Denormals and NaN of arithmetic",
        "Direct3D's rule for 32-bit floats is that denormals become zeros of their sign; Vulkan lets a device do so or "
        "keep them. Zeros of their sign are the behaviour that every device can share. IEEE 754 does not say which NaN "
        "an operation produces: one of them is chosen, so that bits agree.",
        r"^FLOAT32 denormals count|canonical quiet NaN$|NaN gives the canonical",
    ),
    Theme(
        "Conversion of attributes",
        "An attribute is converted once, with one rounding, before anything is computed; where C's conversion is "
        "undefined it saturates, and NaN gives 0, so that every value has a meaning.",
        r"converted to the tensor's data type|given as FLOAT and|(is a|are) FLOAT32 values?|takes any FLOAT32",
    ),
    Theme(
        "Comparisons with NaN",
        "IEEE 754: all comparisons with NaN are false, but for «not equal», which is no operator.",
        r"comparison with NaN",
    ),
    Theme(
        "A number and NaN, and the two zeros",
        "HLSL's min and max, the functions of DirectML's world, return the number; so do IEEE 754's minimumNumber and "
        "maximumNumber, which also order the zeros: -0 below +0.",
        r"[Oo]f a number and NaN|\+0 is above -0|both zeros give \+0",
    ),
    Theme(
        "Integers",
        "GLSL leaves division by zero, remainders of negative numbers and shifts by the width or more undefined, and "
        "devices differ; none of these is ever executed. Two's complement wraps, as on every GPU; divisions by zero "
        "give 0, the result that does least harm to what follows.",
        r"[Ii]nteger|shift by the width|quotient is the exact one|mean|truncated",
    ),
    Theme(
        "Bits stay as they are",
        "Operators that move, select, compare or test bits never compute: to denormals and NaN they do nothing.",
        r"sign bit|[Dd]enormals are the numbers|moved as it is|keeps the sign|stays? as (it is|they are)",
    ),
    Theme(
        "Values at the edges",
        "C99's Annex F where it has the function; else the limit of the formula, or what IEEE 754 gives when the "
        "formula is evaluated as it stands, without any intermediate overflow.",
        "",
    ),
)

GENERAL = (
    (
        "Outputs whose elements overlap are refused.",
        "Which of two values stays would depend on the device.",
        "tests/binding/test_refusals.py",
    ),
    (
        "In-place execution needs the same strides for input and output.",
        "Otherwise an element would be overwritten before it is read, or not, depending on the device.",
        "tests/binding/test_aliasing.py",
    ),
    (
        "Bytes between the elements of an output keep their values.",
        "Tensors of other programs may lie there.",
        "tests/operators/test_geometry.py",
    ),
    (
        "Feature levels, data types and dimensions beyond the tables are refused by name.",
        "DirectML answers E_INVALIDARG; a sentence helps more.",
        "tests/operators/test_feature_levels.py",
    ),
    (
        "fma() stands in three functions: `exact_product_plus`, for exact products, and `loose_product_plus` of "
        "`shaders/include/error_free.glsl`, and `device_product_plus` of `device_arithmetic.glsl`. The linter refuses "
        "any other (rule `fma`: `bare_fma` of `scripts/shader_tools/checks.py`).",
        "Whether it rounds once or twice is the driver's choice. Of a product that is exact both are the same, and on "
        "most devices it is one instruction instead of two.",
        "tests/scripts/test_check_shaders.py",
    ),
    (
        'ALLOW_DEVICE_ARITHMETIC (0x100) and `Device(arithmetic="device")` permit a device to round sums of FLOAT32 '
        "products as it likes; they have variants of their own (`*.device`), where alone `device_product_plus` stands. "
        "Operands that are denormal count as zeros there, too, and segments and their order stay.",
        "Who needs speed more than the same bits may have it, and nobody else's bits change. Zeros for denormal "
        "operands cost nothing beside the products and leave 0 times infinity what it is; segments keep the stated "
        "error.",
        "tests/operators/test_exact_products.py",
    ),
    (
        "With it FLOAT16 is multiplied by cooperative matrices (`*.cooperative.*`) in segments of up to 16384 terms, "
        "whose FLOAT32 sums are added in rising order.",
        "Units for matrices may cut sums off instead of rounding them (Fasi, Higham, Mikaitis, Pranesh, Numerical "
        "behavior of NVIDIA tensor cores, 2021): what they lose grows with the terms in a row; of 16384 it was less "
        "than the rounding of a result to FLOAT16 (docs/notes/device-arithmetic.md), and to write sums and add them "
        "up in another launch takes half as long again as to multiply.",
        "tests/operators/test_cooperative_floats.py",
    ),
    (
        "With it FLOAT32 GEMM is multiplied by cooperative matrices, too, where operands can be loaded by eights "
        "and there is enough to do: each operand as three numbers of 8 bits (bfloat16), of "
        "whose nine products the six largest are added up, the small ones first, 16 terms at a time. Where sums might "
        "overflow on their way they are computed in their order.",
        "Three such parts are the operand itself, whatever its exponent, and what is left out is 2^-23 of a product at "
        "most (Henry, Tang, Heinecke, Leveraging the bfloat16 artificial intelligence datatype for higher-precision "
        "computations, 2019). It is faster than fused additions and errs less; two parts of FLOAT16 would be faster "
        "still, but have not the range of FLOAT32.",
        "tests/operators/test_cooperative_floats.py",
    ),
    (
        "With it large FLOAT32 GEMMs of 2048 terms or more are multiplied as integers of 23 bits, which blocks of 256 "
        "terms have an exponent for: six of the nine products of their bytes are added up by cooperative matrices, or "
        "nine where a result's row and column do not tell that six are within the stated error, or else the result "
        "is computed as it is without.",
        "Sums of integers are exact in any order, and matrices of bytes are the fastest that there are: K. Ozaki's "
        "scheme, by bytes in Ootomo, Ozaki, Yokota, DGEMM on integer matrix multiplication unit, 2024. What is left "
        "to a device is whether it takes them: their bits are defined (docs/notes/exact-products.md, with the proof of "
        "the error and what was tried).",
        "tests/operators/test_exact_products.py",
    ),
    (
        "With it FLOAT16 attention to 16 keys or more, of as many queries and of heads of up to 160 elements, in "
        "multiples of eight, is one kernel by cooperative matrices: scores are FLOAT32 and never in memory, the "
        "powers of a row are those of the device's exp2, are rounded to FLOAT16 before they are multiplied with "
        "values, and their sum divides in the end. When a larger score comes, what was there is multiplied by a "
        "power.",
        "Scores in memory take most of the time (Dao, Fu, Ermon, Rudra, Ré, FlashAttention, 2022). Vulkan grants "
        "exp2 an error of 3 + 2|x| units in the last place of FLOAT32, a hundredth of what rounding to FLOAT16 "
        "takes; the bound that conformance checks is that of scores and shares rounded to FLOAT16, which it keeps.",
        "tests/operators/test_cooperative_attention.py",
    ),
    (
        "The polynomial of FLOAT16's EXP multiplies and adds as the device likes, rounding once or twice "
        "(`loose_product_plus`).",
        "That takes 12 operations instead of 17. Its coefficients are such that none of the 65,536 results depends on "
        "any of the 32 ways to round its five sums.",
        "tests/kernels/test_loose_products.py",
    ),
)

_INTRODUCTION = """# Where DirectML is silent

DirectML's pages leave questions open, and drivers answer them in different ways. Here is what dmlvk does, why, and what
holds it. Each decision stands in its operator's declaration; the reference function named beside it computes by it, and
`tests/operators/test_values.py` compares every device with the reference (every pattern of 8- and 16-bit types, special
values and sweeps of wider ones): `scripts/test.sh tests/operators/test_values.py -k CASES`."""


def theme_of(decision: str) -> Theme:
    """The first theme that a decision's words belong to; the last one takes all that are left."""
    return next(theme for theme in THEMES if re.search(theme.pattern, decision))


def decisions_page() -> str:
    by_decision: dict[str, list[str]] = {}
    for name, operator in sorted(OPERATORS.items()):
        for decision in operator.declaration.decisions:
            by_decision.setdefault(decision, []).append(name)
    lines = [*_INTRODUCTION.splitlines(), ""]
    for theme in THEMES:
        chosen = {decision: names for decision, names in by_decision.items() if theme_of(decision) is theme}
        if chosen:
            lines += [f"## {theme.title}", "", f"Why: {theme.reason}", ""]
            lines += [*table(["decision", "operators", "reference", "CASES"], map(_row, chosen.items())), ""]
    lines += ["## All operators", ""]
    lines += table(["decision", "why", "test"], ((what, why, f"`{test}`") for what, why, test in GENERAL))
    return page(lines)


def _row(decision: tuple[str, list[str]]) -> tuple[str, ...]:
    text, names = decision
    return text, _operators(names), _references(names), _tests(names)


def _short(name: str) -> str:
    return name.removeprefix("ELEMENT_WISE_")


def _operators(names: list[str]) -> str:
    return ", ".join(f"[{_short(name)}](operators.md#{name.lower()})" for name in names)


def _references(names: list[str]) -> str:
    """The functions in ``dmlvk/conformance/references/``, of few operators."""
    functions: dict[str, None] = {}
    for name in names:
        reference = REFERENCES[name]
        module = reference.__module__.removeprefix("dmlvk.conformance.references").lstrip(".")
        functions[f"`{module + '.' if module else ''}{reference.__name__}`"] = None
    return ", ".join(functions) if len(functions) <= 6 else "each its own"


def _tests(names: list[str]) -> str:
    return f'`"{" or ".join(f"{_short(name).lower()}-" for name in names)}"`' if len(names) <= 6 else "all"


def general_tests() -> Iterator[str]:
    for _, _, test in GENERAL:
        yield test
