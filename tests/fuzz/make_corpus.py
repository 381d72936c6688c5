#!/usr/bin/env python3
"""Makes the seeds of tokenizer_json and recipe, so that a mutation starts from something whole.

    tests/fuzz/make_corpus.py        (writes corpus/tokenizer_json and corpus/recipe beside itself)

Tokenizers: the definitions of tests/golden/tokenizer_golden.json (made by the package `tokenizers`), cut to about a hundred
entries, since what is fuzzed is the reading, not the merging. Recipes: the checked-in recipe and presets, and arguments.
"""
import json
import pathlib

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


def main():
    folder = HERE / "corpus" / "tokenizer_json"
    folder.mkdir(parents=True, exist_ok=True)
    for case in json.loads((ROOT / "tests/golden/tokenizer_golden.json").read_text())["cases"]:
        (folder / f"{case['name']}.json").write_text(json.dumps(cut(case["definition"]), ensure_ascii=False, separators=(",", ":")) + "\n")
    folder = HERE / "corpus" / "recipe"
    folder.mkdir(parents=True, exist_ok=True)
    without_comments = lambda path: "".join(line + "\n" for line in path.read_text().splitlines() if line and not line.startswith("#"))
    for path in [*ROOT.glob("presets/*.toml"), *ROOT.glob("recipes/*.toml")]:
        (folder / f"{path.parent.name}-{path.name}").write_text(without_comments(path))
    arguments = ["train.steps=20", "train.dtype=fp64", "optim.lr=1e-3", "model.preset=gpt2-124m", "data.source=/a/b", "train.seed=-1", "model.chunk=64"]
    (folder / "arguments.toml").write_text("version = 1\n[model]\npreset = \"first-run\"\n--- arguments\n" + "\n".join(arguments) + "\n")


if __name__ == "__main__":
    main()
