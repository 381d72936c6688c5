"""Reads a TensorBoard folder with TensorBoard's own reader and prints what it found as JSON.

    python tensorboard_read.py FOLDER

Output: {"version": "2.21.0", "scalars": {tag: [[step, value], ...]}, "records": n}. Every record's checksums are
verified; a bad one ends the script with an error. Needs the tensorboard package (tested with 2.21).
"""

import glob
import json
import os
import sys

import tensorboard
from tensorboard.backend.event_processing import event_accumulator, event_file_loader


def main(folder):
    accumulator = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
    accumulator.Reload()
    scalars = {}
    # The loader turns simple_value into tensors on the way in, so both kinds are looked at.
    for tag in accumulator.Tags()["scalars"]:
        scalars[tag] = [[e.step, e.value] for e in accumulator.Scalars(tag)]
    for tag in accumulator.Tags()["tensors"]:
        scalars[tag] = [[e.step, float(e.tensor_proto.float_val[0])] for e in accumulator.Tensors(tag)]
    records = 0
    for path in sorted(glob.glob(os.path.join(folder, "*tfevents*"))):
        records += sum(1 for _ in event_file_loader.RawEventFileLoader(path).Load())
    print(json.dumps({"version": tensorboard.__version__, "scalars": scalars, "records": records}))


if __name__ == "__main__":
    main(sys.argv[1])
