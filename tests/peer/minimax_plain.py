"""MiniMax-Text-01 as published (docs/sources/minimax-01.md §2, the official reading of §2.2), token by token in fp64: half of each softmax head is rotated,
lightning layers have the official decay slopes. torch is there for gradients alone; no line of it is shared with Longhaul."""
import numpy as np
import torch
import torch.nn.functional as F

COMMON = dict(
    architectures=["MiniMaxText01ForCausalLM"], model_type="minimax_text_01", attention_dropout=0.0, hidden_act="silu", num_experts_per_tok=2,
    postnorm=True, rms_norm_eps=1e-5, rope_theta=1e7, router_aux_loss_coef=0.001, router_jitter_noise=0.0, shared_intermediate_size=0,
    shared_moe_mode="sigmoid", sliding_window=None, tie_word_embeddings=False)


def factors(full, linear, mlp):
    return {f"layernorm_{of}_{which}": value for of, pair in (("full_attention", full), ("linear_attention", linear), ("mlp", mlp))
            for which, value in zip(("alpha", "beta"), pair)}


SMALL = dict(
    COMMON, attn_type_list=[0, 0, 1, 0], hidden_size=12, head_dim=8, intermediate_size=8, **factors((2.1, 0.9), (1.7, 1.1), (1.4, 0.8)),
    max_position_embeddings=1024, num_attention_heads=6, num_hidden_layers=4, num_key_value_heads=2, num_local_experts=3, rotary_dim=4,
    vocab_size=41)
SMALLER = dict(SMALL, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=2, attn_type_list=[0, 1])
ALPHA = 3.5565588200778455  # (2 · 80)^¼

CONFIGS = {
    "minimax-original": SMALL,
    "minimax-original-postnorm-false": dict(SMALLER, postnorm=False),
    "minimax-original-tied": dict(SMALLER, tie_word_embeddings=True),
    # Of the size of the public tiny-random/minimax-m1 (docs/sources/minimax-01.md §9.2).
    "minimax-m1-tiny": dict(
        COMMON, attn_type_list=[0, 1], hidden_size=64, head_dim=32, intermediate_size=128, **factors((ALPHA, 1.0), (ALPHA, 1.0), (ALPHA, 1.0)),
        max_position_embeddings=4096, num_attention_heads=2, num_hidden_layers=2, num_key_value_heads=1, num_local_experts=8, rotary_dim=16,
        vocab_size=513, tie_word_embeddings=True),
}
GOLDEN = [name for name in CONFIGS if name.startswith("minimax-original")]


