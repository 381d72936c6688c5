// The packed products of linear and grouped_linear against fp64, by every instruction set of this machine;
// packed copies that go stale.
#include "kernels/matmul/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/dispatch.h"
#include "kernels/gemm/block.h"
#include "kernels/linear/op.h"
#include "kernels/matmul/panels.h"
#include "support/threads.h"

namespace longhaul::kernels::matmul_test {
namespace {

using namespace longhaul::testing;

struct Outcome {
  Tensor y, dx, dw, db;
};

Tensor wide(const Tensor& tensor) { return tensor.defined() ? tensor.detach().to(at::kDouble) : Tensor(); }

// Group by group in fp64. Experts' weights have three dimensions.
Outcome expected(const Tensor& x, const std::vector<int64_t>& rows, const Tensor& w, const Tensor& b,
                 const Tensor& dy) {
  const Tensor x64 = wide(x), dy64 = wide(dy), w64 = w.dim() == 3 ? wide(w) : wide(w).unsqueeze(0);
  Outcome out{at::zeros({x.size(0), w.size(-2)}, at::kDouble), at::zeros(x.sizes(), at::kDouble),
              at::zeros(w64.sizes(), at::kDouble), dy64.sum(0)};
  int64_t begin = 0;
  for (size_t g = 0; g < rows.size(); ++g) {
    const auto part = [&](const Tensor& tensor) { return tensor.narrow(0, begin, rows[g]); };
    const Tensor weight = w64[static_cast<int64_t>(g)];
    part(out.y).copy_(at::mm(part(x64), weight.t()));
    part(out.dx).copy_(at::mm(part(dy64), weight));
    out.dw[static_cast<int64_t>(g)].copy_(at::mm(part(dy64).t(), part(x64)));
    begin += rows[g];
  }
  if (b.defined()) out.y.add_(wide(b));
  out.dw = out.dw.view(w.sizes());
  return out;
}

// Through linear and grouped_linear; the sinks hold 1 before.
Outcome packed(const Tensor& x_in, const std::vector<int64_t>& rows, const Tensor& w, const Tensor& b,
               const Tensor& dy, PackedWeight& kept) {
  const Tensor x = x_in.detach().requires_grad_(true);
  const Tensor dw = at::ones(w.sizes(), at::kFloat),
               db = b.defined() ? at::ones(b.sizes(), at::kFloat) : Tensor();
  const Tensor y = w.dim() == 3 ? grouped_linear(x, rows, w, dw, {.copies = &kept})
                                : linear(x, w, b, {.weight = dw, .bias = db}, {.copies = &kept});
  const std::string op = w.dim() == 3 ? "grouped_linear" : "linear";
  EXPECT_EQ(Dispatcher::last(op).chosen, "packed");
  y.backward(dy);
  EXPECT_EQ(Dispatcher::last(op + "_input_gradient").chosen, "packed");
  EXPECT_EQ(Dispatcher::last(op + "_weight_gradient").chosen, "packed");
  return {y.detach(), x.grad(), dw - 1, db.defined() ? db - 1 : Tensor()};
}

// fp32: about k roundings of 2^-24, against the largest result; the sink's 1 costs 2^-24 of 1. bf16: y and dx
// are rounded once (2^-9).
void expect_close(const Outcome& found, const Outcome& exact, ScalarType type) {
  const double once = type == at::kBFloat16 ? 4e-3 : 2e-6;
  EXPECT_EQ(found.y.scalar_type(), type);
  EXPECT_LT(relative_error(found.y, exact.y), once);
  EXPECT_LT(relative_error(found.dx, exact.dx), once);
  EXPECT_LT(relative_error(found.dw, exact.dw), 4e-6);
  if (found.db.defined()) {
    EXPECT_LT(relative_error(found.db, exact.db), 4e-6);
  }
}

template <class Body>
void on_every_set(const Body& body) {
  for (const BlockKernels* kernels : usable_block_kernels()) {
    force_block_kernels(kernels->name);
    SCOPED_TRACE(kernels->name);
    body();
  }
  force_block_kernels(std::nullopt);
}

struct MatmulSize {
  int64_t rows, in, out;
};
// Below, at and beyond a panel, a block, a chunk of k (512), and several of them.
const std::vector<MatmulSize> kMatmulSizes = {{1, 1, 1},       {1, 256, 40},  {3, 17, 5},     {37, 12, 9},
                                              {64, 64, 64},    {200, 33, 70}, {46, 600, 130}, {530, 48, 19},
                                              {70, 513, 1025}, {1030, 65, 40}};

TEST(PackedLinear, EqualsFp64) {
  const PoisonFreshMemory poison;
  for (const auto& [rows, in, out] : kMatmulSizes) {
    for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
      SCOPED_TRACE(fmt::format("rows {} in {} out {} {}", rows, in, out, name_of(type)));
      const Tensor x = random_tensor({rows, in}, 1, type), w = random_tensor({out, in}, 2, type),
                   dy = random_tensor({rows, out}, 3, type);
      const Tensor b = rows % 2 == 0 ? random_tensor({out}, 4, type) : Tensor();
      const Outcome exact = expected(x, {rows}, w, b, dy);
      on_every_set([&] {
        PackedWeight kept;
        expect_close(packed(x, {rows}, w, b, dy, kept), exact, type);
      });
    }
  }
}

TEST(PackedLinear, TakesRowsApart) {  // views of a wider tensor, as slices of qkv are
  for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
    const Tensor x = random_tensor({50, 90}, 1, type).narrow(1, 7, 60), w = random_tensor({30, 60}, 2, type);
    const Tensor dy = random_tensor({50, 80}, 3, type).narrow(1, 5, 30);
    PackedWeight kept;
    expect_close(packed(x, {50}, w, Tensor(), dy, kept), expected(x, {50}, w, Tensor(), dy), type);
  }
}

