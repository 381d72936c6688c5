// Attention to a memory in plain fp64, document by document and head by head, with LibTorch's autograd. It
// shares with src only the names and shapes of logical tensors.
#pragma once

#include <cmath>

#include "layout/sequence.h"
#include "support/plain_parts.h"

namespace longhaul::testing {

struct PlainCrossAttention {
  const recipe::ModelConfig& config;
  LogicalTensors weights;
  std::string name;  // "tower.mixer"
  bool rotary = false, causal = false;

  Tensor run(const Tensor& x, const layout::SequenceLayout& queries, const Tensor& memory,
             const layout::SequenceLayout& keys) const {
    const Tensor q = made(x, "query", config.heads, &queries, "query_norm"),
                 k = made(memory, "key", config.softmax.kv_heads, &keys, "key_norm"),
                 v = made(memory, "value", config.softmax.kv_heads, nullptr, "");
    std::vector<Tensor> documents;
    for (int64_t d = 0; d < queries.documents(); ++d) {
      const auto of_q = queries.document(d), of_k = keys.document(d);
      std::vector<Tensor> heads;
      for (int64_t h = 0; h < config.heads; ++h) {
        const int64_t shared = h / (config.heads / config.softmax.kv_heads);
        heads.push_back(one(q.select(1, h).narrow(0, of_q.begin, of_q.length),
                            k.select(1, shared).narrow(0, of_k.begin, of_k.length),
                            v.select(1, shared).narrow(0, of_k.begin, of_k.length)));
      }
      documents.push_back(at::cat(heads, 1));
    }
    Tensor o = at::cat(documents);
    if (config.softmax.output_gate) o = o * linear(x, "gate").sigmoid();
    return linear(o, "output");
  }

 private:
  Tensor linear(const Tensor& x, const std::string& tensor) const {
    const Tensor y = at::mm(x, weights.at(name + "." + tensor + ".weight").t());
    const auto bias = weights.find(name + "." + tensor + ".bias");
    return bias != weights.end() ? y + bias->second : y;
  }
  Tensor made(const Tensor& rows, const std::string& tensor, int64_t heads,
              const layout::SequenceLayout* turned_by, const std::string& norm) const {
    Tensor y = linear(rows, tensor).view({rows.size(0), heads, config.head_dim});
    if (!norm.empty() && config.softmax.qk_norm)
      y = y / (y.square().mean(2, true) + config.norm_eps).sqrt() * weights.at(name + "." + norm + ".weight");
    return rotary && turned_by != nullptr ? turned(y, *turned_by) : y;
  }
  // Pairs (j, j + n/2) of the first n channels turn by position · base^(−2j/n).
  Tensor turned(const Tensor& y, const layout::SequenceLayout& layout) const {
    const int64_t n = config.softmax.rotary_dim;
    const Tensor position = at::tensor(layout.positions, at::kLong).to(at::kDouble);
    const Tensor frequency = at::pow(at::Scalar(config.softmax.rotary_base),
                                     at::arange(n / 2, at::kDouble).mul(-2.0 / static_cast<double>(n)));
    const Tensor angle = (position.unsqueeze(1) * frequency).unsqueeze(1);
    const Tensor a = y.narrow(2, 0, n / 2), b = y.narrow(2, n / 2, n / 2);
    return at::cat({a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos(),
                    y.narrow(2, n, config.head_dim - n)},
                   2);
  }
  // A query that sees nothing reads zeros.
  Tensor one(const Tensor& q, const Tensor& k, const Tensor& v) const {
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < q.size(0); ++i) {
      const int64_t seen = causal ? std::max<int64_t>(0, k.size(0) - (q.size(0) - 1 - i)) : k.size(0);
      const Tensor scores = at::mv(k.narrow(0, 0, seen), q[i]) / std::sqrt(config.head_dim);
      rows.push_back(seen == 0 ? q[i].mul(0) : at::mv(v.narrow(0, 0, seen).t(), scores.softmax(0)));
    }
    return rows.empty() ? q : at::stack(rows);
  }
};

}  // namespace longhaul::testing
