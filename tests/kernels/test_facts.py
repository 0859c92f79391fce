"""What the plan knows of shaders without reading them is true, and all that it needs."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from dmlvk.conformance.cases import attribute_sets, value_cases
from dmlvk.conformance.execution import LAYOUTS, describe, layout_of
from dmlvk.kernels import library
from dmlvk.kernels.library.facts import FILE_NAME, Facts, facts_of, facts_text, read_facts
from dmlvk.kernels.target import CPU, GPU
from dmlvk.kernels.variants import regular_variants
from dmlvk.spirv.volume import LONG_FUNCTION_WORDS, called_words
from tests.targets import kernel_of

ELEMENTS = 2**24
"""So many that every choice asks for what takes a while."""


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


def test_lowering_reads_no_shader_of_known_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [variant.name for variant in regular_variants() if variant.name.endswith(".contiguous")]
    known = {name: (library.key(name), Facts(1000, False)) for name in names}
    monkeypatch.setattr("dmlvk.kernels.library.facts._known", lambda: known)
    monkeypatch.setattr(library, "load", lambda name: pytest.fail(f"{name} was read"))
    facts_of.cache_clear()
    lowered = set()
    for case in value_cases():
        if case.desc_class.declaration.pattern != "elementwise":
            continue
        attributes = attribute_sets(case.desc_class, case.data_types[0][1])[0]
        for layout, target in itertools.product(LAYOUTS, (CPU, GPU)):
            sizes, strides = layout_of(case, layout, ELEMENTS)
            lowered.add(kernel_of(describe(case, sizes, strides, attributes), target).variant)
    facts_of.cache_clear()
    assert len(lowered) > 500


@pytest.mark.parametrize("key", [None, "of other sources"], ids=["new", "changed"])
def test_a_function_that_is_new_or_was_changed_is_measured(key: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts.of(library.load("element_wise_sin.float32.contiguous"))
    assert facts.words > LONG_FUNCTION_WORDS
    known = {} if key is None else {"element_wise_sin.float32.contiguous": (key, Facts(1, True))}
    monkeypatch.setattr("dmlvk.kernels.library.facts._known", lambda: known)
    facts_of.cache_clear()
    assert facts_of("element_wise_sin.float32.rows") == facts
    facts_of.cache_clear()


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_facts(tmp_path) == {}
    written = [("first.contiguous", "one", Facts(7, True)), ("second.contiguous", "two", Facts(900, False))]
    (tmp_path / FILE_NAME).write_text(facts_text(written))
    assert read_facts(tmp_path) == {name: (key, facts) for name, key, facts in written}
