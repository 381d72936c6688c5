#!/usr/bin/env python3
"""Makes tests/golden/published: tiny models as `transformers` publishes them, with what it computes.

    make_published_golden.py [NAME…]  (Python with torch 2.13, transformers 5.23, safetensors 0.8, numpy; all, if none is named)

NAME/model      config.json and model.safetensors, as save_pretrained writes them
NAME/gradients  the same with the gradients of the loss in place of the weights: Σ over tokens of −log p(next token)
NAME/expected.safetensors   ids, logits, loss

"minimax-original" is in the original layout, its logits those of tests/peer/minimax_plain.py (fp64); it has no gradients. Those that begin with
"flash-linear-" have the names and fields of flash-linear-attention, which computes on GPUs alone: logits and gradients are those of
tests/peer/flash_linear_plain.py (fp64).
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
import flash_linear_plain  # noqa: E402
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


def make_flash_linear(name, folder):
    config, tensors = flash_linear_plain.make(name)
    ids = torch.from_numpy(numpy.random.default_rng(7).integers(config["vocab_size"], size=TOKENS))
    logits = flash_linear_plain.plain_logits(config, tensors, ids)
    loss = torch.nn.functional.cross_entropy(logits[:-1], ids[1:], reduction="sum")
    loss.backward()
    for of, pick in (("model", lambda tensor: tensor), ("gradients", lambda tensor: tensor.grad)):
        (folder / of).mkdir(parents=True)
        (folder / of / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        save_file({key: pick(tensor).detach().float().contiguous().numpy() for key, tensor in tensors.items()},
                  folder / of / "model.safetensors", {"format": "pt"})
    save_file({"ids": ids.numpy(), "logits": logits.detach().float().numpy(), "loss": loss.detach().float().numpy().reshape(1)},
              folder / "expected.safetensors")


def main():
    root = HERE / "published"
    makers = {name: make for name in published_cases.configurations(True)}
    makers["minimax-original"] = lambda name, folder: make_original(folder)
    makers.update({name: make_flash_linear for name in flash_linear_plain.NAMES})
    for name in sys.argv[1:] or makers:
        shutil.rmtree(root / name, ignore_errors=True)
        makers[name](name, root / name)


if __name__ == "__main__":
    main()
