#include "parallel/pipeline/stage_gradients.h"

#include <algorithm>

#include "base/memory/memory_purpose.h"
#include "model/arena.h"
#include "parallel/priorities.h"

namespace longhaul::parallel {
namespace {

constexpr size_t kMostUnderWay = 2;

}  // namespace

StageSums::StageSums(comm::Communicator& pipeline, const model::ParameterSet& parameters,
                     int64_t message_bytes)
    : pipeline_(&pipeline), message_bytes_(message_bytes) {
  // What is outside the layers (−1) comes last; ranks that share several sets of tensors walk them in one
  // order.
  std::map<std::pair<int64_t, std::vector<int64_t>>, Layer> layers;
  for (const auto& arena : parameters.arenas()) {
    for (const model::Parameter* parameter : arena->parameters) {
      if (!parameter->trainable() || parameter->parts.empty() || parameter->own_grad.numel() == 0) continue;
      const std::vector<int64_t>& ranks = parameter->parts[0].spec.pipeline_ranks;
      if (ranks.size() < 2) continue;
      Layer& layer = layers[{-arena->layer, ranks}];
      layer.ranks = ranks;
      layer.parameters[parameter->name] = parameter;
      layer.awaited.insert(arena.get());
    }
  }
  for (auto& [order, layer] : layers) layers_.push_back(std::move(layer));
}

void StageSums::complete(const model::Arena& arena) {
  for (Layer& layer : layers_) layer.awaited.erase(&arena);
}

std::vector<StageSums::Runs> StageSums::messages_of(const Layer& layer) const {
  std::vector<Runs> messages;
  int64_t room = 0;
  for (const auto& [name, parameter] : layer.parameters) {
    const Tensor gradient = parameter->own_grad.view(-1);
    const int64_t most = std::max<int64_t>(1, message_bytes_ / static_cast<int64_t>(gradient.element_size()));
    for (int64_t begin = 0; begin < gradient.numel();) {
      if (room == 0) messages.emplace_back(), room = most;
      const int64_t length = std::min(room, gradient.numel() - begin);
      messages.back().push_back(gradient.narrow(0, begin, length));
      begin += length;
      room -= length;
    }
  }
  return messages;
}

StageSums::UnderWay StageSums::started(const std::vector<int64_t>& ranks, Runs runs) const {
  UnderWay sum{.runs = std::move(runs), .of_ranks = {}, .work = {}};
  const Tensor own = sum.runs.size() == 1 ? sum.runs[0] : at::cat(sum.runs);
  std::vector<comm::Transfer> transfers;
  for (const int64_t rank : ranks) {
    const bool self = rank == pipeline_->rank();
    sum.of_ranks.push_back(self ? own : at::empty_like(own));
    if (self) continue;
    transfers.push_back(comm::send_to(rank, own));
    transfers.push_back(comm::receive_from(rank, sum.of_ranks.back()));
  }
  sum.work = pipeline_->exchange(std::move(transfers),
                                 {.name = "gradients that stages share", .priority = kSumsOfGradients});
  return sum;
}

// False: the next layer's gradients are not final, or there is none.
bool StageSums::start_next() {
  if (layers_.empty() || !layers_.front().awaited.empty()) return false;
  const Layer& layer = layers_.front();
  if (messages_.empty()) {
    for (Runs& runs : messages_of(layer)) messages_.push_back(std::move(runs));
  }
  under_way_.push_back(started(layer.ranks, std::move(messages_.front())));
  messages_.pop_front();
  if (messages_.empty()) layers_.pop_front();
  return true;
}

void StageSums::add_up_first() {
  UnderWay sum = std::move(under_way_.front());
  under_way_.pop_front();
  sum.work.wait();
  Tensor all = sum.of_ranks[0].add(sum.of_ranks[1]);
  for (size_t i = 2; i < sum.of_ranks.size(); ++i) all.add_(sum.of_ranks[i]);
  int64_t at = 0;
  for (const Tensor& run : sum.runs) {
    run.copy_(all.narrow(0, at, run.numel()));
    at += run.numel();
  }
}

void StageSums::advance() {
  const at::NoGradGuard no_gradient;
  const MemoryPurposeScope purpose(MemoryPurpose::kGradients);
  for (;;) {
    if (!under_way_.empty() && under_way_.front().work.done())
      add_up_first();
    else if (under_way_.size() == kMostUnderWay || !start_next())
      return;
  }
}

void StageSums::finish() {
  const at::NoGradGuard no_gradient;
  const MemoryPurposeScope purpose(MemoryPurpose::kGradients);
  for (Layer& layer : layers_) layer.awaited.clear();
  for (;;) {
    if (under_way_.size() < kMostUnderWay && start_next()) continue;
    if (under_way_.empty()) return;
    add_up_first();
  }
}

}  // namespace longhaul::parallel
