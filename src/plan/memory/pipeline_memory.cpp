#include "plan/memory/pipeline_memory.h"

#include <algorithm>
#include <map>
#include <utility>

namespace longhaul::plan {
namespace {

using layout::Action;
using layout::Channel;
using layout::Pass;

// For a micro-batch in one stage (parallel/pipeline/pipeline.cpp has the tensors).
struct Visit {
  double kept = 0, entering = 0, leaving = 0, gradient = 0, postponed = 0;
  double total() const { return kept + entering + leaving + gradient + postponed; }
};

class Walk {
 public:
  Walk(const layout::Schedule& schedule, int64_t rank, const std::vector<StageBytes>& chunks)
      : schedule_(schedule), rank_(rank), chunks_(chunks), most_(chunks.size()) {}

  std::vector<BesideStage> run() {
    for (const Action& action : schedule_.ranks[static_cast<size_t>(rank_)]) step(action);
    return most_;
  }

 private:
  const StageBytes& stage(const Action& action) const { return chunks_[static_cast<size_t>(action.chunk)]; }
  Visit& visit(const Action& action) { return visits_[{action.chunk, action.micro_batch}]; }
  bool last(const Action& action) const {
    return schedule_.stage_of(rank_, action) == schedule_.pipeline.stages() - 1;
  }

  // The stage `way` after this one, if this rank has that too: it shares the hidden states between them.
  Visit* neighbour(const Action& action, int64_t way) {
    const int64_t other = schedule_.stage_of(rank_, action) + way;
    if (other < 0 || other >= schedule_.pipeline.stages()) return nullptr;
    const layout::Hop hop = schedule_.pipeline.hop(schedule_.route_of(action.micro_batch), other);
    return hop.rank == rank_ ? &visits_[{hop.chunk, action.micro_batch}] : nullptr;
  }

  void step(const Action& action) {
    Visit& here = visit(action);
    const double hidden = stage(action).hidden;
    switch (action.pass) {
      case Pass::kStartReceive:
        (action.channel == Channel::kActivations ? here.entering : here.gradient) = hidden;
        return;
      case Pass::kForward:
        here.kept = stage(action).kept;
        here.leaving = last(action) ? 0 : hidden;
        return;
      case Pass::kBackward:
      case Pass::kBackwardInput:
        return backward(action);
      case Pass::kBackwardWeight:
        here.postponed = 0;
        return;
      case Pass::kWaitReceive:
      case Pass::kStartSend:
      case Pass::kWaitSend:
        return;
    }
  }

  void backward(const Action& action) {
    Visit& here = visit(action);
    if (Visit* behind = neighbour(action, 1)) here.gradient = std::exchange(behind->gradient, 0);
    double all = 0;
    for (const auto& [key, other] : visits_) all += other.total();
    const bool own_enters = here.entering > 0 && !stage(action).read_back;  // the first norm has kept it
    const double beside = all - here.kept - (own_enters ? here.entering : 0);
    BesideStage& most = most_[static_cast<size_t>(action.chunk)];
    std::optional<double>& of_pass = action.pass == Pass::kBackward ? most.backward : most.backward_input;
    of_pass = std::max(of_pass.value_or(0), beside);
    here = {.postponed = action.pass == Pass::kBackwardInput ? stage(action).postponed : 0};
    // The gradient of what entered belongs to the previous stage, on this rank; a gradient for another rank
    // has been sent.
    if (neighbour(action, -1) != nullptr) here.gradient = stage(action).hidden;
    if (here.total() == 0) visits_.erase({action.chunk, action.micro_batch});
  }

  const layout::Schedule& schedule_;
  int64_t rank_;
  const std::vector<StageBytes>& chunks_;
  std::vector<BesideStage> most_;
  std::map<std::pair<int64_t, int64_t>, Visit> visits_;  // chunk, micro-batch; those that hold something
};

}  // namespace

std::vector<BesideStage> beside_stages(const layout::Schedule& schedule, int64_t rank,
                                       const std::vector<StageBytes>& chunks) {
  return Walk(schedule, rank, chunks).run();
}

}  // namespace longhaul::plan
