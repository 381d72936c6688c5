#!/usr/bin/env python3
"""Makes most of the seeds, so that a mutation starts from something whole.

    tests/fuzz/make_corpus.py        (writes below corpus/, beside itself)

Tokenizers: the definitions of tests/golden/tokenizer_golden.json (made by the package `tokenizers`), cut to about a hundred
entries, since what is fuzzed is the reading, not the merging. Recipes: the checked-in recipe and presets, and arguments.
"""
import json
import pathlib
import shutil
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SAMPLE = {*"def x(1234): Ġ▁\n", "<unk>", "<0x0A>", "<0xE4>"}


def cut(definition, entries=104):
    model = definition["model"]
    special = {t["content"] for t in definition["added_tokens"]}
    # Kept: special tokens, letters, some bytes, and what merges of kept tokens make.
    kept = [t for t in model["vocab"] if t in special | SAMPLE or (len(t) == 1 and t.isalpha() and t.isascii())]
    merges = []
    for merge in model["merges"]:
        left, right = merge if isinstance(merge, list) else merge.split(" ")
        if left in kept and right in kept and len(kept) < entries:
            merges.append(merge)
            if left + right not in kept:
                kept.append(left + right)
    model["vocab"] = {t: i for i, t in enumerate(kept)}
    model["merges"] = merges
    following = len(kept)
    for token in definition["added_tokens"]:
        if token["content"] in model["vocab"]:
            token["id"] = model["vocab"][token["content"]]
        else:
            token["id"], following = following, following + 1
    post = definition.get("post_processor") or {}
    for name, token in (post.get("special_tokens") or {}).items():
        token["ids"] = [model["vocab"].get(t, 0) for t in token["tokens"]]
    return definition


def corpus(name):
    folder = HERE / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_token_files():
    """A first byte that says which kind, for Megatron two more that say where .bin ends (token_files_fuzz.cpp)."""
    folder = corpus("token_files")
    tokens = [5, 6, 7, 0, 8, 9, 0, 0, 10]
    for name, header, kind in (("llmc-16-bits", (20240520, 1), "H"), ("llmc-32-bits", (20240801, 7), "I")):
        words = struct.pack("<256i", *header, len(tokens), *[0] * 253)
        (folder / name).write_bytes(words + struct.pack(f"<{len(tokens)}{kind}", *tokens))
    lengths, documents = [4, 3, 2], [0, 2, 3]
    for code, kind in ((1, "B"), (4, "i"), (8, "H")):
        body = struct.pack(f"<{len(tokens)}{kind}", *tokens)
        offsets = [sum(lengths[:i]) * struct.calcsize(kind) for i in range(len(lengths))]
        index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(documents))
        index += struct.pack("<3i3q3q", *lengths, *offsets, *documents)
        cut = struct.pack(">H", len(body))
        (folder / f"megatron-{code}").write_bytes(b"\1" + cut + body + index)


