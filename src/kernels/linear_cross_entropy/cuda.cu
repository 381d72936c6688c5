#include "kernels/linear_cross_entropy/cuda.h"

#include "kernels/cuda/mma.h"
#include "kernels/matmul/cuda.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kThreads = 512;

struct LossRows {
  const float* logits;
  const int64_t* labels;
  float* loss;
  Bf16* d_logits;
  int64_t vocabulary, stride;
  float z_loss, scale;
};

// A block per row. The largest and the sum are found in one pass, each thread keeping its own; the second
// pass, from cache, writes.
LONGHAUL_KERNEL(kThreads) loss_kernel(LossRows in) {
  LONGHAUL_SHARED(shared);
  float* scratch = reinterpret_cast<float*>(shared);
  const int64_t row = blockIdx.x, label = in.labels[row];
  const float* z = in.logits + row * in.stride;
  float largest = negative_infinity(), sum = 0;
  for (int64_t c = threadIdx.x; c < in.vocabulary; c += kThreads) {
    const float x = z[c] * kLog2E;
    if (x > largest) {
      sum = sum * power_of_two(largest - x) + 1.f;
      largest = x;
    } else {
      sum += power_of_two(x - largest);
    }
  }
  const float top = block_largest(largest, scratch);
  // A thread without a column has −∞ − top = −∞: no share.
  sum = block_sum(largest > negative_infinity() ? sum * power_of_two(largest - top) : 0.f, scratch);
  const float log2_sum = top + log2f(sum), lse = log2_sum * kLn2;
  if (threadIdx.x == 0) in.loss[row] = label < 0 ? 0.f : lse - z[label] + in.z_loss * lse * lse;
  if (in.d_logits == nullptr) return;
  const float factor = label < 0 ? 0.f : in.scale * (1.f + 2.f * in.z_loss * lse),
              hit = label < 0 ? 0.f : in.scale;
  for (int64_t c = threadIdx.x; c < in.stride; c += kThreads) {
    float d = 0;
    if (c < in.vocabulary && label >= 0)
      d = factor * power_of_two(z[c] * kLog2E - log2_sum) - (c == label ? hit : 0.f);
    in.d_logits[row * in.stride + c] = from_float<Bf16>(d);
  }
}

// rows of 16-byte units for the products
int64_t padded_vocabulary(int64_t vocabulary) { return round_up(vocabulary, kUnit); }

// Some tokens of the products around the logits, whose rows are `stride` long.
struct HeadRows {
  int64_t rows, hidden, vocabulary, stride;
  const Bf16 *h, *weight;
};

void head_logits(const HeadRows& in, float* logits, Stream stream) {
  Matmul forward;
  forward.m = in.rows, forward.n = in.vocabulary, forward.k = in.hidden;
  forward.a = in.h, forward.a_stride = in.hidden;
  forward.b = in.weight, forward.b_stride = in.hidden, forward.b_transposed = true;
  forward.c_fp32 = logits, forward.c_stride = in.stride;
  matmul(forward, stream);
}

void head_gradients(const HeadRows& in, const Bf16* d_logits, Bf16* d_h, float* d_weight, Stream stream) {
  if (d_h != nullptr) {
    Matmul input;  // d_h = d_z · W
    input.m = in.rows, input.n = in.hidden, input.k = in.vocabulary;
    input.a = d_logits, input.a_stride = in.stride;
    input.b = in.weight, input.b_stride = in.hidden;
    input.c = d_h, input.c_stride = in.hidden;
    matmul(input, stream);
  }
  if (d_weight != nullptr) {
    Matmul weight;  // d_W += d_zᵀ · h
    weight.m = in.vocabulary, weight.n = in.hidden, weight.k = in.rows;
    weight.a = d_logits, weight.a_stride = in.stride, weight.a_transposed = true;
    weight.b = in.h, weight.b_stride = in.hidden;
    weight.c_fp32 = d_weight, weight.c_stride = in.hidden, weight.accumulate = true;
    matmul(weight, stream);
  }
}

