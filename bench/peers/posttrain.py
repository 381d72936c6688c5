#!/usr/bin/env python3
"""Steps of fine-tuning, LoRA and GRPO by TRL and PEFT beside those of `longhaul bench posttrain`, in turns.

    python bench/peers/posttrain.py --longhaul build/release/longhaul               # three rounds, two threads
    python bench/peers/posttrain.py --longhaul build/release/longhaul --shape tiny  # only that it runs

One model in the shape of Llama (softmax attention, tied embeddings, 259 tokens), random weights on both sides, rows without
padding: conversations whose answer is three quarters of the row, for LoRA rank 8 beside all linear layers; for GRPO 8 prompts of 24 bytes
with 8 answers each, of which few end before their last token (one in 259 ends them), and a reward of the same for all.
AdamW, gradients clipped at 1, weights in fp32; --dtype bf16 means bf16 autocast there and train.dtype=bf16 here. A figure is the median of
the rounds' tokens per second, each the median of the steps behind the first two. Tokens of a GRPO step are those of its prompts and
answers, on both sides. Prints a table, and --json one object.
Needs what bench/peers/posttrain-requirements.txt lists, and torch 2.13 (PYTHONPATH may point to the one that Longhaul was built with).
"""
import argparse
import json
import os
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time

SHAPES = {
    "bench": {"layers": 4, "hidden": 256, "heads": 4, "kv_heads": 2, "intermediate": 768, "sequence": 512, "batch": 4, "answer": 32},
    "wide": {"layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 4, "intermediate": 3072, "sequence": 512, "batch": 4, "answer": 32},
    "tiny": {"layers": 2, "hidden": 32, "heads": 2, "kv_heads": 1, "intermediate": 64, "sequence": 96, "batch": 2, "answer": 4},
}
VOCABULARY, PROMPTS, GROUP, PROMPT_TOKENS, NOT_COUNTED = 259, 8, 8, 24, 2
WAYS = {"chat": "fine-tuning", "chat, LoRA": "LoRA", "reinforce": "GRPO"}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longhaul", required=True, help="the program")
    parser.add_argument("--shape", choices=SHAPES, default="bench")
    parser.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="that count, in each round")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer-way", choices=WAYS, help=argparse.SUPPRESS)  # a child: one way of one round
    return parser.parse_args()


# ---- the peer: a process of its own for each way of each round -----------------------------------------------------------

def make_model(shape):
    import transformers
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=shape["hidden"], intermediate_size=shape["intermediate"], num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"], num_key_value_heads=shape["kv_heads"], tie_word_embeddings=True, use_cache=True,
        max_position_embeddings=4096, bos_token_id=None, eos_token_id=None, pad_token_id=256)
    return transformers.LlamaForCausalLM(config)


def make_tokenizer():
    """Bytes, as the tokens 0 to 255."""
    import tokenizers
    import transformers
    order = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {letter: number for number, letter in enumerate(sorted(order))}
    vocabulary.update({"<pad>": 256, "<end>": 257, "<none>": 258})
    model = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, pad_token="<pad>", eos_token="<end>")


def make_timer():
    import transformers

    class Timer(transformers.TrainerCallback):
        def __init__(self):
            self.ends = []

        def on_train_begin(self, *_, **__):
            self.ends.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            self.ends.append(time.perf_counter())

        def seconds(self):
            steps = [b - a for a, b in zip(self.ends, self.ends[1:])]
            return statistics.median(steps[NOT_COUNTED:])

    return Timer()


