#include "recipe/sections/outer_options.h"

#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(Outer) {
  return {"none", "local_sgd", "slowmo", "diloco", "co2", "delay_corrected", "streaming"};
}
std::vector<std::string_view> names_of(OuterGap) { return {"constant", "measured", "per_tensor"}; }
std::vector<std::string_view> names_of(OuterWire) { return {"float32", "bfloat16"}; }

bool hidden(const OuterOptions& options) {
  return (options.method == Outer::kCo2 && options.overlap) || keeps_local_work(options.method);
}
bool keeps_local_work(Outer method) {
  return method == Outer::kDelayCorrected || method == Outer::kStreaming;
}
int64_t outer_fragments_of(const OuterOptions& options) {
  return options.method == Outer::kStreaming ? options.fragments : 1;
}

// As published, except co2's momentum: it comes late by a round, and is unstable if a round removes more than
// 1 - momentum of an error (docs/sources/co2.md §5).
double outer_momentum_of(const OuterOptions& options) {
  if (options.momentum >= 0) return options.momentum;
  constexpr double kMomenta[] = {0, 0, 0.5, 0.9, 0.2, 0, 0.9};
  return kMomenta[static_cast<size_t>(options.method)];
}

double outer_lr_of(const OuterOptions& options) {
  if (options.lr >= 0) return options.lr;
  return options.method == Outer::kDiloco || options.method == Outer::kStreaming ? 0.7 : 1;
}

// The last agreed weights, those in transfer (also narrow), the momentum, and what this island has sent.
int64_t outer_state_bytes(const OuterOptions& options, int64_t wide) {
  if (options.method == Outer::kNone) return 0;
  const int64_t kept =
      2 + (outer_momentum_of(options) > 0 ? 1 : 0) + (options.method == Outer::kDelayCorrected ? 1 : 0);
  return wide * kept + (options.wire == OuterWire::kBfloat16 ? 2 : 0);
}

void declare(OptionSet& set, OuterOptions& outer) {
  set.add("optim.outer", outer.method,
          "Workers train by themselves and meet only every optim.outer_every steps, for slow links between "
          "them: weights become their mean "
          "(local_sgd), or follow a momentum of its movements (slowmo; diloco: Nesterov's); co2 does that "
          "one round late, while the next round is "
          "trained, so that nobody waits for the links; delay_corrected and streaming (fragments of the "
          "layers in turn, DiLoCo's momentum) "
          "hide exchanges too and keep what is learnt meanwhile.");
  set.add("optim.outer_every", outer.every,
          "Steps between two exchanges of the same weights; 0: chosen in the first one from measured times "
          "of a step and of an exchange.")
      .unit("steps")
      .at_least(0)
      .at_most(1 << 20);
  set.add("optim.outer_momentum", outer.momentum,
          "Decay of the outer momentum per round; -1: slowmo 0.5, diloco and streaming 0.9, co2 0.2, others "
          "0.")
      .at_least(-1)
      .at_most(0.999999999);
  set.add("optim.outer_lr", outer.lr,
          "Outer learning rate: of the momentum, what weights move by; -1: diloco and streaming 0.7, others "
          "1.")
      .at_least(-1)
      .at_most(100);
  set.add("optim.outer_by_lr", outer.by_lr,
          "Outer momenta are kept in units of the learning rate of steps (SlowMo's paper): a falling rate "
          "shrinks what they have gathered.")
      .for_comparisons();
  set.add("optim.outer_clip", outer.clip, "co2: largest size of an element of the outer momentum; 0: none.")
      .at_least(0)
      .at_most(1e6);
  set.add("optim.outer_gap", outer.gap,
          "co2: what a late outer gradient is divided by: how far all weights have moved since, in lengths "
          "of a round (measured), the same of each "
          "weight tensor by itself (per_tensor), or optim.outer_gap_value (constant).")
      .for_comparisons();
  set.add("optim.outer_gap_value", outer.gap_value,
          "co2, optim.outer_gap = constant: that number; 1: late gradients count whole.")
      .at_least(1)
      .at_most(1e6)
      .for_comparisons();
  set.add("optim.outer_overlap", outer.overlap,
          "co2: an exchange goes on behind the next round, and is late by it; false: all wait and nothing is "
          "late, which without a clip is slowmo (for "
          "comparisons).")
      .for_comparisons();
  set.add("optim.outer_guard", outer.guard,
          "co2: where weights move further and further from round to round, one round is synchronous.")
      .for_comparisons();
  set.add("optim.outer_synchronous_start", outer.synchronous_start, "co2: the first round is synchronous.")
      .for_comparisons();
  set.add("optim.outer_wire", outer.wire,
          "What differences travel in between workers: float32, or bfloat16 (half the bytes; each is rounded "
          "to 8 bits once by its worker and "
          "once in the sum, weights themselves are not).");
  set.add("optim.outer_delay", outer.delay,
          "delay_corrected, streaming: steps that an exchange may take; then weights take what has come. 0: "
          "until the next exchange begins.")
      .unit("steps")
      .at_least(0)
      .at_most(1 << 20);
  set.add("optim.outer_fragments", outer.fragments,
          "streaming: parts that the layers are dealt out to; one after the other is exchanged, each every "
          "optim.outer_every steps.")
      .at_least(1)
      .at_most(1024);
  set.add("optim.outer_mix", outer.mix,
          "streaming: share of a worker's own weights in what it goes on with behind an exchange; 0: what "
          "all agreed on, 1: its own.")
      .at_least(0)
      .at_most(1);
}

}  // namespace longhaul::recipe
