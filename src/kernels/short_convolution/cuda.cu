// A thread owns a few neighbouring channels and walks along the tokens of a run with their taps, and the
// inputs before the current token, in registers. Taps are filled up with zeros in front to kTaps. Two forms:
// 4 taps, as models have them, and 16 with fewer channels to a thread.
#include "kernels/short_convolution/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kConvolutionThreads = 128, kFewTaps = 4, kMostForwardTokens = 32;

// kCount channels as they lie in memory, and in fp32.
template <int kCount>
struct alignas(2 * kCount) PackedChannels {
  uint32_t word[kCount / 2];
};
template <int kCount>
struct Channels {
  float x[kCount];
};

// Zeros for null, and from `left` on.
template <int kCount>
LONGHAUL_DEVICE PackedChannels<kCount> load_channels(const Bf16* from, int64_t left) {
  PackedChannels<kCount> out{};
  if (from == nullptr) return out;
  if (left >= kCount && reinterpret_cast<uintptr_t>(from) % (2 * kCount) == 0)
    return *reinterpret_cast<const PackedChannels<kCount>*>(from);
  LONGHAUL_UNROLL
  for (int i = 0; i < kCount; ++i) {
    if (i < left) out.word[i / 2] |= static_cast<uint32_t>(from[i].bits) << (i % 2 * 16);
  }
  return out;
}
template <int kCount>
LONGHAUL_DEVICE void store_channels(Bf16* to, int64_t left, const Channels<kCount>& values) {
  PackedChannels<kCount> out;
  LONGHAUL_UNROLL
  for (int i = 0; i < kCount / 2; ++i) out.word[i] = pack(values.x[2 * i], values.x[2 * i + 1]);
  if (left >= kCount && reinterpret_cast<uintptr_t>(to) % (2 * kCount) == 0) {
    *reinterpret_cast<PackedChannels<kCount>*>(to) = out;
    return;
  }
  LONGHAUL_UNROLL
  for (int i = 0; i < kCount; ++i) {
    if (i < left) to[i] = Bf16{static_cast<uint16_t>(out.word[i / 2] >> (i % 2 * 16) & 0xffffu)};
  }
}
template <int kCount>
LONGHAUL_DEVICE Channels<kCount> widened(const PackedChannels<kCount>& packed) {
  Channels<kCount> out;
  LONGHAUL_UNROLL
  for (int i = 0; i < kCount; ++i)
    out.x[i] = i % 2 == 0 ? low_half(packed.word[i / 2]) : high_half(packed.word[i / 2]);
  return out;
}

// What a thread has at hand: its channels, their taps and bias, and the inputs before a token.
template <int kTaps, int kCount>
struct Walk {
  const Convolution& in;
  int64_t c, left;
  int64_t document = 0, begin = 0, end = 0;  // the document of the current token
  Channels<kCount> tap[kTaps], bias, before[kTaps - 1];

  LONGHAUL_DEVICE Walk(const Convolution& problem, int64_t column)
      : in(problem), c(column), left(problem.channels - column) {
    LONGHAUL_UNROLL
    for (int j = 0; j < kTaps; ++j) tap[j] = fp32(in.weight, j - (kTaps - in.taps));
    bias = fp32(in.bias, 0);
  }
  LONGHAUL_DEVICE Channels<kCount> fp32(const float* rows, int row) const {
    Channels<kCount> out;
    LONGHAUL_UNROLL
    for (int i = 0; i < kCount; ++i)
      out.x[i] = rows != nullptr && row >= 0 && i < left ? rows[row * in.channels + c + i] : 0.f;
    return out;
  }
  // Row i of the states of the current document.
  LONGHAUL_DEVICE int64_t state_at(int64_t i) const {
    return (document * (in.taps - 1) + i) * in.channels + c;
  }
  LONGHAUL_DEVICE PackedChannels<kCount> load(int64_t token) const {
    return load_channels<kCount>(in.x + token * in.x_stride + c, left);
  }
  // Finds the document of the token and loads the inputs before it.
  LONGHAUL_DEVICE void start_at(int64_t token) {
    int64_t low = 0, high = in.documents;  // offsets[low] ≤ token < offsets[high]
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (in.offsets[middle] <= token ? low : high) = middle;
    }
    document = low, begin = in.offsets[low], end = in.offsets[low + 1];
    LONGHAUL_UNROLL
    for (int j = 0; j < kTaps - 1; ++j) {
      const int64_t position = token - begin - (kTaps - 1) + j, row = position + in.taps - 1;
      const Bf16* from = position >= 0                       ? in.x + (begin + position) * in.x_stride + c
                         : row >= 0 && in.initial != nullptr ? in.initial + state_at(row)
                                                             : nullptr;
      before[j] = widened<kCount>(load_channels<kCount>(from, left));
    }
  }
  LONGHAUL_DEVICE Channels<kCount> sum(const Channels<kCount>& x) const {
    Channels<kCount> z = bias;
    LONGHAUL_UNROLL
    for (int i = 0; i < kCount; ++i) {
      LONGHAUL_UNROLL
      for (int j = 0; j < kTaps - 1; ++j) z.x[i] += tap[j].x[i] * before[j].x[i];
      z.x[i] += tap[kTaps - 1].x[i] * x.x[i];
    }
    return z;
  }
  LONGHAUL_DEVICE static void shift(Channels<kCount> (&window)[kTaps - 1], const Channels<kCount>& newest) {
    LONGHAUL_UNROLL
    for (int j = 0; j + 1 < kTaps - 1; ++j) window[j] = window[j + 1];
    window[kTaps - 2] = newest;
  }
};

