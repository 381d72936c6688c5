// ctest: label=full timeout=300
// Checks for silent corruption on every kind of parallelism: no alarm where nothing is wrong, a bit flipped
// on one rank found there; and a step whose passes are run again gives the same bits and goes on as if it had
// not been.
#include "train/guards/corruption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/files/temporary_folder.h"
#include "comm/threads/run_ranks.h"
#include "comm/wrappers/wrapper.h"
#include "prove/prove_run.h"
#include "prove/prove_task.h"
#include "recipe/load.h"
#include "tensor/content_hash.h"

namespace longhaul::prove {
namespace {

using ::testing::HasSubstr;

recipe::Recipe recipe_of(const std::string& dtype = "bf16", const std::string& more = "optim.eps=1e-8") {
  return recipe::load_defaults({"model.layers=4", "model.hidden=32", "model.heads=4", "model.kv_heads=4",
                                "model.head_dim=8", "model.vocabulary=257", "data.tokenizer=bytes",
                                "model.rotary_dim=4", "model.mixers=lightning,softmax",
                                "model.intermediate=32", "model.experts=4", "model.experts_per_token=2",
                                "model.tie_embeddings=true", "train.dtype=" + dtype, "optim.weight_decay=0.1",
                                more})
      .recipe;
}

struct OnRank {
  OnRank(const recipe::Recipe& recipe, const ProofSubject& subject, comm::Communicator& world,
         const std::filesystem::path& folder)
      : ranks(world, arrangement_of(subject.config, subject.layout)),
        task(subject.config, Precision::named(recipe::name_of_value(recipe.train.dtype)), ranks,
             subject.layout),
        optimizer((task.parameters().initialise(1),
                   optim::make_optimizer(recipe.optim, task.parameters(), task.precision()))),
        events({.path = folder / (std::to_string(world.rank()) + ".jsonl"), .rank = world.rank()}),
        checks(recipe, task, *optimizer, ranks, events) {}
  train::StepResult step(int64_t number, std::function<bool(double, double)> doubtful = {}) {
    return train::run_step(task, *optimizer, ranks, number,
                           {.lr = 1e-2, .clip_norm = 1, .doubtful = std::move(doubtful)});
  }
  std::vector<std::string> found() {
    std::vector<std::string> all;
    for (const auto& each : {checks.replicas(), checks.states(), checks.products(3), checks.replay(3)}) {
      if (each) all.push_back(*each);
    }
    return all;
  }
  parallel::Ranks ranks;
  ProofTask task;
  std::unique_ptr<optim::Optimizer> optimizer;
  observe::EventWriter events;
  train::CorruptionChecks checks;
};

// What a rank has after three steps; `again`: the passes of the second are run twice.
void train(const recipe::Recipe& recipe, const ProofSubject& subject, bool again,
           std::vector<std::string>& bits) {
  TemporaryFolder folder;
  std::mutex mutex;
  bits.assign(static_cast<size_t>(arrangement_of(subject.config, subject.layout).world()), "");
  comm::run_ranks(static_cast<int64_t>(bits.size()), [&](comm::Communicator& world) {
    OnRank rank(recipe, subject, world, folder.path());
    for (int64_t step = 1; step <= 3; ++step) {
      int64_t asked = 0;
      const train::StepResult result =
          rank.step(step, again && step == 2 ? [&asked](double, double) { return ++asked == 1; }
                                             : std::function<bool(double, double)>());
      if (result.second_try) {
        EXPECT_TRUE(result.second_try->same && result.second_try->own_same) << subject.layout.name;
      }
      EXPECT_EQ(result.second_try.has_value(), again && step == 2);
      EXPECT_FALSE(result.left_out || result.skipped);
    }
    std::string own;
    for (const Tensor& master : rank.optimizer->masters()) own += fmt::format("{:x} ", content_hash(master));
    const auto alarms = rank.found();
    EXPECT_TRUE(alarms.empty()) << subject.layout.name << ", rank " << world.rank() << ": " << alarms.front();
    const std::lock_guard lock(mutex);
    bits[static_cast<size_t>(world.rank())] = own;
  });
}

TEST(Corruption, NoLayoutRaisesAnAlarmAndASecondTryLeavesNoTrace) {
  const recipe::Recipe recipe = recipe_of();
  int64_t layouts = 0;
  for (const ProofLayout& layout : proof_layouts({})) {
    if (layout.processes || layout.parallel.workers > 1 || layout.elastic || layout.parallel.world() > 4)
      continue;
    const ProofSubject subject = subject_of(recipe.model, recipe.optim, layout);
    std::vector<std::string> once, twice;
    train(recipe, subject, false, once);
    train(recipe, subject, true, twice);
    EXPECT_EQ(once, twice) << layout.name;
    ++layouts;
  }
  EXPECT_GE(layouts, 10);
}

// Four replicas whose states are cut over them (zero 1) or not, or eight in four groups with all shares; rank
// 1's memory errs.
void expect_found(int64_t zero, const std::function<void(OnRank&)>& damage,
                  const std::function<std::optional<std::string>(OnRank&)>& check, const std::string& text,
                  int64_t zero_copies = 1) {
  const recipe::Recipe recipe = recipe_of();
  recipe::ParallelOptions parallel;
  parallel.ranks = zero_copies == 1 ? 4 : 2 * zero_copies;
  parallel.zero = zero;
  parallel.zero_copies = zero_copies;
  const ProofSubject subject = subject_of(recipe.model, recipe.optim, proof_layout(parallel));
  TemporaryFolder folder;
  comm::run_ranks(parallel.ranks, [&](comm::Communicator& world) {
    OnRank rank(recipe, subject, world, folder.path());
    for (int64_t step = 1; step <= 2; ++step) rank.step(step);
    EXPECT_TRUE(rank.found().empty());
    if (world.rank() == 1) damage(rank);
    const auto found = check(rank);
    EXPECT_EQ(found.has_value(), world.rank() == 1) << found.value_or("nothing");
    if (found) {
      EXPECT_THAT(*found, HasSubstr(text));
    }
  });
}

void flip(const Tensor& tensor, int64_t element, int bit) {
  auto* const bytes = static_cast<uint8_t*>(tensor.mutable_data_ptr()) + element * tensor.element_size();
  bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1U << bit % 8);
}

Tensor state_of(OnRank& rank, const std::string& kind) {
  for (const optim::StateTensor& state : rank.optimizer->state()) {
    if (state.kind == kind && state.view.numel() > 1 && state.view.is_contiguous()) return state.view;
  }
  return {};
}

TEST(Corruption, ABitOfACopyNamesTheRank) {
  const auto replicas = [](OnRank& rank) { return rank.checks.replicas(); };
  for (const int64_t zero : {0, 1, 2}) {
    expect_found(
        zero, [](OnRank& rank) { flip(rank.task.parameters().all()[1]->value, 3, 0); }, replicas,
        "rank 1 holds other bits");
  }
  expect_found(
      0, [](OnRank& rank) { flip(state_of(rank, "v"), 1, 0); }, replicas, "rank 1 holds other bits");
  expect_found(
      0, [](OnRank& rank) { flip(state_of(rank, "master"), 1, 0); }, replicas, "rank 1 holds other bits");
}

TEST(Corruption, ABitOfAShareWithCopiesNamesTheRank) {
  const auto replicas = [](OnRank& rank) { return rank.checks.replicas(); };
  expect_found(
      3, [](OnRank& rank) { flip(rank.task.parameters().arenas()[1]->own_values, 3, 0); }, replicas,
      "rank 1 holds other bits", 4);
  for (const int64_t zero : {1, 3}) {
    expect_found(
        zero, [](OnRank& rank) { flip(state_of(rank, "v"), 1, 0); }, replicas, "optimizer state of", 4);
  }
}

TEST(Corruption, StatesThatCannotBeAreFound) {
  const auto states = [](OnRank& rank) { return rank.checks.states(); };
  expect_found(
      1, [](OnRank& rank) { state_of(rank, "v")[0] = -1e-9; }, states, "is negative");
  expect_found(
      1, [](OnRank& rank) { state_of(rank, "m")[0] = std::nan(""); }, states, "is not finite");
  expect_found(
      1, [](OnRank& rank) { state_of(rank, "m").mul_(3); }, states, "larger than its v allows");
  expect_found(
      1, [](OnRank& rank) { flip(state_of(rank, "master"), 0, 30); }, states, "");
  expect_found(
      1, [](OnRank& rank) { state_of(rank, "master").mul_(1.5); }, states,
      "is not the rounding of its master");
}

// Flips a bit of what one rank gets of a sum of a layer's gradients.
class Flips final : public comm::Wrapper {
 public:
  explicit Flips(comm::Communicator& world) : Wrapper(comm::borrowed(world)) {}
  comm::Work start(comm::Call call) override {
    const bool hit =
        place().top_ranks[static_cast<size_t>(rank())] == 1 && call.options.name.starts_with(kSum);
    const Tensor result = hit ? call.output : Tensor();
    comm::Work work = inner().start(std::move(call));
    if (!hit) return work;
    work.wait();
    flip(result, 7, 30);
    return {};
  }
  static constexpr const char* kSum = "gradients of layers.1 over dp-cp";

