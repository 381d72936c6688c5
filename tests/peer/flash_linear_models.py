#!/usr/bin/env python3
"""Models of flash-linear-attention (0.6.0), computed by the package itself: its GPU kernels run in Triton's interpreter, on the CPU.

    flash_linear_models.py PATH_TO_longhaul GOLDEN_FOLDER [NAME…]

Of every golden model with its names (tests/golden/published/flash-linear-…): what the package computes of it, in fp32, is what stands beside it as made by the plain programs of
flash_linear_plain.py, logits and gradients of the loss, and what the program computes of it; and the package loads what the program exports, without a word.
"""
import logging
import pathlib
import subprocess
import sys
import tempfile

import flash_linear_interpreted  # noqa: F401  (before transformers, which looks for fla)
import torch
import transformers
from safetensors.torch import load_file


class Words(logging.Handler):
    said = []

    def emit(self, record):
        self.said.append(record.getMessage())


def load(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    for kind, names in info.items():
        assert not names, f"{folder}, {kind}: {names}"
    assert not Words.said, Words.said
    return model.eval()


def distance(found, expected):
    return float((found - expected).norm() / expected.norm())


def check(longhaul, golden, folder):
    expected = load_file(golden / "expected.safetensors")
    ids = expected["ids"].unsqueeze(0)
    model = load(golden / "model")
    logits = model(ids).logits[0].float()
    torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="sum").backward()
    worst = float((logits - expected["logits"]).abs().max())
    assert worst < 1e-4 and torch.equal(logits.argmax(1), expected["logits"].argmax(1)), f"{golden.name}: {worst}"
    gradients = load_file(golden / "gradients" / "model.safetensors")
    far = max((distance(parameter.grad, gradients[name]), name) for name, parameter in model.named_parameters())
    assert far[0] < 1e-4, f"{golden.name}: {far}"
    # The program, from the same folder to one that the package reads again.
    for arguments in (["import", golden / "model", "--out", folder / "imported"],
                      ["export", folder / "imported", "--out", folder / "exported"]):
        subprocess.run([longhaul, *arguments], check=True, capture_output=True)
    (folder / "ids.json").write_text(str(ids[0].tolist()))
    subprocess.run([longhaul, "score", folder / "imported", "--ids", folder / "ids.json", "--out", folder / "logits.safetensors", "--dtype", "fp32"],
                   check=True, capture_output=True)
    ours = float((load_file(folder / "logits.safetensors")["logits"] - logits.detach()).abs().max())
    assert ours < 1e-4, f"{golden.name}: {ours}"
    with torch.no_grad():
        assert torch.equal(load(folder / "exported")(ids).logits[0], model(ids).logits[0]), f"{golden.name}: other logits after export"
    print(f"{golden.name:36} logits {worst:.1e} of the plain program's, {ours:.1e} of ours; gradients {far[0]:.1e} ({far[1]})", flush=True)


def main():
    longhaul, published = sys.argv[1], pathlib.Path(sys.argv[2])
    logging.getLogger("transformers").addHandler(Words(logging.WARNING))
    transformers.utils.logging.disable_progress_bar()
    names = sys.argv[3:] or sorted(folder.name for folder in published.glob("flash-linear-*"))
    assert names, f"{published} holds no flash-linear-…"
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            check(longhaul, published / name, pathlib.Path(folder))


if __name__ == "__main__":
    main()
