"""Reads pickles without running them: a machine for the opcodes that data need, and nothing that could be called.

A pickle is a program; Python's own reader runs it. This one knows no module and imports nothing. What a pickle may name
is a fixed list of data types (numpy arrays, torch tensors and storages, plain containers), each built here from checked
arguments; any other name is refused by that name. Work and memory are bounded by the limits given.

Opcodes: the table of Python's `pickletools`, protocols 0 to 5. Torch's layout: `torch/serialization.py` and
`torch/_utils.py` of torch 2.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.trace.limits import ReadLimits
from cosim.trace.tensors import ArrayRef, checked_view

_MAX_INTEGER_BYTES = 16
_DTYPE = re.compile(r"[<>=|]?(b1|\?|[iu][1248]|f[248]|[SU][1-9]\d{0,5})")
_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "|i1",
    "ByteStorage": "|u1",
    "BoolStorage": "|b1",
}
_TORCH_DTYPES = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "bfloat16",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint8": "|u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "bool": "|b1",
}


class UnsafePickle(ValueError):
    """What a pickle asks for and does not get, or why it cannot be read."""


@dataclass(frozen=True)
class StorageRef:
    """A torch storage: where its bytes lie, not the bytes.

    Attributes:
        kind: numpy dtype text, `bfloat16`, or an empty text for untyped bytes.
        count: its elements (bytes where untyped).
        read: the bytes.
    """

    kind: str
    count: int
    read: Callable[[], NDArray[np.uint8]]


OpenStorage = Callable[[str, str, int], StorageRef]
"""(key, kind, elements) → the storage; raises UnsafePickle when it is not there or has another size."""


@dataclass
class _Global:
    """A name of the fixed list, as the pickle holds it."""

    name: str


@dataclass
class _DType:
    """A numpy dtype under construction."""

    text: str


@dataclass
class _Machine:
    data: memoryview
    limits: ReadLimits
    budget: int
    open_storage: OpenStorage | None
    place: int = 0
    operations: int = 0
    array_bytes: int = 0
    stack: list[Any] = field(default_factory=list)
    marks: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def run(self) -> Any:
        data, handlers = self.data, _HANDLERS
        size = len(data)
        while self.place < size:
            code = data[self.place]
            self.place += 1
            self.work(1)
            if code == 0x2E:  # STOP
                if self.place != size:
                    raise UnsafePickle(
                        f"{size - self.place} bytes after its end: a torch file of before 1.6? save it again"
                    )
                return self.pop()
            handler = handlers.get(code)
            if handler is None:
                raise UnsafePickle(f"operation {chr(code)!r} at byte {self.place - 1} is not for data")
            handler(self)
        raise UnsafePickle("truncated: it ends before its STOP")

    def take(self, count: int) -> bytes:
        end = self.place + count
        if count < 0 or end > len(self.data):
            raise UnsafePickle(f"truncated: {count} bytes asked for at byte {self.place}")
        raw = bytes(self.data[self.place : end])
        self.place = end
        return raw

    def raw_line(self) -> bytes:
        """Bytes up to the next end of line, which is looked for in windows that double."""
        width = 256
        while True:
            window = bytes(self.data[self.place : self.place + width])
            end = window.find(b"\n")
            if end >= 0:
                self.place += end + 1
                return window[:end]
            if len(window) < width:
                raise UnsafePickle(f"a line without an end at byte {self.place}")
            width *= 2

    def line(self) -> str:
        """A short line: a number or a name."""
        raw = self.raw_line()
        if len(raw) > 256:
            raise UnsafePickle(f"a name or number of {len(raw)} bytes before byte {self.place}")
        return raw.decode("utf-8", "replace")

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack:
            raise UnsafePickle(f"nothing on the stack at byte {self.place - 1}")
        return self.stack.pop()

    def top(self) -> Any:
        if not self.stack:
            raise UnsafePickle(f"nothing on the stack at byte {self.place - 1}")
        return self.stack[-1]

    def items(self) -> list[Any]:
        """What lies above the last mark."""
        if not self.marks:
            raise UnsafePickle(f"no mark at byte {self.place - 1}")
        found, self.stack = self.stack, self.marks.pop()
        return found

    def work(self, count: int) -> None:
        """Counts operations, and elements that an operation copies."""
        self.operations += count
        if self.operations > self.limits.max_pickle_operations:
            raise UnsafePickle(f"more than {self.limits.max_pickle_operations} operations")

    def charge(self, count: int) -> None:
        """Counts the bytes of arrays."""
        self.array_bytes += count
        if self.array_bytes > self.budget:
            raise UnsafePickle(f"its arrays take more than {self.budget} bytes, the limit for a file of this size")


def read_pickle(data: memoryview, limits: ReadLimits, budget: int, open_storage: OpenStorage | None = None) -> Any:
    """What a pickle holds: plain containers, numbers and text, with `ArrayRef` in place of arrays and tensors.

    Args:
        data: the pickle.
        limits: bounds on operations.
        budget: bytes that its arrays may take.
        open_storage: gives the storages of a torch file; without it they are refused.

    Raises:
        UnsafePickle: naming what is asked for that is no data, or where it is damaged.
    """
    machine = _Machine(data, limits, budget, open_storage)
    try:
        return machine.run()
    except UnsafePickle:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        OverflowError,
        AttributeError,
        UnicodeError,
        RecursionError,
        struct.error,
    ) as error:
        raise UnsafePickle(f"damaged at byte {machine.place}: {' '.join(str(error).split())[:120]}") from error


# ---- names


def _find(module: str, name: str) -> _Global:
    full = f"{module}.{name}"
    full = full.replace("__builtin__.", "builtins.", 1).replace("numpy.core.", "numpy._core.", 1)
    if full in _BUILDERS or full in _MARKERS:
        return _Global(full)
    if module == "torch" and (name in _STORAGES or name in _TORCH_DTYPES):
        return _Global(full)
    raise UnsafePickle(f"it names {module[:80]}.{name[:80]}, which is no data type read here: never executed")


def _storage_kind(value: Any) -> str:
    if isinstance(value, _Global):
        if value.name == "torch.storage.UntypedStorage":
            return ""
        name = value.name.removeprefix("torch.")
        if name in _STORAGES:
            return _STORAGES[name]
    raise UnsafePickle("a storage of no known type")


def _build_tensor(machine: _Machine, args: tuple[Any, ...]) -> ArrayRef:
    storage, offset, size, stride = args[:4]
    if not isinstance(storage, StorageRef) or not storage.kind:
        raise UnsafePickle("a tensor without a typed storage")
    return _tensor(machine, storage, storage.kind, storage.count, offset, size, stride)


def _build_tensor_v3(machine: _Machine, args: tuple[Any, ...]) -> ArrayRef:
    storage, offset, size, stride = args[:4]
    marker = args[6]
    if not isinstance(storage, StorageRef) or not isinstance(marker, _Global):
        raise UnsafePickle("a tensor without storage and dtype")
    kind = _TORCH_DTYPES[marker.name.removeprefix("torch.")]
    width = 2 if kind == "bfloat16" else np.dtype(kind).itemsize
    held = storage.count if not storage.kind else storage.count * np.dtype(storage.kind).itemsize
    return _tensor(machine, storage, kind, held // width, offset, size, stride)


def _tensor(
    machine: _Machine, storage: StorageRef, kind: str, count: int, offset: Any, size: Any, stride: Any
) -> ArrayRef:
    shape, steps = _sizes(size), _sizes(stride)
    if len(shape) != len(steps):
        raise UnsafePickle(f"a tensor of size {list(shape)} and stride {list(steps)}")
    if type(offset) is not int or offset < 0:
        raise UnsafePickle(f"a tensor at offset {_brief(offset)}")
    last = offset + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) if 0 not in shape else offset - 1
    if last >= count:
        raise UnsafePickle(f"a tensor {list(shape)} that reaches beyond its storage of {count} elements")
    stored = np.dtype("<u2") if kind == "bfloat16" else np.dtype(kind)
    dtype = np.dtype(np.float32) if kind == "bfloat16" else stored.newbyteorder("=")
    machine.charge(math.prod(shape) * dtype.itemsize)
    return ArrayRef(shape, dtype, lambda: checked_view(storage.read(), kind, offset, shape, steps))


def _sizes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (tuple, list)) or len(value) > 8 or not all(type(n) is int and n >= 0 for n in value):
        raise UnsafePickle(f"sizes {_brief(value)}: expected up to 8 integers >= 0")
    return tuple(value)


def _brief(value: Any) -> str:
    """A value for a message; containers by type alone, for they may hold themselves."""
    if isinstance(value, (str, bytes, int, float, type(None))):
        return repr(value)[:60]
    return f"a {type(value).__name__}"


def _build_parameter(machine: _Machine, args: tuple[Any, ...]) -> ArrayRef:
    if not isinstance(args[0], ArrayRef):
        raise UnsafePickle("a parameter that is no tensor")
    return args[0]


def _build_dict(machine: _Machine, args: tuple[Any, ...]) -> dict[Any, Any]:
    if not args:
        return {}
    source = args[0]
    if isinstance(source, (dict, list, tuple)):
        machine.work(len(source))
    if isinstance(source, dict):
        return dict(source)
    if isinstance(source, (list, tuple)):
        return {_key(pair[0]): pair[1] for pair in source}
    raise UnsafePickle("a dictionary of something else than pairs")


def _build_defaultdict(machine: _Machine, args: tuple[Any, ...]) -> dict[Any, Any]:
    return {}


def _build_tuple(machine: _Machine, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_sequence(machine, args))


def _build_list(machine: _Machine, args: tuple[Any, ...]) -> list[Any]:
    return list(_sequence(machine, args))


def _build_set(machine: _Machine, args: tuple[Any, ...]) -> set[Any]:
    return {_key(value) for value in _sequence(machine, args)}


def _sequence(machine: _Machine, args: tuple[Any, ...]) -> Any:
    if not args:
        return ()
    if len(args) != 1 or not isinstance(args[0], (list, tuple, set)):
        raise UnsafePickle("a container of something else than a list")
    machine.work(len(args[0]))
    return args[0]


def _build_text(machine: _Machine, args: tuple[Any, ...]) -> bytes:
    text, code = args
    if not isinstance(text, str) or code not in ("latin1", "latin-1"):
        raise UnsafePickle(f"bytes in the encoding {_brief(code)}")
    return text.encode("latin1")


def _build_bytearray(machine: _Machine, args: tuple[Any, ...]) -> bytes:
    if not args:
        return b""
    if isinstance(args[0], bytes):
        return args[0]
    if len(args) == 2 and isinstance(args[0], str):
        return _build_text(machine, args)
    raise UnsafePickle("a bytearray of something else than bytes")


def _build_device(machine: _Machine, args: tuple[Any, ...]) -> str:
    return ":".join(str(part) for part in args if isinstance(part, (str, int)))


def _build_dtype(machine: _Machine, args: tuple[Any, ...]) -> _DType:
    text = args[0]
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise UnsafePickle(f"an array of dtype {_brief(text)}: only numbers and text are read")
    return _DType(text)


def _build_array(machine: _Machine, args: tuple[Any, ...]) -> ArrayRef:
    return ArrayRef((0,), np.dtype(np.uint8), lambda: np.empty(0, np.uint8))


def _build_from_buffer(machine: _Machine, args: tuple[Any, ...]) -> ArrayRef:
    raw, dtype, shape, order = args
    if not isinstance(dtype, _DType) or order not in ("C", "F"):
        raise UnsafePickle("an array without dtype or order")
    return _plain_array(machine, raw, np.dtype(dtype.text), shape, order == "F")


def _plain_array(machine: _Machine, raw: Any, dtype: np.dtype[Any], shape: Any, fortran: bool) -> ArrayRef:
    if not isinstance(raw, bytes):
        raise UnsafePickle("an array that holds objects, not bytes")
    sizes = _sizes(shape)
    if math.prod(sizes) * dtype.itemsize != len(raw):
        raise UnsafePickle(f"an array {list(sizes)} of {dtype} with {len(raw)} bytes")
    machine.charge(len(raw))
    values = np.frombuffer(raw, dtype=dtype).reshape(sizes, order="F" if fortran else "C")
    native = dtype.newbyteorder("=")
    return ArrayRef(sizes, native, lambda: values.astype(native))


def _build_scalar(machine: _Machine, args: tuple[Any, ...]) -> Any:
    dtype, raw = args
    if not isinstance(dtype, _DType) or not isinstance(raw, bytes) or len(raw) != np.dtype(dtype.text).itemsize:
        raise UnsafePickle("a scalar whose bytes do not fit its dtype")
    return np.frombuffer(raw, dtype=dtype.text)[0].item()


_BUILDERS: dict[str, Callable[[_Machine, tuple[Any, ...]], Any]] = {
    "torch._utils._rebuild_tensor_v2": _build_tensor,
    "torch._utils._rebuild_tensor_v3": _build_tensor_v3,
    "torch._utils._rebuild_parameter": _build_parameter,
    "torch.Size": _build_tuple,
    "torch.device": _build_device,
    "collections.OrderedDict": _build_dict,
    "collections.Counter": _build_dict,
    "collections.defaultdict": _build_defaultdict,
    "builtins.dict": _build_dict,
    "builtins.list": _build_list,
    "builtins.tuple": _build_tuple,
    "builtins.set": _build_set,
    "builtins.frozenset": _build_set,
    "builtins.bytearray": _build_bytearray,
    "builtins.bytes": _build_bytearray,
    "_codecs.encode": _build_text,
    "numpy.dtype": _build_dtype,
    "numpy._core.multiarray._reconstruct": _build_array,
    "numpy._core.multiarray.scalar": _build_scalar,
    "numpy._core.numeric._frombuffer": _build_from_buffer,
}
_MARKERS = {"numpy.ndarray", "torch.storage.UntypedStorage", "builtins.int", "builtins.long", "builtins.float"}


# ---- operations


def _mark(machine: _Machine) -> None:
    machine.marks.append(machine.stack)
    machine.stack = []


def _pop(machine: _Machine) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.items()


def _integer(raw: bytes) -> int:
    if len(raw) > _MAX_INTEGER_BYTES:
        raise UnsafePickle(f"an integer of {len(raw)} bytes")
    return int.from_bytes(raw, "little", signed=True)


def _text_integer(machine: _Machine) -> None:
    text = machine.line().removesuffix("L")
    if len(text) > 40:
        raise UnsafePickle(f"an integer of {len(text)} digits")
    machine.push(text == "01" if text in ("00", "01") else int(text))


def _key(value: Any) -> Any:
    if isinstance(value, (str, int, float, bytes, bool, type(None))):
        return value
    if isinstance(value, tuple) and all(isinstance(part, (str, int, float)) for part in value):
        return value
    raise UnsafePickle(f"a key of type {type(value).__name__}")


def _set_items(machine: _Machine, pairs: list[Any]) -> None:
    target = machine.top()
    if not isinstance(target, dict) or len(pairs) % 2:
        raise UnsafePickle("items for something that is no dictionary")
    for index in range(0, len(pairs), 2):
        target[_key(pairs[index])] = pairs[index + 1]


def _extend(machine: _Machine, values: list[Any]) -> None:
    target = machine.top()
    if not isinstance(target, list):
        raise UnsafePickle("elements for something that is no list")
    target.extend(values)


def _add(machine: _Machine) -> None:
    values = machine.items()
    target = machine.top()
    if not isinstance(target, set):
        raise UnsafePickle("elements for something that is no set")
    target.update(_key(value) for value in values)


def _append_items(machine: _Machine) -> None:
    values = machine.items()
    _extend(machine, values)


def _append_one(machine: _Machine) -> None:
    value = machine.pop()
    _extend(machine, [value])


def _set_many(machine: _Machine) -> None:
    pairs = machine.items()
    _set_items(machine, pairs)


def _set_one(machine: _Machine) -> None:
    value, key = machine.pop(), machine.pop()
    _set_items(machine, [key, value])


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    def make(machine: _Machine) -> None:
        values = [machine.pop() for _ in range(count)]
        machine.push(tuple(reversed(values)))

    return make


def _dict_of_items(machine: _Machine) -> None:
    pairs = machine.items()
    machine.push({})
    _set_items(machine, pairs)


def _global(machine: _Machine) -> None:
    module = machine.line()
    machine.push(_find(module, machine.line()))


def _stack_global(machine: _Machine) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise UnsafePickle("a name that is no text")
    machine.push(_find(module, name))


def _reduce(machine: _Machine) -> None:
    args, called = machine.pop(), machine.pop()
    if not isinstance(called, _Global) or called.name not in _BUILDERS or not isinstance(args, tuple):
        raise UnsafePickle("it calls something that is no data type")
    machine.push(_BUILDERS[called.name](machine, args))


def _build(machine: _Machine) -> None:
    state = machine.pop()
    target = machine.top()
    if isinstance(target, _DType):
        order = state[1]
        if order not in ("<", ">", "=", "|") or any(part is not None for part in state[2:5]):
            raise UnsafePickle("a structured array: only numbers and text are read")
        target.text = order + target.text.lstrip("<>=|")
    elif isinstance(target, ArrayRef):
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, _DType):
            raise UnsafePickle("an array without a dtype")
        target.replace_by(_plain_array(machine, raw, np.dtype(dtype.text), shape, bool(fortran)))
    elif not isinstance(target, dict):
        raise UnsafePickle(f"a state for a {type(target).__name__}")


def _persistent(machine: _Machine) -> None:
    pid = machine.pop()
    if machine.open_storage is None or not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
        raise UnsafePickle("an object that lies outside the file")
    _, kind, key, _, count = pid[:5]
    if type(count) is not int or count < 0 or not isinstance(key, str):
        raise UnsafePickle(f"a storage {_brief(key)} of {_brief(count)} elements")
    machine.push(machine.open_storage(key, _storage_kind(kind), count))


def _remember(index: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    def put(machine: _Machine) -> None:
        machine.memo[index(machine)] = machine.top()

    return put


def _recall(index: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    def get(machine: _Machine) -> None:
        number = index(machine)
        if number not in machine.memo:
            raise UnsafePickle(f"entry {number} of the memo was never written")
        machine.push(machine.memo[number])

    return get


def _constant(value: Any) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(value)


def _sized(code: str, convert: Callable[[bytes], Any]) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(convert(machine.take(machine.number(code))))


def _utf8(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _latin1(raw: bytes) -> str:
    return raw.decode("latin1")


def _skip(machine: _Machine) -> None:
    machine.take(8)


def _protocol(machine: _Machine) -> None:
    version = machine.number("B")
    if version > 5:
        raise UnsafePickle(f"pickle protocol {version} (0 to 5 are read)")


_HANDLERS: dict[int, Callable[[_Machine], None]] = {
    ord(code): handler
    for code, handler in {
        "(": _mark,
        "0": _pop,
        "1": lambda machine: (machine.items(), None)[1],
        "2": lambda machine: machine.push(machine.top()),
        "N": _constant(None),
        "\x88": _constant(True),
        "\x89": _constant(False),
        "I": _text_integer,
        "L": _text_integer,
        "J": lambda machine: machine.push(machine.number("i")),
        "K": lambda machine: machine.push(machine.number("B")),
        "M": lambda machine: machine.push(machine.number("H")),
        "\x8a": _sized("B", _integer),
        "\x8b": _sized("i", _integer),
        "F": lambda machine: machine.push(float(machine.line())),
        "G": lambda machine: machine.push(struct.unpack(">d", machine.take(8))[0]),
        "X": _sized("I", _utf8),
        "\x8c": _sized("B", _utf8),
        "\x8d": _sized("Q", _utf8),
        "V": lambda machine: machine.push(machine.raw_line().decode("raw-unicode-escape")),
        "U": _sized("B", _latin1),
        "T": _sized("i", _latin1),
        "B": _sized("I", bytes),
        "C": _sized("B", bytes),
        "\x8e": _sized("Q", bytes),
        "\x96": _sized("Q", bytes),
        ")": lambda machine: machine.push(()),
        "t": lambda machine: machine.push(tuple(machine.items())),
        "\x85": _tuple_of(1),
        "\x86": _tuple_of(2),
        "\x87": _tuple_of(3),
        "]": lambda machine: machine.push([]),
        "l": lambda machine: machine.push(machine.items()),
        "a": _append_one,
        "e": _append_items,
        "}": lambda machine: machine.push({}),
        "d": _dict_of_items,
        "s": _set_one,
        "u": _set_many,
        "\x8f": lambda machine: machine.push(set()),
        "\x90": _add,
        "\x91": lambda machine: machine.push({_key(value) for value in machine.items()}),
        "c": _global,
        "\x93": _stack_global,
        "R": _reduce,
        "b": _build,
        "Q": _persistent,
        "p": _remember(lambda machine: int(machine.line())),
        "q": _remember(lambda machine: int(machine.number("B"))),
        "r": _remember(lambda machine: int(machine.number("I"))),
        "\x94": _remember(lambda machine: len(machine.memo)),
        "g": _recall(lambda machine: int(machine.line())),
        "h": _recall(lambda machine: int(machine.number("B"))),
        "j": _recall(lambda machine: int(machine.number("I"))),
        "\x80": _protocol,
        "\x95": _skip,
    }.items()
}
