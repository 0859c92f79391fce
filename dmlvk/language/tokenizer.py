"""The tokenizer of a folder, by the package ``tokenizers``, whose errors are of no special kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from dmlvk.errors import ModelFileError, UnsupportedError

if TYPE_CHECKING:
    from dmlvk.language.folder import ModelFolder

Result = TypeVar("Result")


def read_tokenizer(folder: ModelFolder) -> Any:
    """The tokenizer; it neither cuts texts nor fills them up, whatever its file says of batches for training.

    Raises:
        ModelFileError: the file is none of the package's.
        UnsupportedError: the package is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UnsupportedError(f"language models need the extra chat: pip install dmlvk[chat] ({error})") from error

    def read() -> Any:
        tokenizer = Tokenizer.from_file(str(folder.tokenizer))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    return tokenized(folder, read, "is no tokenizer")


def tokenized(folder: ModelFolder, work: Callable[[], Result], fault: str = "the tokenizer fails") -> Result:
    """What a tokenizer's method gives.

    Raises:
        ModelFileError: it fails: by an exception of no special kind, or by a panic of the package, which is none.
    """
    try:
        return work()
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # an interrupt
        reason = " ".join(str(error).split())[:300]
        raise ModelFileError(f"{folder.tokenizer}: {fault}: {reason}") from error


__all__ = ["read_tokenizer", "tokenized"]
