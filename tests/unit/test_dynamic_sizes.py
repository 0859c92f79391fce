"""What is computed with dynamic sizes holds wherever the guards do; what needs a plain number is a guard."""

from __future__ import annotations

import math
import operator
import pickle
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dmlvk.dynamic.sharing import once
from dmlvk.dynamic.size_functions import interleaved
from dmlvk.dynamic.sizes import Guards, applied, as_size, is_multiple, power_of_two_in, typical, value_of
from dmlvk.dynamic.vectors import NumberVector
from dmlvk.graphs.plan import coefficients_of

OPERATIONS: tuple[Callable[[Any, Any, int], Any], ...] = (
    lambda a, b, small: a + b,
    lambda a, b, small: a - b,
    lambda a, b, small: b * a,
    lambda a, b, small: a // b if b != 0 else a,
    lambda a, b, small: a % b if b != 0 else a,
    lambda a, b, small: -(-a // small),
    lambda a, b, small: min(a, b),
    lambda a, b, small: a if a > b else b,
    lambda a, b, small: (a + 3) & ~3,
    lambda a, b, small: power_of_two_in(a, 16),
    lambda a, b, small: a & 1023,
    lambda a, b, small: applied(abs, a - b),
)


def _computed(choices: random.Random, sizes: list[Any]) -> tuple[Any, ...]:
    numbers = list(sizes)
    for _ in range(choices.randrange(3, 14)):
        kind = choices.randrange(len(OPERATIONS))
        a, b, small = choices.choice(numbers), choices.choice(numbers), choices.randrange(1, 40)
        other = small if choices.random() < 0.6 else b
        numbers.append(OPERATIONS[kind](a, other, small))
    return tuple(numbers)


def test_programs_at_random_give_for_other_sizes_what_they_would_give_anew() -> None:
    reused = 0
    for seed in range(600):
        drawn = random.Random(seed)
        values = [drawn.randrange(2, 60) for _ in range(3)]
        guards = Guards()
        results = _computed(random.Random(seed), [guards.size(value) for value in values])
        function, test = guards.function(results), guards.test()
        assert test(*values), (seed, guards.conditions)
        assert function(*values) == tuple(map(value_of, results)) == _computed(random.Random(seed), values)
        for _ in range(20):
            others = [drawn.randrange(2, 80) for _ in range(3)]
            if test(*others):
                reused += 1
                assert function(*others) == _computed(random.Random(seed), others), (seed, others, guards.conditions)
    assert reused > 3000


def test_a_vector_has_the_numbers_of_its_sizes_and_knows_which_follow_from_them() -> None:
    guards = Guards()
    rows, columns = guards.size(6), guards.size(5)
    vector = NumberVector(guards, [7, rows * columns, -3, rows - 2 * columns, rows * columns, 2**40])
    assert vector.is_open.tolist() == [False, True, False, True, True, False]
    for sizes in ((6, 5), (9, 11), (2, 2)):
        product, difference = sizes[0] * sizes[1], sizes[0] - 2 * sizes[1]
        assert vector(*sizes).tolist() == [7, product, -3, difference, product, 2**40]


LOSSES: dict[str, Callable[[Any], object]] = {
    "int": int,
    "index": operator.index,
    "float": float,
    "hash": lambda size: {size: 1},
    "text": str,
    "text of a list": lambda size: f"{[size]}",
    "format": lambda size: f"{size:4}",
    "range": lambda size: list(range(size)),
    "array": lambda size: np.zeros(size),
    "element": lambda size: np.array([size], np.int64),
    "times a float": lambda size: size * 0.5,
    "divided": lambda size: size / 2,
    "shifted": lambda size: size << 1,
    "or": lambda size: size | 4,
    "power": lambda size: size**2,
    "bits": lambda size: size.bit_length(),
    "common divisor": lambda size: math.gcd(size, 12),
    "slice": lambda size: "abc"[:size],
    "square root": math.sqrt,
    "pickle": pickle.dumps,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_loses_track_of_a_size_is_a_guard_that_it_is_this_one(loss: str) -> None:
    guards = Guards()
    size = guards.size(37)
    LOSSES[loss](size)
    test = guards.test()
    assert [other for other in range(2, 100) if test(other)] == [37]
    (location,) = guards.locations
    assert location


def test_what_is_so_for_all_sizes_is_no_guard() -> None:
    guards = Guards()
    n = guards.size(37)
    assert (n * 64) // 64 == n
    assert n * 64 % 16 == 0
    assert n >= 2
    assert n != 0
    assert -(-n // 4) > 0
    assert n * n + 1 > n - 5 + 3 - n
    assert (n + 3) // 4 * 4 - (n + 3) // 4 * 4 == 0
    assert as_size(np.int64(3)) == 3
    assert is_multiple(8 * n, 4)
    assert len(guards) == 0
    assert "37" not in f"{guards.conditions}"


def test_multiples_are_told_apart_only_where_plans_are_to() -> None:
    loose, strict = Guards(tells_multiples=False), Guards()
    assert not is_multiple(loose.size(36), 4)
    assert is_multiple(strict.size(36), 4)
    assert (len(loose), len(strict)) == (0, 1)


def test_a_typical_number_is_the_same_for_all_sizes_between_two_powers_of_two() -> None:
    found: dict[int, int] = {}
    for value in range(2, 200):
        guards = Guards()
        chosen = typical(guards.size(value) * 12 // 5)
        assert chosen == found.setdefault((value - 1).bit_length(), chosen)
        test = guards.test()
        assert all(test(other) == ((other - 1).bit_length() == (value - 1).bit_length()) for other in range(2, 200))
    assert typical(7) == 7


def test_where_operands_begin_is_told_apart_from_sizes() -> None:
    guards = Guards()
    n, size = guards.size(37), guards.size(2)
    rest, factors = coefficients_of(16 * size // 4 + n // 2, [size])
    assert factors == [4]
    assert value_of(rest) == 18
    for word in (size * n, (n + size) // 3):
        with pytest.raises(ValueError, match="open size"):
            coefficients_of(word, [size])


def test_thousands_of_guards_are_ordered_at_once() -> None:
    """Networks that are recurrent have thousands; each comes as soon as its variables are there."""
    count = 4000
    variables = [f"    q{size} = s0 // {size + 2}" for size in range(count)]
    tests = [f"    if not (q{size}*s1 == 0): return False" for size in reversed(range(count))]
    begun = time.process_time()
    made = interleaved(variables, [*tests, "    if not (s0 > 1): return False"])
    assert time.process_time() - begun < 1
    pairs = [line for variable, test in zip(variables, reversed(tests), strict=True) for line in (variable, test)]
    assert made == ["    if not (s0 > 1): return False", *pairs]


def test_what_is_made_of_equal_sizes_is_made_once_and_of_others_anew() -> None:
    guards, others = Guards(), Guards()
    a, b, foreign = guards.size(6), guards.size(6), others.size(6)
    made: list[tuple[int, ...]] = []

    def make(sizes: tuple[int, ...]) -> list[int]:
        made.append(sizes)
        return list(sizes)

    assert once(make, (a * 2, 3)) is once(make, (a + a, 3))
    assert once(make, (b * 2, 3)) is not once(make, (a + a, 3))
    assert once(make, (a * 2, 4)) is not once(make, (a * 2, 3))
    assert once(make, (a, foreign)) is not once(make, (a, foreign))
    assert len(made) == 5
    assert not guards.conditions
    assert not others.conditions