struct TermRows {
  const float* logits;
  const int64_t* labels;
  TokenHeadTerms out;
  int64_t vocabulary, stride;
  float scale;
};

// A block per row. The second pass, for the entropy, reads the row again from cache: log p is then exact
// where p is close to 1.
LONGHAUL_KERNEL(kThreads) terms_kernel(TermRows in) {
  LONGHAUL_SHARED(shared);
  float* scratch = reinterpret_cast<float*>(shared);
  const int64_t row = blockIdx.x, label = in.labels[row];
  const float* z = in.logits + row * in.stride;
  float largest = negative_infinity(), sum = 0;
  for (int64_t c = threadIdx.x; c < in.vocabulary; c += kThreads) {
    const float x = z[c] * in.scale;
    if (x > largest) {
      sum = sum * exponential(largest - x) + 1.f;
      largest = x;
    } else {
      sum += exponential(x - largest);
    }
  }
  const float top = block_largest(largest, scratch);
  sum = block_sum(largest > negative_infinity() ? sum * exponential(largest - top) : 0.f, scratch);
  const float log_sum = log2f(sum) * kLn2;
  if (threadIdx.x == 0) {
    in.out.logsumexp[row] = top + log_sum;
    in.out.label[row] = label < 0 ? 0.f : z[label] * in.scale;
  }
  if (in.out.entropy == nullptr) return;
  float weighted = 0;
  for (int64_t c = threadIdx.x; c < in.vocabulary; c += kThreads) {
    const float x = z[c] * in.scale - top;
    weighted += exponential(x) * x;
  }
  weighted = block_sum(weighted, scratch);
  if (threadIdx.x == 0) in.out.entropy[row] = log_sum - weighted / sum;
}

struct TermGradientRows {
  const float* logits;
  const int64_t* labels;
  TokenHeadGradients of;  // of these rows
  Bf16* d_logits;
  int64_t vocabulary, stride;
  float scale;
};

LONGHAUL_KERNEL(kThreads) term_gradients_kernel(TermGradientRows in) {
  const int64_t row = blockIdx.x, label = in.labels[row];
  const float* z = in.logits + row * in.stride;
  const float lse = in.of.logsumexp[row], slope = in.of.d_entropy == nullptr ? 0.f : -in.of.d_entropy[row];
  const float level =
      in.of.d_logsumexp[row] + (in.of.d_entropy == nullptr ? 0.f : slope * in.of.entropy[row]);
  const float hit = label < 0 ? 0.f : in.of.d_label[row];
  for (int64_t c = threadIdx.x; c < in.stride; c += kThreads) {
    float d = 0;
    if (c < in.vocabulary) {
      const float log_p = z[c] * in.scale - lse;
      d = in.scale * (exponential(log_p) * (level + slope * log_p) + (c == label ? hit : 0.f));
    }
    in.d_logits[row * in.stride + c] = from_float<Bf16>(d);
  }
}

const float* from_row(const float* values, int64_t row) { return values == nullptr ? nullptr : values + row; }

TokenHeadGradients from_row(const TokenHeadGradients& all, int64_t row) {
  TokenHeadGradients rest = all;
  rest.logsumexp = from_row(all.logsumexp, row), rest.entropy = from_row(all.entropy, row);
  rest.d_logsumexp = from_row(all.d_logsumexp, row), rest.d_label = from_row(all.d_label, row);
  rest.d_entropy = from_row(all.d_entropy, row);
  return rest;
}

HeadRows rows_of(const TokenHead& p, int64_t begin) {
  const int64_t rows = p.tokens - begin < p.chunk ? p.tokens - begin : p.chunk;
  return {rows, p.hidden, p.vocabulary, padded_vocabulary(p.vocabulary), p.h + begin * p.hidden, p.weight};
}

}  // namespace