def run_peer(arguments):
    import datasets
    import torch
    import transformers
    import trl
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    shape = SHAPES[arguments.shape]
    generator = random.Random(0)
    timer = make_timer()
    with tempfile.TemporaryDirectory() as folder:
        common = {
            "output_dir": folder, "use_cpu": True, "bf16": arguments.dtype == "bf16", "max_steps": arguments.steps + NOT_COUNTED,
            "learning_rate": 1e-4, "lr_scheduler_type": "constant", "max_grad_norm": 1.0, "optim": "adamw_torch_fused", "logging_steps": 1000,
            "save_strategy": "no", "report_to": [], "disable_tqdm": True, "gradient_checkpointing": False, "dataloader_num_workers": 0}
        if arguments.peer_way == "reinforce":
            answers, tokens = PROMPTS * GROUP, PROMPTS * GROUP * (PROMPT_TOKENS + shape["answer"])
            prompts = ["".join(generator.choices(string.ascii_lowercase, k=PROMPT_TOKENS)) for _ in range(256)]
            config = trl.GRPOConfig(**common, per_device_train_batch_size=answers, num_generations=GROUP, temperature=1.0, beta=0.0,
                                    max_completion_length=shape["answer"])
            trainer = trl.GRPOTrainer(model=make_model(shape), args=config, processing_class=make_tokenizer(), callbacks=[timer],
                                      reward_funcs=lambda completions, **_: [0.0 for _ in completions],
                                      train_dataset=datasets.Dataset.from_dict({"prompt": prompts}))
        else:
            tokens = shape["batch"] * shape["sequence"]
            rows = shape["batch"] * (arguments.steps + NOT_COUNTED)
            ids = [[generator.randrange(256) for _ in range(shape["sequence"])] for _ in range(rows)]
            quarter = shape["sequence"] // 4
            mask = [[0] * quarter + [1] * (shape["sequence"] - quarter) for _ in ids]
            config = trl.SFTConfig(**common, per_device_train_batch_size=shape["batch"], max_length=shape["sequence"], packing=False,
                                   completion_only_loss=True)
            lora = None
            if arguments.peer_way == "chat, LoRA":
                import peft
                lora = peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
            trainer = trl.SFTTrainer(model=make_model(shape), args=config, processing_class=make_tokenizer(), callbacks=[timer],
                                     peft_config=lora,
                                     train_dataset=datasets.Dataset.from_dict({"input_ids": ids, "completion_mask": mask}))
        trainer.train()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "trl": trl.__version__}
    print(json.dumps({"way": arguments.peer_way, "tokens_per_second": tokens / timer.seconds(), "versions": versions}))


# ---- both in turn ----------------------------------------------------------------------------------------------------

def last_line(command, environment):
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


def ask_peer(arguments, way):
    command = [sys.executable, os.path.abspath(__file__), "--longhaul", arguments.longhaul, "--shape", arguments.shape, "--dtype",
               arguments.dtype, "--threads", str(arguments.threads), "--steps", str(arguments.steps), "--peer-way", way]
    # glibc keeps memory and uses huge pages, as bench/peers/train.py --tuned has it.
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false",
                   "MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
                   "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return json.loads(last_line(command, environment).strip().splitlines()[-1])


def ask_longhaul(arguments):
    shape = SHAPES[arguments.shape]
    command = [arguments.longhaul, "bench", "posttrain", "--json", "--rounds", "1", "--steps", str(arguments.steps), "--sequence",
               str(shape["sequence"]), "--batch", str(shape["batch"]), "--answer", str(shape["answer"]),
               f"model.layers={shape['layers']}", f"model.hidden={shape['hidden']}", f"model.heads={shape['heads']}",
               f"model.kv_heads={shape['kv_heads']}", f"model.head_dim={shape['hidden'] // shape['heads']}",
               f"model.intermediate={shape['intermediate']}", f"model.rotary_dim={shape['hidden'] // shape['heads']}",
               "model.mixers=softmax", f"train.dtype={arguments.dtype}", f"train.threads={arguments.threads}"]
    lines = [json.loads(line) for line in last_line(command, os.environ).splitlines() if line.startswith("{")]
    return {line["way"]: line["tokens_per_second"] for line in lines if line["way"] in WAYS}


def main():
    arguments = options()
    if arguments.peer_way:
        return run_peer(arguments)
    ours, peers, versions = {way: [] for way in WAYS}, {way: [] for way in WAYS}, {}
    for number in range(1, arguments.rounds + 1):
        for way, rate in ask_longhaul(arguments).items():
            ours[way].append(rate)
        for way in WAYS:
            answer = ask_peer(arguments, way)
            peers[way].append(answer["tokens_per_second"])
            versions = answer["versions"]
            print(f"round {number}, {WAYS[way]}: peer {peers[way][-1]:.0f}, longhaul {ours[way][-1]:.0f} tokens/s", file=sys.stderr)
    result = {"shape": arguments.shape, "dtype": arguments.dtype, "threads": arguments.threads, "versions": versions, "ways": {}}
    for way, name in WAYS.items():
        own, peer = statistics.median(ours[way]), statistics.median(peers[way])
        ratios = sorted(a / b for a, b in zip(ours[way], peers[way]))
        result["ways"][name] = {"longhaul": own, "peer": peer, "ratio": own / peer, "ratios": ratios}
    if arguments.json:
        return print(json.dumps(result))
    print(f"{arguments.shape} {arguments.dtype}, {arguments.threads} threads; {versions}")
    for name, line in result["ways"].items():
        print(f"{name:12} longhaul {line['longhaul']:10.0f}   peer {line['peer']:10.0f} tokens/s   {line['ratio']:.2f} times"
              f" ({line['ratios'][0]:.2f} to {line['ratios'][-1]:.2f})")


if __name__ == "__main__":
    main()