def make(name):
    """Configuration, and random weights in fp64 that fp32 holds exactly, in the original layout."""
    config = CONFIGS[name]
    d, heads, kv, hd = (config[key] for key in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"))
    experts, width, vocabulary = (config[key] for key in ("num_local_experts", "intermediate_size", "vocab_size"))
    random = np.random.default_rng(11)
    tensors = {}

    def add(name, values):
        tensors[name] = torch.from_numpy(values.astype(np.float32).astype(np.float64)).requires_grad_()

    def matrix(name, *shape):
        add(name, 0.3 * random.standard_normal(shape))

    def norm(name, size):
        add(name, 1 + 0.2 * random.standard_normal(size))

    matrix("model.embed_tokens.weight", vocabulary, d)
    for l, kind in enumerate(config["attn_type_list"]):
        layer = f"model.layers.{l}."
        norm(layer + "input_layernorm.weight", d)
        norm(layer + "post_attention_layernorm.weight", d)
        if kind == 0:
            matrix(layer + "self_attn.qkv_proj.weight", 3 * heads * hd, d)
            matrix(layer + "self_attn.output_gate.weight", heads * hd, d)
            matrix(layer + "self_attn.out_proj.weight", d, heads * hd)
            norm(layer + "self_attn.norm.weight", heads * hd)
        else:
            for name, rows in (("q", heads), ("k", kv), ("v", kv)):
                matrix(layer + f"self_attn.{name}_proj.weight", rows * hd, d)
            matrix(layer + "self_attn.o_proj.weight", d, heads * hd)
        matrix(layer + "block_sparse_moe.gate.weight", experts, d)
        for e in range(experts):
            for name, shape in (("w1", (width, d)), ("w3", (width, d)), ("w2", (d, width))):
                matrix(layer + f"block_sparse_moe.experts.{e}.{name}.weight", *shape)
    norm("model.norm.weight", d)
    if not config["tie_word_embeddings"]:
        matrix("lm_head.weight", vocabulary, d)
    return config, tensors


def rms(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def base_slope(h, heads):
    power = 1 << (heads.bit_length() - 1)
    if h < power:
        return 2.0 ** (-8 * (h + 1) / power)
    return 2.0 ** (-8 * (2 * (h - power) + 1) / (2 * power))


def lightning(c, w, l, x):
    heads, hd = c["num_attention_heads"], c["head_dim"]
    qkv = F.silu(x @ w("qkv_proj").T).reshape(len(x), heads, 3, hd)
    out = []
    for h in range(heads):
        slope = base_slope(h, heads) * (1 - l / (c["num_hidden_layers"] - 1) + 1e-5)
        state, rows = torch.zeros(hd, hd, dtype=torch.float64), []
        for t in range(len(x)):
            q, k, v = qkv[t, h]
            state = np.exp(-slope) * state + torch.outer(k, v)
            rows.append(q @ state)
        out.append(torch.stack(rows))
    y = rms(torch.cat(out, 1), w("norm"), 1e-6)
    return (y * torch.sigmoid(x @ w("output_gate").T)) @ w("out_proj").T


def rotated(c, x):
    width = c["rotary_dim"]
    half = width // 2
    angles = torch.from_numpy(np.arange(len(x))[:, None] * c["rope_theta"] ** (-2.0 * np.arange(half) / width))
    a, b, rest = x[..., :half], x[..., half:width], x[..., width:]
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def softmax(c, w, x):
    heads, kv, hd = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    q = rotated(c, (x @ w("q_proj").T).reshape(len(x), heads, hd))
    k = rotated(c, (x @ w("k_proj").T).reshape(len(x), kv, hd))
    v = (x @ w("v_proj").T).reshape(len(x), kv, hd)
    out = []
    for h in range(heads):
        group = h // (heads // kv)
        out.append(torch.stack([torch.softmax(k[:t + 1, group] @ q[t, h] / np.sqrt(hd), 0) @ v[:t + 1, group] for t in range(len(x))]))
    return torch.cat(out, 1) @ w("o_proj").T


def experts(c, w, x):
    out = []
    for row in x:
        p = torch.softmax(w("gate") @ row, 0)
        chosen = torch.argsort(-p)[:c["num_experts_per_tok"]].tolist()
        out.append(sum(p[e] / p[chosen].sum() * (w(f"experts.{e}.w2") @ (F.silu(w(f"experts.{e}.w1") @ row) * (w(f"experts.{e}.w3") @ row)))
                       for e in chosen))
    return torch.stack(out)


def plain_logits(c, tensors, ids):
    """postnorm: what goes on beside a branch is what was normed; without, it is what was not (§2.1)."""
    x = tensors["model.embed_tokens.weight"][ids]
    for l, kind in enumerate(c["attn_type_list"]):
        def of(part):
            return lambda name: tensors[f"model.layers.{l}.{part}.{name}.weight"]
        which = "linear" if kind == 0 else "full"
        h = rms(x, tensors[f"model.layers.{l}.input_layernorm.weight"], c["rms_norm_eps"])
        mixed = lightning(c, of("self_attn"), l, h) if kind == 0 else softmax(c, of("self_attn"), h)
        x = c[f"layernorm_{which}_attention_alpha"] * (h if c["postnorm"] else x) + c[f"layernorm_{which}_attention_beta"] * mixed
        g = rms(x, tensors[f"model.layers.{l}.post_attention_layernorm.weight"], c["rms_norm_eps"])
        x = c["layernorm_mlp_alpha"] * (g if c["postnorm"] else x) + c["layernorm_mlp_beta"] * experts(c, of("block_sparse_moe"), g)
    head = tensors["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
    return rms(x, tensors["model.norm.weight"], c["rms_norm_eps"]) @ head.T
