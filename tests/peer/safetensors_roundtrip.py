#!/usr/bin/env python3
"""Our safetensors reader and writer against the public `safetensors` package.

    safetensors_roundtrip.py PATH_TO_safetensors_copy

What the package writes we read and write again: the package must find the same names, dtypes, shapes, values and metadata,
and the bytes must be the same. What the package refuses, we must refuse too.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import numpy
import safetensors
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

COPY = sys.argv[1]
DTYPES = ["bool", "uint8", "int8", "int16", "uint16", "float16", "int32", "uint32", "float32", "float64", "int64", "uint64"]


def copy(source, target):
    return subprocess.run([COPY, source, target], capture_output=True, text=True)


def tensors_of(seed):
    rng = numpy.random.default_rng(seed)
    tensors = {}
    for i, dtype in enumerate(DTYPES):
        for shape in [(), (0, 3), (5,), (3, 4, 2), (1, 1, 1, 7)]:
            raw = rng.integers(0, 256, size=int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize, dtype=numpy.uint8)
            if dtype == "bool":
                raw &= 1
            tensors[f"layers.{i}.{dtype}/{len(shape)}-ü\""] = raw.view(dtype).reshape(shape)  # NaN patterns included
    return tensors


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def round_trip(folder):
    for seed in range(5):
        theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
        tensors = tensors_of(seed)
        # One entry only: the package writes several in an order of its own each time.
        save_file(tensors, theirs, metadata={"text": "line\nbreak \"quoted\" ü"} if seed % 2 else None)
        result = copy(theirs, ours)
        assert result.returncode == 0, result.stderr
        listed = [json.loads(line) for line in result.stdout.splitlines()]
        assert {t["name"] for t in listed} == set(tensors)
        loaded = load_file(ours)
        assert set(loaded) == set(tensors)
        for name, tensor in tensors.items():
            assert same(loaded[name], tensor), name
        with safe_open(ours, framework="np") as ours_open, safe_open(theirs, framework="np") as theirs_open:
            assert (ours_open.metadata() or {}) == (theirs_open.metadata() or {})
        with open(theirs, "rb") as a, open(ours, "rb") as b:
            assert a.read() == b.read(), "written again, the file has other bytes"
    print("round trip: equal tensors, metadata and bytes")


def accepted_by_package(path):
    try:
        with safe_open(path, framework="np") as opened:
            return opened.keys() is not None
    except Exception:
        return False


def refusals(folder):
    """Mutated headers: whatever the package refuses we refuse too."""
    path, out = os.path.join(folder, "mutated"), os.path.join(folder, "out")
    rng = random.Random(1)
    good = {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}}
    refused = accepted = stricter = 0
    for trial in range(400):
        text = bytearray(json.dumps(good).encode())
        data = 26
        for _ in range(rng.randint(0, 3)):
            kind, at = rng.randint(0, 4), rng.randrange(len(text))
            if kind == 0:
                text[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del text[at:at + rng.randint(1, 5)]
            elif kind == 2:
                text[at:at] = rng.choice([b"0", b"-", b".0", b"e1", b"}", b"{", b'"', b" ", b"99999999999999999999", b","])
            elif kind == 3:
                data += rng.choice([-1, 1, 8])
            else:
                digits = [i for i, c in enumerate(text) if 48 <= c < 58]
                text[rng.choice(digits)] = 48 + rng.randrange(10) if digits else 48
        length = len(text) + (rng.choice([-1, 1, 1 << 40]) if rng.random() < 0.1 else 0)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", length) + bytes(text) + bytes(data))
        ours = copy(path, out).returncode
        assert ours in (0, 66), (ours, bytes(text))
        if not accepted_by_package(path):
            refused += 1
            assert ours == 66, ("the package refuses this and we do not", bytes(text), length, data)
        else:
            accepted += 1
            stricter += ours != 0
    print(f"malformed headers: {refused} refused by both, {accepted} accepted by the package, {stricter} of them refused by us")
    assert refused > 100 and accepted > 50


with tempfile.TemporaryDirectory() as temporary:
    print(f"safetensors {safetensors.__version__}, numpy {numpy.__version__}")
    round_trip(temporary)
    refusals(temporary)
