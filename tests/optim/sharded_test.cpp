// ctest: label=full timeout=300
// Every optimizer on several ranks is the optimizer of one: values and states after 20 steps under every way
// to cut, in at most three dependent reductions a step for each set of axes, whatever the number of tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "comm/threads/run_ranks.h"
#include "optim/optimizer.h"
#include "parallel/ranks.h"
#include "parameters_for_tests.h"
#include "recipe/optimizers/optimizers.h"
#include "support/nightly.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

// Cut by rows, by columns, not at all, over experts and by heads that four tensor ranks hold copies of; rows
// that no number of ranks divides, and fewer of them than ranks.
std::vector<layout::ParameterSpec> cut_specs() {
  using layout::SplitOver;
  std::vector<layout::ParameterSpec> specs = {spec("rows", {7, 5}, true), spec("columns", {4, 6}, true),
                                              spec("few", {3, 5}, true),  spec("whole", {6, 2}, true),
                                              spec("vector", {9}, false), spec("cut_vector", {5}, true),
                                              spec("heads", {6, 4}, true)};
  specs[0].split = {.over = SplitOver::kTensor, .dimension = 0};
  specs[1].split = {.over = SplitOver::kTensor, .dimension = 1};
  specs[2].split = {.over = SplitOver::kTensor, .dimension = 0};
  specs[5].split = {.over = SplitOver::kTensor, .dimension = 0};
  specs[6].split = {.over = SplitOver::kTensor, .dimension = 0, .unit = 3, .even = true, .grouped = true};
  specs[3].lr_factor = 0.5;
  for (int64_t e = 0; e < 4; ++e) {
    layout::ParameterSpec expert = spec("expert." + std::to_string(e), {3, 4}, true);
    expert.expert = e;
    expert.split.experts = 4;
    specs.push_back(expert);
  }
  for (layout::ParameterSpec& each : specs) each.layer = 0;  // for muon
  return specs;
}

struct Held {
  StateTensor state;
  Tensor copy;
};

struct ShardedTraining {
  std::vector<Held> held;
  std::map<std::string, int> reductions;  // of one step, by the axes they go over
};

// What `place` holds of everything after 20 steps. Gradients are small numbers of the logical tensor's, cut
// as its values are.
ShardedTraining trained(const recipe::OptimOptions& options, const std::string& dtype,
                        const layout::MeshRank& place, parallel::Ranks& ranks) {
  model::ParameterSet set(cut_specs(), Precision::named(dtype), at::kCPU, model::Use::kTraining, place);
  std::vector<std::vector<std::string>> experts;
  for (const auto& each : cut_specs()) {
    if (each.expert >= 0)
      experts.push_back({each.tensor.name});
    else
      set.add_stacked(each.tensor.name, {each.tensor.name});
  }
  set.add_experts("experts", experts);
  set.allocate();
  const auto fill = [&](uint64_t salt) {
    for (const auto& parameter : set.all()) {
      for (size_t i = 0; i < parameter->parts.size(); ++i) {
        const model::Part& part = parameter->parts[i];
        Tensor box = random_tensor(part.spec.tensor.global_shape, seed_of(part.spec.tensor.name, salt));
        for (size_t d = 0; d < part.held.length.size(); ++d)
          box = box.narrow(static_cast<int64_t>(d), part.held.offset[d], part.held.length[d]);
        parameter->part_of(salt == 0 ? parameter->value.detach() : parameter->grad, i).copy_(box);
      }
    }
  };
  fill(0);
  const auto optimizer = make_optimizer(options, set, Precision::named(dtype));
  ShardedTraining result;
  for (uint64_t step = 1; step <= 20; ++step) {
    fill(step);
    result.reductions.clear();
    optimizer->step({.lr = 1e-2, .gradient_scale = 0.1},
                    [&](layout::AxisSet over, const Tensor& numbers, comm::Reduction how) {
                      ++result.reductions[over.text()];
                      ranks.reduce_over(over, numbers, how);
                    });
  }
  for (const StateTensor& each : optimizer->state()) result.held.push_back({each, each.view.clone()});
  return result;
}

struct Way {
  int64_t world;
  layout::MeshShape shape;
  int64_t zero;
};
const Way kWays[] = {{2, {.tp = 2}, 0},
                     {4, {.tp = 4, .key_copies = 2}, 0},
                     {2, {.ep = 2}, 0},
                     {4, {.tp = 2, .ep = 2}, 0},
                     {2, {}, 1},
                     {3, {}, 1},
                     {7, {}, 1},
                     {4, {.cp = 2}, 1},
                     {4, {.tp = 2}, 1},
                     {4, {.ep = 2}, 1},
                     {8, {.tp = 2}, 1},
                     {8, {.tp = 4, .key_copies = 2}, 1},
                     {4, {.copies = 2}, 1},
                     {8, {.tp = 2, .copies = 2}, 1}};

