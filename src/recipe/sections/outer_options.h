// OuterOptions: the keys optim.outer… of a recipe. In an outer loop islands (workers) train independently for
// some steps, a round, and combine their results at its end (optim/outer/outer.h;
// docs/guides/outer-loops.md). Plain data; declared in outer_options.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

enum class Outer { kNone, kLocalSgd, kSlowmo, kDiloco, kCo2, kDelayCorrected, kStreaming };
std::vector<std::string_view> names_of(Outer);
// For co2: the divisor of a late outer gradient.
enum class OuterGap { kConstant, kMeasured, kPerTensor };
std::vector<std::string_view> names_of(OuterGap);
// The number format in which islands exchange weight differences.
enum class OuterWire { kFloat32, kBfloat16 };
std::vector<std::string_view> names_of(OuterWire);

struct OuterOptions {
  Outer method = Outer::kNone;
  int64_t every = 0;              // steps of a round, τ; 0: chosen from measured times
  double momentum = -1, lr = -1;  // -1: the method's value
  bool by_lr = false;             // momenta in units of the steps' learning rate, as in SlowMo's paper
  double clip = 1;                // co2: limit of each element of the momentum; 0: none
  OuterGap gap = OuterGap::kMeasured;
  double gap_value = 1;  // kConstant; 1: no penalty
  bool overlap = true;   // co2: false: all wait for the exchange, and no gradient is late
  bool guard = true;     // co2: makes a round synchronous when rounds move the weights further and further
  bool synchronous_start = true;
  // delay_corrected, streaming: steps from sending differences until the weights take their sum; 0: a round.
  int64_t delay = 0;
  int64_t fragments = 4;  // streaming: fragments of the layers
  OuterWire wire = OuterWire::kFloat32;
  double mix = 0.5;  // streaming: share of an island's own weights in the weights with which it continues
  bool operator==(const OuterOptions&) const = default;
};

bool hidden(const OuterOptions& options);  // its reductions run in the background of the next round
// What islands learn meanwhile stays in their weights, which therefore are never all equal.
bool keeps_local_work(Outer method);
// Fragments that are sent in turn: one per round, each as often as optim.outer_every says.
int64_t outer_fragments_of(const OuterOptions& options);
double outer_momentum_of(const OuterOptions& options);
double outer_lr_of(const OuterOptions& options);
// For each element of a trainable weight; wide: bytes of an element of its master.
int64_t outer_state_bytes(const OuterOptions& options, int64_t wide);

void declare(OptionSet& set, OuterOptions& outer);

}  // namespace longhaul::recipe
