#!/usr/bin/env python3
"""Makes tests/golden/published: tiny models as `transformers` publishes them, with what it computes.

    make_published_golden.py          (Python with torch 2.13, transformers 5.23, safetensors 0.8, numpy)

NAME/model      config.json and model.safetensors, as save_pretrained writes them
NAME/gradients  the same with the gradients of the loss in place of the weights: Σ over tokens of −log p(next token)
NAME/expected.safetensors   ids, logits, loss

"minimax-original" is in the original layout, its logits those of tests/peer/minimax_plain.py (fp64); it has no gradients.
"""
import json
import pathlib
import shutil
import sys

import numpy
import torch
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "peer"))
import minimax_plain  # noqa: E402
import published_cases  # noqa: E402

TOKENS = 21


def make(name, folder):
    model = published_cases.make(name, golden=True)
    ids = published_cases.random_ids(model, TOKENS)
    logits = model(ids).logits
    loss = torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="sum")
    loss.backward()
    model.save_pretrained(folder / "model")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad)
    model.save_pretrained(folder / "gradients")
    for of in ("model", "gradients"):
        (folder / of / "generation_config.json").unlink(missing_ok=True)
    save_file({"ids": ids[0].numpy().astype(numpy.int64), "logits": logits[0].detach().numpy(), "loss": loss.detach().numpy().reshape(1)},
              folder / "expected.safetensors")


def make_original(folder):
    config, tensors = minimax_plain.original_minimax()
    ids = numpy.random.default_rng(5).integers(config["vocab_size"], size=TOKENS)
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file({name: tensor.astype(numpy.float32) for name, tensor in tensors.items()}, folder / "model" / "model.safetensors")
    logits = minimax_plain.plain_logits(config, tensors, ids.tolist())
    save_file({"ids": ids.astype(numpy.int64), "logits": logits.astype(numpy.float32)}, folder / "expected.safetensors")


def main():
    root = HERE / "published"
    shutil.rmtree(root, ignore_errors=True)
    for name in published_cases.configurations(True):
        make(name, root / name)
    make_original(root / "minimax-original")


if __name__ == "__main__":
    main()
