#!/usr/bin/env python3
"""Makes the Parquet files here with pyarrow, as public trainers write them: with none of our own columns, in their kinds of text.

    python tests/golden/puzzles/make.py      (needs pyarrow)

public.parquet: a sudoku of the split to test on, whose answer is empty as in public data, and a futoshiki whose numbers stand in the question alone.
unknown_task.parquet: its second row is of a task that nobody has. wrong_type.parquet: data_source is a number.
"""
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).resolve().parent
TEXT = pa.large_string()

SUDOKU = {"question": "Fill it.", "answer": "", "difficulty": 2, "gpt_response": "",
          "metadata": {"original_sudoku": [[1, "X", 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, "X"]]}}
FUTOSHIKI = {"question": "Solve it.\nCurrent puzzle:\nX  X\n2  X\n\nConstraints:\n(2,1) > (2,2)\n", "answer": [[1, 2], [2, 1]], "difficulty": 1,
             "gpt_response": "", "metadata": {"grid_size": 2, "prefilled_coords": [[1, 0]], "constraints": [[[1, 0], [1, 1], ">"]]}}


def rows(entries):
    return [{"data_source": key, "prompt": [{"role": "user", "content": game["question"]}], "ability": "logic",
             "reward_model": {"answer": "", "solution": "", "style": "rule"},
             "extra_info": {"game_data_str": json.dumps(game, ensure_ascii=False), "index": index}}
            for index, (key, game) in enumerate(entries)]


def write(name, entries, source=pa.dictionary(pa.int32(), pa.string())):
    schema = pa.schema([("data_source", source), ("prompt", pa.large_list(pa.struct([("content", TEXT), ("role", TEXT)]))), ("ability", TEXT),
                        ("reward_model", pa.struct([("answer", TEXT), ("solution", TEXT), ("style", TEXT)])),
                        ("extra_info", pa.struct([("game_data_str", TEXT), ("index", pa.int32())]))])
    pq.write_table(pa.Table.from_pylist(rows(entries), schema=schema), HERE / name)


write("public.parquet", [("val/sudoku", SUDOKU), ("futoshiki", FUTOSHIKI)])
write("unknown_task.parquet", [("sudoku", SUDOKU), ("sudokku", SUDOKU)])
write("wrong_type.parquet", [(7, SUDOKU)], pa.int64())
