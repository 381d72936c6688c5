#!/usr/bin/env python3
"""Makes tests/golden/published: tiny models as `transformers` publishes them, with what it computes.

    make_published_golden.py [NAME…]  (Python with torch 2.13, transformers 5.23, safetensors 0.8, numpy; all, if none is named)

NAME/model      config.json and model.safetensors, as save_pretrained writes them
NAME/gradients  the same with the gradients of the loss in place of the weights: Σ over tokens of −log p(next token)
NAME/gradients-balanced   of some models with experts: for each token router_aux_loss_coef · aux_loss is added
NAME/expected.safetensors   ids, logits, loss, loss_balanced

Those that begin with "minimax-original" are in the original layout, those that begin with "flash-linear-" have the names and fields of
flash-linear-attention: logits and gradients are those of plain fp64 programs, tests/peer/minimax_plain.py and tests/peer/flash_linear_plain.py
(which tests/peer/flash_linear_models.py holds to the package).
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
BALANCED = ["minimax-tied", "mixtral-tied", "qwen2-moe-tied", "qwen3-moe-tied"]


def make(name, folder):
    model = published_cases.make(name, golden=True)
    published_cases.write_expected(model, published_cases.random_ids(model, TOKENS), folder, name in BALANCED)


def make_plain(plain, name, folder, seed):
    config, tensors = plain.make(name)
    ids = torch.from_numpy(numpy.random.default_rng(seed).integers(config["vocab_size"], size=TOKENS))
    logits = plain.plain_logits(config, tensors, ids)
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
    makers.update({name: lambda name, folder: make_plain(minimax_plain, name, folder, 5) for name in minimax_plain.GOLDEN})
    makers.update({name: lambda name, folder: make_plain(flash_linear_plain, name, folder, 7) for name in flash_linear_plain.NAMES})
    for name in sys.argv[1:] or makers:
        shutil.rmtree(root / name, ignore_errors=True)
        makers[name](name, root / name)


if __name__ == "__main__":
    main()
