// Attention to a memory on a mesh: heads over tensor ranks, queries over context ranks, and the memory cut
// over these or whole on each, are plain fp64 in one piece (support/plain_cross_attention.h), forward and in
// every gradient.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/threads/run_ranks.h"
#include "model/mixers/cross_attention.h"
#include "parallel/in_order.h"
#include "parallel/ranks.h"
#include "recipe/mixers/cross_attention.h"
#include "support/models.h"
#include "support/plain_cross_attention.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel::cross_attention_test {
namespace {

using namespace longhaul::testing;
using layout::ContextSplit;
using layout::SequenceLayout;

constexpr int64_t kMemoryHidden = 10;

struct MeshProblem {
  recipe::ModelConfig config = small_config();  // four heads, two key heads
  model::CrossAttentionOptions options{};
  SequenceLayout rows, memories;
  Tensor x, memory, d;

  MeshProblem(const std::vector<int64_t>& queries, const std::vector<int64_t>& keys, bool causal)
      : options({.rotary = true, .causal = causal}),
        rows(layout::make_packed(queries)),
        memories(layout::make_packed(keys)),
        x(random_tensor({rows.tokens(), config.hidden}, 1)),
        memory(random_tensor({memories.tokens(), kMemoryHidden}, 2)),
        d(random_tensor({rows.tokens(), config.hidden}, 3)) {
    config.softmax.qk_norm = true;
    config.softmax.output_gate = true;
    config.softmax.bias = recipe::AttentionBias::kAll;
  }
  std::vector<layout::ParameterSpec> tensors() const {
    auto list =
        layout::mixer_parameters(config, "tower.", recipe::cross_attention_tensors(config, kMemoryHidden));
    for (layout::ParameterSpec& spec : list) spec.init = {.kind = layout::Init::Kind::kNormal, .std = 0.4};
    return list;
  }
};

struct Expected {
  Tensor o, d_x, d_memory;
  LogicalTensors leaves;
};

Expected plain(const MeshProblem& of) {
  model::ParameterSet parameters(of.tensors(), Precision::named("fp64"), at::kCPU);
  model::CrossAttention mixer(of.config, {.name = "tower.mixer"}, parameters, of.options);
  parameters.allocate();
  parameters.initialise(7);
  Expected all{.leaves = leaves_of(parameters)};
  const Tensor x = of.x.clone().requires_grad_(), memory = of.memory.clone().requires_grad_();
  all.o = PlainCrossAttention{of.config, all.leaves, "tower.mixer", of.options.rotary, of.options.causal}.run(
      x, of.rows, memory, of.memories);
  all.o.backward(of.d);
  all.d_x = x.grad();
  all.d_memory = memory.grad().defined() ? memory.grad() : at::zeros_like(memory);
  return all;
}

// What is next to nothing beside the largest of its kind is compared with that.
void expect_near(const Tensor& found, const Tensor& wanted, double least, const std::string& what) {
  if (found.numel() == 0) return;
  const double size = std::max(wanted.abs().max().item<double>(), least);
  EXPECT_LE((found.detach() - wanted).abs().max().item<double>(), 1e-12 * size) << what;
}

void expect_equal_to_plain(const MeshProblem& of, const Expected& expected, const layout::MeshShape& shape,
                           ContextSplit split, bool memory_cut, int64_t chunks, const std::string& what) {
  const int64_t world = shape.cp * shape.tp;
  Tensor d_memory = at::zeros_like(of.memory);
  std::mutex adding;
  comm::run_ranks(world, [&](comm::Communicator& group) {
    longhaul::testing::InOrder ordered(group);
    Ranks ranks(ordered, {.mesh = {world, shape}, .context = {.split = split}, .tensor_chunks = chunks});
    model::ParameterSet parameters(of.tensors(), Precision::named("fp64"), at::kCPU, model::Use::kTraining,
                                   ranks.place());
    model::CrossAttention mixer(of.config, {.name = "tower.mixer"}, parameters, of.options);
    parameters.allocate();
    parameters.initialise(7);
    parameters.zero_gradients();
    const layout::SequenceView view(of.rows, ranks.share());
    const auto own = std::span(view.token_index)
                         .subspan(static_cast<size_t>(view.own.begin), static_cast<size_t>(view.own.length));
    const Tensor index = to_tensor(own), x = of.x.index_select(0, index).requires_grad_(),
                 memory = of.memory.clone().requires_grad_();
    layout::RowShare of_memory = ranks.share();
    if (!memory_cut) of_memory.context_ranks = 1, of_memory.context_rank = 0;
    model::Memory given = model::Memory::cut_from(memory, of.memories, of_memory);
    model::Context context(ranks.ops(), Precision::named("fp64"));
    ranks.begin_step(parameters, 1);
    const Tensor o = mixer.cross_forward(context, x, view, given);
    parameters.all_announced();
    o.backward(of.d.index_select(0, index));
    ranks.sum_gradients(parameters);
    parameters.end_step();

    const std::string here = what + ", rank " + std::to_string(group.rank());
    expect_near(o, expected.o.index_select(0, index), 1, here + ": o");
    expect_near(x.grad(), expected.d_x.index_select(0, index), 1, here + ": x");
    for (const auto& parameter : parameters.all()) {
      for (size_t i = 0; i < parameter->parts.size(); ++i) {
        const model::Part& part = parameter->parts[i];
        const Tensor& leaf = expected.leaves.at(part.spec.tensor.name);
        Tensor wanted = leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
        for (size_t dim = 0; dim < part.held.length.size(); ++dim)
          wanted = wanted.narrow(static_cast<int64_t>(dim), part.held.offset[dim], part.held.length[dim]);
        expect_near(parameter->part_of(parameter->grad, i), wanted, 1, here + ": " + part.spec.tensor.name);
      }
    }
    const std::scoped_lock lock(adding);
    d_memory.add_(memory.grad());
  });
  expect_near(d_memory, expected.d_memory, 1, what + ": the memory");
}

struct Packing {
  std::vector<int64_t> queries, memories;
};
// Documents that cuts divide, without queries, without memory; fewer tokens than ranks.
const std::vector<Packing> kPackings = {{{5, 3, 0, 11, 1, 2}, {0, 1, 4, 17, 129, 3}},
                                        {{23}, {17}},
                                        {{1, 9, 1, 4}, {1, 0, 129, 0}},
                                        {{2, 1}, {0, 5}},
                                        {{3, 4}, {0, 0}}};

void expect_every_packing(const layout::MeshShape& shape, int64_t chunks = 1) {
  for (size_t n = 0; n < kPackings.size(); ++n) {
    for (const bool causal : {false, true}) {
      const MeshProblem of(kPackings[n].queries, kPackings[n].memories, causal);
      const Expected expected = plain(of);
      for (const bool cut : {true, false}) {
        for (const ContextSplit split : {ContextSplit::kZigzag, ContextSplit::kContiguous}) {
          if (shape.cp == 1 && (!cut || split == ContextSplit::kContiguous)) continue;
          expect_equal_to_plain(of, expected, shape, split, cut, chunks,
                                "packing " + std::to_string(n) + (causal ? ", causal" : "") +
                                    (cut ? "" : ", memory whole") +
                                    (split == ContextSplit::kZigzag ? ", zig-zag" : ", contiguous"));
        }
      }
    }
  }
}

TEST(CrossAttentionOnAMesh, OneRank) { expect_every_packing({}); }
TEST(CrossAttentionOnAMesh, TensorRanks) { expect_every_packing({.tp = 2}); }
TEST(CrossAttentionOnAMesh, TensorRanksInParts) { expect_every_packing({.tp = 2}, 3); }
TEST(CrossAttentionOnAMesh, MoreTensorRanksThanKeyHeads) { expect_every_packing({.tp = 4, .key_copies = 2}); }
TEST(CrossAttentionOnAMesh, ContextRanks) {
  expect_every_packing({.cp = 2});
  expect_every_packing({.cp = 3});
}
TEST(CrossAttentionOnAMesh, ContextAndTensorRanks) { expect_every_packing({.cp = 2, .tp = 2}); }

}  // namespace
}  // namespace longhaul::parallel::cross_attention_test
