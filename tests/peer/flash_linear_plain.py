"""RetNet, GLA, HGRN2, DeltaNet and Gated DeltaNet under the names and fields of flash-linear-attention, token by token in fp64 as their papers have them,
with the scales, norms and gates of its layers. torch is there for gradients alone; no line of it is shared with Longhaul or that package."""
import numpy as np
import torch
import torch.nn.functional as F

COMMON = dict(hidden_size=12, num_hidden_layers=2, vocab_size=23, hidden_act="swish", norm_eps=2e-5, tie_word_embeddings=False, attn=None,
              attn_mode="chunk", elementwise_affine=True, fuse_norm=True, fuse_swiglu=True, fuse_cross_entropy=True,
              initializer_range=0.02, max_position_embeddings=2048, use_cache=True, intermediate_size=20, hidden_ratio=None,
              bos_token_id=1, eos_token_id=2)

CONFIGS = {
    "flash-linear-retnet": dict(COMMON, architectures=["RetNetForCausalLM"], model_type="retnet", num_heads=2, num_kv_heads=None,
                                expand_k=1.0, expand_v=2.0, feature_map=None, use_short_conv=False, use_output_gate=True),
    "flash-linear-gla": dict(COMMON, architectures=["GLAForCausalLM"], model_type="gla", num_heads=3, num_kv_heads=None, expand_k=0.5,
                             expand_v=1.0, feature_map=None, use_short_conv=False, conv_size=4, use_output_gate=True, clamp_min=None,
                             use_gk=True, use_gv=False, fuse_norm=False, tie_word_embeddings=True),
    "flash-linear-hgrn2": dict(COMMON, architectures=["HGRN2ForCausalLM"], model_type="hgrn2", num_heads=3, expand_ratio=4,
                               use_short_conv=False, conv_size=4, use_lower_bound=True, num_hidden_layers=3),
    "flash-linear-gated-deltanet": dict(COMMON, architectures=["GatedDeltaNetForCausalLM"], model_type="gated_deltanet", num_heads=2,
                                        num_v_heads=4, head_dim=5, expand_v=1.2, use_gate=True, use_short_conv=True, conv_size=3,
                                        allow_neg_eigval=True),
    "flash-linear-deltanet": dict(COMMON, architectures=["DeltaNetForCausalLM"], model_type="delta_net", num_heads=2, expand_k=0.5,
                                  expand_v=1, use_gate=False, use_short_conv=True, conv_size=4, use_beta=True, use_output_norm=True,
                                  qk_norm="l2", qk_activation="silu"),
    "flash-linear-deltanet-gate": dict(COMMON, architectures=["DeltaNetForCausalLM"], model_type="delta_net", num_heads=2, expand_k=1.0,
                                       expand_v=1.5, use_gate=True, use_short_conv=True, conv_size=2, use_beta=True, qk_norm="l2",
                                       qk_activation="silu", allow_neg_eigval=True, tie_word_embeddings=True),
}


# The head is the embedding: smaller, for the rest is as above.
TIED = dict(tie_word_embeddings=True, intermediate_size=8)
CONFIGS |= {"flash-linear-retnet-tied": dict(CONFIGS["flash-linear-retnet"], **TIED, num_hidden_layers=1),
            "flash-linear-hgrn2-tied": dict(CONFIGS["flash-linear-hgrn2"], **TIED, num_hidden_layers=2),
            "flash-linear-gated-deltanet-tied": dict(CONFIGS["flash-linear-gated-deltanet"], **TIED, num_hidden_layers=1)}
NAMES = list(CONFIGS)


