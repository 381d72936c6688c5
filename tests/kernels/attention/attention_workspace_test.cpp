// What attention on the CPU works in: as much as workspace.h says, no more than it may, and results that do
// not depend on how much that is. ctest: label=fast timeout=120
#include <gtest/gtest.h>

#include <thread>

#include "kernels/attention/attention_cases.h"
#include "kernels/attention/problem.h"
#include "kernels/attention/workspace.h"
#include "support/threads.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::kernels::attention_workspace_test {
namespace {

using namespace longhaul::testing;

AttentionSizes sizes_of(const AttentionCase& c) {
  AttentionSizes sizes{.visible = c.visible(),
                       .heads = c.heads,
                       .key_heads = c.key_heads,
                       .channels = c.key,
                       .values = c.value,
                       .scale = 0.2};
  return sizes;
}

AttentionSizes one_document(int64_t tokens, int64_t heads, int64_t key_heads, int64_t channels) {
  return {.visible = {{{0, tokens, 0, tokens}}},
          .heads = heads,
          .key_heads = key_heads,
          .channels = channels,
          .values = channels,
          .scale = 1};
}

// One piece of keys; two; pieces of uneven documents; a window that hides pieces; more queries than keys, and
// fewer.
const AttentionCase kCases[] = {{.name = "one piece",
                                 .offsets = {0, 90},
                                 .key_offsets = {0, 90},
                                 .heads = 2,
                                 .key_heads = 1,
                                 .key = 24,
                                 .value = 40},
                                {.name = "two pieces",
                                 .offsets = {0, 1100},
                                 .key_offsets = {0, 1100},
                                 .heads = 4,
                                 .key_heads = 2,
                                 .key = 24,
                                 .value = 16},
                                {.name = "documents",
                                 .offsets = {0, 2700, 2701, 5100},
                                 .key_offsets = {0, 2700, 2701, 5100},
                                 .heads = 2,
                                 .key_heads = 2,
                                 .key = 8,
                                 .value = 8},
                                {.name = "window",
                                 .offsets = {0, 3000},
                                 .key_offsets = {0, 3000},
                                 .heads = 2,
                                 .key_heads = 1,
                                 .key = 16,
                                 .value = 8,
                                 .window = 300},
                                {.name = "few keys",
                                 .offsets = {0, 2500},
                                 .key_offsets = {0, 1300},
                                 .heads = 2,
                                 .key_heads = 1,
                                 .key = 8,
                                 .value = 8},
                                {.name = "few queries",
                                 .offsets = {0, 200},
                                 .key_offsets = {0, 2500},
                                 .heads = 4,
                                 .key_heads = 1,
                                 .key = 8,
                                 .value = 24,
                                 .window = 250}};

AttentionProblem problem_of(const AttentionCase& c, ScalarType type) {
  const AttentionInputs in = inputs_of(c, type);
  return {in.q, in.k, in.v, c.visible(), 0.2};
}

AttentionOutside outside_of(const AttentionResult& result, const Tensor& d_o) {
  return {d_o, result.logsumexp_th, attention_delta_cpu(result.o_thd, d_o, {})};
}

AttentionGradients gradients_of(const AttentionProblem& problem, const AttentionOutside& outside) {
  const AttentionGradients into{at::empty_like(problem.q_thd), at::empty_like(problem.k_shd),
                                at::empty_like(problem.v_shd)};
  attention_backward_cpu(problem, outside, into, false);
  return into;
}

// The workspace that `body` takes, on threads that have none from before.
int64_t measured(int threads, const std::function<void()>& body) {
  int64_t bytes = 0;
  std::thread([&] {
    const at::NoGradGuard no_gradient;
    set_threads(threads);
    const int64_t before = memory_statistics().of(MemoryPurpose::kWorkspace).bytes;
    reset_memory_peaks();
    body();
    bytes = memory_statistics().of(MemoryPurpose::kWorkspace).peak - before;
  }).join();
  return bytes;
}

// The most that it takes in a few calls: on a busy machine a thread of the team may come when nothing is left
// to do, and takes none.
int64_t most_measured(int64_t planned, int threads, const std::function<void()>& body) {
  int64_t most = 0;
  for (int call = 0; call < 20 && most < planned; ++call) most = std::max(most, measured(threads, body));
  return most;
}

TEST(AttentionWorkspace, IsWhatTheAllocatorCounts) {
  install_cpu_allocator();
  for (const AttentionCase& c : kCases) {
    for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(c.name + " " + std::string(name_of(type)) + " threads " + std::to_string(threads));
        const AttentionProblem problem = problem_of(c, type);
        const int64_t element = type == at::kFloat ? 4 : 2;
        const AttentionResult result = attention_forward_cpu(problem, false);
        const AttentionOutside outside = outside_of(result, random_tensor(result.o_thd.sizes(), 4, type));
        const int64_t forward = attention_forward_workspace(sizes_of(c), element, threads).bytes();
        EXPECT_EQ(most_measured(forward, threads, [&] { attention_forward_cpu(problem, false); }), forward);
        const int64_t backward = attention_backward_workspace(sizes_of(c), element, threads).bytes();
        EXPECT_EQ(most_measured(backward, threads, [&] { gradients_of(problem, outside); }), backward);
      }
    }
  }
}

