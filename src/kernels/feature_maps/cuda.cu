#include "kernels/feature_maps/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kFeatureThreads = 256;

// φ and its slope.
struct Mapped {
  Eight value, slope;
};
LONGHAUL_DEVICE Mapped mapped(FeatureMap map, const Eight& x) {
  Mapped out;
  LONGHAUL_UNROLL
  for (int i = 0; i < kUnit; ++i) {
    out.value.x[i] = x.x[i], out.slope.x[i] = 1;
    if (map == FeatureMap::kRelu) {
      out.value.x[i] = x.x[i] < 0 ? 0.f : x.x[i];  // a NaN stays one
      out.slope.x[i] = x.x[i] > 0 ? 1.f : 0.f;
    } else if (map != FeatureMap::kNone) {
      const float s = sigmoid(x.x[i]), slope = s * (1.f - s);
      const bool silu = map == FeatureMap::kSilu;
      out.value.x[i] = silu ? x.x[i] * s : s;
      out.slope.x[i] = silu ? s + x.x[i] * slope : slope;
    }
  }
  return out;
}
LONGHAUL_DEVICE Eight product(const Eight& a, const Eight& b) {
  Eight out;
  LONGHAUL_UNROLL
  for (int i = 0; i < kUnit; ++i) out.x[i] = a.x[i] * b.x[i];
  return out;
}
// a b + sign c d
LONGHAUL_DEVICE Eight products(const Eight& a, const Eight& b, float sign, const Eight& c, const Eight& d) {
  Eight out;
  LONGHAUL_UNROLL
  for (int i = 0; i < kUnit; ++i) out.x[i] = a.x[i] * b.x[i] + sign * c.x[i] * d.x[i];
  return out;
}

// The units of a token: eight channels of a head or, of a rotary turn, eight pairs. A block takes so many
// tokens.
struct FeatureUnits {
  unsigned of_head, of_token, tokens;
};
LONGHAUL_HD int turning(const Features& in) {
  return in.turn == Turn::kRotary ? in.head_dim / 2 : in.head_dim;
}
FeatureUnits units_of(const Features& in) {
  FeatureUnits out{};
  out.of_head = static_cast<unsigned>(divide_up(turning(in), kUnit));
  out.of_token = out.of_head * static_cast<unsigned>(in.heads);
  out.tokens = out.of_token == 0 ? 1 : static_cast<unsigned>(divide_up(2 * kFeatureThreads, out.of_token));
  return out;
}

// Where a unit lies: channel c of a head, and its angle.
struct FeatureUnit {
  int64_t token;
  int head, c, left;
};
LONGHAUL_DEVICE FeatureUnit unit_at(const Features& in, const FeatureUnits& units, unsigned index) {
  const unsigned unit = index % units.of_token;
  const int c = static_cast<int>(unit % units.of_head) * kUnit;
  return {static_cast<int64_t>(blockIdx.x) * units.tokens + index / units.of_token,
          static_cast<int>(unit / units.of_head), c, turning(in) - c};
}
// The angle's column in the tables.
LONGHAUL_DEVICE int64_t angle_of(const Features& in, const FeatureUnit& at) {
  return at.token * in.angles + (in.angles == turning(in) ? 0 : at.head * turning(in)) + at.c;
}

LONGHAUL_KERNEL(kFeatureThreads)
features_forward_kernel(Features in, Bf16* y, FeatureUnits units) {
  const int dim = in.head_dim, half = dim / 2;
  for (unsigned i = threadIdx.x; i < units.tokens * units.of_token; i += kFeatureThreads) {
    const FeatureUnit at = unit_at(in, units, i);
    if (at.token >= in.tokens) return;
    const Bf16* from = in.x + at.token * in.x_stride + at.head * dim + at.c;
    const int64_t row = at.token * in.heads + at.head;
    const Eight a = mapped(in.map, load_eight(from, at.left)).value;
    if (in.turn == Turn::kNone) {
      store_eight(y + row * dim + at.c, at.left, a);
      continue;
    }
    const int64_t angle = angle_of(in, at);
    const Eight cos = load_eight(in.cos + angle, at.left), sin = load_eight(in.sin + angle, at.left);
    if (in.turn == Turn::kCosine) {
      store_eight(y + row * 2 * dim + at.c, at.left, product(a, cos));
      store_eight(y + (row * 2 + 1) * dim + at.c, at.left, product(a, sin));
    } else {
      const Eight b = mapped(in.map, load_eight(from + half, at.left)).value;
      store_eight(y + row * dim + at.c, at.left, products(a, cos, -1, b, sin));
      store_eight(y + row * dim + half + at.c, at.left, products(b, cos, 1, a, sin));
    }
  }
}