void loss_of_rows(const float* logits, const int64_t* labels, float* loss, Bf16* d_logits, int64_t rows,
                  int64_t vocabulary, int64_t stride, float z_loss, float scale, Stream stream) {
  const LossRows in{logits, labels, loss, d_logits, vocabulary, stride, z_loss, scale};
  launch("linear_cross_entropy.loss", loss_kernel, rows, kThreads, kThreads / kWarp * 4, stream, in);
}

int64_t linear_cross_entropy_workspace_bytes(const LinearCrossEntropy& p) {
  const int64_t rows = p.chunk < p.tokens ? p.chunk : p.tokens;
  return rows * padded_vocabulary(p.vocabulary) * (p.wants_gradients() ? 6 : 4);
}

void linear_cross_entropy(const LinearCrossEntropy& p, void* workspace, Stream stream) {
  const int64_t stride = padded_vocabulary(p.vocabulary), largest = p.chunk < p.tokens ? p.chunk : p.tokens;
  float* logits = static_cast<float*>(workspace);
  Bf16* d_logits = p.wants_gradients() ? reinterpret_cast<Bf16*>(logits + largest * stride) : nullptr;
  for (int64_t begin = 0; begin < p.tokens; begin += p.chunk) {
    const int64_t rows = p.tokens - begin < p.chunk ? p.tokens - begin : p.chunk;
    const HeadRows in{rows, p.hidden, p.vocabulary, stride, p.h + begin * p.hidden, p.weight};
    head_logits(in, logits, stream);
    loss_of_rows(logits, p.labels + begin, p.loss + begin, d_logits, rows, p.vocabulary, stride, p.z_loss,
                 p.scale, stream);
    if (d_logits == nullptr) continue;
    head_gradients(in, d_logits, p.d_h == nullptr ? nullptr : p.d_h + begin * p.hidden, p.d_weight, stream);
  }
}

int64_t token_head_workspace_bytes(const TokenHead& p, bool backward) {
  const int64_t rows = p.chunk < p.tokens ? p.chunk : p.tokens;
  return rows * padded_vocabulary(p.vocabulary) * (backward ? 6 : 4);
}

void token_head(const TokenHead& p, const TokenHeadTerms& terms, void* workspace, Stream stream) {
  float* logits = static_cast<float*>(workspace);
  for (int64_t begin = 0; begin < p.tokens; begin += p.chunk) {
    const HeadRows in = rows_of(p, begin);
    head_logits(in, logits, stream);
    const TokenHeadTerms out{terms.logsumexp + begin, terms.label + begin,
                             terms.entropy == nullptr ? nullptr : terms.entropy + begin};
    const TermRows rows{logits, p.labels + begin, out, p.vocabulary, in.stride, p.logit_scale};
    launch("linear_cross_entropy.terms", terms_kernel, in.rows, kThreads, kThreads / kWarp * 4, stream, rows);
  }
}

void token_head_backward(const TokenHead& p, const TokenHeadGradients& gradients, void* workspace,
                         Stream stream) {
  const int64_t largest = p.chunk < p.tokens ? p.chunk : p.tokens;
  float* logits = static_cast<float*>(workspace);
  Bf16* d_logits = reinterpret_cast<Bf16*>(logits + largest * padded_vocabulary(p.vocabulary));
  for (int64_t begin = 0; begin < p.tokens; begin += p.chunk) {
    const HeadRows in = rows_of(p, begin);
    head_logits(in, logits, stream);
    const TermGradientRows rows{logits,       p.labels + begin, from_row(gradients, begin),
                                d_logits,     p.vocabulary,     in.stride,
                                p.logit_scale};
    launch("linear_cross_entropy.term_gradients", term_gradients_kernel, in.rows, kThreads, 0, stream, rows);
    head_gradients(in, d_logits, gradients.d_h == nullptr ? nullptr : gradients.d_h + begin * p.hidden,
                   gradients.d_weight, stream);
  }
}

}  // namespace longhaul::kernels::cuda