// The formulas of workspace.h in numbers.
TEST(AttentionWorkspace, FollowsItsFormulas) {
  const int64_t mib = 1 << 20;
  const AttentionSizes gpt2 = one_document(1024, 12, 12, 64);
  EXPECT_EQ(attention_forward_workspace(gpt2, 2, 1).thread,
            16 * (8192 + 16384 + 512) + 32768 + 16384 + 2 * 128 * 128 + 3 * 256);
  EXPECT_EQ(attention_backward_workspace(gpt2, 2, 1).thread,
            512 * (2 * 192 + 4 * 128) + 8 * (256 * 128 + 16384) + 65536 + 49152);
  EXPECT_EQ(attention_backward_workspace(gpt2, 2, 1).shared, 3 * mib);  // dQ in fp32
  EXPECT_EQ(attention_backward_workspace(one_document(1000, 12, 12, 64), 2, 1).shared, 0)
      << "too short to be cut";
  EXPECT_EQ(attention_backward_workspace(one_document(2048, 32, 32, 64), 2, 1).shared, 0)
      << "enough heads for many threads";
  EXPECT_EQ(attention_backward_workspace(one_document(2112, 32, 32, 64), 2, 1).shared, 256 * 64 * 32 * 33);
  EXPECT_EQ(attention_backward_workspace(gpt2, 2, 64).threads, 24);
}

// dQ of 131,072 tokens and 32 heads of 128 is 2 GiB in fp32. kv heads take turns; one of them must have room.
TEST(AttentionWorkspace, HasALimit) {
  const int64_t mib = 1 << 20;
  EXPECT_EQ(attention_backward_workspace(one_document(131072, 32, 8, 128), 2, 16).shared, 256 * mib);
  EXPECT_EQ(attention_backward_workspace(one_document(131072, 32, 32, 128), 2, 16).shared, 256 * mib);
  EXPECT_EQ(attention_backward_workspace(one_document(131072, 32, 4, 128), 2, 16).shared, 512 * mib);
  EXPECT_EQ(attention_backward_workspace(one_document(1 << 20, 32, 8, 128), 2, 16).shared, 2048 * mib);
}

