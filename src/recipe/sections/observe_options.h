// ObserveOptions: [observe] of a recipe: what a run writes besides events.jsonl, which is always written.
// Plain data; declared in observe_options.cpp.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

class OptionSet;

struct ObserveOptions {
  bool tensorboard = true;           // TensorBoard files in DIR/tensorboard
  bool report = true;                // DIR/report.html, refreshed at every evaluation and at the end
  bool compression_baseline = true;  // bits per byte of gzip -9 and xz -9 on the held-out text, beside the model's
  int64_t trace_every = 0;           // steps; every such step is recorded in DIR/trace: who did what when. 0: none
  int64_t batch_noise_every = 0;     // steps; every such step measures the critical batch size. 0: none
  int64_t updates_every = 0;         // steps; every such step tells how far it moved the weights. 0: none
  int64_t entry_skew_every = 10;     // steps; every such step tells how far apart ranks come to their first common call. 0: none
  bool operator==(const ObserveOptions&) const = default;
};

void declare(OptionSet& set, ObserveOptions& observe);

}  // namespace longhaul::recipe
