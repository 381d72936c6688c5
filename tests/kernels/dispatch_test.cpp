// How operators choose: the record of the last choice, forced choices, and no allocation on the way that
// every call takes.
#include "kernels/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/error.h"
#include "kernels/by_device.h"
#include "kernels/cuda/calls.h"
#include "kernels/linear/op.h"
#include "kernels/linear_recurrence/cpu/cpu.h"
#include "kernels/matmul/matmul.h"
#include "support/tensors.h"

namespace {
thread_local int64_t allocations = 0;  // of this thread, by operator new
}

// Of the whole program, so that LibTorch's count too.
void* operator new(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace longhaul::kernels::dispatch_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::random_tensor;

constexpr std::string_view kImplementations[] = {"fast", "faster", "plain"};
constexpr Dispatcher kDispatcher("dispatch_test", kImplementations);
constexpr Refusal kRefusals[] = {
    "this reason is too long to lie inside a string without memory of its own", "not today", {}};

size_t choose() {
  return kDispatcher.choose([](size_t i) { return kRefusals[i]; });
}

TEST(Dispatcher, RecordsTheChoiceAndTheReasons) {
  EXPECT_EQ(Dispatcher::last("never called").chosen, "");
  EXPECT_EQ(choose(), 2u);
  const Choice choice = Dispatcher::last("dispatch_test");
  EXPECT_EQ(choice.op, "dispatch_test");
  EXPECT_EQ(choice.chosen, "plain");
  EXPECT_THAT(choice.refusals, ElementsAre(Pair("fast", kRefusals[0].reason()), Pair("faster", "not today")));
  EXPECT_EQ(kDispatcher.choose([](size_t i) { return i == 0 ? kRefusals[1] : Refusal(); }), 1u);
  EXPECT_EQ(Dispatcher::last("dispatch_test").chosen, "faster");
  EXPECT_THAT(Dispatcher::last("dispatch_test").refusals, ElementsAre(Pair("fast", "not today")));
}

TEST(Dispatcher, AsksAForcedOneAlone) {
  Dispatcher::force("dispatch_test", "plain");
  EXPECT_EQ(choose(), 2u);
  EXPECT_TRUE(Dispatcher::last("dispatch_test").refusals.empty());
  for (const auto& [name, reason] :
       {std::pair{"faster", "faster: not today"}, std::pair{"misspelt", "no implementation of that name"}}) {
    Dispatcher::force("dispatch_test", name);
    try {
      choose();
      ADD_FAILURE() << "it was refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
  }
  Dispatcher::force("dispatch_test", std::nullopt);
}

int64_t allocations_of(const std::function<void()>& body) {
  body();  // an operator's first choice on this thread makes its record
  const int64_t before = allocations;
  body();
  return allocations - before;
}

TEST(Dispatcher, AllocatesNothing) {
  EXPECT_GT(allocations_of([] { const std::string on_the_heap(100, 'x'); }), 0) << "the count counts";
  EXPECT_EQ(allocations_of([] { choose(); }), 0);
  Dispatcher::force("another operator", "plain");
  EXPECT_EQ(allocations_of([] { choose(); }), 0) << "while another one is forced";
  Dispatcher::force("another operator", std::nullopt);
}

// The reasons that operators are given at every call: what is asked before the form that takes CPU tensors.
TEST(Dispatcher, AllocatesNothingForOperatorsOnTheCpu) {
  const Tensor x = random_tensor({4, 8}, 1, at::kFloat), weight = random_tensor({8, 8}, 2, at::kFloat);
  const Tensor q = random_tensor({6, 2, 8}, 3, at::kFloat);
  const RecurrenceProblem recurrence = recurrence_problem(q, q, q, {}, {}, {}, {});
  PackedWeight kept;
  EXPECT_EQ(allocations_of([&] { choose_by_device("dispatch_test_by_device", x, refuse_cuda(x)); }), 0);
  EXPECT_EQ(Dispatcher::last("dispatch_test_by_device").chosen, "cpu");
  EXPECT_EQ(allocations_of([&] {
              refuse_packed(x, weight, &kept);
              refuse_packed(x, weight, nullptr);
              refuse_packed_weight_gradient(weight, {}, x, x);
              refuse_cpu(recurrence);
            }),
            0);
}

}  // namespace
}  // namespace longhaul::kernels::dispatch_test
