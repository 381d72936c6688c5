#include "kernels/experts/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

// A warp per token; lane l holds experts l, l + 32, …
LONGHAUL_KERNEL(128)
route_kernel(const float* logits, int32_t* choice, float* weight, int64_t tokens, int experts, int choices) {
  LONGHAUL_SHARED(shared);
  const int64_t token = static_cast<int64_t>(blockIdx.x) * 4 + warp_index();
  if (token >= tokens) return;
  float* picked = reinterpret_cast<float*>(shared) + warp_index() * kMostChoices;
  const int lane = lane_index();
  float value[kMostExperts / kWarp];
  LONGHAUL_UNROLL
  for (int i = 0; i < kMostExperts / kWarp; ++i) {
    const int e = i * kWarp + lane;
    value[i] = e < experts ? logits[token * experts + e] : negative_infinity();
  }
  uint32_t taken = 0;  // bit i: value[i] has been chosen
  for (int k = 0; k < choices; ++k) {
    float best = negative_infinity();
    int index = kMostExperts;
    LONGHAUL_UNROLL
    for (int i = 0; i < kMostExperts / kWarp; ++i) {
      const int e = i * kWarp + lane;
      if (e < experts && !(taken >> i & 1u) && (index == kMostExperts || value[i] > best))
        best = value[i], index = e;
    }
    for (int mask = 16; mask > 0; mask /= 2) {
      const float other = shuffle_xor(best, mask);
      // below 2^24: exact
      const int other_index = static_cast<int>(shuffle_xor(static_cast<float>(index), mask));
      if (other_index < kMostExperts &&
          (index == kMostExperts || other > best || (other == best && other_index < index))) {
        best = other, index = other_index;
      }
    }
    if (index % kWarp == lane) taken |= 1u << (index / kWarp);
    if (lane == 0) {
      choice[token * choices + k] = index;
      picked[k] = best;
    }
  }
  synchronize_warp();
  float sum = 0;
  for (int k = 0; k < choices; ++k) sum += exponential(picked[k] - picked[0]);
  for (int k = lane; k < choices; k += kWarp)
    weight[token * choices + k] = exponential(picked[k] - picked[0]) / sum;
}

// w = softmax of the chosen logits: dz_i = w_i (dw_i − Σ_j w_j dw_j). A thread per token and expert.
LONGHAUL_KERNEL(256)
route_backward_kernel(const int32_t* choice, const float* weight, const float* d_weight, float* d_logits,
                      int64_t tokens, int experts, int choices) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x, token = index / experts;
  if (token >= tokens) return;
  float mean = 0, d = 0;
  for (int k = 0; k < choices; ++k) mean += weight[token * choices + k] * d_weight[token * choices + k];
  for (int k = 0; k < choices; ++k) {
    if (choice[token * choices + k] == index % experts)
      d = weight[token * choices + k] * (d_weight[token * choices + k] - mean);
  }
  d_logits[index] = d;
}

// A block per expert counts its rows …
LONGHAUL_KERNEL(256) count_kernel(const int32_t* choice, int64_t* counts, int64_t rows) {
  LONGHAUL_SHARED(shared);
  int32_t* scratch = reinterpret_cast<int32_t*>(shared);
  int32_t count = 0;
  for (int64_t i = threadIdx.x; i < rows; i += 256) count += choice[i] == static_cast<int32_t>(blockIdx.x);
  scratch[threadIdx.x] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int64_t sum = 0;
  for (int i = 0; i < 256; ++i) sum += scratch[i];
  counts[blockIdx.x + 1] = sum;
}
LONGHAUL_KERNEL(32) offsets_kernel(int64_t* offsets, int experts) {
  if (threadIdx.x != 0) return;
  offsets[0] = 0;
  for (int e = 0; e < experts; ++e) offsets[e + 1] += offsets[e];
}
// … and places them in order: of 256 choices at a time, a warp's vote says how many before this one are the
// expert's.
LONGHAUL_KERNEL(256)
place_kernel(const int32_t* choice, const int64_t* offsets, int32_t* source, int32_t* place, int64_t rows,
             int choices) {
  LONGHAUL_SHARED(shared);
  int32_t* counts = reinterpret_cast<int32_t*>(shared);  // of each warp
  int64_t next = offsets[blockIdx.x];
  for (int64_t begin = 0; begin < rows; begin += 256) {
    const int64_t i = begin + threadIdx.x;
    const bool mine = i < rows && choice[i] == static_cast<int32_t>(blockIdx.x);
    const uint32_t votes = ballot(mine);
    if (lane_index() == 0) {
      int32_t count = 0;
      for (uint32_t left = votes; left != 0; left &= left - 1) ++count;
      counts[warp_index()] = count;
    }
    __syncthreads();
    int64_t row = next;
    for (int w = 0; w < 8; ++w) {
      if (w < warp_index()) row += counts[w];
      next += counts[w];
    }
    for (uint32_t left = votes & ((1u << lane_index()) - 1u); left != 0; left &= left - 1) ++row;
    if (mine) {
      source[row] = static_cast<int32_t>(i / choices);
      place[i] = static_cast<int32_t>(row);
    }
    __syncthreads();
  }
}