LONGHAUL_KERNEL(kFeatureThreads)
features_backward_kernel(Features in, FeaturesGradient out, FeatureUnits units) {
  const int dim = in.head_dim, half = dim / 2;
  for (unsigned i = threadIdx.x; i < units.tokens * units.of_token; i += kFeatureThreads) {
    const FeatureUnit at = unit_at(in, units, i);
    if (at.token >= in.tokens) return;
    const Bf16* from = in.x + at.token * in.x_stride + at.head * dim + at.c;
    const int64_t row = at.token * in.heads + at.head;
    Bf16* to = out.d_x + row * dim + at.c;
    const Eight slope = mapped(in.map, load_eight(from, at.left)).slope;
    if (in.turn == Turn::kNone) {
      store_eight(to, at.left, product(slope, load_eight(out.d_y + row * dim + at.c, at.left)));
      continue;
    }
    const int64_t angle = angle_of(in, at), apart = in.turn == Turn::kCosine ? dim : half;
    const Bf16* d_y = out.d_y + row * 2 * apart + at.c;
    const Eight cos = load_eight(in.cos + angle, at.left), sin = load_eight(in.sin + angle, at.left),
                first = load_eight(d_y, at.left), second = load_eight(d_y + apart, at.left);
    store_eight(to, at.left, product(slope, products(first, cos, 1, second, sin)));
    if (in.turn == Turn::kCosine) continue;
    const Eight slope_b = mapped(in.map, load_eight(from + half, at.left)).slope;
    store_eight(to + half, at.left, product(slope_b, products(second, cos, -1, first, sin)));
  }
}

// The gradients of eight cosines and sines of a token: of one head, or Σ over the heads, in their order.
LONGHAUL_KERNEL(kFeatureThreads)
angles_backward_kernel(Features in, FeaturesGradient out) {
  const int64_t units = divide_up(in.angles, kUnit),
                index = static_cast<int64_t>(blockIdx.x) * kFeatureThreads + threadIdx.x;
  if (index >= in.tokens * units) return;
  const int64_t token = index / units, first = index % units * kUnit;
  const bool shared = in.angles == turning(in);
  Eight d_cos{}, d_sin{};
  for (int i = 0; i < kUnit && first + i < in.angles; ++i) {  // a unit may reach over heads
    const int angle = static_cast<int>(first) + i, c = angle % turning(in);
    const int begin = shared ? 0 : angle / turning(in), end = shared ? in.heads : begin + 1;
    for (int h = begin; h < end; ++h) {
      const Bf16* from = in.x + token * in.x_stride + h * in.head_dim + c;
      const int64_t apart = in.turn == Turn::kCosine ? in.head_dim : in.head_dim / 2;
      const Bf16* d_y = out.d_y + (token * in.heads + h) * 2 * apart + c;
      const float of_first = to_float(d_y[0]), of_second = to_float(d_y[apart]);
      Eight x{};
      x.x[0] = to_float(from[0]);
      if (in.turn == Turn::kRotary) x.x[1] = to_float(from[apart]);
      const Eight f = mapped(in.map, x).value;
      d_cos.x[i] += in.turn == Turn::kCosine ? of_first * f.x[0] : of_first * f.x[0] + of_second * f.x[1];
      d_sin.x[i] += in.turn == Turn::kCosine ? of_second * f.x[0] : of_second * f.x[0] - of_first * f.x[1];
    }
  }
  store_eight(out.d_cos + token * in.angles + first, in.angles - first, d_cos);
  store_eight(out.d_sin + token * in.angles + first, in.angles - first, d_sin);
}

template <bool kBackward>
LONGHAUL_KERNEL(kFeatureThreads)
gated_kernel(Gated in, const Bf16* d_y, Bf16* out, Bf16* d_u) {
  const int64_t units = divide_up(in.channels, kUnit),
                index = static_cast<int64_t>(blockIdx.x) * kFeatureThreads + threadIdx.x;
  if (index >= in.rows * units) return;
  const int64_t row = index / units, c = index % units * kUnit, left = in.channels - c,
                to = row * in.channels + c;
  const Eight n = load_eight(in.n + row * in.n_stride + c, left);
  const Mapped gate = mapped(in.map, load_eight(in.u + row * in.u_stride + c, left));
  if (!kBackward) {
    store_eight(out + to, left, product(n, gate.value));
    return;
  }
  const Eight g = load_eight(d_y + to, left);
  store_eight(out + to, left, product(g, gate.value));
  store_eight(d_u + to, left, product(product(g, n), gate.slope));
}

}  // namespace

void features_forward(const Features& in, Bf16* y, Stream stream) {
  const FeatureUnits units = units_of(in);
  if (units.of_token == 0) return;
  launch("features.forward", features_forward_kernel, divide_up(in.tokens, units.tokens), kFeatureThreads, 0,
         stream, in, y, units);
}
void features_backward(const Features& in, const FeaturesGradient& out, Stream stream) {
  const FeatureUnits units = units_of(in);
  if (units.of_token == 0) return;
  launch("features.backward", features_backward_kernel, divide_up(in.tokens, units.tokens), kFeatureThreads,
         0, stream, in, out, units);
  if (out.d_cos == nullptr) return;
  launch("features.angles", angles_backward_kernel,
         divide_up(in.tokens * divide_up(in.angles, kUnit), kFeatureThreads), kFeatureThreads, 0, stream, in,
         out);
}

void gated_forward(const Gated& in, Bf16* y, Stream stream) {
  launch("gated.forward", gated_kernel<false>,
         divide_up(in.rows * divide_up(in.channels, kUnit), kFeatureThreads), kFeatureThreads, 0, stream, in,
         static_cast<const Bf16*>(nullptr), y, static_cast<Bf16*>(nullptr));
}
void gated_backward(const Gated& in, const Bf16* d_y, Bf16* d_n, Bf16* d_u, Stream stream) {
  launch("gated.backward", gated_kernel<true>,
         divide_up(in.rows * divide_up(in.channels, kUnit), kFeatureThreads), kFeatureThreads, 0, stream, in,
         d_y, d_n, d_u);
}

}  // namespace longhaul::kernels::cuda
