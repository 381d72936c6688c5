#include "kernels/bidirectional/cpu.h"

#include <algorithm>
#include <cstring>

#include "base/threads/parallel.h"
#include "kernels/gemm/block.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kTokens = 256;

// One head of one document.
template <class Element>
struct Rows {
  Element* first;
  int64_t ld, channels;
  Element* at(int64_t token) const { return first + token * ld; }
};

template <class Element, class Pointer = Element>
Rows<Pointer> rows_of(const Tensor& x, int64_t token, int64_t head) {
  auto* const data = reinterpret_cast<Pointer*>(x.mutable_data_ptr());
  return {data + token * x.stride(0) + head * x.stride(1), x.stride(0), x.size(2)};
}

// The products of an item, on one thread.
template <class Element>
class SetItem {
 public:
  SetItem(int64_t keys, int64_t values, Arena& arena)
      : keys_(keys),
        values_(values),
        transposed_(arena.take<Element>(std::max(keys, values) * kTokens)),
        panels_(arena.take<Element>(packed_size<Element>(kTokens, std::max(keys, values)))),
        rounded_(arena.take<Element>(keys * values)),
        matrix_(arena.take<Element>(
            std::max(packed_size<Element>(keys, values), packed_size<Element>(values, keys)))),
        out_(arena.take<float>(kTokens * std::max(keys, values))) {}

  // sum [a's channels × b's] = aᵀ b over all tokens.
  void sum(const BlockScope& scope, const Rows<const Element>& a, const Rows<const Element>& b,
           int64_t tokens, float* sum) const {
    std::memset(sum, 0, sizeof(float) * static_cast<size_t>(a.channels * b.channels));
    for (int64_t t = 0; t < tokens; t += kTokens) {
      const int64_t count = std::min(kTokens, tokens - t);
      scope->transpose(a.at(t), a.ld, count, a.channels, transposed_, kTokens);
      scope->pack(b.at(t), b.ld, false, count, b.channels, panels_);
      scope->multiply(transposed_, kTokens, panels_, a.channels, b.channels, count, sum, b.channels, true);
    }
  }
  // The matrix [keys × values], as it is or turned over, that apply() multiplies by.
  void take(const BlockScope& scope, const float* matrix, bool turned) {
    if constexpr (sizeof(Element) == 2) {
      scope->round_bf16(matrix, values_, keys_, values_, rounded_, values_);
    } else {
      std::memcpy(rounded_, matrix, sizeof(float) * static_cast<size_t>(keys_ * values_));
    }
    scope->pack(rounded_, values_, turned, turned ? values_ : keys_, turned ? keys_ : values_, matrix_);
  }
  void apply(const BlockScope& scope, const Rows<const Element>& a, int64_t tokens,
             const Rows<Element>& out) const {
    for (int64_t t = 0; t < tokens; t += kTokens) {
      const int64_t count = std::min(kTokens, tokens - t), width = out.channels;
      scope->multiply(a.at(t), a.ld, matrix_, count, width, a.channels, out_, width);
      if constexpr (sizeof(Element) == 2) {
        scope->round_bf16(out_, width, count, width, out.at(t), out.ld);
      } else {
        for (int64_t i = 0; i < count; ++i)
          std::memcpy(out.at(t + i), out_ + i * width, sizeof(float) * static_cast<size_t>(width));
      }
    }
  }

 private:
  int64_t keys_, values_;
  Element *transposed_, *panels_, *rounded_, *matrix_;
  float* out_;
};

template <class Element, class Body>
void for_items(const SetAttention& in, const Body& body) {
  const int64_t heads = in.q_thk.size(1), keys = in.q_thk.size(2), values = in.v_thv.size(2);
  parallel_for(0, in.state_nhkv.size(0) * heads, 1, [&](int64_t begin, int64_t end) {
    const BlockScope scope;
    auto item = scratch_of_thread([&](Arena& arena) { return SetItem<Element>(keys, values, arena); });
    for (int64_t i = begin; i < end; ++i) {
      const auto n = static_cast<size_t>(i / heads);
      body(scope, item, i, in.offsets[n], in.offsets[n + 1] - in.offsets[n], i % heads);
    }
  });
}

template <class Element>
void forward(const SetAttention& in, const Tensor& o) {
  const int64_t area = in.q_thk.size(2) * in.v_thv.size(2);
  float* const states = in.state_nhkv.mutable_data_ptr<float>();
  for_items<Element>(
      in, [&](const BlockScope& scope, auto& item, int64_t i, int64_t first, int64_t tokens, int64_t head) {
        const auto rows = [&](const Tensor& x) { return rows_of<Element, const Element>(x, first, head); };
        item.sum(scope, rows(in.k_thk), rows(in.v_thv), tokens, states + i * area);
        item.take(scope, states + i * area, false);
        item.apply(scope, rows(in.q_thk), tokens, rows_of<Element>(o, first, head));
      });
}

template <class Element>
void backward(const SetAttention& in, const Tensor& d_o, const std::vector<Tensor>& out) {
  const int64_t area = in.q_thk.size(2) * in.v_thv.size(2);
  const float* const states = in.state_nhkv.const_data_ptr<float>();
  const Tensor d_states = at::empty_like(in.state_nhkv);
  float* const slopes = d_states.mutable_data_ptr<float>();
  for_items<Element>(
      in, [&](const BlockScope& scope, auto& item, int64_t i, int64_t first, int64_t tokens, int64_t head) {
        const auto rows = [&](const Tensor& x) { return rows_of<Element, const Element>(x, first, head); };
        const auto into = [&](size_t x) { return rows_of<Element>(out[x], first, head); };
        item.sum(scope, rows(in.q_thk), rows(d_o), tokens, slopes + i * area);
        item.take(scope, states + i * area, true);
        item.apply(scope, rows(d_o), tokens, into(0));
        item.take(scope, slopes + i * area, true);
        item.apply(scope, rows(in.v_thv), tokens, into(1));
        item.take(scope, slopes + i * area, false);
        item.apply(scope, rows(in.k_thk), tokens, into(2));
      });
}

Tensor like(const Tensor& x) { return at::empty(x.sizes(), x.options().requires_grad(false)); }

}  // namespace

Tensor set_attention_cpu(const SetAttention& in) {
  const Tensor o = like(in.v_thv);
  in.q_thk.scalar_type() == at::kFloat ? forward<float>(in, o) : forward<uint16_t>(in, o);
  return o;
}

std::vector<Tensor> set_attention_backward_cpu(const SetAttention& in, const Tensor& d_o) {
  const std::vector<Tensor> out{like(in.q_thk), like(in.k_thk), like(in.v_thv)};
  in.q_thk.scalar_type() == at::kFloat ? backward<float>(in, d_o, out) : backward<uint16_t>(in, d_o, out);
  return out;
}

}  // namespace longhaul::kernels
