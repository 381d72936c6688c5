# Makes the tables of this folder with pyarrow 26.0.1:
#   PYTHONPATH=$(dirname $(scripts/fetch-arrow)) python3.11 tests/golden/tables/make.py
# Four rows: "one", "zwei\nline", null, "vier é"; saved/ is what Hugging Face `datasets` writes with save_to_disk (a stream and two JSON files).
# talks.parquet: two conversations as the Hub keeps them, lists of structures, whose fields may be null.
import os
import pyarrow as pa
import pyarrow.parquet as pq

os.chdir(os.path.dirname(os.path.abspath(__file__)))
table = pa.table({"id": [1, 2, 3, 4], "text": ["one", "zwei\nline", None, "vier é"], "nested": [{"a": 1}] * 4})
pq.write_table(table, "rows.parquet", row_group_size=2, compression="zstd")
large = pa.schema([("id", pa.int64()), ("text", pa.large_string()), ("nested", pa.struct([("a", pa.int64())]))])
with pa.OSFile("file.arrow", "wb") as file, pa.ipc.new_file(file, large) as writer:
    writer.write_table(table.cast(large))
os.makedirs("saved", exist_ok=True)
with pa.OSFile("saved/data-00000-of-00001.arrow", "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
    writer.write_table(table, max_chunksize=3)
for name in ("dataset_info.json", "state.json"):
    with open("saved/" + name, "w") as file:
        file.write("{}\n")
talks = pa.table({
    "messages": [[{"role": "user", "content": "q", "name": None}, {"role": "assistant", "content": "é", "name": "a"}],
                 [{"role": "user", "content": "r", "name": None}, {"role": "assistant", "content": "s", "name": None}]],
    "weight": pa.array([0.5, None], pa.float32()), "good": [True, False], "level": pa.array([3, 4], pa.int32())})
pq.write_table(talks, "talks.parquet", row_group_size=1)
