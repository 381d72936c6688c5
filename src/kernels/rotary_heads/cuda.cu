#include "kernels/rotary_heads/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kRotaryThreads = 256;

// The work on a token in items: eight pairs, or eight channels that are copied. Part i has items [first[i],
// first[i + 1]), each head `of_head[i]` of them, pairs first.
struct RotaryItems {
  unsigned first[kRotaryParts + 1], of_head[kRotaryParts];
  int head[kRotaryParts];  // where the part's heads begin in y
  unsigned tokens;         // that a block takes
};

RotaryItems items_of(const Rotary& in) {
  RotaryItems out{};
  int heads = 0;
  for (int i = 0; i < kRotaryParts; ++i) {
    const RotaryPart& part = in.parts[i];
    const int turned = part.turns ? 2 * in.pairs : 0,
              copied = part.x == in.y + heads * in.width ? 0 : in.width - turned;
    out.of_head[i] = static_cast<unsigned>(divide_up(turned / 2, kUnit) + divide_up(copied, kUnit));
    out.first[i + 1] = out.first[i] + out.of_head[i] * static_cast<unsigned>(part.heads);
    out.head[i] = heads;
    heads += part.heads;
  }
  const unsigned all = out.first[kRotaryParts];
  out.tokens = all == 0 ? 1 : static_cast<unsigned>(divide_up(2 * kRotaryThreads, all));
  return out;
}

LONGHAUL_KERNEL(kRotaryThreads)
rotary_kernel(Rotary in, RotaryItems items) {
  const unsigned all = items.first[kRotaryParts];
  for (unsigned i = threadIdx.x; i < items.tokens * all; i += kRotaryThreads) {
    const int64_t token = static_cast<int64_t>(blockIdx.x) * items.tokens + i / all;
    if (token >= in.tokens) return;
    unsigned item = i % all;
    const int p = item < items.first[1] ? 0 : item < items.first[2] ? 1 : 2;
    item -= items.first[p];
    const RotaryPart part = p == 0 ? in.parts[0] : p == 1 ? in.parts[1] : in.parts[2];
    const int head = static_cast<int>(item / items.of_head[p]),
              unit = static_cast<int>(item % items.of_head[p]), pairs = part.turns ? in.pairs : 0,
              turning = (pairs + kUnit - 1) / kUnit;
    const Bf16* from = part.x + token * part.stride + head * in.width;
    Bf16* to = in.y + token * in.y_stride + (items.head[p] + head) * in.width;
    if (unit >= turning) {
      const int c = 2 * pairs + (unit - turning) * kUnit;
      store_eight(to + c, in.width - c, load_eight(from + c, in.width - c));
      continue;
    }
    const int j = unit * kUnit, left = pairs - j;
    Eight a = load_eight(from + j, left), b = load_eight(from + pairs + j, left);
    const Eight cos = load_eight(in.cos + token * pairs + j, left),
                sin = load_eight(in.sin + token * pairs + j, left);
    LONGHAUL_UNROLL
    for (int k = 0; k < kUnit; ++k) {
      const float s = in.inverse ? -sin.x[k] : sin.x[k], turned = b.x[k] * cos.x[k] + a.x[k] * s;
      a.x[k] = a.x[k] * cos.x[k] - b.x[k] * s;
      b.x[k] = turned;
    }
    store_eight(to + j, left, a);
    store_eight(to + pairs + j, left, b);
  }
}

}  // namespace

void rotary(const Rotary& in, Stream stream) {
  const RotaryItems items = items_of(in);
  if (items.first[kRotaryParts] == 0) return;
  launch("rotary", rotary_kernel, divide_up(in.tokens, items.tokens), kRotaryThreads, 0, stream, in, items);
}

}  // namespace longhaul::kernels::cuda