 private:
  Flips(std::shared_ptr<comm::Communicator> inner, std::shared_ptr<const comm::GroupPlace> place)
      : Wrapper(std::move(inner), std::move(place)) {}
  std::unique_ptr<comm::Communicator> around(std::shared_ptr<comm::Communicator> group,
                                             std::shared_ptr<const comm::GroupPlace> place) const override {
    return std::unique_ptr<comm::Communicator>(new Flips(std::move(group), std::move(place)));
  }
};

// At every stage of ZeRO, in whatever pass the sum goes on: with copies of shares what is summed between
// these too.
TEST(Corruption, ABitOfAMessageShowsAtEveryStage) {
  const recipe::Recipe recipe = recipe_of();
  for (const int64_t zero : {0, 1, 2, 3}) {
    for (const bool flips : {false, true}) {
      const ProofSubject subject =
          subject_of(recipe.model, recipe.optim, proof_layout({.ranks = 2, .zero = zero}));
      TemporaryFolder folder;
      comm::run_ranks(2, [&](comm::Communicator& world) {
        Flips flipping(world);
        OnRank rank(recipe, subject, flips ? static_cast<comm::Communicator&>(flipping) : world,
                    folder.path());
        const parallel::CheckedSums sums;
        rank.step(1);
        EXPECT_EQ(sums.wrong().has_value(), flips && world.rank() == 1) << "zero " << zero;
        EXPECT_THAT(sums.wrong().value_or(Flips::kSum), HasSubstr(Flips::kSum));
        EXPECT_GE(sums.checked(), 5) << "zero " << zero << ": of four layers, and of what is outside them";
      });
    }
  }
}

// m is bounded by v whatever the gradients were: also where one was a thousand times the others, and where
// all are the same.
TEST(Corruption, MomentsKeepTheirBound) {
  for (const double outlier : {1.0, 1e3, 0.0}) {
    const double beta1 = 0.9, beta2 = 0.95,
                 bound = (1 - beta1) / std::sqrt((1 - beta2) * (1 - beta1 * beta1 / beta2));
    double m = 0, v = 0, most = 0;
    for (int step = 0; step < 400; ++step) {
      const double gradient =
          // the worst there is: Cauchy and Schwarz with equality, backward
          step == 200 ? outlier : std::pow(beta1 / beta2, step);
      m = beta1 * m + (1 - beta1) * gradient;
      v = beta2 * v + (1 - beta2) * gradient * gradient;
      if (v > 0) most = std::max(most, std::abs(m) / std::sqrt(v));
    }
    EXPECT_LE(most, bound * (1 + 1e-9)) << outlier;
  }
}

// One gradient alone makes m/√v (1 − β₁)/√(1 − β₂): with a group's own β₂ of 0.999 that is 3.2, and with
// [optim]'s it could be 1.2 at most.
TEST(Corruption, MomentsOfAGroupWithBetasOfItsOwnAreNoAlarm) {
  const std::string group =
      R"(optim.group=[{ tensors = ["embedding", "query", "norm"], beta1 = 0.8, beta2 = 0.999 }])";
  const recipe::Recipe recipe = recipe_of("bf16", group);
  ASSERT_EQ(recipe.optim.groups.size(), 1u);
  recipe::ParallelOptions parallel;
  parallel.ranks = 2;
  const ProofSubject subject = subject_of(recipe.model, recipe.optim, proof_layout(parallel));
  TemporaryFolder folder;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    OnRank rank(recipe, subject, world, folder.path());
    for (int64_t step = 1; step <= 3; ++step) {
      rank.step(step);
      EXPECT_EQ(rank.checks.states(), std::nullopt) << step;
    }
    // The bounds still hold: (1 − β₁)/√((1 − β₂)(1 − β₁²/β₂)) is 10.5 there, and 1.2 elsewhere.
    for (const std::string name : {"embedding.weight", "layers.0.mixer.output.weight"}) {
      for (const optim::StateTensor& state : rank.optimizer->state()) {
        if (state.name != name || state.kind != "m" || state.view.numel() == 0) continue;
        const Tensor kept = state.view.clone();
        state.view.mul_(20);
        EXPECT_THAT(rank.checks.states().value_or(""), HasSubstr("m of " + name + " is larger")) << name;
        state.view.copy_(kept);
      }
    }
  });
}

