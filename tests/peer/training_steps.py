#!/usr/bin/env python3
"""Whole training steps against `transformers` with torch.optim: sixty on one batch, from the weights that Longhaul begins with.

    training_steps.py PATH_TO_longhaul

Loss, gradient norm (clipped in the first steps, which have up to 18) and learning rate of every step: warm-up and cosine, AdamW, weight decay on matrices alone. In fp32
two programs' losses part by rounding, which training makes larger from step to step; whatever is computed differently shows in the first fifteen, to 2e-5.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

SEQUENCES, TOKENS, STEPS, WARMUP, RATE = 4, 256, 60, 10, 3e-3

RECIPE = f"""
version = 1
[model]
layers = 3
hidden = 96
vocabulary = 257
heads = 3
kv_heads = 3
head_dim = 32
mixers = ["softmax"]
channel = "swiglu"
intermediate = 256
norm_eps = 1e-6
wiring = "pre_norm"
position = "rotary"
rotary_dim = 32
tie_embeddings = true
[data]
source = ["texts.jsonl"]
tokenizer = "bytes"
held_out_percent = 0
[train]
dtype = "fp32"
sequence = {TOKENS}
batch = {SEQUENCES}
micro_batch = {SEQUENCES // 2}
evaluate_every = 0
log_every = 1
[optim]
warmup_steps = {WARMUP}
schedule = "cosine"
weight_decay = 0.1
[sample]
tokens = 0
"""


def longhaul(folder, *arguments):
    result = subprocess.run([sys.argv[1], *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"


def train(folder, run, steps, rate):
    longhaul(folder, "train", "recipe.toml", f"train.steps={steps}", f"train.checkpoint_every={steps}", f"optim.lr={rate}", "--run", run)
    events = [json.loads(line) for line in (folder / run / "events.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == "step"]


def main():
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Sentences of a few words, so that there is something to learn; each text fills a sequence with the separator in front.
        words = ["longhaul ", "trains ", "large ", "models ", "on ", "two ", "cores, ", "and ", "keeps ", "them ", "training. "]
        texts = ["".join(words[i] for i in torch.randint(len(words), (200,)))[:TOKENS - 1] for _ in range(SEQUENCES)]
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        (folder / "recipe.toml").write_text(RECIPE)
        ours = train(folder, "run", STEPS, RATE)
        train(folder, "begun", 1, 1e-30)  # the initial weights, but for 1e-30
        longhaul(folder, "export", "begun", "--out", "published")
        model = transformers.LlamaForCausalLM.from_pretrained(folder / "published").float()

        ids = torch.tensor([[256, *text.encode()] for text in texts])
        labels = torch.cat([ids[:, 1:], torch.full((SEQUENCES, 1), 256)], 1)
        matrices = [p for p in model.parameters() if p.ndim > 1]
        others = [p for p in model.parameters() if p.ndim == 1]
        optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.95), eps=1e-8)
        assert len(ours) == STEPS
        worst = [0.0, 0.0]
        for step, own in enumerate(ours, 1):
            rate = RATE * (step / WARMUP if step <= WARMUP else 0.1 + 0.45 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))))
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = torch.nn.functional.cross_entropy(model(ids).logits.flatten(0, 1), labels.flatten())
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
            optimizer.step()
            optimizer.zero_grad()
            late = step > 15
            assert abs(own["learning_rate"] - rate) < 1e-12, (step, own["learning_rate"], rate)
            apart = abs(own["loss"] - loss.item()), abs(own["grad_norm"] / norm - 1)
            assert apart[0] < (2e-2 if late else 2e-5), (step, own["loss"], loss.item())
            assert late or apart[1] < 1e-3, (step, own["grad_norm"], norm)
            worst[late] = max(worst[late], apart[0])
        assert ours[-1]["loss"] < 0.75 * ours[0]["loss"], "nothing was learnt"
    print(f"{STEPS} steps: loss from {ours[0]['loss']:.4f} to {ours[-1]['loss']:.4f}, apart {worst[0]:.1e} in the first 15, {worst[1]:.1e} behind")


if __name__ == "__main__":
    main()
