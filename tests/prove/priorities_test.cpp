// Calls of a step say how urgent they are: what computing waits for at once first, then values of layers to
// come, sums of gradients, and sums between copies of shares. What a link makes of it: comm's
// Delayed.TheHighestPriorityGoesFirst.
#include "parallel/priorities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/wrapper.h"
#include "prove/prove_run.h"
#include "support/models.h"

namespace longhaul::prove {
namespace {

using ::testing::ElementsAre;

// Priorities by the first words of a call's name.
struct Urgencies {
  std::mutex mutex;
  std::map<std::string, std::set<int>> priorities;
};

class Noting final : public comm::Wrapper {
 public:
  Noting(std::shared_ptr<comm::Communicator> inner, Urgencies& seen)
      : Wrapper(std::move(inner)), seen_(seen) {}
  Noting(std::shared_ptr<comm::Communicator> inner, std::shared_ptr<const comm::GroupPlace> place,
         Urgencies& seen)
      : Wrapper(std::move(inner), std::move(place)), seen_(seen) {}

  comm::Work start(comm::Call call) override {
    const std::string& name = call.options.name;
    const std::lock_guard lock(seen_.mutex);
    const auto kind = name.starts_with("shares of gradients of ") ? "copies"
                      : name.starts_with("gradients of ")         ? "gradients"
                      : name.starts_with("values of ")            ? "values"
                                                                  : "others";
    seen_.priorities[kind].insert(call.options.priority);
    return inner().start(std::move(call));
  }

 private:
  std::unique_ptr<comm::Communicator> around(std::shared_ptr<comm::Communicator> group,
                                             std::shared_ptr<const comm::GroupPlace> place) const override {
    return std::make_unique<Noting>(std::move(group), std::move(place), seen_);
  }
  Urgencies& seen_;
};

TEST(Priorities, WhatIsNeededFirstGoesFirst) {
  for (const int64_t zero : {1, 3}) {
    const ProofSubject subject =
        subject_of(longhaul::testing::small_config(), {},
                   proof_layout({.ranks = 8, .tp = 2, .zero = zero, .zero_copies = 2}), "bf16");
    Urgencies seen;
    comm::run_ranks(8, [&](comm::Communicator& rank) {
      Noting world(comm::borrowed(rank), seen);
      prove_rank(subject, world, std::nullopt);
    });
    EXPECT_THAT(seen.priorities["others"], ElementsAre(0));
    EXPECT_THAT(seen.priorities["values"], ElementsAre(-1));
    EXPECT_THAT(seen.priorities["gradients"], ElementsAre(-2));
    EXPECT_THAT(seen.priorities["copies"], ElementsAre(-3));
  }
}

}  // namespace
}  // namespace longhaul::prove
