#!/usr/bin/env python3
"""A checkpoint and the logits of `longhaul score`, read with the public `safetensors` package.

    checkpoint_safetensors.py PATH_TO_longhaul

Trains a tiny model for two steps. Every shard that the manifest names must be a tensor of the file it names, with its dtype and
shape, finite, and no file may hold others; the logits must be one row a token.
"""
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
from safetensors import safe_open
from safetensors.numpy import load_file

RECIPE = """version = 1
[model]
layers = 2
hidden = 32
heads = 2
kv_heads = 1
head_dim = 16
vocabulary = 257
mixers = ["lightning", "softmax"]
intermediate = 32
experts = 2
experts_per_token = 1
router_normalised = false
rotary_dim = 8
[data]
tokenizer = "bytes"
[train]
steps = 2
dtype = "fp32"
batch = 2
micro_batch = 2
sequence = 32
evaluate_every = 0
[sample]
tokens = 0
[observe]
compression_baseline = false
"""
DTYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64}


def longhaul(folder, *arguments):
    environment = {**os.environ, "LONGHAUL_CACHE": str(folder / "cache")}
    result = subprocess.run([sys.argv[1], *map(str, arguments)], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def read_checkpoint(checkpoint):
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    expected = {}
    for name, tensor in manifest["tensors"].items():
        elements = 0
        for shard in tensor["shards"]:
            expected.setdefault(shard["file"], {})[shard["key"]] = (tensor["dtype"], tuple(shard["length"]))
            elements += math.prod(shard["length"])
        assert elements == math.prod(tensor["shape"]), f"{name}: shards of {elements} elements, shape {tensor['shape']}"
    count = 0
    for entry in manifest["files"]:
        path = checkpoint / entry["name"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"], path
        with safe_open(path, framework="np") as opened:
            assert set(opened.keys()) == set(expected[entry["name"]]), path
            for key, (dtype, shape) in expected[entry["name"]].items():
                tensor = opened.get_tensor(key)
                assert tensor.dtype == DTYPES[dtype] and tensor.shape == shape, (key, tensor.dtype, tensor.shape, dtype, shape)
                assert numpy.isfinite(tensor).all(), key
                count += 1
    return count


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "text").mkdir()
        for i in range(20):
            (folder / "text" / f"{i}.txt").write_text("a" * 300 + f"{i}\n")
        (folder / "tiny.toml").write_text(RECIPE)
        longhaul(folder, "train", folder / "tiny.toml", f"data.source={folder / 'text'}", "--run", folder / "run", "--quiet")
        checkpoint = folder / "run" / "checkpoints" / "step-000000002"
        count = read_checkpoint(checkpoint)
        assert count > 20, count
        (folder / "ids.json").write_text("[1, 2, 3, 250]")
        longhaul(folder, "score", checkpoint, "--ids", folder / "ids.json", "--out", folder / "logits.safetensors")
        logits = load_file(folder / "logits.safetensors")
        assert set(logits) == {"logits"} and logits["logits"].shape == (4, 257) and logits["logits"].dtype == numpy.float32, logits
        assert numpy.isfinite(logits["logits"]).all()
        print(f"{count} tensors of the checkpoint and the logits read by the package")


if __name__ == "__main__":
    main()
