#include "plan/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/presets.h"

namespace longhaul::plan {
namespace {

// 8,030,261,248 parameters, 18 bytes each in bf16, 16 in fp32, 32 in fp64.
TEST(TrainingMemory, OfLlama3) {
  const auto llama = recipe::preset_model("llama-3-8b");
  EXPECT_EQ(training_state_bytes(llama, "bf16").total(), int64_t{8030261248} * 18);
  EXPECT_EQ(training_state_bytes(llama, "bf16").weights, int64_t{8030261248} * 2);
  EXPECT_EQ(training_state_bytes(llama, "fp32").total(), int64_t{8030261248} * 16);
  EXPECT_EQ(training_state_bytes(llama, "fp64").total(), int64_t{8030261248} * 32);
}

TEST(TrainingMemory, WhatDoesNotFitIsRefusedBeforeItIsAllocated) {
  const TrainingState state{100, 200, 600};
  EXPECT_NO_THROW(require_memory(state, 900));
  try {
    require_memory(state, 899);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kOutOfMemory);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("899 B"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("600 B of the optimizer"));
  }
}

}  // namespace
}  // namespace longhaul::plan
