"""Small random models of every family that Longhaul reads, made by `transformers` (written for 5.23 with torch 2.13): configurations away from
their defaults, weights times 5 so that routers and norms matter, norms and biases away from 1 and 0, vocabularies of odd sizes.

cases(size) → {name: function that makes the model}; size "golden": as small as a checked-in file should be."""
import torch
import transformers
from safetensors.numpy import save_file

BASE = dict(initializer_range=0.02, bos_token_id=None, eos_token_id=None, pad_token_id=None, attention_dropout=0.0)


def sizes(golden, **more):
    if golden:
        base = dict(vocab_size=23, hidden_size=12, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                    intermediate_size=12, max_position_embeddings=64)
    else:
        base = dict(vocab_size=331, hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
                    intermediate_size=76, max_position_embeddings=512)
    return {**BASE, **base, **more}


def rope(theta, kind="default", **more):
    return dict(rope_parameters=dict(rope_theta=theta, rope_type=kind, **more))


def gpt2(golden, **more):
    width = dict(vocab_size=23, n_embd=12, n_layer=2, n_head=2, n_positions=40) if golden else dict(
        vocab_size=331, n_embd=48, n_layer=3, n_head=6, n_positions=160)
    return transformers.GPT2Config(**width, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None,
                                   layer_norm_epsilon=3e-5, **more)


def llama3_rope(golden):
    return rope(40000.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=16 if golden else 64)


def minimax(golden, heads, layer_types, **more):
    return transformers.MiniMaxConfig(
        **{**sizes(golden), **dict(num_attention_heads=heads, num_key_value_heads=2, num_hidden_layers=len(layer_types))},
        **rope(1e7), head_dim=8 if golden else 32, num_local_experts=3 if golden else 8, num_experts_per_tok=2, block_size=16,
        layer_types=layer_types, rms_norm_eps=1e-5, full_attn_alpha_factor=2.0, full_attn_beta_factor=0.9, linear_attn_alpha_factor=1.75,
        linear_attn_beta_factor=1.0, mlp_alpha_factor=1.5, mlp_beta_factor=1.1, **more)


