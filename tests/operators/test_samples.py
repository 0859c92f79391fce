"""Every operator that is tried by samples gives what its reference says, in every layout, on every device.

Where tests take turns, each sample runs in two of the layouts, one on either device, which must have the same bits; of
two successive cases of an operator the second has the other two. An operator that has one such case runs in all
layouts. Cases whose data types others show between them run on one device: each sample in one of the layouts, in turn.

The quick command takes few cases of each operator, each sample in one layout: the first on all devices, then in turn.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence

import pytest

from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.conformance.samples import SAMPLERS, SampleCase, sample_cases
from dmlvk.conformance.sampling import LAYOUTS, check_case
from dmlvk.operators import OPERATORS
from tests.effort import IS_QUICK, TAKES_TURNS, Turns, first_on_all, in_turn
from tests.targets import all_compute_as_gpus

CASES = sample_cases()
TURNS = Turns(CASES)


@pytest.mark.every_driver
@pytest.mark.each_operator
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_samples(case: SampleCase, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> None:
    if case.desc_class.declaration.pattern in ("matrix", "convolution", "recurrent", "composed"):
        # A processor's driver compiles a GPU's tiles for a second or more: test_products.py tries few of them.
        all_compute_as_gpus(monkeypatch, as_gpus=False)
    devices = TURNS.devices(case, benches)
    numbers = itertools.count()

    def chosen(benches: Sequence[Workbench], number: int) -> Sequence[Workbench]:
        return first_on_all(benches, next(numbers)) if IS_QUICK else in_turn(benches, number)

    is_shown_by_others = len(devices) < len(benches)
    layouts, first_layout = len(LAYOUTS), None
    if IS_QUICK or (TAKES_TURNS and is_shown_by_others):
        layouts = 1
    elif TAKES_TURNS and len(devices) > 1 and len(alike := TURNS.on_all(case)) > 1:
        layouts, first_layout = 2, _first_layout(alike.index(case), case.desc_class.operator_name)
    count = check_case(devices, case, layouts, first_layout=first_layout, chosen=chosen)
    assert count > 0, "there are no samples"


def _first_layout(number: int, operator: str) -> int:
    """Of an operator's case of a number; every other pair of cases and of operators has the devices the other way."""
    return 2 * number + (number // 2 + zlib.crc32(operator.encode())) % 2


def test_two_cases_have_all_layouts_of_a_sample_and_all_cases_have_each_on_each_device() -> None:
    places: set[tuple[int, int]] = set()
    for operator in SAMPLERS:
        for number in (0, 2, 4):
            of_pair = [_first_layout(number + second, operator) + place for second in (0, 1) for place in (0, 1)]
            assert {layout % len(LAYOUTS) for layout in of_pair} == set(range(len(LAYOUTS))), operator
            places |= {(layout % len(LAYOUTS), n % 2) for n, layout in enumerate(of_pair)}
    assert len(places) == 2 * len(LAYOUTS)


def test_every_irregular_operator_has_samples_and_a_reference() -> None:
    irregular = {name for name, kind in OPERATORS.items() if not kind.declaration.is_regular}
    assert set(SAMPLERS) == irregular <= set(REFERENCES)
