// Outer loops: islands of ranks train by themselves, and exchange what their weights have moved every some
// steps (optim/outer/outer.h).
#include <algorithm>

#include "layout/methods/methods.h"

namespace longhaul::layout {
namespace {

std::vector<recipe::ParallelOptions> proved_islands() {
  return {{.workers = 2, .tp = 2}, {.ranks = 4, .workers = 2, .zero = 3}, {.workers = 2, .pp = 2, .zero = 1}};
}

}  // namespace

int64_t smallest_islands(const recipe::ParallelOptions& parallel, int64_t ranks) {
  return ranks / std::max<int64_t>(1, parallel.needed());
}

const ParallelMethod kOuterLoops = {.name = "outer loops", .proved = proved_islands};

}  // namespace longhaul::layout
