"""MiniMax-Text-01 as published (minimax-01.md §2, the official reading of §2.2), token by token in fp64: half of each softmax head is rotated,
lightning layers have the official decay slopes. numpy alone; no line of it is shared with Longhaul."""
import numpy as np


def original_minimax():
    """Configuration and weights of a small random model, in the original layout."""
    d, heads, kv, hd, layers, experts, width, vocabulary = 12, 6, 2, 8, 4, 3, 8, 41
    config = dict(
        architectures=["MiniMaxText01ForCausalLM"], model_type="minimax_text_01", attn_type_list=[0, 0, 1, 0], attention_dropout=0.0,
        hidden_act="silu", hidden_size=d, head_dim=hd, intermediate_size=width, layernorm_full_attention_alpha=2.1,
        layernorm_full_attention_beta=0.9, layernorm_linear_attention_alpha=1.7, layernorm_linear_attention_beta=1.1,
        layernorm_mlp_alpha=1.4, layernorm_mlp_beta=0.8, max_position_embeddings=1024, num_attention_heads=heads, num_experts_per_tok=2,
        num_hidden_layers=layers, num_key_value_heads=kv, num_local_experts=experts, postnorm=True, rms_norm_eps=1e-5, rope_theta=1e7,
        rotary_dim=hd // 2, router_aux_loss_coef=0.001, router_jitter_noise=0.0, shared_intermediate_size=0, shared_moe_mode="sigmoid",
        sliding_window=None, tie_word_embeddings=False, vocab_size=vocabulary)
    random = np.random.default_rng(11)
    tensors = {}

    def matrix(name, *shape):
        tensors[name] = (0.3 * random.standard_normal(shape)).astype(np.float32).astype(np.float64)

    def norm(name, size):
        tensors[name] = (1 + 0.2 * random.standard_normal(size)).astype(np.float32).astype(np.float64)

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
    matrix("lm_head.weight", vocabulary, d)
    return config, tensors


def silu(x):
    return x / (1 + np.exp(-x))


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def base_slope(h, heads):
    power = 1 << (heads.bit_length() - 1)
    if h < power:
        return 2.0 ** (-8 * (h + 1) / power)
    return 2.0 ** (-8 * (2 * (h - power) + 1) / (2 * power))


def lightning(c, w, l, x):
    heads, hd = c["num_attention_heads"], c["head_dim"]
    qkv = silu(x @ w("qkv_proj").T).reshape(len(x), heads, 3, hd)
    out = np.zeros((len(x), heads, hd))
    for h in range(heads):
        slope = base_slope(h, heads) * (1 - l / (c["num_hidden_layers"] - 1) + 1e-5)
        state = np.zeros((hd, hd))
        for t in range(len(x)):
            q, k, v = qkv[t, h]
            state = np.exp(-slope) * state + np.outer(k, v)
            out[t, h] = q @ state
    y = rms(out.reshape(len(x), -1), w("norm"), 1e-6)
    return (y / (1 + np.exp(-x @ w("output_gate").T))) @ w("out_proj").T


def rotated(c, x):
    width = c["rotary_dim"]
    half = width // 2
    angles = np.arange(len(x))[:, None] * c["rope_theta"] ** (-2.0 * np.arange(half) / width)
    a, b, rest = x[..., :half], x[..., half:width], x[..., width:]
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def softmax(c, w, x):
    heads, kv, hd = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    q = rotated(c, (x @ w("q_proj").T).reshape(len(x), heads, hd))
    k = rotated(c, (x @ w("k_proj").T).reshape(len(x), kv, hd))
    v = (x @ w("v_proj").T).reshape(len(x), kv, hd)
    out = np.zeros((len(x), heads, hd))
    for h in range(heads):
        for t in range(len(x)):
            score = k[:t + 1, h // (heads // kv)] @ q[t, h] / np.sqrt(hd)
            p = np.exp(score - score.max())
            out[t, h] = p / p.sum() @ v[:t + 1, h // (heads // kv)]
    return out.reshape(len(x), -1) @ w("o_proj").T


def experts(c, w, x):
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        z = w("gate") @ row
        p = np.exp(z - z.max())
        p /= p.sum()
        chosen = np.argsort(-p)[:c["num_experts_per_tok"]]
        for e in chosen:
            out[t] += p[e] / p[chosen].sum() * (w(f"experts.{e}.w2") @ (silu(w(f"experts.{e}.w1") @ row) * (w(f"experts.{e}.w3") @ row)))
    return out


def plain_logits(c, tensors, ids):
    x = tensors["model.embed_tokens.weight"][ids]
    for l, kind in enumerate(c["attn_type_list"]):
        def of(part):
            return lambda name: tensors[f"model.layers.{l}.{part}.{name}.weight"]
        which = "linear" if kind == 0 else "full"
        h = rms(x, tensors[f"model.layers.{l}.input_layernorm.weight"], c["rms_norm_eps"])
        mixed = lightning(c, of("self_attn"), l, h) if kind == 0 else softmax(c, of("self_attn"), h)
        x = c[f"layernorm_{which}_attention_alpha"] * h + c[f"layernorm_{which}_attention_beta"] * mixed
        g = rms(x, tensors[f"model.layers.{l}.post_attention_layernorm.weight"], c["rms_norm_eps"])
        x = c["layernorm_mlp_alpha"] * g + c["layernorm_mlp_beta"] * experts(c, of("block_sparse_moe"), g)
    return rms(x, tensors["model.norm.weight"], c["rms_norm_eps"]) @ tensors["lm_head.weight"].T
