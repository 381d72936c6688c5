#!/usr/bin/env python3
"""Whole training steps of Hugging Face models on random tokens: the peer of `longhaul bench train`.

    python bench/peers/train.py --model gpt2-124m --batch 1 --sequence 1024 --dtype bf16 --compile --tuned
    python bench/peers/train.py --model hybrid-bench --batch 1 --sequence 8192 --dtype bf16 --tuned

AdamW (fused), gradient clipping at 1, weights in fp32 under bf16 autocast: what such a user runs. --tuned tells glibc to keep and reuse
memory in huge pages (docs/sources/cpu-performance.md §2). Prints one JSON object with the field names of `longhaul bench train --json`.
Needs: pip install torch==2.13.0 transformers
"""
import argparse
import contextlib
import json
import os
import sys
import time

TUNED = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def make_model(name):
    import transformers
    if name == "gpt2-124m":
        config = transformers.GPT2Config(attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, use_cache=False)
        return transformers.GPT2LMHeadModel(config), config.vocab_size
    layers = 8
    kinds = ["linear_attention"] * layers if name == "linear-bench" else (["linear_attention"] * 7 + ["full_attention"])
    config = transformers.MiniMaxConfig(
        vocab_size=32000, hidden_size=512, intermediate_size=1024, num_hidden_layers=layers, num_attention_heads=8,
        num_key_value_heads=2, head_dim=64, num_local_experts=8, num_experts_per_tok=2, layer_types=kinds, use_cache=False,
        max_position_embeddings=1 << 20)
    return transformers.MiniMaxForCausalLM(config), config.vocab_size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt2-124m", "hybrid-bench", "linear-bench"], default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu", help="cpu, or cuda for torch's first GPU")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    arguments = parser.parse_args()
    if arguments.tuned and any(os.environ.get(key) != value for key, value in TUNED.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **TUNED})

    import torch
    import transformers
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    model, vocabulary = make_model(arguments.model)
    device = torch.device(arguments.device)
    model.to(device).train()
    step_model = torch.compile(model) if arguments.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
    ids = torch.randint(vocabulary, (arguments.batch, arguments.sequence)).to(device)
    bf16 = arguments.dtype == "bf16"

    times, losses = [], []
    for step in range(arguments.steps + 2):
        start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16) if bf16 else contextlib.nullcontext():
            loss = step_model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if device.type == "cuda":
            torch.cuda.synchronize()
        if step >= 2:
            times.append(time.perf_counter() - start)
    median = sorted(times)[len(times) // 2]
    print(json.dumps({
        "name": "train", "shape": f"{arguments.model} {arguments.batch} x {arguments.sequence}", "dtype": arguments.dtype,
        "implementation": "transformers %s, torch %s%s%s" % (transformers.__version__, torch.__version__,
                                                            ", compiled" if arguments.compile else "",
                                                            ", tuned" if arguments.tuned else ""),
        "threads": arguments.threads, "milliseconds": 1e3 * median, "fastest_milliseconds": 1e3 * min(times),
        "slowest_milliseconds": 1e3 * max(times), "tokens_per_second": arguments.batch * arguments.sequence / median,
        "loss_first": losses[0], "loss_last": losses[-1]}))


if __name__ == "__main__":
    main()
