"""What operators must give that make random numbers, by Python's integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.references.registry import reference
from dmlvk.operators.random import RandomGenerator

Array = npt.NDArray[Any]

_WORD = 2**32


def philox_4x32_10(counter: int, key: int) -> list[int]:
    """Four words of a counter of 128 bits and a key of 64 bits.

    The generator of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011);
    tests hold it against the answers that were published with their library Random123.
    """
    words = [counter >> (32 * n) & (_WORD - 1) for n in range(4)]
    keys = [key & (_WORD - 1), key >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            second // _WORD ^ words[1] ^ keys[0],
            second % _WORD,
            first // _WORD ^ words[3] ^ keys[1],
            first % _WORD,
        ]
        keys = [(keys[0] + 0x9E3779B9) % _WORD, (keys[1] + 0xBB67AE85) % _WORD]
    return words


@reference("RANDOM_GENERATOR")
def random_generator(desc: RandomGenerator, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    state = [int(word) for word in inputs["InputStateTensor"].reshape(-1)]
    counter = sum(word << (32 * n) for n, word in enumerate(state[:4]))
    key = state[4] + (state[5] << 32)
    sizes = tuple(desc.output_tensor.sizes)
    count = int(np.prod(sizes))
    groups = -(-count // 4)
    numbers = [word for group in range(groups) for word in philox_4x32_10((counter + group) % 2**128, key)]
    outputs = {"OutputTensor": np.array(numbers[:count], np.uint32).reshape(sizes)}
    if desc.output_state_tensor is not None:
        after = (counter + groups) % 2**128
        words = [after >> (32 * n) & (_WORD - 1) for n in range(4)] + state[4:]
        outputs["OutputStateTensor"] = np.array(words, np.uint32).reshape(inputs["InputStateTensor"].shape)
    return outputs
