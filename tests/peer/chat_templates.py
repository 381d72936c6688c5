#!/usr/bin/env python3
"""The golden conversations are still what transformers renders: makes tests/golden/chat_golden.json again and compares.

    chat_templates.py REPOSITORY
"""
import importlib.util
import json
import pathlib
import sys


def main():
    folder = pathlib.Path(sys.argv[1]) / "tests" / "golden"
    spec = importlib.util.spec_from_file_location("make_chat_golden", folder / "make_chat_golden.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    golden, made = json.loads((folder / "chat_golden.json").read_text()), json.loads(json.dumps(maker.golden()))
    assert golden["templates"] == made["templates"]
    for old, new in zip(golden["cases"], made["cases"], strict=True):
        assert old == new, (old["name"], old, new)
    print(f"{len(golden['cases'])} conversations are rendered as {golden['made_by']} renders them")


if __name__ == "__main__":
    main()
