#include "kernels/linear_cross_entropy/cuda.h"

#include "kernels/cuda/mma.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kThreads = 512;
// A row is walked in fours of columns, 16 bytes of logits and 8 of their gradients.
constexpr int kFour = 4, kStep = kThreads * kFour;

struct alignas(16) Four {
  float x[kFour];
};
struct alignas(8) FourHalves {
  uint32_t word[kFour / 2];
};

// Columns [c, c + 4) times `factor`; −∞ where they do not count, whatever lies there.
LONGHAUL_DEVICE Four load_four(const float* row, int64_t c, int64_t vocabulary, float factor) {
  Four z = *reinterpret_cast<const Four*>(row + c);
  LONGHAUL_UNROLL
  for (int i = 0; i < kFour; ++i) z.x[i] = c + i < vocabulary ? z.x[i] * factor : negative_infinity();
  return z;
}
LONGHAUL_DEVICE void store_four(Bf16* row, int64_t c, const Four& d) {
  *reinterpret_cast<FourHalves*>(row + c) = {{pack(d.x[0], d.x[1]), pack(d.x[2], d.x[3])}};
}

struct RowSum {
  float top, sum;  // Σ 2^(z − top)
};

// Of z in units of log 2. The largest and the sum are found in one pass, each thread keeping its own.
LONGHAUL_DEVICE RowSum sum_of_row(const float* row, int64_t vocabulary, float factor, float* scratch) {
  float largest = negative_infinity(), sum = 0;
  for (int64_t c = threadIdx.x * kFour; c < vocabulary; c += kStep) {
    const Four z = load_four(row, c, vocabulary, factor);
    const float most = fmaxf(fmaxf(z.x[0], z.x[1]), fmaxf(z.x[2], z.x[3]));
    if (most > largest) {
      sum *= power_of_two(largest - most);
      largest = most;
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < kFour; ++i) sum += power_of_two(z.x[i] - largest);
  }
  const float top = block_largest(largest, scratch);
  // A thread without a column has a sum of 0 and no largest. A NaN stays one.
  return {top, block_sum(sum == 0.f ? 0.f : sum * power_of_two(largest - top), scratch)};
}

struct LossRows {
  LogitRows in;
  float z_loss, scale;
  float* loss;
  Bf16* d_logits;
};

// A block per row; the second pass, partly from cache, writes.
LONGHAUL_KERNEL(kThreads) loss_kernel(LossRows all) {
  LONGHAUL_SHARED(shared);
  const LogitRows& in = all.in;
  const int64_t row = blockIdx.x, label = in.labels[row];
  const float* z = in.logits + row * in.stride;
  const RowSum of = sum_of_row(z, in.vocabulary, kLog2E, reinterpret_cast<float*>(shared));
  const float log2_sum = of.top + log2f(of.sum), lse = log2_sum * kLn2;
  if (threadIdx.x == 0) all.loss[row] = label < 0 ? 0.f : lse - z[label] + all.z_loss * lse * lse;
  if (all.d_logits == nullptr) return;
  Bf16* const d_row = all.d_logits + row * in.stride;
  const float factor = all.scale * (1.f + 2.f * all.z_loss * lse);
  for (int64_t c = threadIdx.x * kFour; c < in.stride; c += kStep) {
    Four d{};
    if (label >= 0) {
      d = load_four(z, c, in.vocabulary, kLog2E);
      LONGHAUL_UNROLL
      for (int i = 0; i < kFour; ++i)
        d.x[i] = factor * power_of_two(d.x[i] - log2_sum) - (c + i == label ? all.scale : 0.f);
    }
    store_four(d_row, c, d);
  }
}

struct TermRows {
  LogitRows in;
  float scale;
  TokenTerms out;
};

// The second pass, for the entropy, reads the row again: log p is then exact where p is close to 1.
LONGHAUL_KERNEL(kThreads) terms_kernel(TermRows all) {
  LONGHAUL_SHARED(shared);
  float* scratch = reinterpret_cast<float*>(shared);
  const LogitRows& in = all.in;
  const int64_t row = blockIdx.x, label = in.labels[row];
  const float* z = in.logits + row * in.stride;
  const RowSum of = sum_of_row(z, in.vocabulary, all.scale * kLog2E, scratch);
  const float top = of.top * kLn2, log_sum = log2f(of.sum) * kLn2;
  if (threadIdx.x == 0) {
    all.out.logsumexp[row] = top + log_sum;
    all.out.label[row] = label < 0 ? 0.f : z[label] * all.scale;
  }
  if (all.out.entropy == nullptr) return;
  float weighted = 0;
  for (int64_t c = threadIdx.x * kFour; c < in.vocabulary; c += kStep) {
    const Four x = load_four(z, c, in.vocabulary, all.scale);
    LONGHAUL_UNROLL
    for (int i = 0; i < kFour; ++i) {
      const float below = x.x[i] - top, weight = exponential(below);
      weighted += weight == 0.f ? 0.f : weight * below;  // no share of −∞
    }
  }
  weighted = block_sum(weighted, scratch);
  if (threadIdx.x == 0) all.out.entropy[row] = log_sum - weighted / of.sum;
}

struct TermGradientRows {
  LogitRows in;
  float scale;
  TokenTermGradients of;
  Bf16* d_logits;
};

LONGHAUL_KERNEL(kThreads) term_gradients_kernel(TermGradientRows all) {
  const LogitRows& in = all.in;
  const int64_t row = blockIdx.x, label = in.labels[row];
  const float* z = in.logits + row * in.stride;
  const bool entropy = all.of.d_entropy != nullptr;
  const float lse = all.of.logsumexp[row], slope = entropy ? -all.of.d_entropy[row] : 0.f,
              level = all.of.d_logsumexp[row] + (entropy ? slope * all.of.entropy[row] : 0.f),
              hit = label < 0 ? 0.f : all.of.d_label[row];
  for (int64_t c = threadIdx.x * kFour; c < in.stride; c += kStep) {
    const Four x = load_four(z, c, in.vocabulary, all.scale);
    Four d{};
    LONGHAUL_UNROLL
    for (int i = 0; i < kFour; ++i) {
      const float log_p = x.x[i] - lse, p = exponential(log_p);
      const float share = p == 0.f ? 0.f : p * (level + slope * log_p);
      d.x[i] = all.scale * (share + (c + i == label ? hit : 0.f));
    }
    store_four(all.d_logits + row * in.stride, c, d);
  }
}

constexpr int kSharedBytes = kThreads / kWarp * 4;

}  // namespace

void loss_of_rows(const LogitRows& in, float z_loss, float scale, float* loss, Bf16* d_logits,
                  Stream stream) {
  launch("linear_cross_entropy.loss", loss_kernel, in.rows, kThreads, kSharedBytes, stream,
         LossRows{in, z_loss, scale, loss, d_logits});
}

void terms_of_rows(const LogitRows& in, float logit_scale, const TokenTerms& out, Stream stream) {
  launch("linear_cross_entropy.terms", terms_kernel, in.rows, kThreads, kSharedBytes, stream,
         TermRows{in, logit_scale, out});
}

void term_gradients_of_rows(const LogitRows& in, float logit_scale, const TokenTermGradients& of,
                            Bf16* d_logits, Stream stream) {
  launch("linear_cross_entropy.term_gradients", term_gradients_kernel, in.rows, kThreads, 0, stream,
         TermGradientRows{in, logit_scale, of, d_logits});
}

}  // namespace longhaul::kernels::cuda