template <int kTaps, int kCount>
LONGHAUL_KERNEL(kConvolutionThreads)
convolution_forward_kernel(Convolution in, Bf16* y, int tokens) {
  const int64_t blocks = divide_up(in.channels, kConvolutionThreads * kCount),
                c = (blockIdx.x % blocks * kConvolutionThreads + threadIdx.x) * kCount,
                first = blockIdx.x / blocks * tokens,
                last = first + tokens < in.tokens ? first + tokens : in.tokens;
  if (c >= in.channels) return;
  Walk<kTaps, kCount> walk(in, c);
  const auto load = [&](int64_t t) { return t < last ? walk.load(t) : PackedChannels<kCount>{}; };
  PackedChannels<kCount> next = load(first), after = load(first + 1);
  for (int64_t t = first; t < last; ++t) {
    if (t == first || t == walk.end) walk.start_at(t);
    const Channels<kCount> x = widened<kCount>(next);
    next = after, after = load(t + 2);
    Channels<kCount> z = walk.sum(x);
    if (in.silu) {
      LONGHAUL_UNROLL
      for (int i = 0; i < kCount; ++i) z.x[i] *= sigmoid(z.x[i]);
    }
    store_channels(y + t * in.channels + c, walk.left, z);
    walk.shift(walk.before, x);
  }
}

// The last W − 1 inputs of each document. A thread copies one value.
LONGHAUL_KERNEL(256)
final_state_kernel(Convolution in, Bf16* state) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x, history = in.taps - 1;
  if (index >= in.documents * history * in.channels) return;
  const int64_t c = index % in.channels, row = index / in.channels, document = row / history,
                begin = in.offsets[document],
                position = in.offsets[document + 1] - begin - history + row % history;
  Bf16 value{0};
  if (position >= 0)
    value = in.x[(begin + position) * in.x_stride + c];
  else if (in.initial != nullptr)
    value = in.initial[(document * history + history + position) * in.channels + c];
  state[index] = value;
}

