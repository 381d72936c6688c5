#!/usr/bin/env python3
"""Weights in and out against `transformers` (5.23, torch 2.13), on random small models of every family (published_cases.py).

    published_models.py PATH_TO_longhaul [NAME…]

Each is imported and scored: logits within 1e-4 in fp32, equal argmax. Exported again: the same tensors to the byte, which `transformers`
loads without a word and gives the same logits. In bf16 too: the same bytes. docs/sources/minimax-01.md §9.1 to the letter, a batch with padding on the left included. Half-rotary MiniMaxes in their
original layout, §9.2's among them, are compared with a plain forward pass in fp64 (docs/sources/minimax-01.md §2), from which a reading that rotates whole heads must be far away.
"""
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.numpy import save_file
from safetensors import safe_open

import published_cases
import minimax_plain

LENGTHS = (1, 15, 16, 17, 33, 100)


def longhaul(*arguments, fails=False):
    result = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    assert (result.returncode != 0) == fails, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


def score(folder, checkpoint, ids):
    (folder / "ids.json").write_text(json.dumps(ids))
    longhaul("score", checkpoint, "--ids", folder / "ids.json", "--out", folder / "logits.safetensors", "--dtype", "fp32", "--device", "cpu")
    with safe_open(folder / "logits.safetensors", framework="np") as opened:
        return opened.get_tensor("logits")


def raw_tensors(folder):
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                found[name] = (entry["dtype"], tuple(entry["shape"]), data[8 + length + begin:8 + length + end])
    return found


class Words(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


def load_silently(folder):
    words = Words()
    logger = logging.getLogger("transformers")
    logger.addHandler(words)
    try:
        model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, attn_implementation="eager",
                                                                        dtype="auto")
    finally:
        logger.removeHandler(words)
    for kind, names in info.items():
        assert not names, f"{kind}: {names}"
    assert not words.said, words.said
    return model.eval()


def compare(name, folder, model, checkpoint):
    worst = 0
    for length in LENGTHS:
        ids = published_cases.random_ids(model, length)
        with torch.no_grad():
            expected = model(ids).logits[0].numpy()
        found = score(folder, checkpoint, ids[0].tolist())
        worst = max(worst, float(abs(found - expected).max()))
        assert worst < 1e-4, f"{name}, {length} tokens: {worst} (logits up to {abs(expected).max()})"
        assert (found.argmax(1) == expected.argmax(1)).all(), f"{name}, {length} tokens: another argmax"
    return worst


def compare_padded(name, folder, model, checkpoint):
    """Two texts in one batch, the shorter one behind padding."""
    texts = [published_cases.random_ids(model, length)[0] for length in (33, 17)]
    ids = torch.stack([texts[0], torch.cat([texts[1].new_zeros(16), texts[1]])])
    mask = torch.ones_like(ids)
    mask[1, :16] = 0
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).logits.numpy()
    for row, text in enumerate(texts):
        found = score(folder, checkpoint, text.tolist())
        worst = float(abs(found - expected[row, 33 - len(text):]).max())
        assert worst < 1e-4, f"{name}, row {row} of a padded batch: {worst}"


def check_case(name, folder):
    model = published_cases.make(name, golden=False)
    model.save_pretrained(folder / "published", max_shard_size="60KB" if name in ("llama", "mixtral") else "5GB")
    longhaul("import", folder / "published", "--out", folder / "imported")
    worst = compare(name, folder, model, folder / "imported")
    if name.startswith("minimax-9.1"):
        compare_padded(name, folder, model, folder / "imported")
    longhaul("export", folder / "imported", "--out", folder / "exported")
    assert raw_tensors(folder / "published") == raw_tensors(folder / "exported"), f"{name}: other bytes"
    again = load_silently(folder / "exported")
    ids = published_cases.random_ids(model, 40)
    with torch.no_grad():
        assert torch.equal(again(ids).logits, model(ids).logits), f"{name}: other logits after export"
    # Half of the bytes of every number: stays so.
    model.bfloat16().save_pretrained(folder / "bf16")
    longhaul("import", folder / "bf16", "--out", folder / "imported-bf16")
    longhaul("export", folder / "imported-bf16", "--out", folder / "exported-bf16")
    assert raw_tensors(folder / "bf16") == raw_tensors(folder / "exported-bf16"), f"{name}: other bytes in bf16"
    load_silently(folder / "exported-bf16")
    longhaul("export", folder / "imported-bf16", "--out", folder / "exported-fp32", "--dtype", "fp32")
    assert {dtype for dtype, _, _ in raw_tensors(folder / "exported-fp32").values()} == {"F32"}
    load_silently(folder / "exported-fp32")
    print(f"{name:20} largest difference of a logit {worst:.2g}")


def check_original_minimax(name, folder):
    config, tensors = minimax_plain.make(name)
    (folder / "published").mkdir()
    (folder / "published" / "config.json").write_text(json.dumps(config))
    save_file({name: tensor.detach().float().numpy() for name, tensor in tensors.items()}, folder / "published" / "model.safetensors")
    longhaul("import", folder / "published", "--out", folder / "imported")
    ids = numpy.random.default_rng(5).integers(config["vocab_size"], size=50).tolist()
    expected = minimax_plain.plain_logits(config, tensors, ids).detach().numpy()
    worst = float(abs(score(folder, folder / "imported", ids) - expected).max())
    assert worst < 1e-4, worst
    longhaul("export", folder / "imported", "--out", folder / "exported")
    assert raw_tensors(folder / "published") == raw_tensors(folder / "exported")
    written = json.loads((folder / "exported" / "config.json").read_text())
    assert written["rotary_dim"] == config["rotary_dim"] and written["attn_type_list"] == config["attn_type_list"]
    # Read as if whole heads were rotated, it is another model.
    (folder / "published" / "config.json").write_text(json.dumps({**config, "rotary_dim": config["head_dim"]}))
    longhaul("import", folder / "published", "--out", folder / "whole")
    far = float(abs(score(folder, folder / "whole", ids) - expected).max())
    assert far > 1e-2, far
    # The transformers' layout would rotate whole heads: it is refused by name.
    hf = {**config, "model_type": "minimax", "architectures": ["MiniMaxForCausalLM"]}
    (folder / "published" / "config.json").write_text(json.dumps(hf))
    assert "rotary_dim" in longhaul("import", folder / "published", "--out", folder / "refused", fails=True)
    assert not (folder / "refused").exists()
    print(f"{name:20} largest difference of a logit {worst:.2g}; rotated whole {far:.2g}")


def main():
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    transformers.utils.logging.disable_progress_bar()
    names = sys.argv[2:] or [*published_cases.configurations(False), "minimax-original", "minimax-m1-tiny"]
    for name in names:
        folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
        try:
            check_original_minimax(name, folder) if name in minimax_plain.CONFIGS else check_case(name, folder)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
