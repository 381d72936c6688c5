#include "kernels/adamw/cuda.h"

#include "kernels/cuda/mma.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kThreads = 256;

struct Four {
  float x[4];
};
LONGHAUL_DEVICE Four load_four(const float* from, int64_t left) {
  Four out;
  if (left >= 4 && is_aligned(from)) {
    const Unit unit = *reinterpret_cast<const Unit*>(from);
    memcpy(out.x, unit.word, 16);
  } else {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) out.x[i] = i < left ? from[i] : 0.f;
  }
  return out;
}
LONGHAUL_DEVICE void store_four(float* to, int64_t left, const Four& values) {
  if (left >= 4 && is_aligned(to)) {
    Unit unit;
    memcpy(unit.word, values.x, 16);
    *reinterpret_cast<Unit*>(to) = unit;
  } else {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i < left) to[i] = values.x[i];
    }
  }
}

LONGHAUL_KERNEL(kThreads) squares_kernel(AdamwStep step, double* partial) {
  LONGHAUL_SHARED(shared);
  double* scratch = reinterpret_cast<double*>(shared);
  const AdamwPiece piece = step.pieces[blockIdx.x];
  const AdamwTensor tensor = step.tensors[piece.tensor];
  const int64_t end = piece.begin + kAdamwPiece < tensor.count ? piece.begin + kAdamwPiece : tensor.count;
  double sum = 0;
  for (int64_t i = piece.begin + threadIdx.x * 4; i < end; i += kThreads * 4) {
    const Four g = load_four(tensor.gradient + i, end - i);
    LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) sum += static_cast<double>(g.x[j]) * static_cast<double>(g.x[j]);
  }
  scratch[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = scratch[0];
}

// One block: each thread adds up every 256th piece, thread 0 the threads.
LONGHAUL_KERNEL(kThreads) norm_kernel(AdamwStep step, const double* partial, float* norm) {
  LONGHAUL_SHARED(shared);
  double* scratch = reinterpret_cast<double*>(shared);
  double sum = 0;
  for (int64_t i = threadIdx.x; i < step.piece_count; i += kThreads) sum += partial[i];
  scratch[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (int i = 0; i < kThreads; ++i) total += scratch[i];
  const double size = sqrt(total) * static_cast<double>(step.scale);
  const double clip = step.clip_norm > 0 && size + 1e-6 > static_cast<double>(step.clip_norm)
                          ? static_cast<double>(step.clip_norm) / (size + 1e-6)
                          : 1.0;
  norm[0] = static_cast<float>(size);
  norm[1] = static_cast<float>(clip * static_cast<double>(step.scale));
}

LONGHAUL_KERNEL(kThreads) adamw_kernel(AdamwStep step, const float* norm) {
  const AdamwPiece piece = step.pieces[blockIdx.x];
  const AdamwTensor tensor = step.tensors[piece.tensor];
  const float scale = norm[1];
  const int64_t end = piece.begin + kAdamwPiece < tensor.count ? piece.begin + kAdamwPiece : tensor.count;
  for (int64_t i = piece.begin + threadIdx.x * 4; i < end; i += kThreads * 4) {
    const int64_t left = end - i;
    Four w = load_four(tensor.master + i, left), m = load_four(tensor.m + i, left),
         v = load_four(tensor.v + i, left);
    const Four g = load_four(tensor.gradient + i, left);
    LONGHAUL_UNROLL
    for (int j = 0; j < 4; ++j) {
      const float gradient = g.x[j] * scale;
      m.x[j] = step.beta1 * m.x[j] + (1.f - step.beta1) * gradient;
      v.x[j] = step.beta2 * v.x[j] + (1.f - step.beta2) * gradient * gradient;
      w.x[j] = tensor.kept_weight * w.x[j] -
               step.step_size * m.x[j] / (sqrtf(v.x[j]) * step.inverse_root_correction + step.eps);
      if (tensor.value != nullptr && j < left) tensor.value[i + j] = from_float<Bf16>(w.x[j]);
    }
    store_four(tensor.master + i, left, w);
    store_four(tensor.m + i, left, m);
    store_four(tensor.v + i, left, v);
    if (step.zero_gradient) store_four(tensor.gradient + i, left, Four{{0, 0, 0, 0}});
  }
}

}  // namespace

int64_t gradient_norm_workspace_bytes(int64_t piece_count) { return piece_count * 8; }

void gradient_norm(const AdamwStep& step, float* norm, void* workspace, Stream stream) {
  double* partial = static_cast<double*>(workspace);
  launch("adamw.squares", squares_kernel, step.piece_count, kThreads, kThreads * 8, stream, step, partial);
  launch("adamw.norm", norm_kernel, 1, kThreads, kThreads * 8, stream, step,
         static_cast<const double*>(partial), norm);
}

void adamw(const AdamwStep& step, const float* norm, Stream stream) {
  launch("adamw", adamw_kernel, step.piece_count, kThreads, 0, stream, step, norm);
}

}  // namespace longhaul::kernels::cuda