TEST(PackedLinear, NoRows) {
  PackedWeight kept;
  const Tensor w = random_tensor({5, 8}, 2, at::kFloat), empty = at::empty({0, 8}, at::kFloat);
  const Outcome found =
      packed(empty, {0}, w, random_tensor({5}, 4, at::kFloat), at::empty({0, 5}, at::kFloat), kept);
  EXPECT_EQ(found.y.sizes(), at::IntArrayRef({0, 5}));
  EXPECT_TRUE(found.dw.eq(0).all().item<bool>());
}

TEST(PackedGroupedLinear, EqualsFp64) {
  const PoisonFreshMemory poison;
  const std::vector<std::vector<int64_t>> cases = {{5, 0, 1, 12, 0}, {0, 0, 0}, {300, 7, 0, 531}, {1}};
  for (const auto& rows : cases) {
    for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
      int64_t total = 0;
      for (const int64_t count : rows) total += count;
      const auto experts = static_cast<int64_t>(rows.size());
      SCOPED_TRACE(fmt::format("{} rows of {} experts {}", total, experts, name_of(type)));
      const Tensor x = random_tensor({total, 70}, 1, type), w = random_tensor({experts, 90, 70}, 2, type),
                   dy = random_tensor({total, 90}, 3, type);
      const Outcome exact = expected(x, rows, w, Tensor(), dy);
      on_every_set([&] {
        PackedWeight kept;
        expect_close(packed(x, rows, w, Tensor(), dy, kept), exact, type);
      });
    }
  }
}

// More rows than are packed at once, cut inside an expert.
TEST(PackedGroupedLinear, ManyRows) {
  const std::vector<int64_t> rows = {3000, 0, 2500, 4096};
  const Tensor x = random_tensor({9596, 20}, 1, at::kBFloat16),
               w = random_tensor({4, 18, 20}, 2, at::kBFloat16),
               dy = random_tensor({9596, 18}, 3, at::kBFloat16);
  PackedWeight kept;
  expect_close(packed(x, rows, w, Tensor(), dy, kept), expected(x, rows, w, Tensor(), dy), at::kBFloat16);
}

TEST(PackedGroupedLinear, SameForEveryNumberOfThreads) {
  for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
    const std::vector<int64_t> rows = {700, 3, 0, 97};
    const Tensor x = random_tensor({800, 540}, 1, type), w = random_tensor({4, 200, 540}, 2, type),
                 dy = random_tensor({800, 200}, 3, type), b = random_tensor({200}, 4, type);
    expect_same_for_all_threads([&] {
      PackedWeight kept, kept_single;
      const Outcome grouped = packed(x, rows, w, Tensor(), dy, kept),
                    single = packed(x, {800}, w[1], b, dy, kept_single);
      return std::vector<Tensor>{grouped.y, grouped.dx, grouped.dw, single.y,
                                 single.dx, single.dw,  single.db};
    });
  }
}