def minimax_of_specification(heads, layers, experts):
    """docs/sources/minimax-01.md §9.1 to the letter."""
    return transformers.MiniMaxConfig(
        vocab_size=512, hidden_size=64, head_dim=32, num_attention_heads=heads, num_key_value_heads=2, num_hidden_layers=layers,
        layer_types=(["linear_attention"] * 7 + ["full_attention"]) * (layers // 8), intermediate_size=96, num_local_experts=experts,
        num_experts_per_tok=2, block_size=16, rms_norm_eps=1e-5, hidden_act="silu", max_position_embeddings=4096, sliding_window=None, **rope(1e7),
        attention_dropout=0.0, router_jitter_noise=0.0, tie_word_embeddings=False, full_attn_alpha_factor=2.0, full_attn_beta_factor=1.0,
        linear_attn_alpha_factor=2.0, linear_attn_beta_factor=1.0, mlp_alpha_factor=2.0, mlp_beta_factor=1.0, bos_token_id=None, eos_token_id=None,
        pad_token_id=None)


def mamba2(golden, **more):
    width = dict(vocab_size=23, hidden_size=12, num_hidden_layers=2, num_heads=6, head_dim=4, state_size=5) if golden else dict(
        vocab_size=331, hidden_size=48, num_hidden_layers=3, num_heads=12, head_dim=8, state_size=20)
    return transformers.Mamba2Config(**width, bos_token_id=None, eos_token_id=None, pad_token_id=None, initializer_range=0.05,
                                     chunk_size=8, layer_norm_epsilon=3e-5, **more)


def configurations(golden):
    t = transformers
    linear, full = "linear_attention", "full_attention"
    hybrid = [linear, full] if golden else [linear] * 7 + [full]
    tied = dict(tie_word_embeddings=True, num_hidden_layers=1 if golden else 2)
    to_the_letter = {} if golden else {"minimax-9.1": minimax_of_specification(4, 8, 8), "minimax-9.1-six-heads": minimax_of_specification(6, 16, 4)}
    return to_the_letter | {
        "gpt2": gpt2(golden),
        "gpt2-untied": gpt2(golden, tie_word_embeddings=False, n_inner=18 if golden else 100),
        "llama": t.LlamaConfig(**sizes(golden), **llama3_rope(golden), head_dim=8, rms_norm_eps=2e-5),
        "llama-tied": t.LlamaConfig(**sizes(golden, num_key_value_heads=2 if golden else 6, tie_word_embeddings=True), attention_bias=True,
                                    **rope(7000.0, "linear", factor=2.5)),
        "mistral": t.MistralConfig(**sizes(golden), **rope(20000.0), sliding_window=5 if golden else 21, head_dim=6 if golden else 16),
        "mixtral": t.MixtralConfig(**sizes(golden), **rope(20000.0), num_local_experts=3 if golden else 5, num_experts_per_tok=2),
        "mistral-tied": t.MistralConfig(**sizes(golden, **tied), **rope(20000.0), sliding_window=None, head_dim=6 if golden else 16),
        "mixtral-tied": t.MixtralConfig(**sizes(golden, **tied), **rope(20000.0), num_local_experts=2 if golden else 5,
                                        num_experts_per_tok=2, sliding_window=4 if golden else 17, router_aux_loss_coef=0.5),
        "qwen2": t.Qwen2Config(**sizes(golden), **rope(30000.0), use_sliding_window=True, sliding_window=4 if golden else 19,
                               max_window_layers=1),
        "qwen2-tied": t.Qwen2Config(**sizes(golden, tie_word_embeddings=True), **rope(30000.0)),
        "qwen3": t.Qwen3Config(**sizes(golden), **rope(50000.0), head_dim=10 if golden else 24),
        "qwen3-tied": t.Qwen3Config(**sizes(golden, tie_word_embeddings=True, num_key_value_heads=2 if golden else 6), **rope(50000.0),
                                    head_dim=8, attention_bias=True),
        "qwen2-moe": t.Qwen2MoeConfig(**sizes(golden), **rope(30000.0), num_experts=3 if golden else 7, num_experts_per_tok=2, moe_intermediate_size=16,
                                      shared_expert_intermediate_size=14, norm_topk_prob=False, mlp_only_layers=[] if golden else [1]),
        "qwen3-moe": t.Qwen3MoeConfig(**sizes(golden), **rope(50000.0), head_dim=8, num_experts=4 if golden else 6, num_experts_per_tok=2,
                                      moe_intermediate_size=16, norm_topk_prob=True, mlp_only_layers=[0]),
        "qwen2-moe-tied": t.Qwen2MoeConfig(**sizes(golden, **tied), **rope(30000.0), num_experts=2 if golden else 5, num_experts_per_tok=1,
                                           moe_intermediate_size=8, shared_expert_intermediate_size=10, norm_topk_prob=False, router_aux_loss_coef=0.5),
        "qwen3-moe-tied": t.Qwen3MoeConfig(**sizes(golden, **tied), **rope(50000.0), head_dim=8, num_experts=3 if golden else 5,
                                           num_experts_per_tok=2, moe_intermediate_size=8, norm_topk_prob=True, router_aux_loss_coef=0.5),
        "qwen2-moe-windows": t.Qwen2MoeConfig(**sizes(golden), **rope(30000.0), num_experts=2, num_experts_per_tok=2, moe_intermediate_size=8,
                                              shared_expert_intermediate_size=6, use_sliding_window=True, sliding_window=4 if golden else 19),
        "qwen3-moe-windows": t.Qwen3MoeConfig(**sizes(golden), **rope(50000.0), head_dim=8, num_experts=2, num_experts_per_tok=2,
                                              moe_intermediate_size=8, use_sliding_window=True, sliding_window=4 if golden else 19),
        "minimax": minimax(golden, 4, hybrid),
        "minimax-tied": minimax(golden, 2, hybrid, tie_word_embeddings=True, router_aux_loss_coef=0.5),
        "minimax-six-heads": minimax(golden, 6, [linear, full, linear] if golden else [linear, linear, full] * 4),
        "mamba2": mamba2(golden, n_groups=1, conv_kernel=3),
        "mamba2-tied": mamba2(golden, n_groups=1, conv_kernel=4, tie_word_embeddings=True),
        "mamba2-groups": mamba2(golden, n_groups=3, conv_kernel=4),
    }


MODELS = {"gpt2": transformers.GPT2LMHeadModel, "llama": transformers.LlamaForCausalLM, "mistral": transformers.MistralForCausalLM,
          "mixtral": transformers.MixtralForCausalLM, "qwen2": transformers.Qwen2ForCausalLM, "qwen3": transformers.Qwen3ForCausalLM,
          "qwen2_moe": transformers.Qwen2MoeForCausalLM, "qwen3_moe": transformers.Qwen3MoeForCausalLM,
          "minimax": transformers.MiniMaxForCausalLM, "mamba2": transformers.Mamba2ForCausalLM}


def make(name, golden, seed=0):
    config = configurations(golden)[name]
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = MODELS[config.model_type](config).eval().float()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter_name.endswith("bias"):
                parameter.copy_(0.2 * noise)
            elif parameter.dim() == 1:
                if name.startswith("minimax-9.1"):
                    continue  # norms are 1 there
                parameter.copy_(1 + 0.2 * noise)
            else:
                parameter.mul_(5)
    return model


def random_ids(model, length, seed=3):
    generator = torch.Generator().manual_seed(seed + length)
    return torch.randint(model.config.vocab_size, (1, length), generator=generator)


def write_expected(model, ids, folder, balanced):
    """What tests/golden/make_published_golden.py says of a model, as the tests of published models read it. Afterwards its weights are gradients."""
    found = model(ids, **(dict(output_router_logits=True) if balanced else {}))
    losses = {"loss": torch.nn.functional.cross_entropy(found.logits[0, :-1], ids[0, 1:], reduction="sum")}
    if balanced:
        losses["loss_balanced"] = losses["loss"] + ids.shape[1] * model.config.router_aux_loss_coef * found.aux_loss
    model.save_pretrained(folder / "model")
    expected = {"ids": ids[0].numpy(), "logits": found.logits[0].detach().numpy()}
    gradients = {key: torch.autograd.grad(loss, list(model.parameters()), retain_graph=True) for key, loss in losses.items()}
    for key, loss in losses.items():
        expected[key] = loss.detach().numpy().reshape(1)
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients[key], strict=True):
                parameter.copy_(gradient)
        model.save_pretrained(folder / key.replace("loss", "gradients").replace("_", "-"))
    for made in folder.glob("*/generation_config.json"):
        made.unlink()
    save_file(expected, folder / "expected.safetensors")
