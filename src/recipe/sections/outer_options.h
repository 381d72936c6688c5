// OuterOptions: the keys optim.outer… of a recipe: what workers, each of which trains by itself for some steps, do together at the end of such a
// round (optim/outer/outer.h; docs/guides/outer-loops.md). Plain data; declared in outer_options.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

enum class Outer { kNone, kLocalSgd, kSlowmo, kDiloco, kCo2, kDelayCorrected, kStreaming };
std::vector<std::string_view> names_of(Outer);
// Of co2: what a late outer gradient is divided by.
enum class OuterGap { kConstant, kMeasured, kPerTensor };
std::vector<std::string_view> names_of(OuterGap);
// What differences travel in between workers.
enum class OuterWire { kFloat32, kBfloat16 };
std::vector<std::string_view> names_of(OuterWire);

struct OuterOptions {
  Outer method = Outer::kNone;
  int64_t every = 0;              // steps of a round, τ; 0: chosen from measured times
  double momentum = -1, lr = -1;  // -1: the method's
  bool by_lr = false;             // momenta in units of the learning rate of steps, as SlowMo's paper has them
  double clip = 1;                // co2: of each element of the momentum; 0: none
  OuterGap gap = OuterGap::kMeasured;
  double gap_value = 1;  // kConstant; 1: no penalty
  bool overlap = true;   // co2: false: all wait for the exchange, and nothing is late
  bool guard = true;     // co2: a synchronous round where rounds move weights further and further
  bool synchronous_start = true;
  int64_t delay = 0;      // delay_corrected, streaming: steps from the sending of differences until weights take their sum; 0: a round
  int64_t fragments = 4;  // streaming: of the layers
  OuterWire wire = OuterWire::kFloat32;
  double mix = 0.5;  // streaming: share of a worker's own weights in what it goes on with
  bool operator==(const OuterOptions&) const = default;
};

bool hidden(const OuterOptions& options);  // its reductions go on behind the next round
bool keeps_local_work(Outer method);       // what workers learn meanwhile stays in their weights, which so are never all alike
int64_t outer_fragments_of(const OuterOptions& options);  // that are sent in turn: one a round, each as often as optim.outer_every says
double outer_momentum_of(const OuterOptions& options);
double outer_lr_of(const OuterOptions& options);
int64_t outer_state_bytes(const OuterOptions& options, int64_t wide);  // of an element of a weight that trains; wide: of its master

void declare(OptionSet& set, OuterOptions& outer);

}  // namespace longhaul::recipe
