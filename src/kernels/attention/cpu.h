// attention on the CPU for bf16 and fp32 inputs (sums in fp32): FlashAttention-2 (arXiv 2307.08691) over
// tiles of 128 keys × 64 queries, with the products of kernels/block and the vector code of vectors.h. Plain
// pointers and strides: no LibTorch, no copies of q, k, v.
//
// Tiles are transposed (keys are rows, queries are columns), so that every operand is either a plain copy of
// rows, or written by the vector code in the layout that the next product wants. Tiles lie on a grid that
// starts at each document; each sum runs over them in ascending order whatever thread does it, so results do
// not depend on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/visibility.h"

namespace longhaul::kernels {

// Rows of `channels` contiguous elements.
template <class Element>
struct RowView {
  Element* data = nullptr;
  int64_t token = 0, head = 0;  // strides
  Element* at(int64_t t, int64_t h) const { return data + t * token + h * head; }
};

// Keys and values of one kv head from some token on; rows are `stride` apart.
template <class Element>
struct KeyRows {
  const Element *k, *v;
  int64_t k_stride, v_stride;
};

// The destination of a result's rows: they are written in the dtype of the inputs, or gradients are added
// to fp32.
template <class Element>
struct ResultRows {
  RowView<Element> narrow;
  RowView<float> wide = {};  // used where it has data
};

// The location of keys and values: one tensor each, or pages of a cache (see paged.h), one list of pages
// for each document.
template <class Element>
struct KeySource {
  struct Pages {
    // each [key_heads, page_tokens, channels], rows of v value_stride apart
    std::vector<const Element*> k, v;
  };
  struct NarrowPages {  // in eight bits, a scale for each row
    std::vector<const int8_t*> k, v;
    std::vector<const float*> k_scales, v_scales;
  };
  RowView<const Element> k, v;
  std::vector<Pages> pages;  // [documents], or empty
  int64_t page_tokens = 0, value_stride = 0;
  std::vector<NarrowPages> narrow{};  // [documents] in place of pages, or empty

  // Of document n from its token `first`, a multiple of kKeyBlock, on; a page or the tensor holds at least
  // the next kKeyBlock.
  KeyRows<Element> rows(const std::vector<AttentionDocument>& documents, int64_t n, int64_t first,
                        int64_t key_head, int64_t channels) const {
    if (pages.empty()) {
      const int64_t token = documents[static_cast<size_t>(n)].k + first;
      return {k.at(token, key_head), v.at(token, key_head), k.token, v.token};
    }
    const auto page = static_cast<size_t>(first / page_tokens);
    const int64_t row = key_head * page_tokens + first % page_tokens;
    const Pages& of = pages[static_cast<size_t>(n)];
    return {of.k[page] + row * channels, of.v[page] + row * value_stride, channels, value_stride};
  }
};

constexpr int64_t kKeyBlock = 128, kQueryTile = 64;

struct AttentionSizes {
  Visibility visible;
  int64_t heads, key_heads, channels, values;
  double scale;  // > 0
  // The bytes of dQ in fp32 that the backward pass may hold; it must hold all of one document and kv head.
  // The result does not depend on this number.
  int64_t most_shared = int64_t{256} << 20;
  int64_t group() const { return heads / key_heads; }
};

template <class Element>
struct AttentionForward : AttentionSizes {
  RowView<const Element> q;
  KeySource<Element> keys;
  ResultRows<Element> o;
  RowView<float> logsumexp;  // rows of one
};

template <class Element>
struct AttentionBackward : AttentionSizes {
  RowView<const Element> q, d_o;
  KeySource<Element> keys;
  RowView<const float> logsumexp, delta;  // rows of one; of all keys, those of other calls too
  ResultRows<Element> d_q, d_k, d_v;
  float* workspace = nullptr;  // attention_backward_workspace().shared bytes
};

// Σ do·o − d logsumexp of rows of `channels`, written to delta; d_logsumexp's data may be null.
template <class Element>
struct AttentionDelta {
  int64_t tokens, heads, channels;
  RowView<const Element> o, d_o;
  RowView<const float> d_logsumexp;
  RowView<float> delta;
};

template <class Element>
void run_attention_delta(const AttentionDelta<Element>& call);
template <class Element>
void run_attention_forward(const AttentionForward<Element>& call);
template <class Element>
void run_attention_backward(const AttentionBackward<Element>& call);

}  // namespace longhaul::kernels
