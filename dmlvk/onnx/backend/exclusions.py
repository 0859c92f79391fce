"""Cases of the ONNX project's test suite that do not hold, each with its reason."""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Exclusion:
    pattern: str  # a regular expression that their whole names match
    reason: str  # why


EXCLUSIONS = (
    Exclusion(
        r"test_bernoulli.*", "its results are random: the suite compares with the random numbers of one other program"
    ),
    Exclusion(
        r"test_loop16_seq_none", "optional sequences: the suite expects the sequence's elements as the model's outputs"
    ),
    Exclusion(
        r"test_attention_4d_causal_fp16",
        "one of 192 FLOAT16 results, the same as ONNX Runtime's, lies 0.12 percent from the suite's, which rounds sums "
        "in another order",
    ),
    Exclusion(r"test_gradient_of_.*", "Gradient, an operator for training that no evaluator has"),
)
"""All of them, for the version of the onnx package that the tests use."""


def reason_for(name: str) -> str | None:
    """Why a case does not hold; ``None`` for one that must."""
    return next((item.reason for item in EXCLUSIONS if re.fullmatch(item.pattern, name)), None)