TEST(PackedWeight, IsPackedAgainWhenItWasWritten) {
  const at::NoGradGuard guard;
  const Tensor x = random_tensor({4, 24}, 1, at::kFloat), w = random_tensor({10, 24}, 2, at::kFloat);
  PackedWeight kept;
  const auto check = [&](uint64_t version, int64_t packings) {
    EXPECT_LT(relative_error(packed_output(x, std::vector<int64_t>{4}, w, Tensor(), kept, version),
                             at::mm(wide(x), wide(w).t())),
              1e-5);
    EXPECT_EQ(kept.packings(), packings);
  };
  check(1, 1);
  check(1, 1);
  w.mul_(2);  // through LibTorch: it counts writes
  check(1, 2);
  w.mutable_data_ptr<float>()[3] += 1;  // through a pointer, as optimizers write: they raise the version
  check(2, 3);
  check(2, 3);
  EXPECT_EQ(kept.bytes(), packed_size<float>(24, 10) * 4);
  packed_input_gradient(random_tensor({4, 10}, 3, at::kFloat), std::vector<int64_t>{4}, w, kept, 2);
  EXPECT_EQ(kept.bytes(), (packed_size<float>(24, 10) + packed_size<float>(10, 24)) * 4);
  EXPECT_EQ(kept.packings(), 4);
  kept.for_input_gradient(w, 2, 256);  // other chunks: another layout
  EXPECT_EQ(kept.packings(), 5);
}

// A backward pass after the weights were written would take the new ones for those of its forward pass.
TEST(PackedWeight, RefusesAnOlderVersionThanTheNewest) {
  const auto refused = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  const Tensor x = random_tensor({4, 24}, 1, at::kFloat).requires_grad_(true),
               w = random_tensor({10, 24}, 2, at::kFloat);
  const Tensor sink = at::zeros({10, 24}, at::kFloat);
  for (const bool packed_anew : {false, true}) {
    PackedWeight kept;
    const Tensor y = linear(x, w, Tensor(), {.weight = sink}, {&kept, 1});
    w.mutable_data_ptr<float>()[3] += 1;  // unseen by LibTorch
    if (packed_anew)
      linear(x, w, Tensor(), {.weight = sink}, {&kept, 2});  // another forward pass of the new version
    else
      kept.written(2);
    EXPECT_THAT(refused([&] { y.backward(at::ones_like(y)); }),
                ::testing::HasSubstr("a backward pass must run before"));
  }
  PackedWeight kept;
  kept.for_output(w, 1);
  kept.refreshed(w, 2);
  EXPECT_THAT(refused([&] { kept.for_input_gradient(w, 1); }), ::testing::HasSubstr("version 1 of a weight"));
  kept.for_input_gradient(w, 2);
}

