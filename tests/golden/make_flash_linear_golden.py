#!/usr/bin/env python3
"""Makes tests/golden/flash_linear.safetensors: what flash-linear-attention's own plain functions (fla/ops/*/naive.py) make of small random inputs, in fp64.

    make_flash_linear_golden.py   (the Python of scripts/peer-python, which has fla-core 0.6.0)

Each file of the package is run as it is, but that what it calls float is double: it widens its inputs to fp32 whatever they are. Of every case the inputs, o, the final state, and
the gradients of Σ o · weight_o + Σ state · weight_state. Tokens first, as in tests/kernels/flash_linear_test.cpp, which compares them.
"""
import importlib.metadata
import importlib.util
import pathlib

import torch
from safetensors.torch import save_file

TOKENS, HEADS, KEYS, VALUES = 19, 2, 5, 3


def naive(name):
    folder = pathlib.Path(importlib.metadata.distribution("fla-core").locate_file("fla"))
    spec = importlib.util.spec_from_file_location(f"naive_{name}", folder / "ops" / name / "naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(x):  # [T, …] → [1, T, …]
    return x.unsqueeze(0)


def heads_first(x):  # [T, H, …] → [1, H, T, …]
    return x.unsqueeze(0).transpose(1, 2)


class Inputs:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def recurrence(self, key_heads=HEADS, heads=HEADS):
        return dict(q=self.normal(TOKENS, key_heads, KEYS), k=self.normal(TOKENS, key_heads, KEYS), v=self.normal(TOKENS, heads, VALUES),
                    initial=self.normal(1, heads, KEYS, VALUES))

    def decay(self, *shape):
        return -self.normal(*shape).exp()


def with_unit_keys(x):
    x["k"] = torch.nn.functional.normalize(x["k"], dim=-1)
    return x


def cases():
    retention, gla, simple, hgrn = (naive(name) for name in ("retention", "gla", "simple_gla", "hgrn"))
    delta, gated, kda = (naive(name) for name in ("delta_rule", "gated_delta_rule", "kda"))
    make = Inputs(17)

    x = make.recurrence()
    del x["initial"]
    yield "retention", x, lambda q, k, v: (retention.naive_retention(*map(heads_first, (q, k, v)))[0].transpose(0, 1), None)

    x = dict(make.recurrence(), log_decay=make.decay(TOKENS, HEADS, KEYS))
    yield "gla", x, lambda q, k, v, initial, log_decay: gla.naive_recurrent_gla(*map(rows, (q, k, v, log_decay)), initial, True)

    x = dict(make.recurrence(), log_decay=make.decay(TOKENS, HEADS, KEYS))
    del x["k"]
    yield "hgrn2", x, lambda q, v, initial, log_decay: gla.naive_recurrent_gla(
        rows(q), 1 - rows(log_decay).exp(), rows(v), rows(log_decay), initial, True)

    # Mamba-2's as its scan calls it: C, B, Δ x, Δ A.
    x = dict(make.recurrence(), log_decay=make.decay(TOKENS, HEADS))
    yield "mamba2", x, lambda q, k, v, initial, log_decay: simple.naive_recurrent_simple_gla(
        *map(rows, (q, k, v, log_decay)), scale=1.0, initial_state=initial, output_final_state=True)

    x = dict(make.recurrence(), log_decay=make.decay(HEADS))
    yield "lightning", x, lambda q, k, v, initial, log_decay: simple.naive_chunk_simple_gla(
        *map(rows, (q, k, v, log_decay.expand(TOKENS, HEADS))), initial, True, chunk_size=8, scale=1.0)

    x = dict(u=make.normal(TOKENS, 7), log_decay=make.decay(TOKENS, 7), initial=make.normal(1, 7))
    yield "hgrn", x, lambda u, log_decay, initial: hgrn.naive_recurrent_hgrn(rows(u), rows(log_decay), initial, True)

    x = with_unit_keys(dict(make.recurrence(), beta=make.normal(TOKENS, HEADS).sigmoid()))
    yield "delta_rule", x, lambda q, k, v, initial, beta: (
        lambda o, state: (o.transpose(1, 2), state))(*delta.delta_rule_recurrence(*map(heads_first, (q, k, v, beta)), initial, True))

    x = with_unit_keys(dict(make.recurrence(), beta=2 * make.normal(TOKENS, HEADS).sigmoid(), log_decay=make.decay(TOKENS, HEADS)))
    yield "gated_delta_rule", x, lambda q, k, v, initial, beta, log_decay: gated.naive_recurrent_gated_delta_rule(
        *map(rows, (q, k, v, beta, log_decay)), initial_state=initial, output_final_state=True)

    x = with_unit_keys(dict(make.recurrence(heads=2 * HEADS), beta=make.normal(TOKENS, 2 * HEADS).sigmoid(),
                            log_decay=make.decay(TOKENS, 2 * HEADS, KEYS)))
    yield "kda", x, lambda q, k, v, initial, beta, log_decay: kda.naive_recurrent_kda(
        *map(rows, (q, k, v, log_decay, beta)), initial_state=initial, output_final_state=True)


def main():
    assert importlib.metadata.version("fla-core") == "0.6.0"
    torch.float = torch.float32 = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    weights, written = Inputs(18), {}
    for name, inputs, function in cases():
        leaves = {key: value.clone().requires_grad_() for key, value in inputs.items()}
        o, state = function(**leaves)
        found = {"o": o.squeeze(0)} | ({} if state is None else {"state": state})
        weight = {key: weights.normal(*value.shape) for key, value in found.items()}
        sum((found[key] * weight[key]).sum() for key in found).backward()
        for key, value in inputs.items():
            written[f"{name}.{key}"], written[f"{name}.d_{key}"] = value, leaves[key].grad
        for key, value in found.items():
            written[f"{name}.{key}"], written[f"{name}.weight_{key}"] = value.detach(), weight[key]
    assert all(value.dtype == torch.float64 for value in written.values())
    save_file({key: value.contiguous() for key, value in written.items()}, pathlib.Path(__file__).parent / "flash_linear.safetensors")


if __name__ == "__main__":
    main()
