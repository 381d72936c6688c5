#include "checkpoint/outer_state.h"

#include <cmath>
#include <set>

#include "base/log.h"
#include "checkpoint/published/naming.h"

namespace longhaul::checkpoint {
namespace {

constexpr const char* kFacts = "outer";
constexpr const char* kWorkers = "outer_workers";
constexpr int64_t kWorkerNumbers = 3;

std::string outer_kind(const std::string& kind) {
  if (kind == "momentum") return "outer_momentum";
  if (kind == "in_flight") return "outer_sums";
  return kind;
}

}  // namespace

OuterState::OuterState(optim::Optimizer& optimizer, optim::OuterLoop& loop, const parallel::Ranks& ranks)
    : optimizer_(optimizer),
      loop_(loop),
      ranks_(ranks),
      workers_(ranks.workers()),
      worker_(ranks.worker()),
      numbers_(at::zeros({1, kWorkerNumbers}, at::kDouble)) {}

StateEntry OuterState::of_worker(const optim::StateTensor& tensor) const {
  const std::string kind = std::string(kOptimizerPrefix) + tensor.kind;
  StateEntry entry{.name = kind + "." + tensor.name,
                   .file = kOptimizerFiles,
                   .role = kind,
                   .shape = tensor.global_shape,
                   .held = tensor.held,
                   .view = tensor.view.detach().unsqueeze(0),
                   .written_here = tensor.first_copy};
  entry.shape.insert(entry.shape.begin(), workers_);
  entry.held.offset.insert(entry.held.offset.begin(), worker_);
  entry.held.length.insert(entry.held.length.begin(), 1);
  return entry;
}

std::vector<StateEntry> OuterState::tensors() {
  std::vector<StateEntry> entries;
  const bool first_worker = ranks_.worker() == 0;
  const auto of_all = [&](const optim::StateTensor& tensor, const char* file, const std::string& prefix,
                          const std::string& role) {
    entries.push_back({.name = prefix + tensor.name,
                       .file = file,
                       .role = role,
                       .shape = tensor.global_shape,
                       .held = tensor.held,
                       .view = tensor.view.detach(),
                       .written_here = tensor.first_copy && first_worker});
  };
  std::set<std::string> trained;
  for (const optim::StateTensor& tensor : loop_.state()) {
    if (tensor.kind == optim::OuterWeights::kOwn || tensor.kind == optim::OuterGaps::kOwn) {
      entries.push_back(of_worker(tensor));
      continue;
    }
    const std::string role = std::string(kOptimizerPrefix) + outer_kind(tensor.kind);
    if (tensor.kind == "anchor") {
      trained.insert(tensor.name);
      of_all(tensor, kModelFiles, "", kWeightRole);
    } else {
      of_all(tensor, kOptimizerFiles, role + ".", role);
    }
  }
  for (const optim::StateTensor& tensor : optimizer_.state()) {
    if (tensor.kind == "master" && !trained.contains(tensor.name))
      of_all(tensor, kModelFiles, "", kWeightRole);
    else
      entries.push_back(of_worker(tensor));
  }
  double* const numbers = numbers_.mutable_data_ptr<double>();
  numbers[0] = loop_.worker_numbers()[0].item<double>();
  numbers[1] = loop_.worker_numbers()[1].item<double>();
  numbers[2] = static_cast<double>(optimizer_.steps());
  const std::string name = std::string(kOptimizerPrefix) + "worker";
  entries.push_back({.name = name,
                     .file = kOptimizerFiles,
                     .role = name,
                     .shape = {workers_, kWorkerNumbers},
                     .held = {{worker_, 0}, {1, kWorkerNumbers}},
                     .view = numbers_,
                     .written_here = ranks_.place().rank == 0});
  return entries;
}

nlohmann::json OuterState::facts() {
  return {{"optimizer_steps", optimizer_.steps()}, {kWorkers, ranks_.workers()}, {kFacts, loop_.facts()}};
}

void OuterState::expect(const nlohmann::json& state) {
  const auto found = state.find(kWorkers);
  // of a run without an outer loop
  if (found == state.end() || !found->is_number_integer() || found->get<int64_t>() < 1) return;
  workers_ = found->get<int64_t>();
  worker_ = ranks_.worker() % workers_;
}

void OuterState::restore(const SavedFacts& facts) {
  const bool others = workers_ != ranks_.workers();
  optimizer_.set_steps(facts.whole_number("optimizer_steps"));
  if (!facts.state.contains(kFacts)) {  // fresh states: the weights of another kind of run
    workers_ = ranks_.workers(), worker_ = ranks_.worker();
    return loop_.begin_anew();
  }
  const double* const numbers = numbers_.const_data_ptr<double>();
  optimizer_.set_steps(std::llround(numbers[2]));
  loop_.worker_numbers().copy_(numbers_[0].narrow(0, 0, 2));
  loop_.restore(facts.at(kFacts));
  if (others) {
    if (ranks_.rank() == 0) {
      log_info(
          "the checkpoint is of {} workers, and {} go on: a round begins at the weights they had agreed on, "
          "what was on its way is dropped",
          workers_, ranks_.workers());
    }
    loop_.begin_anew();
  }
  workers_ = ranks_.workers(), worker_ = ranks_.worker();
  optimizer_.refresh_values();
}

}  // namespace longhaul::checkpoint
