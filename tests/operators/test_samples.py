"""Every operator that is tried by samples gives what its reference says, in every layout, on every device.

Where tests take turns, each layout of a sample runs on one of the devices, so that each of two devices has two of
them, and all must have the same bits. Cases whose data types others show between them run on one device: each sample in
two of the layouts, in turn.

The quick command takes layouts in turn, so that each of an operator's samples has one, and devices; of an operator's
cases one has half of the samples, the others a fifth of them.
"""

from __future__ import annotations

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
@pytest.mark.combinations
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_samples(case: SampleCase, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> None:
    if case.desc_class.declaration.pattern in ("matrix", "convolution", "recurrent", "composed"):
        # A processor's driver compiles a GPU's tiles for a second or more: test_products.py tries few of them.
        all_compute_as_gpus(monkeypatch, as_gpus=False)
    devices = TURNS.devices(case, benches)
    chosen = first_on_all if IS_QUICK else in_turn
    is_shown_by_others = len(devices) < len(benches)
    layouts, step = len(LAYOUTS), 1
    if IS_QUICK:
        layouts, step = 1, 5 if is_shown_by_others else 2
    elif TAKES_TURNS and is_shown_by_others:
        layouts = 2
    assert check_case(devices, case, layouts, step=step, chosen=chosen) > 0, "there are no samples"


def test_every_irregular_operator_has_samples_and_a_reference() -> None:
    irregular = {name for name, kind in OPERATORS.items() if not kind.declaration.is_regular}
    assert set(SAMPLERS) == irregular <= set(REFERENCES)
