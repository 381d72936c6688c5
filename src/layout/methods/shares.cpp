// ZeRO: ranks that hold copies of a tensor keep shares of it instead (layout/shares.h). What has to come out
// even, the copies of the shares, is Mesh's; the bytes are plan/reductions.h's.
#include "layout/methods/methods.h"

namespace longhaul::layout {
namespace {

std::vector<recipe::ParallelOptions> proved_shares() {
  std::vector<recipe::ParallelOptions> layouts = {
      {.ranks = 4, .tp = 2}};  // copies beside tensor ranks, whole
  for (const int64_t zero : {1, 2, 3}) {
    for (const recipe::ParallelOptions& each :
         std::vector<recipe::ParallelOptions>{{.ranks = 2, .zero = zero},
                                              {.ranks = 4, .zero = zero},
                                              {.ranks = 4, .zero = zero, .zero_copies = 2},
                                              {.cp = 2, .zero = zero},
                                              {.ranks = 4, .tp = 2, .zero = zero},
                                              {.ranks = 4, .ep = 2, .zero = zero},
                                              {.ranks = 4,
                                              .pp = 2,
                                              .zero = zero,
                                              .pipeline = {.schedule = recipe::PipelineSchedule::kZbH1}}}) {
      layouts.push_back(each);
    }
  }
  return layouts;
}

}  // namespace

const ParallelMethod kShares = {.name = "ZeRO", .proved = proved_shares};

}  // namespace longhaul::layout
