#!/usr/bin/env python3
"""Puzzles that reasoning-gym makes, and answers that it judges, a second and core: the peer of `longhaul bench puzzles`.

    scripts/peer-python bench/peers/puzzles.py --count 200 "sudoku 40" "kakurasu 4"

Prints one JSON object: of each name puzzles made and answers judged a second of processor time. Settings are those of
src/bench/puzzle_settings.cpp that have the same name. The public SynLogic generators are in no package registry and are
not measured here.
"""
import argparse
import json
import time

import reasoning_gym

# Name -> data set and its configuration. What is not named stays as reasoning-gym has it.
SETTINGS = {
    "cryptarithm": ("cryptarithm", {}),
    "futoshiki": ("futoshiki", {"min_board_size": 5, "max_board_size": 5}),
    "kakurasu 4": ("kakurasu", {"min_rows": 4, "max_rows": 4, "min_cols": 4, "max_cols": 4, "p_ones": 0.3}),
    "kakurasu 6": ("kakurasu", {"min_rows": 6, "max_rows": 6, "min_cols": 6, "max_cols": 6, "p_ones": 0.3}),
    "puzzle24": ("puzzle24", {"min_value": 1, "max_value": 9}),
    "sudoku 40": ("sudoku", {"min_empty": 41, "max_empty": 41}),
    "sudoku 26": ("sudoku", {"min_empty": 55, "max_empty": 55}),
    "survo": ("survo", {"min_board_size": 5, "max_board_size": 5, "min_empty": 8, "max_empty": 8}),
    "word_sorting": ("word_sorting", {"min_words": 10, "max_words": 10}),
    "zebra_puzzles": ("zebra_puzzles", {}),
}


def measure(name, count):
    kind, knobs = SETTINGS[name]
    data = reasoning_gym.create_dataset(kind, seed=1, size=count + 3, **knobs)
    for index in range(3):
        data[count + index]
    begin = time.process_time()
    items = [data[index] for index in range(count)]
    made = time.process_time() - begin
    judged, begin = 0, time.process_time()
    while time.process_time() - begin < 0.2:
        for item in items:
            data.score_answer(item["answer"], item)
            data.score_answer("1", item)
            judged += 2
    return {"made_per_s": count / max(made, 1e-9), "judged_per_s": judged / (time.process_time() - begin)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=sorted(SETTINGS))
    parser.add_argument("--count", type=int, default=200)
    arguments = parser.parse_args()
    print(json.dumps({name: measure(name, arguments.count) for name in arguments.names}))


if __name__ == "__main__":
    main()
