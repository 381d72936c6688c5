#include "parallel/pipeline/pipeline.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "kernels/known_gradient.h"
#include "tensor/device.h"

namespace longhaul::parallel {
namespace {

using layout::Action;
using layout::Channel;
using layout::Pass;
using observe::SpanKind;

// A micro-batch in one stage of this rank, from its forward pass to its last gradient.
struct Visit {
  // hidden states, until their gradient is taken; leaving: with the graph of the stage behind it
  Tensor entering, leaving;
  Tensor gradient;                             // of what leaves
  std::vector<std::function<void()>> weights;  // products that wait for backward_weight
  std::vector<int64_t> layers;                 // whose gradients leave behind these
};

class Executor {
 public:
  Executor(const layout::Schedule& schedule, const Ranks& ranks, model::ParameterSet& parameters,
           StageCalls& calls)
      : schedule_(schedule),
        ranks_(ranks),
        parameters_(parameters),
        calls_(calls),
        sharding_(ranks.sharding_of(parameters)),
        spans_(*ranks.spans()),
        rank_(ranks.place().coordinate(layout::Axis::kPp)),
        list_(schedule.ranks[static_cast<size_t>(rank_)]),
        forwards_(std::ranges::count(list_, Pass::kForward, &Action::pass)) {}

  // Passes and transfers of the list, in its order.
  void run() {
    for (size_t i = 0; i < list_.size(); ++i) {
      const Action& action = list_[i];
      if (action.transfer()) {
        move(action);
      } else if (schedule_.pairs_in_turns && action.joined) {
        LONGHAUL_ASSERT(i + 1 < list_.size() && list_[i + 1].backward(), "{} stands in no pair",
                        text(action));
        take_turns(action, list_[++i]);
      } else {
        const observe::SpanScope span(spans_, kind_of(action.pass), action.chunk, action.micro_batch);
        action.pass == Pass::kForward ? forward(action) : gradients(action);
      }
    }
  }

 private:
  using Key = std::pair<int64_t, int64_t>;  // chunk, micro-batch
  static Key key_of(const Action& action) { return {action.chunk, action.micro_batch}; }
  int64_t stage_of(const Action& action) const { return schedule_.stage_of(rank_, action); }
  bool last(const Action& action) const { return stage_of(action) == schedule_.pipeline.stages() - 1; }

  static SpanKind kind_of(Pass pass) {
    if (pass == Pass::kForward) return SpanKind::kForward;
    if (pass == Pass::kBackward) return SpanKind::kBackward;
    return pass == Pass::kBackwardInput ? SpanKind::kBackwardInput : SpanKind::kBackwardWeight;
  }

  // Whose turn it is has the span: a pass of a pair has several.
  void take_turns(const Action& forward, const Action& backward) {
    LONGHAUL_ASSERT(ranks_.turns() != nullptr, "ranks whose pairs take no turns");
    // LibTorch would set its own number at the other thread's first operator
    const int compute_threads = at::get_num_threads();
    std::optional<observe::SpanScope> span;
    ranks_.turns()->run({.first = [&] { gradients(backward); },
                         .second =
                             [&] {
                               at::set_num_threads(compute_threads);
                               const DeviceScope device(parameters_.device());
                               const observe::ComputesFor step(spans_);
                               this->forward(forward);
                             },
                         .begins =
                             [&](Turns::Body body) {
                               const Action& action = body == Turns::kFirst ? backward : forward;
                               span.reset();
                               span.emplace(spans_, kind_of(action.pass), action.chunk, action.micro_batch);
                             }});
  }

  void gradients(const Action& action) {
    if (action.pass == Pass::kBackwardInput) return backward_input(action);
    action.pass == Pass::kBackward ? backward(action) : backward_weight(action);
    sum_layers(action);
    if (GradientTree* tree = ranks_.tree(); tree != nullptr && action.pass == Pass::kBackward)
      tree->end_micro_batch();
  }

  void move(const Action& action) {
    if (action.pass == Pass::kStartReceive) return start_receive(action);
    if (action.pass == Pass::kStartSend) return start_send(action);
    under_way_.extract({action.channel, action.pass == Pass::kWaitSend, key_of(action)}).mapped().wait();
  }

  // The visit of the stage `way` behind this one, where it lies on this rank too.
  Visit* neighbour(const Action& action, int64_t way) {
    const layout::Hop hop =
        schedule_.pipeline.hop(schedule_.route_of(action.micro_batch), stage_of(action) + way);
    if (hop.rank != rank_) return nullptr;
    return &visits_.at({hop.chunk, action.micro_batch});
  }

