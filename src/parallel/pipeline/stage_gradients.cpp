#include "parallel/pipeline/stage_gradients.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/memory_purpose.h"

namespace longhaul::parallel {
namespace {

// By name: ranks may hold the same tensors in another order. By the ranks that hold them; all walk these sets
// in one order.
std::map<std::vector<int64_t>, std::map<std::string, Tensor>> shared_gradients(
    const model::ParameterSet& parameters) {
  std::map<std::vector<int64_t>, std::map<std::string, Tensor>> shared;
  for (const auto& parameter : parameters.all()) {
    if (!parameter->trainable() || parameter->parts.empty() || parameter->own_grad.numel() == 0) continue;
    const std::vector<int64_t>& ranks = parameter->parts[0].spec.pipeline_ranks;
    if (ranks.size() > 1) shared[ranks][parameter->name] = parameter->own_grad.view(-1);
  }
  return shared;
}

using Runs = std::vector<Tensor>;  // of a message, one behind the other

std::vector<Runs> messages_of(const std::map<std::string, Tensor>& gradients, int64_t message_bytes) {
  std::vector<Runs> messages;
  int64_t room = 0;
  for (const auto& [name, gradient] : gradients) {
    const int64_t most = std::max<int64_t>(1, message_bytes / static_cast<int64_t>(gradient.element_size()));
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

// Of one message: what each of the ranks has of it, in their order.
struct UnderWay {
  Runs runs;
  std::vector<Tensor> of_ranks;
  comm::Work work;
};

UnderWay started(comm::Communicator& pipeline, const std::vector<int64_t>& ranks, Runs runs) {
  UnderWay sum{.runs = std::move(runs), .of_ranks = {}, .work = {}};
  const Tensor own = sum.runs.size() == 1 ? sum.runs[0] : at::cat(sum.runs);
  std::vector<comm::Transfer> transfers;
  for (const int64_t rank : ranks) {
    const bool self = rank == pipeline.rank();
    sum.of_ranks.push_back(self ? own : at::empty_like(own));
    if (self) continue;
    transfers.push_back(comm::send_to(rank, own));
    transfers.push_back(comm::receive_from(rank, sum.of_ranks.back()));
  }
  sum.work = pipeline.exchange(std::move(transfers), {.name = "gradients that stages share"});
  return sum;
}

void finish(UnderWay& sum) {
  sum.work.wait();
  Tensor all = sum.of_ranks[0].add(sum.of_ranks[1]);
  for (size_t i = 2; i < sum.of_ranks.size(); ++i) all.add_(sum.of_ranks[i]);
  int64_t at = 0;
  for (const Tensor& run : sum.runs) {
    run.copy_(all.narrow(0, at, run.numel()));
    at += run.numel();
  }
}

}  // namespace

void sum_gradients_of_stages(comm::Communicator& pipeline, const model::ParameterSet& parameters,
                             int64_t message_bytes) {
  const at::NoGradGuard no_gradient;
  const MemoryPurposeScope purpose(MemoryPurpose::kGradients);
  std::optional<UnderWay> before;
  for (const auto& [ranks, gradients] : shared_gradients(parameters)) {
    for (Runs& runs : messages_of(gradients, message_bytes)) {
      UnderWay next = started(pipeline, ranks, std::move(runs));
      if (before) finish(*before);
      before = std::move(next);
    }
  }
  if (before) finish(*before);
}

}  // namespace longhaul::parallel