def shapes_of_layer(c):
    d, kind = c["hidden_size"], c["model_type"]
    if kind in ("retnet", "gla"):
        key, value = int(d * c["expand_k"]), int(d * c["expand_v"])
        norm = "g_norm_swish_gate" if c["fuse_norm"] else "g_norm"
        shapes = {"q_proj.weight": (key, d), "k_proj.weight": (key, d), "v_proj.weight": (value, d), "g_proj.weight": (value, d),
                  f"{norm}.weight": (value // c["num_heads"],), "o_proj.weight": (d, value)}
        if kind == "gla":
            shapes |= {"gk_proj.0.weight": (16, d), "gk_proj.1.weight": (key, 16), "gk_proj.1.bias": (key,)}
        return shapes
    if kind == "hgrn2":
        return {"q_proj.weight": (d, d), "f_proj.weight": (d, d), "i_proj.weight": (d, d), "g_norm.weight": (d,), "o_proj.weight": (d, d)}
    if kind == "delta_net":
        key, value, taps = int(d * c["expand_k"]), int(d * c["expand_v"]), c["conv_size"]
        shapes = {"q_proj.weight": (key, d), "k_proj.weight": (key, d), "v_proj.weight": (value, d), "b_proj.weight": (c["num_heads"], d),
                  "q_conv1d.weight": (key, 1, taps), "k_conv1d.weight": (key, 1, taps), "v_conv1d.weight": (value, 1, taps),
                  "o_norm.weight": (value // c["num_heads"],), "o_proj.weight": (d, value)}
        return shapes | ({"g_proj.weight": (value, d)} if c["use_gate"] else {})
    heads, values, taps = c["num_heads"], c["num_v_heads"], c["conv_size"]
    key, width = heads * c["head_dim"], int(c["head_dim"] * c["expand_v"])
    return {"q_proj.weight": (key, d), "k_proj.weight": (key, d), "v_proj.weight": (values * width, d), "a_proj.weight": (values, d),
            "b_proj.weight": (values, d), "A_log": (values,), "dt_bias": (values,), "q_conv1d.weight": (key, 1, taps),
            "k_conv1d.weight": (key, 1, taps), "v_conv1d.weight": (values * width, 1, taps), "g_proj.weight": (values * width, d),
            "o_norm.weight": (width,), "o_proj.weight": (d, values * width)}


def make(name):
    """Its configuration, and weights in fp64 that fp32 holds exactly."""
    c = CONFIGS[name]
    random = np.random.default_rng(13)
    d, width, tensors = c["hidden_size"], c["intermediate_size"], {}

    def add(key, shape):
        x = random.standard_normal(shape)
        x = 1 + 0.2 * x if len(shape) == 1 and "norm" in key else 0.4 * x
        tensors[key] = torch.from_numpy(x.astype(np.float32).astype(np.float64)).requires_grad_()

    add("model.embeddings.weight", (c["vocab_size"], d))
    if c["model_type"] == "hgrn2":
        add("model.lower_bounds", (c["num_hidden_layers"], d))
    for l in range(c["num_hidden_layers"]):
        layer = f"model.layers.{l}."
        add(layer + "attn_norm.weight", (d,))
        for key, shape in shapes_of_layer(c).items():
            add(layer + "attn." + key, shape)
        add(layer + "mlp_norm.weight", (d,))
        for key, shape in (("gate", (width, d)), ("up", (width, d)), ("down", (d, width))):
            add(layer + f"mlp.{key}_proj.weight", shape)
    add("model.norm.weight", (d,))
    if not c["tie_word_embeddings"]:
        add("lm_head.weight", (c["vocab_size"], d))
    return c, tensors


def rms(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def recurrence(q, k, v, decay, scale):
    """[tokens, heads, …]; decay [tokens, heads, keys]: what is left of each row of the state."""
    out, state = [], torch.zeros(q.shape[1], q.shape[2], v.shape[2], dtype=torch.float64)
    for t in range(len(q)):
        state = decay[t].unsqueeze(-1) * state + k[t].unsqueeze(-1) * v[t].unsqueeze(-2)
        out.append(scale * (q[t].unsqueeze(-1) * state).sum(-2))
    return torch.stack(out)


def turned(x):
    half = x.shape[-1] // 2
    angles = torch.arange(len(x), dtype=torch.float64)[:, None, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def gated_heads(c, w, x):
    heads, n = c["num_heads"], len(x)
    q, k, v, g = ((x @ w(f"{which}_proj.weight").T).view(n, heads, -1) for which in "qkvg")
    if c["model_type"] == "retnet":
        q, k = turned(q), turned(k)
        rates = 1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float64))
        decay = rates[None, :, None].expand(n, heads, k.shape[-1])
        norm = "g_norm_swish_gate.weight"
    else:
        logits = (x @ w("gk_proj.0.weight").T) @ w("gk_proj.1.weight").T + w("gk_proj.1.bias")
        decay = torch.sigmoid(logits).view(n, heads, -1) ** (1 / 16)
        norm = "g_norm.weight"
    o = recurrence(q, k, v, decay, q.shape[-1] ** -0.5)
    return (rms(o, w(norm), c["norm_eps"]) * F.silu(g)).reshape(n, -1) @ w("o_proj.weight").T


def hgrn2(c, w, x, bound):
    heads, n = c["num_heads"], len(x)
    q = F.silu(x @ w("q_proj.weight").T).view(n, heads, -1)
    left = bound + (1 - bound) * torch.sigmoid(x @ w("f_proj.weight").T)
    left = left.view(n, heads, -1)
    o = recurrence(q, 1 - left, (x @ w("i_proj.weight").T).view(n, heads, -1), left, q.shape[-1] ** -0.5)
    return rms(o.reshape(n, -1), w("g_norm.weight"), 1e-5) @ w("o_proj.weight").T


def convolved(x, taps):
    """silu of a causal convolution of each channel; taps [channels, 1, tokens], the last one of the token itself."""
    count = taps.shape[-1]
    padded = torch.cat([torch.zeros(count - 1, x.shape[1], dtype=torch.float64), x])
    return F.silu(sum(padded[i:i + len(x)] * taps[:, 0, i] for i in range(count)))


def gated_deltanet(c, w, x):
    n, values, group = len(x), c["num_v_heads"], c["num_v_heads"] // c["num_heads"]
    q, k, v = (convolved(x @ w(f"{which}_proj.weight").T, w(f"{which}_conv1d.weight")) for which in "qkv")
    q, k = (part.view(n, c["num_heads"], -1).repeat_interleave(group, 1) for part in (q, k))
    q, k = (part / torch.sqrt((part * part).sum(-1, keepdim=True) + 1e-6) for part in (q, k))
    v = v.view(n, values, -1)
    left = torch.exp(-torch.exp(w("A_log")) * F.softplus(x @ w("a_proj.weight").T + w("dt_bias")))
    beta = torch.sigmoid(x @ w("b_proj.weight").T) * (2 if c["allow_neg_eigval"] else 1)
    out, state = [], torch.zeros(values, q.shape[-1], v.shape[-1], dtype=torch.float64)
    for t in range(n):
        state = left[t, :, None, None] * state
        missing = v[t] - (k[t].unsqueeze(-1) * state).sum(-2)
        state = state + beta[t, :, None, None] * k[t].unsqueeze(-1) * missing.unsqueeze(-2)
        out.append(q.shape[-1] ** -0.5 * (q[t].unsqueeze(-1) * state).sum(-2))
    o = rms(torch.stack(out), w("o_norm.weight"), c["norm_eps"]) * F.silu((x @ w("g_proj.weight").T).view(n, values, -1))
    return o.reshape(n, -1) @ w("o_proj.weight").T


def deltanet(c, w, x):
    n, heads = len(x), c["num_heads"]
    q, k, v = (convolved(x @ w(f"{which}_proj.weight").T, w(f"{which}_conv1d.weight")).view(n, heads, -1) for which in "qkv")
    q, k = (part / torch.sqrt((part * part).sum(-1, keepdim=True) + 1e-6) for part in (q, k))
    beta = torch.sigmoid(x @ w("b_proj.weight").T) * (2 if c.get("allow_neg_eigval") else 1)
    out, state = [], torch.zeros(heads, q.shape[-1], v.shape[-1], dtype=torch.float64)
    for t in range(n):
        missing = v[t] - (k[t].unsqueeze(-1) * state).sum(-2)
        state = state + beta[t, :, None, None] * k[t].unsqueeze(-1) * missing.unsqueeze(-2)
        out.append(q.shape[-1] ** -0.5 * (q[t].unsqueeze(-1) * state).sum(-2))
    o = rms(torch.stack(out), w("o_norm.weight"), c["norm_eps"])
    if c["use_gate"]:
        o = o * F.silu((x @ w("g_proj.weight").T).view(n, heads, -1))
    return o.reshape(n, -1) @ w("o_proj.weight").T


MIXERS = {"gated_deltanet": gated_deltanet, "delta_net": deltanet}


def plain_logits(c, tensors, ids):
    eps = c["norm_eps"]
    x = tensors["model.embeddings.weight"][ids]
    if c["model_type"] == "hgrn2":
        shares = torch.softmax(tensors["model.lower_bounds"], 0)
    for l in range(c["num_hidden_layers"]):
        layer = f"model.layers.{l}."

        def w(name):
            return tensors[layer + "attn." + name]

        h = rms(x, tensors[layer + "attn_norm.weight"], eps)
        if c["model_type"] == "hgrn2":
            x = x + hgrn2(c, w, h, shares[1:l + 1].sum(0))
        else:
            x = x + MIXERS.get(c["model_type"], gated_heads)(c, w, h)
        g = rms(x, tensors[layer + "mlp_norm.weight"], eps)
        gate, up, down = (tensors[layer + f"mlp.{which}_proj.weight"] for which in ("gate", "up", "down"))
        x = x + (F.silu(g @ gate.T) * (g @ up.T)) @ down.T
    head = tensors["model.embeddings.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
    return rms(x, tensors["model.norm.weight"], eps) @ head.T