LONGHAUL_KERNEL(256)
permute_kernel(const Bf16* x, const int32_t* source, Bf16* rows, int64_t count, int64_t hidden) {
  const int64_t units = divide_up(hidden, kUnit),
                index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= count * units) return;
  const int64_t row = index / units, c = index % units * kUnit;
  store_eight(rows + row * hidden + c, hidden - c, load_eight(x + source[row] * hidden + c, hidden - c));
}

LONGHAUL_KERNEL(256)
combine_kernel(const Bf16* y, const float* weight, const int32_t* place, Bf16* out, int64_t tokens,
               int choices, int64_t hidden) {
  const int64_t units = divide_up(hidden, kUnit),
                index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= tokens * units) return;
  const int64_t token = index / units, c = index % units * kUnit;
  Eight sum{};
  for (int k = 0; k < choices; ++k) {
    const Eight row = load_eight(y + place[token * choices + k] * hidden + c, hidden - c);
    const float w = weight != nullptr ? weight[token * choices + k] : 1.f;
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) sum.x[i] += w * row.x[i];
  }
  store_eight(out + token * hidden + c, hidden - c, sum);
}

// A warp per choice: dy[place] = w · dout, dw = dout · y[place].
LONGHAUL_KERNEL(128)
combine_backward_kernel(const Bf16* y, const float* weight, const int32_t* place, const Bf16* d_out,
                        Bf16* d_y, float* d_weight, int64_t count, int choices, int64_t hidden) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * 4 + warp_index();
  if (index >= count) return;
  const int64_t row = place[index];
  const Bf16* g = d_out + index / choices * hidden;
  float dot = 0;
  for (int64_t c = lane_index() * kUnit; c < hidden; c += kWarp * kUnit) {
    Eight d = load_eight(g + c, hidden - c);
    const Eight value = load_eight(y + row * hidden + c, hidden - c);
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) {
      dot += d.x[i] * value.x[i];
      d.x[i] *= weight[index];
    }
    store_eight(d_y + row * hidden + c, hidden - c, d);
  }
  dot = warp_sum(dot);
  if (lane_index() == 0) d_weight[index] = dot;
}

}  // namespace

void route_forward(const float* logits, int32_t* choice, float* weight, int64_t tokens, int experts,
                   int choices, Stream stream) {
  if (experts > kMostExperts || choices > kMostChoices || choices > experts) {
    throw std::runtime_error("experts.route: at most " + std::to_string(kMostExperts) + " experts and " +
                             std::to_string(kMostChoices) + " choices, of so many experts; " +
                             std::to_string(experts) + " and " + std::to_string(choices) + " came");
  }
  launch("experts.route", route_kernel, divide_up(tokens, 4), 128, 4 * kMostChoices * 4, stream, logits,
         choice, weight, tokens, experts, choices);
}
void route_backward(const int32_t* choice, const float* weight, const float* d_weight, float* d_logits,
                    int64_t tokens, int experts, int choices, Stream stream) {
  launch("experts.route_backward", route_backward_kernel, divide_up(tokens * experts, 256), 256, 0, stream,
         choice, weight, d_weight, d_logits, tokens, experts, choices);
}
void assign_experts(const int32_t* choice, int64_t* offsets, int32_t* source, int32_t* place, int64_t tokens,
                    int experts, int choices, Stream stream) {
  const int64_t rows = tokens * choices;
  launch("experts.count", count_kernel, experts, 256, 256 * 4, stream, choice, offsets, rows);
  launch("experts.offsets", offsets_kernel, 1, 32, 0, stream, offsets, experts);
  launch("experts.place", place_kernel, experts, 256, 8 * 4, stream, choice,
         static_cast<const int64_t*>(offsets), source, place, rows, choices);
}
void permute_forward(const Bf16* x, const int32_t* source, Bf16* rows, int64_t count, int64_t hidden,
                     Stream stream) {
  launch("experts.permute", permute_kernel, divide_up(count * divide_up(hidden, kUnit), 256), 256, 0, stream,
         x, source, rows, count, hidden);
}
void combine_forward(const Bf16* y, const float* weight, const int32_t* place, Bf16* out, int64_t tokens,
                     int choices, int64_t hidden, Stream stream) {
  launch("experts.combine", combine_kernel, divide_up(tokens * divide_up(hidden, kUnit), 256), 256, 0, stream,
         y, weight, place, out, tokens, choices, hidden);
}
void combine_backward(const Bf16* y, const float* weight, const int32_t* place, const Bf16* d_out, Bf16* d_y,
                      float* d_weight, int64_t tokens, int choices, int64_t hidden, Stream stream) {
  launch("experts.combine_backward", combine_backward_kernel, divide_up(tokens * choices, 4), 128, 0, stream,
         y, weight, place, d_out, d_y, d_weight, tokens * choices, choices, hidden);
}

}  // namespace longhaul::kernels::cuda
