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

// A block per row. The largest and the sum are found in one pass, each thread keeping its own; the second pass, from cache, writes.
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
  const float factor = label < 0 ? 0.f : in.scale * (1.f + 2.f * in.z_loss * lse), hit = label < 0 ? 0.f : in.scale;
  for (int64_t c = threadIdx.x; c < in.stride; c += kThreads) {
    float d = 0;
    if (c < in.vocabulary && label >= 0) d = factor * power_of_two(z[c] * kLog2E - log2_sum) - (c == label ? hit : 0.f);
    in.d_logits[row * in.stride + c] = from_float<Bf16>(d);
  }
}

int64_t padded_vocabulary(int64_t vocabulary) { return round_up(vocabulary, kUnit); }  // rows of 16-byte units for the products

}  // namespace

void loss_of_rows(const float* logits, const int64_t* labels, float* loss, Bf16* d_logits, int64_t rows, int64_t vocabulary, int64_t stride,
                  float z_loss, float scale, Stream stream) {
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
    const Bf16* h = p.h + begin * p.hidden;
    Matmul forward;
    forward.m = rows, forward.n = p.vocabulary, forward.k = p.hidden;
    forward.a = h, forward.a_stride = p.hidden;
    forward.b = p.weight, forward.b_stride = p.hidden, forward.b_transposed = true;
    forward.c_fp32 = logits, forward.c_stride = stride;
    matmul(forward, stream);
    loss_of_rows(logits, p.labels + begin, p.loss + begin, d_logits, rows, p.vocabulary, stride, p.z_loss, p.scale, stream);
    if (d_logits == nullptr) continue;
    if (p.d_h != nullptr) {
      Matmul input;  // d_h = d_z · W
      input.m = rows, input.n = p.hidden, input.k = p.vocabulary;
      input.a = d_logits, input.a_stride = stride;
      input.b = p.weight, input.b_stride = p.hidden;
      input.c = p.d_h + begin * p.hidden, input.c_stride = p.hidden;
      matmul(input, stream);
    }
    if (p.d_weight != nullptr) {
      Matmul weight;  // d_W += d_zᵀ · h
      weight.m = p.vocabulary, weight.n = p.hidden, weight.k = rows;
      weight.a = d_logits, weight.a_stride = stride, weight.a_transposed = true;
      weight.b = h, weight.b_stride = p.hidden;
      weight.c_fp32 = p.d_weight, weight.c_stride = p.hidden, weight.accumulate = true;
      matmul(weight, stream);
    }
  }
}

}  // namespace longhaul::kernels::cuda
