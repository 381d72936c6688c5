"""Fine-tuning beside transformers and TRL: the ids and the assistant's tokens of conversations are those of
apply_chat_template(return_assistant_tokens_mask=True), and the first loss is that of TRL's SFTTrainer.

    python tests/peer/chat_tuning.py build/release/longhaul

Run by hand, with torch, transformers, trl and tokenizers installed; a template with {% generation %} blocks.
"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

TEMPLATE = (Path(__file__).parents[2] / "docs/examples/chatml.jinja").read_text()
WORDS = "the cat sat on a mat and then it slept all day é 漢字 two  blanks\nand lines".split(" ")
RECIPE = """version = 1
[data]
held_out_percent = 0
remove_copies = false
[train]
task = "chat"
steps = 1
dtype = "fp32"
sequence = 2048
batch = 1
micro_batch = 1
evaluate_every = 0
[optim]
lr = 1e-30
schedule = "constant"
[sample]
tokens = 0
[observe]
report = false
tensorboard = false
compression_baseline = false
"""


def make_model(folder):
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    trained.train_from_iterator([" ".join(WORDS)] * 10, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained, eos_token="<|endoftext|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=336, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=4096, bos_token_id=None, eos_token_id=0,
                         initializer_range=0.2)
    LlamaForCausalLM(config).save_pretrained(folder)


def make_conversations(count):
    draw = random.Random(7)

    def text():
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 12)))

    talks = []
    for _ in range(count):
        messages = [{"role": "system", "content": text()}] if draw.random() < 0.5 else []
        for _ in range(draw.randint(1, 3)):
            messages += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
        talks.append({"messages": messages})
    return talks


def run(words, cache):
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(cache), "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def read_shard(path):
    """docs/formats/token-shards.md: the ids of each document and what they weigh."""
    raw = path.read_bytes()
    width, = struct.unpack_from("<I", raw, 16)
    tokens, documents = struct.unpack_from("<qq", raw, 24)
    segments, = struct.unpack_from("<q", raw, 144)
    ids = struct.unpack_from(f"<{tokens}{'H' if width == 2 else 'i'}", raw, 256)
    at = 256 + (tokens * width + 7) // 8 * 8
    ends = struct.unpack_from(f"<{documents}q", raw, at)
    of_documents = struct.unpack_from(f"<{documents}q", raw, at + 16 * documents)
    token_ends = struct.unpack_from(f"<{segments}q", raw, at + 24 * documents)
    weights = struct.unpack_from(f"<{segments}f", raw, at + 24 * documents + 8 * segments)
    for d in range(documents):
        begin, end = (ends[d - 1] if d else 0), ends[d]
        mask, last = [], 0
        for s in range(of_documents[d - 1] if d else 0, of_documents[d]):
            mask += [weights[s]] * (token_ends[s] - last)
            last = token_ends[s]
        yield list(ids[begin:end]), mask or [1.0] * (end - begin)


def main():
    program = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, cache = folder / "model", folder / "cache"
        make_model(model)
        talks = make_conversations(16)
        (folder / "talks.jsonl").write_text("".join(json.dumps(talk) + "\n" for talk in talks))
        (folder / "recipe.toml").write_text(RECIPE)
        common = [str(folder / "recipe.toml"), "--from", str(model), f"data.source={folder / 'talks.jsonl'}", f"data.cache={cache}"]
        shown = json.loads(run([program, "data", "prepare", *common, "--json"], cache))
        train = Path(shown["sources"][0]["folder"]) / "train"

        tokenizer = AutoTokenizer.from_pretrained(model)
        ours = [sample for shard in sorted(train.iterdir()) for sample in read_shard(shard)]
        assert len(ours) == len(talks), len(ours)
        for (ids, mask), talk in zip(ours, talks):
            theirs = tokenizer.apply_chat_template(talk["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
            mask_of_theirs = theirs["assistant_masks"]
            assert ids == theirs["input_ids"], (ids, theirs["input_ids"])
            assert mask == [float(m) for m in mask_of_theirs], (mask, mask_of_theirs)
        print(f"ids and assistant masks of {len(talks)} conversations: equal")

        run([program, "train", *common, "--run", str(folder / "run"), "--quiet"], cache)
        steps = [json.loads(line) for line in (folder / "run/events.jsonl").read_text().splitlines()]
        loss = next(step["loss"] for step in steps if step["event"] == "step")
        settings = SFTConfig(output_dir=str(folder / "trl"), assistant_only_loss=True, max_length=None, packing=False, max_steps=1,
                             per_device_train_batch_size=len(talks), learning_rate=0.0, logging_steps=1, report_to=[], use_cpu=True,
                             bf16=False, fp16=False, gradient_checkpointing=False, save_strategy="no")
        peer = SFTTrainer(model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), args=settings,
                          train_dataset=Dataset.from_list(talks), processing_class=tokenizer)
        peer.train()
        of_peer = peer.state.log_history[0]["loss"]
        print(f"first loss: {loss:.6f} here, {of_peer:.6f} of TRL's SFTTrainer")
        assert abs(loss - of_peer) < 2e-4 * of_peer, (loss, of_peer)

        run([program, "export", str(folder / "run"), "--out", str(folder / "out")], cache)
        again = AutoTokenizer.from_pretrained(folder / "out")
        assert again.chat_template == tokenizer.chat_template
        before, after = (AutoModelForCausalLM.from_pretrained(f, dtype=torch.float32) for f in (model, folder / "out"))
        ids = torch.tensor([ours[0][0]])
        assert torch.allclose(before(ids).logits, after(ids).logits, atol=1e-5)
        print("export: the template and the logits of the model")


if __name__ == "__main__":
    main()