AttentionGradients with_limit(const AttentionCase& c, const AttentionProblem& problem,
                              const AttentionOutside& outside, int64_t most_shared) {
  const auto view = [](const Tensor& x) {
    return ResultRows<uint16_t>{{static_cast<uint16_t*>(x.data_ptr()), x.stride(0), x.stride(1)}};
  };
  const auto read = [](const Tensor& x) {
    return RowView<const uint16_t>{static_cast<const uint16_t*>(x.const_data_ptr()), x.stride(0),
                                   x.stride(1)};
  };
  AttentionBackward<uint16_t> call;
  static_cast<AttentionSizes&>(call) = sizes_of(c);
  call.most_shared = most_shared;
  call.q = read(problem.q_thd);
  call.d_o = read(outside.d_o_thd);
  call.keys.k = read(problem.k_shd);
  call.keys.v = read(problem.v_shd);
  call.logsumexp = {outside.logsumexp_th.const_data_ptr<float>(), outside.logsumexp_th.stride(0), 1};
  call.delta = {outside.delta_th.const_data_ptr<float>(), outside.delta_th.stride(0), 1};
  const auto nan_like = [](const Tensor& x) { return at::full_like(x, NAN); };
  const AttentionGradients out{nan_like(problem.q_thd), nan_like(problem.k_shd), nan_like(problem.v_shd)};
  call.d_q = view(out.q_thd);
  call.d_k = view(out.k_shd);
  call.d_v = view(out.v_shd);
  const Tensor workspace =
      at::full({attention_backward_workspace(call, 2, threads()).shared / 4}, NAN, at::kFloat);
  call.workspace = workspace.mutable_data_ptr<float>();
  run_attention_backward(call);
  return out;
}

// All at once, or one kv head after the other: the same bits, for any number of threads.
TEST(AttentionWorkspace, ResultsDoNotDependOnTheLimit) {
  for (const AttentionCase& c : kCases) {
    SCOPED_TRACE(c.name);
    const AttentionProblem problem = problem_of(c, at::kBFloat16);
    const AttentionResult result = attention_forward_cpu(problem, false);
    const AttentionOutside outside =
        outside_of(result, random_tensor(result.o_thd.sizes(), 4, at::kBFloat16));
    const AttentionGradients expected = gradients_of(problem, outside);
    for (const int64_t most : {int64_t{0}, int64_t{1} << 20}) {
      expect_same_for_all_threads([&]() -> std::vector<Tensor> {
        const AttentionGradients found = with_limit(c, problem, outside, most);
        EXPECT_TRUE(found.q_thd.equal(expected.q_thd)) << most;
        EXPECT_TRUE(found.k_shd.equal(expected.k_shd)) << most;
        EXPECT_TRUE(found.v_shd.equal(expected.v_shd)) << most;
        return {found.q_thd, found.k_shd, found.v_shd};
      });
    }
  }
}

// Nor on what a document is packed with, although that says into how many pieces its keys are cut.
TEST(AttentionWorkspace, GradientsDoNotDependOnTheOtherDocuments) {
  const AttentionCase alone{.name = "alone",
                            .offsets = {0, 1600},
                            .key_offsets = {0, 1600},
                            .heads = 2,
                            .key_heads = 1,
                            .key = 16,
                            .value = 16};
  AttentionCase packed = alone;
  packed.offsets = packed.key_offsets = {0, 1600, 24000};
  const AttentionProblem whole = problem_of(packed, at::kBFloat16);
  const auto first = [](const Tensor& x) { return x.narrow(0, 0, 1600).contiguous(); };
  const AttentionProblem part{first(whole.q_thd), first(whole.k_shd), first(whole.v_shd), alone.visible(),
                              whole.scale};
  const Tensor d_o = random_tensor({24000, 2, 16}, 4, at::kBFloat16);
  const auto of = [](const AttentionProblem& problem, const Tensor& d) {
    return gradients_of(problem, outside_of(attention_forward_cpu(problem, false), d));
  };
  const AttentionGradients found = of(part, first(d_o)), expected = of(whole, d_o);
  EXPECT_TRUE(found.q_thd.equal(first(expected.q_thd)));
  EXPECT_TRUE(found.k_shd.equal(first(expected.k_shd)));
  EXPECT_TRUE(found.v_shd.equal(first(expected.v_shd)));
}

}  // namespace
}  // namespace longhaul::kernels::attention_workspace_test
