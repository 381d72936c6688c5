#!/usr/bin/env python3
"""Learning rates of whole runs against torch.optim.lr_scheduler: one_cycle and cosine_restarts, also of a run that was resumed.

    schedules.py PATH_TO_longhaul

The rates are those of the steps in events.jsonl, which has them with all their digits; they agree to 1e-12 of the peak.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
from torch.optim import lr_scheduler

STEPS, PEAK = 24, 0.25

RECIPE = """
version = 1
[model]
layers = 1
hidden = 16
vocabulary = 257
heads = 2
kv_heads = 2
head_dim = 8
mixers = ["softmax"]
channel = "swiglu"
intermediate = 16
[data]
source = ["texts.jsonl"]
tokenizer = "bytes"
held_out_percent = 0
[train]
sequence = 16
batch = 1
evaluate_every = 0
log_every = 1
[optim]
warmup_steps = 0
[sample]
tokens = 0
"""

CYCLES = [  # torch's arguments, ours
    ({}, []),
    ({"pct_start": 0.5, "three_phase": True}, ["cycle_rise=0.5", "cycle_symmetric=true"]),
    ({"pct_start": 0.4, "three_phase": True, "div_factor": 3.0}, ["cycle_rise=0.4", "cycle_symmetric=true", "cycle_start_divisor=3"]),
    ({"pct_start": 0.13, "anneal_strategy": "linear", "div_factor": 7.0, "final_div_factor": 9.0},
     ["cycle_rise=0.13", "cycle_form=linear", "cycle_start_divisor=7", "cycle_end_divisor=9"]),
]
RESTARTS = [
    ({"T_0": 5}, ["restart_steps=5", "final_lr_fraction=0"]),
    ({"T_0": 2, "T_mult": 3, "eta_min": PEAK / 8}, ["restart_steps=2", "restart_factor=3", "final_lr_fraction=0.125"]),
    ({"T_0": 1, "T_mult": 2, "eta_min": 0.0}, ["restart_steps=1", "restart_factor=2", "final_lr_fraction=0"]),
]


def rates_of_torch(make):
    """The rate of each step: the one that the optimizer has when it steps."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler, rates = make(optimizer), []
    for step in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < STEPS:
            scheduler.step()
    return rates


def rates_of_run(folder, run, options, stops=(STEPS,)):
    for steps in stops:
        words = [sys.argv[1], "train", "recipe.toml", f"train.steps={steps}", f"train.checkpoint_every={steps}", f"optim.lr={PEAK}",
                 *(f"optim.{option}" for option in options), "--run", run]
        result = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert result.returncode == 0, f"{words}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    events = [json.loads(line) for line in (folder / run / "events.jsonl").read_text().splitlines()]
    return [event["learning_rate"] for event in events if event["event"] == "step"]


def compare(label, ours, theirs):
    assert len(ours) == len(theirs) == STEPS, (label, len(ours), len(theirs))
    worst = max(abs(a - b) for a, b in zip(ours, theirs)) / PEAK
    assert worst < 1e-12, f"{label}: {worst}\n{ours}\n{theirs}"
    print(f"{label}: {STEPS} rates agree to {worst:.1e} of the peak")


def main():
    warnings.simplefilter("ignore")  # torch would rather see a backward pass before a scheduler's step
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": f"line {i} of a small corpus"}) + "\n" for i in range(40)))
        (folder / "recipe.toml").write_text(RECIPE)
        for i, (arguments, options) in enumerate(CYCLES):
            theirs = rates_of_torch(lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=PEAK, total_steps=STEPS, **arguments))
            compare(f"one_cycle {arguments}", rates_of_run(folder, f"cycle{i}", ["schedule=one_cycle", *options]), theirs)
        for i, (arguments, options) in enumerate(RESTARTS):
            theirs = rates_of_torch(lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, **arguments))
            options = ["schedule=cosine_restarts", *options]
            compare(f"cosine_restarts {arguments}", rates_of_run(folder, f"restarts{i}", options), theirs)
            compare(f"cosine_restarts {arguments}, resumed", rates_of_run(folder, f"resumed{i}", options, stops=(7, STEPS)), theirs)


if __name__ == "__main__":
    main()
