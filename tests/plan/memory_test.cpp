#include "plan/memory/memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/progress.h"
#include "layout/parameters.h"
#include "plan/memory/memory_guard.h"
#include "plan/memory/memory_layers.h"
#include "plan/memory/memory_workspace.h"
#include "recipe/architecture/presets.h"

namespace longhaul::plan {
namespace {

using ::testing::HasSubstr;
using enum MemoryPurpose;

MemoryRequest request_of(const std::string& preset, recipe::Dtype dtype = recipe::Dtype::kBf16) {
  return {.model = recipe::preset_model(preset),
          .dtype = dtype,
          .sequence = 1024,
          .threads = 2,
          .l2_bytes = 1 << 20};
}

double elements(const recipe::ModelConfig& model,
                const std::function<bool(const layout::ParameterSpec&)>& chosen) {
  double sum = 0;
  for (const auto& spec : layout::parameters(model))
    sum += chosen(spec) ? static_cast<double>(spec.elements()) : 0;
  return sum;
}

// Every parameter of the list is counted, whatever the mixers: bf16 2 + 4 + 12 bytes, norms and routers 4 + 4
// + 8; fp32 4 + 4 + 8.
TEST(MemoryPlan, StateOfEveryPreset) {
  for (const char* preset :
       {"deltanet-1.3b", "deltanet-kda-1.3b", "first-run", "gpt2-124m", "hgrn2-1.3b", "hybrid-bench",
        "linear-bench", "llama-3-8b", "minimax-text-01", "tnl-385m", "mamba2-130m", "gla-340m"}) {
    const recipe::ModelConfig model = recipe::preset_model(preset);
    const double all = elements(model, [](const auto&) { return true; }),
                 wide = elements(model, [](const auto&spec) {
                   return spec.tensor.role == layout::Role::kNorm ||
                          spec.tensor.role == layout::Role::kRouter ||
                          spec.tensor.role == layout::Role::kLowerBound ||
                          spec.tensor.role == layout::Role::kCoefficient ||
                          spec.tensor.name.ends_with("norm.bias");
                 });
    const PurposeBytes bf16 = plan_memory(request_of(preset)).peaks();
    EXPECT_EQ(bf16[kParameters], 2 * all + 2 * wide) << preset;
    EXPECT_EQ(bf16[kGradients], 4 * all) << preset;
    EXPECT_EQ(bf16[kOptimizer], 12 * all - 4 * wide) << preset;
    EXPECT_EQ(bf16[kCheckpoint], 12 * all) << preset;
    const PurposeBytes fp32 = plan_memory(request_of(preset, recipe::Dtype::kFp32)).peaks();
    EXPECT_EQ(fp32[kParameters], 4 * all) << preset;
    EXPECT_EQ(fp32[kOptimizer], 8 * all) << preset;
    EXPECT_EQ(plan_memory(request_of(preset, recipe::Dtype::kFp64)).peaks()[kCheckpoint], 24 * all) << preset;
  }
}

// Where checkpoints go into memory one may still be on its way to the disk.
TEST(MemoryPlan, TwoSetsOfBuffersWhereCheckpointsGoIntoMemory) {
  MemoryRequest request = request_of("first-run");
  const PurposeBytes once = plan_memory(request).peaks();
  request.checkpoint_copies = 2;
  EXPECT_EQ(plan_memory(request).peaks()[kCheckpoint], 2 * once[kCheckpoint]);
}

// What products read, packed twice, are the matrices of the list but the router and the embedding, and the
// head.
TEST(MemoryPlan, PackedWeightsAreThoseOfTheList) {
  for (const char* preset :
       {"deltanet-1.3b", "deltanet-kda-1.3b", "first-run", "gpt2-124m", "hgrn2-1.3b", "hybrid-bench",
        "linear-bench", "llama-3-8b", "minimax-text-01", "tnl-385m", "cosformer2-70m"}) {
    const recipe::ModelConfig model = recipe::preset_model(preset);
    const double matrices = elements(model,
                                     [](const auto& spec) {
                                       const auto role = spec.tensor.role;
                                       return spec.tensor.global_shape.size() == 2 && spec.layer >= 0 &&
                                              role != layout::Role::kRouter &&
                                              role != layout::Role::kConvolution &&
                                              role != layout::Role::kCoefficient;
                                     }) +
                            static_cast<double>(model.vocabulary * model.hidden);
    // Sizes of these presets are multiples of 32 but GPT-2's vocabulary and the rows of deltanets' products
    // (a few a head), which are rounded up to 16 as columns and to 32 as rows.
    EXPECT_NEAR(plan_memory(request_of(preset)).peaks()[kPackedWeights], 4 * matrices, 5e-4 * 4 * matrices)
        << preset;
    EXPECT_EQ(plan_memory(request_of(preset, recipe::Dtype::kFp64)).peaks()[kPackedWeights], 0) << preset;
    MemoryRequest gpu = request_of(preset);
    gpu.on_gpu = true;
    EXPECT_EQ(plan_memory(gpu).peaks()[kPackedWeights], 0) << preset;
  }
}

// By hand, of one softmax layer, one channel, everything else left out: tests/run/memory/memory_test.cpp
// measures the rest.
TEST(MemoryPlan, ALayersActivations) {
  MemoryRequest request = request_of("llama-3-8b");
  request.sequence = 8192;
  const double t = 8192, e = 2;
  const BlockMemory mixer = mixer_memory(request, 1),
                    channel = channel_memory(request, request.model.channel_mixer(1));
  EXPECT_EQ(mixer.kept, t * e * (4096 + 2 * 1024 + 4096) + t * 32 * 4);
  EXPECT_EQ(mixer.backward, t * e * (4096 + 4096 + 4096 + 2 * 1024));
  EXPECT_EQ(channel.kept, t * e * 3 * 14336);
  EXPECT_EQ(channel.backward, t * e * (2 * 14336 + 2 * 4096));
  EXPECT_EQ(norm_bytes(request), t * e * 2 * 4096 + t * 4);
  EXPECT_EQ(rotary_bytes(request), t * 128 * 4);
}

// By hand, what libraries of a GPU take beside the tensors: 16,384 tokens of gpt2-124m are four chunks of
// 4,096 rows of 50,264 logits (6 bytes each; 5,340 rows would fit), and 16 documents of 12 heads fill a GPU,
// so one sum of dq is enough; one document of 32 heads that share 8 keys has five.
TEST(MemoryPlan, WhatAGpusLibrariesTake) {
  MemoryRequest request = request_of("gpt2-124m");
  request.on_gpu = true;
  request.model.vocabulary = 50257;
  request.micro_batch = 16;
  request.sequence = 1024;
  EXPECT_EQ(loss_workspace(request), 4096.0 * 50264 * 6);
  const double rows = 16 * (1024 + 128);
  EXPECT_EQ(attention_workspace(request, {.heads = 12, .kv_heads = 12, .head_dim = 64, .value_dim = 64}),
            rows * 12 * 64 * 4 + rows * 12 * 4);
  request.micro_batch = 1;
  request.sequence = 8192;
  const recipe::AttentionSizes wide{.heads = 32, .kv_heads = 8, .head_dim = 128, .value_dim = 128};
  EXPECT_EQ(attention_workspace(request, wide),
            5.0 * (8192 + 128) * 32 * 128 * 4 + (8192.0 + 128) * 32 * 4 + 2 * 8192.0 * 32 * 128 * 2);
  request.sequence = 32768;  // 2.5 GiB of sums: our kernels
  EXPECT_EQ(attention_workspace(request, wide), 0);
}

// By hand, of 8,192 tokens in one document. Our kernels divide it into 128 chunks of 64 tokens and keep
// nothing for the backward pass, which has two matrices of pairs and two states for each chunk and head, what
// each token writes, and gradients of q and k by head in fp32 where heads share them. With decays per channel
// LibTorch's operators compute 16 tokens to a chunk, 14,155,776 bytes each, so 455 of the 512 fit into 6 GiB
// and one state is kept where the second piece begins.
TEST(MemoryPlan, WhatTheDeltaRuleTakesOnAGpu) {
  MemoryRequest request = request_of("gpt2-124m");
  request.on_gpu = true;
  request.micro_batch = 1;
  request.sequence = 8192;
  recipe::DeltaRuleSizes sizes{.heads = 16, .key_heads = 8, .key = 128, .value = 128};
  const double pairs = 2.0 * 128 * 16 * 64 * 64 * 2, states = 2.0 * 128 * 16 * 128 * 128 * 2,
               written = 8192.0 * 16 * 128 * 2, by_head = 2 * 8192.0 * 16 * 128 * 4;
  EXPECT_EQ(delta_rule_workspace(request, sizes), pairs + states + written + by_head);
  EXPECT_EQ(delta_rule_states(request, sizes), 0);
  sizes.key_heads = 16;
  EXPECT_EQ(delta_rule_workspace(request, sizes), pairs + states + written);
  sizes.by_channel = true;
  EXPECT_EQ(delta_rule_workspace(request, sizes), 455 * 14155776.0);
  EXPECT_EQ(delta_rule_states(request, sizes), 16 * 128 * 128 * 4);
}

TEST(MemoryPlan, GrowsWithWhatItDependsOn) {
  const MemoryRequest base = request_of("hybrid-bench");
  const double peak = plan_memory(base).peak();
  const auto peak_with = [&](const auto& change) {
    MemoryRequest changed = base;
    change(changed);
    return plan_memory(changed).peak();
  };
  const auto activations = [](const MemoryRequest& request) {
    return plan_memory(request).peaks()[kActivations];
  };
  MemoryRequest twice = base;
  twice.micro_batch = 2;
  EXPECT_NEAR(activations(twice), 2 * activations(base), 1e-2 * activations(twice));
  EXPECT_GT(peak_with([](auto& r) { r.sequence *= 2; }), peak);
  EXPECT_GT(peak_with([](auto& r) { r.model.layers *= 2; }), peak);
  EXPECT_GT(peak_with([](auto& r) { r.threads = 64; }), peak);
  EXPECT_LT(peak_with([](auto& r) { r.saves_between = false; }), peak);
  EXPECT_GT(plan_memory(twice).not_tensors, plan_memory(base).not_tensors);
}

// On a GPU what the host holds does not count, whenever it is most.
TEST(MemoryPlan, ADevicesPeakIsWithoutTheHostsPart) {
  MemoryPlan plan;
  plan.moments.resize(2);
  plan.moments[0].bytes[kParameters] = 5, plan.moments[0].bytes[kData] = 100,
  plan.moments[0].bytes[kCheckpoint] = 1000;
  plan.moments[1].bytes[kParameters] = 7, plan.moments[1].bytes[kData] = 10;
  EXPECT_EQ(plan.device_peak(), 7);
  EXPECT_EQ(plan.peak(), 1105);
}

// Ids, labels and one more number of eight bytes a token: of the steps that wait, of the one that is made, of
// the one that is cut, and of these twice.
TEST(MemoryPlan, BatchesOfTheLoader) {
  MemoryRequest request = request_of("first-run");
  request.batch = 8, request.micro_batch = 2, request.sequence = 16, request.prefetch = 4;
  EXPECT_EQ(plan_memory(request).not_tensors, 24 * (8 * 16 * (4 + 3) + 2 * 16));
}

// train.offload_memory: what exceeds it is in a file.
TEST(MemoryPlan, AHostHasNoMoreThanItIsGiven) {
  MemoryRequest request = request_of("first-run");
  request.recompute = recipe::Recompute::kTokens;
  const double without = plan_memory(request).not_tensors;
  request.offload = request.to_host = true, request.host_share = 0.5;
  const double moved = plan_memory(request).not_tensors - without;
  EXPECT_GT(moved, 1e6);
  request.host_memory = 1'000'000;
  EXPECT_EQ(plan_memory(request).not_tensors - without, 1e6);
  request.host_memory = int64_t{1} << 40;
  EXPECT_EQ(plan_memory(request).not_tensors - without, moved);
}

TEST(MemoryGuard, WhatDoesNotFitIsRefusedWithTheTableAndWhatHelps) {
  MemoryRequest request = request_of("first-run");
  request.batch = request.micro_batch = 4096;
  request.sequence = 65536;
  try {
    require_memory(request, 20'000'000'000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kOutOfMemory);
    EXPECT_THAT(error.fields().expected, HasSubstr("20.0 GB"));
    for (const char* purpose : {"parameters", "gradients", "optimizer state", "packed weights", "activations",
                                "checkpoint copy", "not tensors"})
      EXPECT_THAT(error.fields().found, HasSubstr(purpose));
    EXPECT_THAT(error.fields().where, HasSubstr("train.micro_batch=4096, train.sequence=65536"));
  }
}

// The first advice is a setting that fits by the same plan, and it is the largest of its kind.
TEST(MemoryGuard, TheAdviceFits) {
  MemoryRequest request = request_of("gpt2-124m");
  request.batch = request.micro_batch = 64;
  const int64_t available = 6'000'000'000;
  try {
    require_memory(request, available);
    FAIL();
  } catch (const Error& error) {
    MemoryRequest advised = request;
    int64_t fits = 64;
    do advised.micro_batch = fits /= 2;
    while (fits > 1 && needed_bytes(advised, plan_memory(advised)) > available);
    EXPECT_NO_THROW(require_memory(advised, available));
    EXPECT_THAT(error.fields().hint,
                ::testing::StartsWith(
                    fmt::format("train.micro_batch={} takes {} and leaves the result as it is", fits,
                                bytes_text(whole_bytes(needed_bytes(advised, plan_memory(advised)))))));
  }
}

std::string advice(const MemoryRequest& request, double available, const MemoryOwner& owner) {
  try {
    require_memory(request, static_cast<int64_t>(available), owner);
  } catch (const Error& error) {
    return error.fields().hint;
  }
  return "it fits";
}

// Four replicas share a batch: of 32 sequences each has eight, so that a micro-batch of sixteen is too large
// for it.
TEST(MemoryGuard, ASmallerBatchHasMicroBatchesThatItsReplicasCanHave) {
  MemoryRequest request = request_of("gpt2-124m");
  request.batch = 64, request.micro_batch = 16;
  MemoryRequest half = request;
  half.batch = 32, half.micro_batch = 8;
  const double available = needed_bytes(half, plan_memory(half));
  EXPECT_THAT(advice(request, available, {.replicas = 4}),
              HasSubstr(fmt::format("train.batch=32 takes {}", bytes_text(whole_bytes(available)))));
}

// Of 40 sequences over four replicas halves are 20 (five each) and 10, which four cannot share; what it would
// take is not said.
TEST(MemoryGuard, NoAdviceThatReplicasCannotShare) {
  MemoryRequest request = request_of("gpt2-124m");
  request.batch = 40, request.micro_batch = 10;
  MemoryRequest small = request;
  small.batch = 10, small.micro_batch = 2;
  const std::string hint = advice(request, needed_bytes(small, plan_memory(small)), {.replicas = 4});
  EXPECT_THAT(hint, HasSubstr("train.batch=20 takes"));
  EXPECT_THAT(hint, ::testing::Not(HasSubstr("train.batch=10 ")));
}

// Four stages share 32 layers: fewer than one each is no advice.
TEST(MemoryGuard, NoFewerLayersThanStages) {
  const MemoryRequest request = request_of("llama-3-8b");
  const std::string hint = advice(request, 1e9, {.stages = 4});
  EXPECT_THAT(hint, HasSubstr("model.layers=4 takes"));
}

TEST(MemoryGuard, NothingOverflows) {
  MemoryRequest request = request_of("minimax-text-01");
  request.batch = request.micro_batch = request.sequence = int64_t{1} << 40;
  EXPECT_GT(plan_memory(request).peak(), 1e28);
  EXPECT_EQ(whole_bytes(plan_memory(request).peak()), INT64_MAX);
  EXPECT_THROW(require_memory(request, INT64_MAX), Error);
  EXPECT_NO_THROW(require_memory(request_of("first-run"), 1'000'000'000));
}

TEST(MemoryGuard, WhereNoOneOptionIsEnough) {
  try {
    require_memory(request_of("minimax-text-01"), 10'000'000'000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.fields().hint, ::testing::StartsWith("no one option is enough; model.layers=1 takes "));
  }
}

}  // namespace
}  // namespace longhaul::plan
