"""What the plan knows of shaders without reading them is true, and all that it needs."""

from __future__ import annotations

import itertools

import pytest

from dmlvk.conformance.cases import attribute_sets, value_cases
from dmlvk.conformance.execution import LAYOUTS, describe, layout_of
from dmlvk.kernels import library
from dmlvk.kernels.library.facts import Facts, facts_of, function_name, measured
from dmlvk.kernels.target import CPU, GPU
from dmlvk.kernels.variants import regular_variants
from dmlvk.spirv.volume import LONG_FUNCTION_WORDS, called_words
from scripts import make_facts
from tests.targets import kernel_of

ELEMENTS = 2**24
"""So many that every choice asks for what takes a while."""


def test_the_committed_facts_are_those_of_the_shaders(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_facts.main(["--check"]) == 0, capsys.readouterr().err


_LONGER_IN_ROWS = {
    "element_wise_acosh.float32.rows",
    "element_wise_clip_grad.float16.rows",
    "element_wise_clip_grad1.float16.rows",
}
"""Of which more is called as a function in rows than in the contiguous kernel, for which they are taken: that costs
time and no bit."""


def test_a_function_takes_as_long_in_rows_as_contiguous() -> None:
    """Both access orders ask for it; one fact serves them."""
    rows = [variant.name for variant in regular_variants() if variant.name.endswith(".rows")]
    assert len(rows) > 500
    differing = set()
    for name in rows:
        takes_a_while = called_words(library.load(name)) >= LONG_FUNCTION_WORDS
        if takes_a_while != (facts_of(name).words >= LONG_FUNCTION_WORDS):
            differing.add(name)
    assert differing == _LONGER_IN_ROWS


def test_lowering_reads_no_compiled_shader(monkeypatch: pytest.MonkeyPatch) -> None:
    measured.cache_clear()
    monkeypatch.setattr(library, "load", lambda name: pytest.fail(f"{name} was read"))
    lowered = set()
    for case in value_cases():
        if case.desc_class.declaration.pattern != "elementwise":
            continue
        attributes = attribute_sets(case.desc_class, case.data_types[0][1])[0]
        for layout, target in itertools.product(LAYOUTS, (CPU, GPU)):
            sizes, strides = layout_of(case, layout, ELEMENTS)
            lowered.add(kernel_of(describe(case, sizes, strides, attributes), target).variant)
    assert len(lowered) > 500


def test_the_function_of_a_new_operator_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    known = facts_of("element_wise_sin.float32.rows")
    monkeypatch.setattr("dmlvk.kernels.library.facts._stored", dict)
    assert facts_of("element_wise_sin.float32.rows") == known == measured("element_wise_sin.float32.contiguous")


def test_what_another_compiler_counts_is_no_difference() -> None:
    stored = {"a": Facts(1000, True), "b": Facts(10, False), "gone": Facts(1, False)}
    now = {"a": Facts(1080, True), "b": Facts(25, False), "new": Facts(1, False)}
    assert make_facts.different(stored, now) == ["gone", "new"]
    assert make_facts.different({"a": stored["a"]}, {"a": Facts(1200, True)}) == ["a"]
    assert make_facts.different({"a": stored["a"]}, {"a": Facts(1000, False)}) == ["a"]
    assert function_name("element_wise_add.float32.rows") == "element_wise_add.float32"
