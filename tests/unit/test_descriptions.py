"""What all description classes have in common, whichever their members are."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import pytest

import dmlvk as dml

TENSOR = dml.TensorDesc(dml.FLOAT32, (2, 3))
OTHER = dml.TensorDesc(dml.FLOAT16, (2, 3))


def clip() -> dml.ElementWiseClip:
    return dml.ElementWiseClip(input_tensor=TENSOR, output_tensor=TENSOR, min=-1.5, max=2)


def test_members_cannot_be_changed() -> None:
    desc = clip()
    with pytest.raises(dataclasses.FrozenInstanceError, match="'min'"):
        setattr(desc, "min", 0.0)  # noqa: B010  # a plain assignment is refused by type checkers
    with pytest.raises(dataclasses.FrozenInstanceError, match="'min'"):
        del desc.min
    with pytest.raises(dataclasses.FrozenInstanceError, match="'minimum'"):
        setattr(desc, "minimum", 0.0)  # noqa: B010
    assert desc == clip()
    assert desc.min == -1.5


def test_the_signature_has_the_members_by_name() -> None:
    """As ``help`` and editors show it."""
    parameters = inspect.signature(dml.ElementWiseClip).parameters
    assert list(parameters) == ["input_tensor", "output_tensor", "scale_bias", "min", "max"]
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert [name for name, p in parameters.items() if p.default is not p.empty] == ["scale_bias"]
    assert parameters["scale_bias"].default is None
    assert parameters["min"].annotation == "float"


def test_the_text_names_class_and_members() -> None:
    desc = dml.ElementWiseRound(input_tensor=TENSOR, output_tensor=TENSOR, rounding_mode=dml.RoundingMode(1))
    text = repr(desc)
    assert text.startswith("ElementWiseRound(input_tensor=TensorDesc(data_type=<DataType.FLOAT32")
    assert text.endswith(", rounding_mode=<RoundingMode.TOWARD_ZERO: 1>)")


def test_copies_are_equal_and_differ_where_they_are_told_to() -> None:
    desc = clip()
    for same in (copy.copy(desc), copy.deepcopy(desc), pickle.loads(pickle.dumps(desc)), dataclasses.replace(desc)):
        assert same == desc
        assert hash(same) == hash(desc)
    changed = dataclasses.replace(desc, min=0, input_tensor=OTHER)
    assert (changed.min, changed.max, changed.input_tensor) == (0.0, 2.0, OTHER)
    assert changed != desc