// Values are whole between steps at every stage but the third, whoever updates which share.
TEST(Corruption, AProductIsCheckedWhereverValuesAreWhole) {
  const recipe::Recipe recipe = recipe_of();
  for (const int64_t zero : {0, 1, 2}) {
    recipe::ParallelOptions parallel;
    parallel.ranks = 2;
    parallel.zero = zero;
    const ProofSubject subject = subject_of(recipe.model, recipe.optim, proof_layout(parallel));
    TemporaryFolder folder;
    comm::run_ranks(2, [&](comm::Communicator& world) {
      OnRank rank(recipe, subject, world, folder.path());
      rank.step(1);
      EXPECT_EQ(rank.checks.products(3), std::nullopt) << zero;
      for (const auto& each : rank.task.parameters().all()) {
        if (!each->packed.in_use() || each->value.dim() != 2) continue;
        auto* const bits = static_cast<uint16_t*>(each->value.detach().data_ptr());
        // signs turn in memory, and not in packed copies
        for (int64_t i = 0; i < each->value.numel(); i += 5) bits[i] ^= 0x8000;
      }
      EXPECT_TRUE(rank.checks.products(3).has_value()) << zero;
    });
  }
}

TEST(ContentHash, TellsBitsAndOrderApart) {
  const Tensor a = at::arange(300000, at::kFloat), b = a.clone();
  EXPECT_EQ(content_hash(a), content_hash(b));
  for (const int64_t place : {0, 1, 262143, 262144, 299999}) {
    flip(b, place, 0);
    EXPECT_NE(content_hash(a), content_hash(b)) << place;
    flip(b, place, 0);
  }
  EXPECT_NE(content_hash(a), content_hash(a.flip(0)));
  EXPECT_EQ(content_hash(a.view({300, 1000}).t()), content_hash(a.view({300, 1000}).t().contiguous()));
  EXPECT_NE(content_hash(at::zeros({1})), content_hash(at::full({1}, -0.0)));
  content_hash(at::empty({0}));
}

}  // namespace
}  // namespace longhaul::prove