def make_control_messages():
    """One message of each direction, as control/wire/messages.h writes them."""
    folder = corpus("control_messages")
    error = {"code": 71, "text": "a device failed", "consequence": False, "age_s": 0.5}
    collective = {"group": "world", "name": "loss", "kind": "all_reduce", "sequence": 7, "state": "started"}
    beat = {"rank": 1, "generation": 2, "pid": 77, "beat_age_s": 0.1, "progress_age_s": 0.2, "step": 9, "resumed_step": 0, "micro_step": 1,
            "phase": "forward", "phase_age_s": 0.1, "collective": collective, "loss": "nan", "gradient_norm": 1.5, "tokens": 1024,
            "resident_bytes": 1000000, "step_seconds": 0.25, "phase_seconds": {"forward": 0.1, "backward": 0.15},
            "background": [{"name": "save", "age_s": 1.0, "allowed_s": 60.0}], "error": error}
    exited = {"rank": 0, "generation": 2, "pid": 78, "status": 137, "age_s": 0.1, "stopped": False, "out_of_memory": True, "step": 9,
              "error": error, "last_words": "killed", "stack": "main\nrun"}
    messages = {
        "node_beat": {"generation": 2, "free_port": 4000, "running": [beat], "ended": [exited]},
        "rank_exited": exited,
        "health_report": {"kind": "xid", "code": 79, "rank": -1, "device": "GPU-1", "text": "fell off the bus"},
        "check_results": {"id": 3, "suite": "quick", "checks": [{"name": "disk", "passed": True, "measured": 1.0, "limit": 2.0, "unit": "s",
                                                                 "text": "", "signature": ""}]},
        "keys_renewed": {"generation": 2},
        "run_checks": {"id": 3, "suite": "quick", "limit_s": 10.0, "peers": ["10.0.0.1"]},
        "stop_ranks": {"generation": 2, "grace_s": 5.0, "save": True, "reason": "evicted", "leave": False},
        "evict_request": {"target": "node-1", "reason": "slow"},
        "status_request": {},
    }
    for name, fields in messages.items():
        (folder / name).write_text(json.dumps({"type": name, **fields}))
    (folder / "answer").write_text(json.dumps({"good": True, "text": "done"}))


def make_published():
    for config in ROOT.glob("tests/golden/published/*/model/config.json"):
        shutil.copyfile(config, corpus("config_json") / f"{config.parent.parent.name}.json")
    index = {"metadata": {"total_size": 2}, "weight_map": {"a": "part-1.safetensors", "b": "part-1.safetensors"}}
    (corpus("published_index") / "two-tensors.json").write_text(json.dumps(index))
    for table in ("rows.parquet", "file.arrow"):
        shutil.copyfile(ROOT / "tests/golden/tables" / table, corpus("table") / table)


def make_puzzle_records():
    """Of every task a row as we write it, and what a public generator would have written (puzzle_record_fuzz.cpp); needs the program."""
    program, folder = ROOT / "build/release/longhaul", corpus("puzzle_record")
    run = lambda *words: subprocess.run([program, "puzzles", *words, "--json"], check=True, capture_output=True, text=True).stdout
    for task in json.loads(run("list")):
        row = run("show", task["key"], "--level", "1").strip()
        (folder / f"{task['key']}-row").write_text("\n" + row + "\n")
        (folder / f"{task['key']}-generator").write_text(f"{task['key']}\n" + json.loads(row)["extra_info"]["game_data_str"] + "\n")


def make_chat_templates():
    for name, text in json.loads((ROOT / "tests/golden/chat_golden.json").read_text())["templates"].items():
        (corpus("chat_template") / f"{name}.jinja").write_text(text)


def main():
    folder = corpus("tokenizer_json")
    for case in json.loads((ROOT / "tests/golden/tokenizer_golden.json").read_text())["cases"]:
        (folder / f"{case['name']}.json").write_text(json.dumps(cut(case["definition"]), ensure_ascii=False, separators=(",", ":")) + "\n")
    folder = corpus("recipe")
    without_comments = lambda path: "".join(line + "\n" for line in path.read_text().splitlines() if line and not line.startswith("#"))
    presets = ("first-run", "gpt2-124m", "hybrid-bench", "linear-bench", "llama-3-8b", "minimax-text-01")
    for path in [*(next(ROOT.glob(f"presets/*/{name}.toml")) for name in presets), ROOT / "recipes/first-run.toml"]:
        (folder / f"{path.parent.name}-{path.name}").write_text(without_comments(path))
    arguments = ["train.steps=20", "train.dtype=fp64", "optim.lr=1e-3", "model.preset=gpt2-124m", "data.source=/a/b", "train.seed=-1", "model.chunk=64"]
    (folder / "arguments.toml").write_text("version = 1\n[model]\npreset = \"first-run\"\n--- arguments\n" + "\n".join(arguments) + "\n")
    make_token_files()
    make_chat_templates()
    make_control_messages()
    make_published()
    make_puzzle_records()


if __name__ == "__main__":
    main()
