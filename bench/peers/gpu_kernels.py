#!/usr/bin/env python3
"""Kernels of other people on one GPU, at the shapes of `gpu-check`: what Longhaul's are compared with.

    python bench/peers/gpu_kernels.py                       cuBLAS, scaled_dot_product_attention, flash-linear-attention's lightning
    python bench/peers/gpu_kernels.py --device cpu --small  the same calls at tiny shapes, to try the script without a GPU

Prints one JSON object a line: name, shape, milliseconds (median of runs that are timed by device events), TFLOP/s. A library that is not
installed, or refuses, is a line with "reason". Needs: pip install torch; flash-linear-attention for its kernel.
"""
import argparse
import json
import statistics
import time


def milliseconds(torch, device, call, runs):
    for _ in range(3):
        call()
    times = []
    for _ in range(runs):
        if device == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        else:
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def report(torch, arguments, name, shape, flops, make_calls):
    """make_calls() -> (forward, forward and backward or None)."""
    line = {"name": name, "shape": shape}
    try:
        forward, both = make_calls()
        line["milliseconds"] = milliseconds(torch, arguments.device, forward, arguments.runs)
        line["tflops"] = flops / line["milliseconds"] * 1e-9
        if both is not None:
            line["forward_backward_milliseconds"] = milliseconds(torch, arguments.device, both, arguments.runs)
    except Exception as error:  # a library that is missing or refuses is told, and the others are timed all the same
        line["reason"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    import torch
    options = {"dtype": torch.bfloat16, "device": arguments.device}

    n = 64 if arguments.small else 8192

    def product():
        a, b = torch.randn(n, n, **options), torch.randn(n, n, **options)
        return lambda: a @ b.T, None

    report(torch, arguments, "matmul A B^T", f"{n}^3", 2 * n**3, product)

    def attention(heads, key_heads, tokens, width):
        def make():
            def random(h):
                return torch.randn(1, h, tokens, width, **options).requires_grad_()
            q, k, v = random(heads), random(key_heads), random(key_heads)
            d_o = torch.randn_like(q)

            def forward():
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != key_heads)
            return forward, lambda: forward().backward(d_o)
        return make

    shapes = [(2, 1, 64, 32)] if arguments.small else [(12, 12, 2048, 64), (16, 16, 16384, 128), (32, 8, 16384, 128)]
    for heads, key_heads, tokens, width in shapes:
        report(torch, arguments, "scaled_dot_product_attention", f"1 x {tokens}, {heads}/{key_heads} heads x {width}, causal",
               2 * heads * tokens * tokens * width, attention(heads, key_heads, tokens, width))

    heads, tokens, width = (2, 64, 32) if arguments.small else (64, 16384, 128)

    def lightning():
        from fla.ops.lightning_attn import chunk_lightning_attn
        q, k, v = (torch.randn(1, tokens, heads, width, **options).requires_grad_() for _ in range(3))
        d_o = torch.randn_like(v)

        def forward():
            return chunk_lightning_attn(q, k, v, layer_idx=1, num_layers=8)[0]
        return forward, lambda: forward().backward(d_o)

    report(torch, arguments, "flash-linear-attention lightning", f"1 x {tokens}, {heads} heads x {width}", 4 * heads * tokens * width**2, lightning)


if __name__ == "__main__":
    main()
