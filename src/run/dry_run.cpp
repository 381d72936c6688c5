#include "run/dry_run.h"

#include <algorithm>
#include <set>

#include "comm/fake.h"
#include "comm/wrappers/traced.h"
#include "language/text_stage.h"
#include "model/decoder.h"
#include "parallel/ranks.h"
#include "train/passes.h"

namespace longhaul::run {
namespace {

using layout::Axis;
using layout::AxisSet;

// Its stages of the model without numbers; every micro-batch is the same.
class DryTask final : public train::Task {
 public:
  DryTask(const DryRunRequest& request, const parallel::Ranks& ranks)
      : micro_batches_(request.micro_batches),
        layout_(layout::make_batch(request.rows, request.sequence)),
        tokens_(static_cast<size_t>(layout_.tokens()), 0),
        decoder_(request.model, Precision::named(request.dtype), at::kMeta, model::Use::kTraining,
                 ranks.place()),
        stage_(decoder_, ranks) {}
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  train::StepWork prepare(int64_t) override {
    return {micro_batches_, static_cast<double>(layout_.tokens()), layout_.tokens()};
  }
  Tensor forward(model::Context& context, int64_t, const Tensor& entering) override {
    return stage_.forward(context, text(), entering);
  }
  train::StageInput stage_input(int64_t) const override { return stage_.input(text()); }

 private:
  language::PackedText text() const { return {layout_, tokens_, tokens_}; }

  int64_t micro_batches_;
  layout::SequenceLayout layout_;
  std::vector<int64_t> tokens_;
  model::Decoder decoder_;
  language::TextStage stage_;
};

int64_t bytes_of(const model::ParameterSet& parameters) {
  int64_t bytes = 0;
  for (const auto& arena : parameters.arenas()) {
    bytes += static_cast<int64_t>(arena->values.nbytes());
    if (arena->gradients.defined()) bytes += static_cast<int64_t>(arena->gradients.nbytes());
  }
  return bytes;
}

// One rank's step; what it called is in the log. → the bytes of its parameters and gradients.
int64_t dry_step(const DryRunRequest& request, int64_t rank, const std::shared_ptr<comm::CallLog>& log) {
  comm::Fake fake(rank, request.arrangement.mesh.world());
  comm::Traced world(comm::borrowed(fake), log);
  parallel::Ranks ranks(world, request.arrangement);
  DryTask task(request, ranks);
  ranks.begin_step(task.parameters(), request.micro_batches);
  train::Passes(task, ranks, {}).train(request.micro_batches);
  ranks.sum_gradients(task.parameters());
  return bytes_of(task.parameters());
}

}  // namespace

std::vector<int64_t> sampled_ranks(const layout::Mesh& mesh) {
  std::set<int64_t> ranks;
  const auto add = [&](int64_t rank, AxisSet axes) {
    for (const int64_t each : mesh.group_of(rank, axes)) ranks.insert(each);
  };
  for (const int64_t stage_begin : mesh.group_of(0, {Axis::kPp})) {
    add(stage_begin, {Axis::kCp, Axis::kTp});
    add(stage_begin, {Axis::kEp, Axis::kEtp});
  }
  for (const int64_t rank : {int64_t{0}, mesh.world() - 1}) {
    add(rank, {Axis::kDp});
    if (mesh.size(Axis::kEp) > 1) add(rank, {Axis::kEdp});
  }
  return {ranks.begin(), ranks.end()};
}

// Runs them all, and looks at each log when it is whole.
static std::vector<comm::RankRecords> run_all(
    const DryRunRequest& request, const std::vector<int64_t>& ranks,
    const std::function<void(const comm::CallLog&, int64_t parameter_bytes)>& look) {
  parallel::require_possible(request.model, request.arrangement);
  std::vector<comm::RankRecords> records;
  for (const int64_t rank : ranks) {
    const auto log = std::make_shared<comm::CallLog>(rank);
    const int64_t bytes = dry_step(request, rank, log);
    records.push_back(log->records());
    look(*log, bytes);
  }
  return records;
}

std::vector<comm::RankRecords> dry_records(const DryRunRequest& request) {
  return run_all(request, request.ranks, [](const comm::CallLog&, int64_t) {});
}

DryRun dry_run(const DryRunRequest& request, const std::function<void(int64_t, int64_t)>& progress) {
  DryRun result{.ranks = request.ranks.empty() ? sampled_ranks(request.arrangement.mesh) : request.ranks};
  int64_t done = 0;
  const auto records = run_all(request, result.ranks, [&](const comm::CallLog& log, int64_t parameter_bytes) {
    result.parameter_bytes = std::max(result.parameter_bytes, parameter_bytes);
    result.most_sent = std::max(result.most_sent, log.traffic().sent);
    for (const auto& [of, totals] : log.totals()) {
      comm::CallTotals& most = result.most[of];
      if (most.calls == 0 || totals.traffic.sent > most.traffic.sent) most = totals;
    }
    if (progress) progress(++done, static_cast<int64_t>(result.ranks.size()));
  });
  result.comparison = comm::compare_records(records);
  return result;
}

}  // namespace longhaul::run
