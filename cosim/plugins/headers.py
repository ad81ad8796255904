"""The C headers of the plug-in ABI: where they are, and what they declare."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import cffi

__all__ = ["constant", "declarations", "header", "include_dir", "needed"]


def include_dir() -> Path:
    """The folder to compile plug-ins with: ``cc -I$(python -c 'import cosim; print(cosim.plugins.include_dir())')``.

    Sources write ``#include <cosim/plugin/cosim_router.h>``.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "include", package.parent / "ext" / "include"):
        if (folder / "cosim" / "plugin").is_dir():
            return folder
    raise FileNotFoundError(
        f"cosim's plug-in headers are missing: no 'include' in {package} nor 'ext/include' beside it"
    )


def header(name: str) -> Path:
    """The path of one header, such as ``cosim_router.h``."""
    return include_dir() / "cosim" / "plugin" / name


@cache
def declarations(name: str) -> cffi.FFI:
    """What a header declares, read from the header itself so that there is one definition."""
    ffi = cffi.FFI()
    ffi.cdef(_declared(name))
    return ffi


def needed(name: str) -> list[str]:
    """A header and the plug-in headers that it includes."""
    text = header(name).read_text(encoding="utf-8")
    return [name, *re.findall(r"^#include <cosim/plugin/(\w+\.h)>$", text, re.MULTILINE)]


def _declared(name: str) -> str:
    """The declarations of a header and, before them, of the plug-in headers that it includes."""
    text = header(name).read_text(encoding="utf-8")
    included = needed(name)[1:]
    text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("#", "__attribute__"))]
    return "\n".join([*(_declared(each) for each in included), *lines])


@cache
def constant(name: str, macro: str) -> int:
    """The value of an integer macro of a header: a literal, or ``1 << n`` in brackets."""
    text = header(name).read_text(encoding="utf-8")
    found = re.search(rf"^#define {macro} \(?(-?\d+)u?(?: << (\d+))?\)?$", text, re.MULTILINE)
    if found is None:
        raise KeyError(f"{name} defines no integer {macro}")
    return int(found[1]) << int(found[2] or 0)
