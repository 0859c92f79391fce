"""How operators are named by people: in full, in short, and several at once."""

from __future__ import annotations

import fnmatch

from dmlvk.operators.declaration import OPERATORS

_PREFIXES = ("", "ELEMENT_WISE_", "ACTIVATION_")


def operators_named(text: str) -> list[str]:
    """The names of the operators that a text means, in the order in which they are declared.

    Args:
        text: a name or a glob (``*``, ``?``, ``[...]``), in upper or lower case, with or without ``DML_OPERATOR_``,
            ``ELEMENT_WISE_`` and ``ACTIVATION_``. A short name that two operators have, such as ``TANH``, is the one
            that is ELEMENT_WISE; a glob matches both.

    Returns:
        None at all where it means no operator.
    """
    pattern = text.upper().removeprefix("DML_OPERATOR_")
    is_glob = any(character in pattern for character in "*?[")
    found: set[str] = set()
    for prefix in _PREFIXES:
        if not is_glob and found:
            break
        found |= {name for name in OPERATORS if fnmatch.fnmatchcase(name, prefix + pattern)}
    return [name for name in OPERATORS if name in found]
