// ObserveOptions: [observe] of a recipe: what a run writes in addition to events.jsonl, which is always
// written. Plain data; declared in observe_options.cpp.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

class OptionSet;

struct ObserveOptions {
  bool tensorboard = true;  // TensorBoard files in DIR/tensorboard
  bool report = true;       // DIR/report.html, refreshed at every evaluation and at the end
  // Bits per byte of gzip -9 and xz -9 on the held-out text, next to the model's.
  bool compression_baseline = true;
  // In steps; every such step is recorded in DIR/trace: what each rank did when. 0: none.
  int64_t trace_every = 0;
  int64_t batch_noise_every = 0;  // in steps; every such step measures the critical batch size. 0: none
  int64_t updates_every = 0;      // in steps; every such step reports how far it moved the weights. 0: none
  // In steps; every such step reports the time between the first and the last rank's entry into their first
  // common call. 0: none.
  int64_t entry_skew_every = 10;
  bool operator==(const ObserveOptions&) const = default;
};

void declare(OptionSet& set, ObserveOptions& observe);

}  // namespace longhaul::recipe
