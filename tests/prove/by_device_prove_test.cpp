// Whole training steps over the communicator that GPUs have, ByDevice with a C10dGroup for their tensors,
// give what one process gives. Floating numbers stand for the tensors of GPUs, and c10d's Gloo for NCCL: the
// same calls of a c10d back end, on CPU tensors, in the order in which NCCL would carry them out.
// ctest: label=full timeout=300
#include <gtest/gtest.h>

#include "comm/c10d/by_device.h"
#include "comm/c10d_on_gloo.h"
#include "comm/threads/run_ranks.h"
#include "comm/threads/thread_group.h"
#include "parallel/in_order.h"
#include "prove/prove.h"
#include "proved_models.h"

namespace longhaul::prove {
namespace {

// Threads meet by the numbers of their calls, which have gaps where the other half took some.
class Renumbered final : public comm::Communicator {
 public:
  explicit Renumbered(std::unique_ptr<comm::Communicator> inner)
      : Communicator(inner->name(), inner->rank(), inner->size()), inner_(std::move(inner)) {}

  void abort(const std::string& reason) override { inner_->abort(reason); }
  Tell aborter() override { return inner_->aborter(); }
  void on_failure(Tell tell) override { inner_->on_failure(std::move(tell)); }
  void require_well() override { inner_->require_well(); }
  comm::Work start(comm::Call call) override {
    call.sequence = next_++;
    return inner_->start(std::move(call));
  }
  std::vector<std::unique_ptr<comm::Communicator>> start_split(comm::Call call) override {
    call.sequence = next_++;
    auto groups = inner_->start_split(std::move(call));
    for (auto& group : groups) {
      if (group != nullptr) group = std::make_unique<Renumbered>(std::move(group));
    }
    return groups;
  }

 private:
  std::unique_ptr<comm::Communicator> inner_;
  int64_t next_ = 0;
};

void on_both_halves(int64_t size, const std::function<void(comm::Communicator&)>& body) {
  const comm::C10dStore store;
  constexpr comm::Timeout kTimeout(60000);
  auto threads = comm::ThreadGroup::make(size, {.timeout = kTimeout});
  comm::run_ranks(size, [&](comm::Communicator& place) {
    const int64_t rank = place.rank();
    comm::ByDevice both(std::make_unique<Renumbered>(std::move(threads[static_cast<size_t>(rank)])),
                        store.join(rank, size, kTimeout),
                        [](const Tensor& tensor) { return tensor.is_floating_point(); });
    longhaul::testing::InOrder ordered(both);
    try {
      body(ordered);
    } catch (const std::exception& error) {
      ordered.abort(error.what());
      throw;
    }
  });
}

TEST(ProveByDevice, OneProcessIsEqual) {
  using enum recipe::PipelineSchedule;
  std::vector<ProofLayout> layouts;
  for (const recipe::ParallelOptions& each :
       std::vector<recipe::ParallelOptions>{{.tp = 2},
                                            {.ranks = 2, .zero = 3},
                                            {.pp = 2, .pipeline = {.schedule = kInterleaved, .chunks = 2}},
                                            {.cp = 2,
                                            .context = {.softmax = recipe::ContextMethod::kRing,
                                                       .linear = recipe::LinearContextMethod::kRing}},
                                            {.ep = 2}}) {
    layouts.push_back(proof_layout(each));
  }
  for (const Proof& proof : prove({.model = hybrid(),
                            .layouts = layouts,
                            .dtype = recipe::Dtype::kFp64,
                            .run_threads = on_both_halves})) {
    EXPECT_EQ(proof.status, Proof::Status::kTried) << proof.layout << ": " << proof.reason;
    EXPECT_TRUE(proof.holds) << proof.layout << ": " << proof.reason;
    EXPECT_LE(proof.worst, kProofBound) << proof.layout << ": " << proof.tensor;
  }
}

}  // namespace
}  // namespace longhaul::prove