// Row by row, in every order and on several threads, the copies get the bits that packing them whole gives.
TEST(PackedWeight, RowsPackedByWhoWritesThem) {
  struct Shape {
    int64_t matrices, out, in, longest;
  };
  for (const auto& [matrices, out, in, longest] :
       {Shape{1, 1, 1, 512}, Shape{1, 33, 17, 512}, Shape{1, 700, 530, 512}, Shape{1, 777, 40, 256},
        Shape{3, 70, 90, 512}}) {
    for (const ScalarType type : {at::kBFloat16, at::kFloat}) {
      SCOPED_TRACE(fmt::format("{} x {} x {} {}", matrices, out, in, name_of(type)));
      const at::NoGradGuard guard;
      Tensor w = random_tensor({matrices, out, in}, 1, type);
      if (matrices == 1) w = w[0];
      on_every_set([&, matrices = matrices, out = out, in = in, longest = longest] {
        PackedWeight kept;
        EXPECT_FALSE(kept.in_use());
        kept.for_output(w, 1);
        kept.for_input_gradient(w, 1, longest);
        EXPECT_TRUE(kept.in_use());
        w.copy_(random_tensor(w.sizes(), 2, type));
        const int64_t step = 2 * PackedWeight::kRowStep, each = (out + step - 1) / step;
        parallel_for(0, matrices * each, 1, [&](int64_t from, int64_t to) {
          for (int64_t i = to - 1; i >= from; --i)
            kept.pack_rows(w, i / each, i % each * step, std::min(out, (i % each + 1) * step));
        });
        kept.refreshed(w, 2);
        PackedWeight whole;
        const auto bytes = [&](bool for_input) {
          return static_cast<size_t>(matrices * w.element_size()) *
                 static_cast<size_t>(
                     type == at::kFloat
                         ? PanelLayout<float>(for_input ? out : in, for_input ? in : out, longest).size()
                         : PanelLayout<uint16_t>(for_input ? out : in, for_input ? in : out, longest).size());
        };
        EXPECT_EQ(std::memcmp(kept.for_output(w, 2), whole.for_output(w, 2), bytes(false)), 0);
        EXPECT_EQ(std::memcmp(kept.for_input_gradient(w, 2, longest), whole.for_input_gradient(w, 2, longest),
                              bytes(true)),
                  0);
        EXPECT_EQ(kept.packings(), 2) << "packed whole once each";
      });
    }
  }
}

TEST(PackedLinear, RefusesWithAReason) {
  PackedWeight kept;
  const Tensor x = random_tensor({4, 8}, 1, at::kFloat), w = random_tensor({6, 8}, 2, at::kFloat);
  EXPECT_TRUE(refuse_packed(x, w, &kept).empty());
  EXPECT_FALSE(refuse_packed(x, w, nullptr).empty());
  EXPECT_FALSE(refuse_packed(x.to(at::kDouble), w.to(at::kDouble), &kept).empty());
  EXPECT_FALSE(refuse_packed(random_tensor({8, 4}, 1, at::kFloat).t(), w, &kept).empty());
  EXPECT_FALSE(refuse_packed(x, random_tensor({8, 6}, 2, at::kFloat).t(), &kept).empty());
  const Tensor sink = at::zeros({6, 8}, at::kFloat), dy = random_tensor({4, 6}, 3, at::kFloat);
  EXPECT_TRUE(refuse_packed_weight_gradient(sink, Tensor(), dy, x).empty());
  EXPECT_FALSE(refuse_packed_weight_gradient(sink.to(at::kBFloat16), Tensor(), dy, x).empty());
  Dispatcher::force("linear", "packed");
  EXPECT_THROW(linear(x, w, Tensor(), {.weight = sink}), Error) << "forced, and it refuses";
  Dispatcher::force("linear", std::nullopt);
}

TEST(Chunks, CoverEveryK) {
  for (int64_t k = 0; k < 3000; ++k) {
    const Chunks chunks(k);
    int64_t sum = 0;
    for (int64_t c = 0; c < chunks.count; ++c) {
      ASSERT_EQ(chunks.begin(c), sum);
      ASSERT_GT(chunks.length_of(c), 0) << k;
      ASSERT_LE(chunks.length_of(c), Chunks::kLongest) << k;
      sum += chunks.length_of(c);
    }
    ASSERT_EQ(sum, k);
  }
}

// Exact products of bf16, summed in fp32 and not rounded: what is left is the order of the sums.
TEST(PackedWide, KeepsItsSums) {
  const PoisonFreshMemory poison;
  on_every_set([] {
    for (const auto type : {at::kBFloat16, at::kFloat}) {
      for (const int64_t rows : {1, 5, 200}) {
        const Tensor x = random_tensor({rows, 70}, 1, type), w = random_tensor({333, 70}, 2, type);
        PackedWeight kept;
        const Tensor y = linear_wide(x, w, {.copies = &kept});
        EXPECT_EQ(Dispatcher::last("linear_wide").chosen, "packed");
        EXPECT_EQ(y.scalar_type(), at::kFloat);
        EXPECT_LT(relative_error(y, at::mm(wide(x), wide(w).t())), 1e-6) << type << " " << rows;
      }
    }
  });
}

}  // namespace
}  // namespace longhaul::kernels::matmul_test