void expect_whole(const recipe::OptimOptions& options, const Way& way, const std::string& dtype, double bound,
                  int phases) {
  parallel::Ranks alone;
  std::map<std::string, Tensor> whole;
  for (const Held& each : trained(options, dtype, {}, alone).held)
    whole[each.state.kind + " " + each.state.name] = each.copy;
  const layout::Mesh mesh(way.world, way.shape);
  std::vector<ShardedTraining> ranks(static_cast<size_t>(way.world));
  comm::run_ranks(way.world, [&](comm::Communicator& communicator) {
    parallel::Ranks own(communicator, {.mesh = mesh, .zero = way.zero});
    ranks[static_cast<size_t>(communicator.rank())] = trained(options, dtype, own.place(), own);
  });
  std::map<std::string, int64_t> counted;  // elements of first copies
  for (const ShardedTraining& rank : ranks) {
    for (const auto& [axes, times] : rank.reductions) EXPECT_LE(times, phases) << "over " << axes;
    for (const Held& each : rank.held) {
      const std::string name = each.state.kind + " " + each.state.name;
      Tensor expected = whole.at(name);
      EXPECT_EQ(each.state.global_shape, expected.sizes().vec()) << name;
      for (size_t d = 0; d < each.state.held.length.size(); ++d)
        expected =
            expected.narrow(static_cast<int64_t>(d), each.state.held.offset[d], each.state.held.length[d]);
      if (expected.numel() > 0) {
        const double scale = whole.at(name).to(at::kDouble).abs().max().item<double>();
        EXPECT_LE((each.copy.to(at::kDouble) - expected).abs().max().item<double>(), bound * scale)
            << name;  // codes of zeros are 0 in unsigned maps
      }
      if (each.state.first_copy) counted[name] += each.copy.numel();
    }
  }
  for (const auto& [name, tensor] : whole) EXPECT_EQ(counted[name], tensor.numel()) << name;
}

struct Subject {
  std::string label;
  recipe::OptimOptions options;
  int phases;  // that reduce
  double fp32_bound = 1e-6;
  bool whole_blocks = false;  // columns that four ranks share are cut inside them
};

std::vector<Subject> subjects() {
  using recipe::AdafactorForm;
  const recipe::OptimOptions base{.beta2 = 0.99, .beta3 = 0.99, .weight_decay = 0.1};
  const auto with = [&](const std::string& name) {
    recipe::OptimOptions options = base;
    options.name = name;
    return options;
  };
  std::vector<Subject> all;
  for (const auto& [name, phases] :
       {std::pair("adamw", 0), std::pair("lamb", 1), std::pair("came", 3), std::pair("adafactor", 2),
        std::pair("lion", 0), std::pair("sm3", 1), std::pair("muon", 2), std::pair("sgd", 0)}) {
    all.push_back({name, with(name), phases});
  }
  for (const AdafactorForm form : {AdafactorForm::kTorch, AdafactorForm::kBigVision}) {
    all.push_back({"adafactor " + std::to_string(static_cast<int>(form)), with("adafactor"), 2});
    all.back().options.adafactor_form = form;
    all.back().options.momentum = form == AdafactorForm::kTorch ? 0 : 0.9;
  }
  all.push_back({"nvlamb, l2", with("lamb"), 1});
  all.back().options.nvlamb = true;
  all.back().options.lamb_decay = recipe::LambDecay::kL2;
  all.push_back({"lamb sums, bounded", with("lamb"), 1});
  all.back().options.lamb_grad_averaging = false;
  all.back().options.lamb_min_ratio = 0.5, all.back().options.lamb_max_ratio = 1;
  // A number that differs in its last bits is rounded to its other neighbour now and then: a step of bf16, or
  // of the map, in what depends on sums.
  for (const auto& [name, phases] :
       {std::pair("adamw", 0), std::pair("lamb", 1), std::pair("came", 3), std::pair("lion", 0),
        std::pair("adafactor", 2), std::pair("sm3", 1), std::pair("muon", 2), std::pair("sgd", 0)}) {
    for (const recipe::StateDtype dtype : {recipe::StateDtype::kBfloat16, recipe::StateDtype::kInt8}) {
      const bool coded = dtype == recipe::StateDtype::kInt8;
      all.push_back({std::string(name) + (coded ? " int8" : " bfloat16"), with(name), phases, 0.05, coded});
      recipe::OptimOptions& options = all.back().options;
      options.state_dtype = dtype, options.state_block = 3, options.state_least = 1;
      if (name == std::string("adafactor")) options.momentum = 0.9;
      if (recipe::optimizer_entry(name).of_elements) all.back().fp32_bound = 1e-6;
    }
  }
  all.push_back({"groups", with("came"), 3});
  all.back().options.groups = {
      {.tensors = {layout::Role::kNorm}, .name = "lion", .lr_factor = 0.5},
      {.tensors = {layout::Role::kChannelDown}, .name = "lamb", .weight_decay = 0.02}};
  return all;
}

TEST(Sharded, EveryOptimizerIsAmongThem) {
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    EXPECT_TRUE(std::ranges::any_of(subjects(), [&](const Subject& each) {
      return each.options.name == entry->name;
    })) << entry->name;
  }
}

// By day each optimizer in one precision under each way, in turns.
TEST(Sharded, EqualsWhole) {
  size_t turn = 0;
  for (const Subject& subject : subjects()) {
    ++turn;
    for (const Way& way : kWays) {
      ++turn;
      for (const auto& [dtype, bound] : {std::pair("fp64", 1e-12), std::pair("fp32", subject.fp32_bound)}) {
        if ((dtype == std::string("fp64")) != (turn % 2 == 0) && !longhaul::testing::takes_all()) continue;
        SCOPED_TRACE(subject.label + ", " + dtype + ", " + layout::Mesh(way.world, way.shape).text() +
                     ", zero " + std::to_string(way.zero));
        if (subject.whole_blocks && way.shape.tp == 4) {
          try {
            expect_whole(subject.options, way, dtype, bound, subject.phases);
            ADD_FAILURE() << "a block was cut";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
          }
          continue;
        }
        expect_whole(subject.options, way, dtype, bound, subject.phases);
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::optim