// A walk over a run of tokens, and on over the few that read its last ones. The gradient of an input is
// complete kTaps − 1 tokens later, when the slopes of all its readers are known.
template <int kTaps, int kCount>
LONGHAUL_KERNEL(kConvolutionThreads)
convolution_backward_kernel(Convolution in, ConvolutionGradient out) {
  const int64_t blocks = divide_up(in.channels, kConvolutionThreads * kCount),
                c = (blockIdx.x % blocks * kConvolutionThreads + threadIdx.x) * kCount,
                run = blockIdx.x / blocks, each = rows_per_run(in.tokens), history = in.taps - 1;
  const int64_t first = run * each, last = first + each < in.tokens ? first + each : in.tokens;
  if (c >= in.channels) return;
  Walk<kTaps, kCount> walk(in, c);
  Channels<kCount> d_tap[kTaps] = {}, d_bias = {};
  for (int64_t start = first; start < last;) {
    walk.start_at(start);
    const int64_t stop = walk.end < last ? walk.end : last;
    struct Pair {
      PackedChannels<kCount> x, d_y;
    };
    const auto load = [&](int64_t t) {
      if (t >= walk.end) return Pair{};
      return Pair{walk.load(t), load_channels<kCount>(out.d_y + t * in.channels + c, walk.left)};
    };
    Channels<kCount> slopes[kTaps - 1] = {};
    Pair next = load(start), after = load(start + 1);
    for (int64_t t = start; t < stop + kTaps - 1; ++t) {
      const Channels<kCount> x = widened<kCount>(next.x);
      Channels<kCount> slope = widened<kCount>(next.d_y);  // zero behind the document
      next = after, after = load(t + 2);
      if (in.silu) {
        const Channels<kCount> z = walk.sum(x);
        LONGHAUL_UNROLL
        for (int i = 0; i < kCount; ++i) {
          const float s = sigmoid(z.x[i]);
          slope.x[i] *= s * (1.f + z.x[i] * (1.f - s));
        }
      }
      LONGHAUL_UNROLL
      for (int i = 0; i < kCount; ++i) {
        const float own = t < stop ? slope.x[i] : 0.f;
        LONGHAUL_UNROLL
        for (int j = 0; j < kTaps - 1; ++j) d_tap[j].x[i] += own * walk.before[j].x[i];
        d_tap[kTaps - 1].x[i] += own * x.x[i];
        d_bias.x[i] += own;
      }
      walk.shift(walk.before, x);
      const int64_t done = t - (kTaps - 1), position = done - walk.begin,
                    kept =
                        position - (walk.end - walk.begin - history);  // which row of the final state it is
      if (done >= start || (start == walk.begin && position + history >= 0)) {
        Channels<kCount> d_x{};
        if (out.d_final != nullptr && kept >= 0 && kept < history)
          d_x = widened<kCount>(load_channels<kCount>(out.d_final + walk.state_at(kept), walk.left));
        LONGHAUL_UNROLL
        for (int i = 0; i < kCount; ++i) {
          LONGHAUL_UNROLL
          for (int j = 0; j < kTaps - 1; ++j) d_x.x[i] += walk.tap[kTaps - 1 - j].x[i] * slopes[j].x[i];
          d_x.x[i] += walk.tap[0].x[i] * slope.x[i];
        }
        if (position >= 0)
          store_channels(out.d_x + done * in.channels + c, walk.left, d_x);
        else if (out.d_initial != nullptr)
          store_channels(out.d_initial + walk.state_at(position + history), walk.left, d_x);
      }
      walk.shift(slopes, slope);
    }
    start = stop;
  }
  const int64_t rows = in.taps + (in.bias != nullptr ? 1 : 0);
  float* to = out.partial + run * rows * in.channels + c;
  const auto store = [&](int64_t row, const Channels<kCount>& sum) {
    LONGHAUL_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if (i < walk.left) to[row * in.channels + i] = sum.x[i];
    }
  };
  LONGHAUL_UNROLL
  for (int j = 0; j < kTaps; ++j) {
    if (j >= kTaps - in.taps) store(j - (kTaps - in.taps), d_tap[j]);
  }
  if (in.bias != nullptr) store(in.taps, d_bias);
}

template <int kTaps, int kCount>
void forward_with(const Convolution& in, Bf16* y, Stream stream) {
  // Few tokens, as in decoding, are spread over more blocks.
  const int64_t even = divide_up(in.tokens, kRowRuns),
                tokens = even < kMostForwardTokens ? even : kMostForwardTokens;
  if (in.tokens == 0) return;
  launch("short_convolution.forward", convolution_forward_kernel<kTaps, kCount>,
         divide_up(in.tokens, tokens) * divide_up(in.channels, kConvolutionThreads * kCount),
         kConvolutionThreads, 0, stream, in, y, static_cast<int>(tokens));
}
template <int kTaps, int kCount>
void backward_with(const Convolution& in, const ConvolutionGradient& out, Stream stream) {
  launch("short_convolution.backward", convolution_backward_kernel<kTaps, kCount>,
         row_runs(in.tokens) * divide_up(in.channels, kConvolutionThreads * kCount), kConvolutionThreads, 0,
         stream, in, out);
}

}  // namespace

void convolution_forward(const Convolution& in, Bf16* y, Bf16* final_state, Stream stream) {
  (in.taps <= kFewTaps ? forward_with<kFewTaps, 8> : forward_with<kMostConvolutionTaps, 2>)(in, y, stream);
  launch("short_convolution.final_state", final_state_kernel,
         divide_up(in.documents * (in.taps - 1) * in.channels, 256), 256, 0, stream, in, final_state);
}

void convolution_backward(const Convolution& in, const ConvolutionGradient& out, Stream stream) {
  (in.taps <= kFewTaps ? backward_with<kFewTaps, 4> : backward_with<kMostConvolutionTaps, 2>)(in, out,
                                                                                              stream);
  sum_runs("short_convolution.sums", out.partial, out.sums, nullptr, row_runs(in.tokens),
           (in.taps + (in.bias != nullptr ? 1 : 0)) * in.channels, stream);
}

}  // namespace longhaul::kernels::cuda