  void forward(const Action& action) {
    Visit& visit = visits_[key_of(action)];
    if (stage_of(action) > 0) {
      if (Visit* before = neighbour(action, -1)) {
        visit.entering = before->leaving.detach();
        if (!schedule_.trains) before->leaving = Tensor();
      }
      if (schedule_.trains) visit.entering.requires_grad_(true);
    }
    visit.leaving = calls_.forward_chunk(action.chunk, action.micro_batch, visit.entering);
    if (--forwards_ == 0 && schedule_.trains) parameters_.all_announced();
  }

  void backward(const Action& action) {
    Visit& visit = visits_.at(key_of(action));
    if (!last(action)) {
      if (Visit* behind = neighbour(action, 1)) {
        visit.gradient = behind->entering.grad();
        behind->entering = Tensor();
      }
    }
    if (visit.leaving.requires_grad()) {
      if (visit.gradient.defined())
        visit.leaving.backward(visit.gradient);
      else
        visit.leaving.backward(kernels::KnownGradient(visit.leaving, 1).tensor());
    }
    visit.leaving = visit.gradient = Tensor();
    if (sharding_ != nullptr) visit.layers = sharding_->left_open();
  }

  void sum_layers(const Action& action) {
    if (sharding_ != nullptr) sharding_->sum_layers(std::exchange(visits_.at(key_of(action)).layers, {}));
  }

  void backward_input(const Action& action) {
    struct Postponing {
      model::ParameterSet& parameters;
      ~Postponing() { parameters.postpone_gradients(nullptr); }
    } const until_end{parameters_};
    parameters_.postpone_gradients(&visits_.at(key_of(action)).weights);
    backward(action);
  }

  void backward_weight(const Action& action) {
    const at::NoGradGuard no_gradient;
    auto& weights = visits_.at(key_of(action)).weights;
    for (auto& product : weights) {
      product();
      product = nullptr;  // what it held is free
    }
    weights.clear();
  }

  // ---- transfers

  comm::CallOptions options(const Action& action, int64_t made_by) const {
    return {.name = fmt::format("{} of micro-batch {} from stage {}",
                                action.channel == Channel::kActivations ? "hidden states" : "gradient",
                                action.micro_batch, made_by)};
  }

  comm::Work start(const Action& action, comm::Transfer (*transfer)(int64_t, const Tensor&),
                   const Tensor& tensor, comm::CallOptions options) const {
    const Ranks::WayEnd way = ranks_.way(layout::way_of(rank_, action), action.peer);
    return way.group.exchange({transfer(way.peer, tensor)}, std::move(options));
  }

  void start_receive(const Action& action) {
    Visit& visit = visits_[key_of(action)];
    const bool activations = action.channel == Channel::kActivations;
    Tensor& into = activations ? visit.entering : visit.gradient;
    into = calls_.input_memory(action.micro_batch);
    under_way_[{action.channel, false, key_of(action)}] =
        start(action, &comm::receive_from, into, options(action, stage_of(action) + (activations ? -1 : 1)));
  }

  void start_send(const Action& action) {
    Visit& visit = visits_.at(key_of(action));
    const bool activations = action.channel == Channel::kActivations;
    // the call keeps it while it goes on
    const Tensor tensor = activations ? visit.leaving.detach() : visit.entering.grad();
    if (!activations) visit.entering = Tensor();
    if (activations && !schedule_.trains) visit.leaving = Tensor();
    under_way_[{action.channel, true, key_of(action)}] =
        start(action, &comm::send_to, tensor.contiguous(), options(action, stage_of(action)));
  }

  const layout::Schedule& schedule_;
  const Ranks& ranks_;
  model::ParameterSet& parameters_;
  StageCalls& calls_;
  Sharding* sharding_;  // null: copies are whole
  observe::SpanRecorder& spans_;
  int64_t rank_;
  const std::vector<Action>& list_;
  int64_t forwards_;  // that are still to come
  std::map<Key, Visit> visits_;
  std::map<std::tuple<Channel, bool, Key>, comm::Work> under_way_;  // bool: a send
};

}  // namespace

void run_schedule(const layout::Schedule& schedule, const Ranks& ranks, model::ParameterSet& parameters,
                  StageCalls& calls) {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const at::AutoGradMode recorded(schedule.trains);
  Executor(schedule, ranks, parameters, calls).run();
}

}  // namespace longhaul::parallel
