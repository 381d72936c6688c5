// Head, loss and gradients in one pass over blocks of tokens × vocabulary that stay in cache, after
// FlashAttention's online softmax (arXiv 2307.08691 §3.1): with m the largest logit of a token so far and O =
// Σ_v e^{z_v − m} W_v, both are rescaled when m grows, and
//
//   dh = u (1 + 2 ζ L) O / Σ_v e^{z_v − m} − u W_label.
//
// For the weight's gradient the terms e^{z_v − m} of `chunk` tokens are kept, each relative to the m of its
// block; they become dz by one factor a row once L is known. The label's own term is left out of O and of
// what is kept, and enters with its exact fp32 coefficient: its dz = p − 1 would lose its digits in a rounded
// p.
//
// A block of the vocabulary is a chunk of k of the weight's packed copy for dz W (matmul/panels.h), so copies
// that the caller keeps serve both products.
//
// Tokens are shared among threads for the first part, blocks of the vocabulary for the second. No sum's order
// depends on that.
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/memory/memory_purpose.h"
#include "base/threads/parallel.h"
#include "kernels/gemm/block.h"
#include "kernels/linear_cross_entropy/loops.h"
#include "kernels/linear_cross_entropy/problem.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kColumns = kHeadChunk;  // of the vocabulary at once, at most
constexpr int64_t kRows = 256;            // tokens at once, at most
// Tokens that a thread takes at least: on many threads fewer, so that each has some, but not so few that it
// reads the weight for almost nothing. A row's bits do not depend on it.
constexpr int64_t kRowGrain = 32, kLeastRowGrain = 8;
constexpr int64_t kDepth = 512;  // tokens that one product of the weight's gradient sums over
constexpr int64_t kPackColumns = 64;

template <class Element>
constexpr Storage kStorage = sizeof(Element) == 2 ? Storage::kBf16 : Storage::kFp32;

float rounded_to(float, float x) { return x; }
uint16_t rounded_to(uint16_t, float x) { return c10::BFloat16(x).x; }

template <class Element>
class FusedHead {
 public:
  // given: the log-sum-exp (and the entropy, where it has a gradient) is known, and gradients are those of it
  // and of the label's logit.
  FusedHead(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients,
            const TokenLogitsGradient* given = nullptr)
      : options_(problem.options),
        kept_(problem.kept),
        tokens_(problem.tokens()),
        channels_(problem.channels()),
        vocabulary_(problem.vocabulary()),
        blocks_(vocabulary_, kColumns),
        layout_(channels_, vocabulary_),
        chunk_(std::min(problem.options.chunk, tokens_)),
        hidden_(elements(problem.hidden_td)),
        weight_vd_(problem.weight_vd),
        weight_(elements(problem.weight_vd)),
        labels_(problem.labels_t.const_data_ptr<int64_t>()),
        logit_scale_(static_cast<float>(problem.logit_scale)),
        d_hidden_(gradients.hidden_td.defined()
                      ? static_cast<Element*>(gradients.hidden_td.mutable_data_ptr())
                      : nullptr),
        sink_(gradients.sink_vd.defined() ? gradients.sink_vd.mutable_data_ptr<float>() : nullptr) {
    if (given == nullptr) return;
    known_lse_ = given->logsumexp_t.const_data_ptr<float>();
    d_lse_ = given->upstream.logsumexp_t.const_data_ptr<float>();
    d_label_ = given->upstream.label_t.const_data_ptr<float>();
    if (!given->entropy_t.defined()) return;
    known_entropy_ = given->entropy_t.const_data_ptr<float>();
    d_entropy_ = given->upstream.entropy_t.const_data_ptr<float>();
  }

  Tensor loss() {
    Tensor each_t = at::empty({tokens_}, at::kFloat);
    each_ = each_t.mutable_data_ptr<float>();
    run();
    return each_t;
  }
  void logits(const TokenLogits& out) {
    out_lse_ = out.logsumexp_t.mutable_data_ptr<float>();
    out_label_ = out.label_t.mutable_data_ptr<float>();
    if (out.entropy_t.defined()) out_entropy_ = out.entropy_t.mutable_data_ptr<float>();
    run();
  }

  void run() {
    if (tokens_ == 0) return;
    allocate();
    pack_weight();
    for (int64_t begin = 0; begin < tokens_; begin += chunk_) {
      begin_ = begin;
      rows_ = std::min(chunk_, tokens_ - begin);
      const int64_t grain = rows_ / kRowGrain >= threads() ? kRowGrain : kLeastRowGrain;
      parallel_for(0, (rows_ + grain - 1) / grain, 1,
                   [&](int64_t from, int64_t to) { token_rows(from * grain, std::min(rows_, to * grain)); });
      if (sink_ == nullptr) continue;
      pack_hidden();
      parallel_for(0, blocks_.count, 1, [&](int64_t from, int64_t to) { vocabulary_blocks(from, to); });
    }
  }

 private:
  static const Element* elements(const Tensor& tensor) {
    return static_cast<const Element*>(tensor.const_data_ptr());
  }

  template <class T>
  T* take(int64_t count) {
    held_.push_back(at::empty({count * static_cast<int64_t>(sizeof(T))}, at::kByte));
    return static_cast<T*>(held_.back().mutable_data_ptr());
  }

  void allocate() {
    const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
    if (sink_ != nullptr) {
      terms_ = take<Element>(blocks_.count * chunk_ * kColumns);
      bases_ = take<float>(blocks_.count * chunk_);
      packed_hidden_ =
          take<Element>((chunk_ + kDepth - 1) / kDepth * packed_size<Element>(kDepth, channels_));
      lse_ = take<float>(chunk_);
      factor_ = take<float>(chunk_);
      label_factor_ = take<float>(chunk_);
    }
  }

  void pack_weight() {
    PackedWeight& copies = kept_.copies != nullptr ? *kept_.copies : own_;
    for_logits_ = static_cast<const Element*>(copies.for_output(weight_vd_, kept_.version));
    if (d_hidden_ != nullptr)
      for_hidden_ =
          static_cast<const Element*>(copies.for_input_gradient(weight_vd_, kept_.version, kColumns));
  }

  // kDepth tokens after kDepth tokens, each the B of one product.
  void pack_hidden() {
    parallel_for(0, (channels_ + kPackColumns - 1) / kPackColumns, 1, [&](int64_t from, int64_t to) {
      const int64_t first = from * kPackColumns, count = std::min(channels_, to * kPackColumns) - first;
      for (int64_t k = 0; k < rows_; k += kDepth) {
        const int64_t depth = std::min(kDepth, rows_ - k);
        Element* panels = packed_hidden_ + k / kDepth * packed_size<Element>(kDepth, channels_);
        block_kernels().pack(hidden_ + (begin_ + k) * channels_ + first, channels_, false, depth, count,
                             panels + packed_size<Element>(depth, first));
      }
    });
  }

  // What one thread needs for up to kRows tokens of the chunk.
  struct Rows {
    Rows(Arena& arena, int64_t rows, int64_t channels, bool terms_die)
        : logits(arena.take<float>(rows * kColumns)),
          sums_rd(arena.take<float>(rows * channels)),
          terms(arena.take<Element>(terms_die ? rows * kColumns : 0)) {}
    float *logits, *sums_rd;  // sums_rd is O
    Element* terms;           // where they are not kept
    float base[kRows], rescale[kRows], label_logit[kRows];
    double sum[kRows], weighted[kRows];
    float level[kRows], slope[kRows];  // where the entropy has a gradient: dz = p (level + slope log p)
  };

  void token_rows(int64_t begin, int64_t end) {
    const bool terms_die = d_hidden_ != nullptr && sink_ == nullptr;
    Rows scratch = scratch_of_thread([&](Arena& arena) {
      return Rows(arena, std::min(kRows, end - begin), d_hidden_ != nullptr ? channels_ : 0, terms_die);
    });
    const BlockScope block;
    for (int64_t at = begin; at < end; at += kRows) {
      const int64_t count = std::min(kRows, end - at);
      if (known_lse_ != nullptr)
        std::copy_n(known_lse_ + begin_ + at, count, scratch.base);
      else
        std::fill_n(scratch.base, count, -std::numeric_limits<float>::infinity());
      std::fill_n(scratch.label_logit, count, 0.0f);  // of tokens without a label
      std::fill_n(scratch.sum, count, 0.0);
      std::fill_n(scratch.weighted, count, 0.0);
      if (d_entropy_ != nullptr) slopes(scratch, at, count);
      for (int64_t b = 0; b < blocks_.count; ++b) {
        Element* terms = sink_ != nullptr ? terms_ + (b * chunk_ + at) * kColumns
                         : terms_die      ? scratch.terms
                                          : nullptr;
        token_block(block, scratch, at, count, b, terms);
      }
      finish(scratch, at, count);
    }
  }

  void slopes(Rows& scratch, int64_t at, int64_t count) const {
    for (int64_t r = 0; r < count; ++r) {
      const int64_t t = begin_ + at + r;
      scratch.slope[r] = -logit_scale_ * d_entropy_[t];
      scratch.level[r] = logit_scale_ * d_lse_[t] + scratch.slope[r] * known_entropy_[t];
    }
    std::fill_n(scratch.rescale, count, 1.0f);
  }

  // What the rows' sums learn from a block of logits, and its terms.
  void absorb(Rows& scratch, int64_t count, int64_t n, Element* terms) const {
    const LogitBlock block{kStorage<Element>, count,        n,           scratch.logits, kColumns, terms,
                           kColumns,          scratch.base, scratch.sum, scratch.rescale};
    if (d_entropy_ != nullptr)
      entropy_gradients(block, scratch.level, scratch.slope);
    else if (out_entropy_ != nullptr)
      absorb_logits_for_entropy(block, scratch.weighted);
    else
      absorb_logits(block);
  }

  void token_block(const BlockScope& block, Rows& scratch, int64_t at, int64_t count, int64_t b,
                   Element* terms) {
    const int64_t n = blocks_.length_of(b), first = blocks_.begin(b);
    const int64_t* labels = labels_ + begin_ + at;
    float* logits = scratch.logits;
    multiply_panels(block, hidden_ + (begin_ + at) * channels_, channels_, for_logits_, layout_, count, first,
                    n, logits, kColumns);
    for (int64_t r = 0; r < count && logit_scale_ != 1.0f; ++r)
      scale_row(logits + r * kColumns, n, logit_scale_);
    for (int64_t r = 0; r < count; ++r) {
      if (labels[r] >= first && labels[r] < first + n)
        scratch.label_logit[r] = logits[r * kColumns + labels[r] - first];
    }
    absorb(scratch, count, n, terms);
    if (terms == nullptr) return;
    for (int64_t r = 0; r < count; ++r) {
      if (labels[r] >= first && labels[r] < first + n) terms[r * kColumns + labels[r] - first] = Element{0};
    }
    if (sink_ != nullptr) std::copy_n(scratch.base, count, bases_ + b * chunk_ + at);
    if (d_hidden_ == nullptr) return;
    float* sums = scratch.sums_rd;
    for (int64_t r = 0; r < count && b > 0; ++r) {
      if (scratch.rescale[r] != 1.0f) scale_row(sums + r * channels_, channels_, scratch.rescale[r]);
    }
    block->multiply(terms, kColumns, for_hidden_ + first * packed_n(channels_), count, channels_, n, sums,
                    channels_, b > 0);
  }

  // dz_v = of_all e^{z_v − L} + [v = label] of_label.
  struct Upstream {
    float of_all, of_label;
  };
  Upstream upstream_of(int64_t t, float lse) const {
    if (known_lse_ != nullptr)
      return {logit_scale_ * d_lse_[t], labels_[t] < 0 ? 0.0f : logit_scale_ * d_label_[t]};
    const auto zeta = static_cast<float>(options_.z_loss), upstream = static_cast<float>(options_.upstream);
    return {upstream * (1 + 2 * zeta * lse), -upstream};
  }

  void finish(const Rows& scratch, int64_t at, int64_t count) {
    const auto zeta = static_cast<float>(options_.z_loss);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t t = begin_ + at + r;
      const auto lse = known_lse_ != nullptr ? known_lse_[t]
                                             : static_cast<float>(scratch.base[r] + std::log(scratch.sum[r]));
      if (each_ != nullptr) each_[t] = lse - scratch.label_logit[r] + zeta * lse * lse;
      if (out_lse_ != nullptr) {
        out_lse_[t] = lse;
        out_label_[t] = scratch.label_logit[r];
        if (out_entropy_ != nullptr)
          out_entropy_[t] =
              static_cast<float>(std::log(scratch.sum[r]) - scratch.weighted[r] / scratch.sum[r]);
      }
      const auto [of_all, of_label] = upstream_of(t, lse);
      const float log_p = scratch.label_logit[r] - lse;
      const float of_term = d_entropy_ != nullptr ? scratch.level[r] + scratch.slope[r] * log_p : of_all;
      const float label_factor = labels_[t] < 0 ? 0.0f : of_term * std::exp(log_p) + of_label;
      const float factor = d_entropy_ != nullptr ? 1.0f : of_all;  // the terms are the gradients then
      if (sink_ != nullptr) {
        lse_[at + r] = lse;
        factor_[at + r] = factor;
        label_factor_[at + r] = label_factor;
      }
      if (d_hidden_ == nullptr) continue;
      const float whole =
          known_lse_ != nullptr ? std::exp(lse - scratch.base[r]) : static_cast<float>(scratch.sum[r]);
      combine_rows(kStorage<Element>, scratch.sums_rd + r * channels_, factor / whole,
                   weight_ + std::max<int64_t>(0, labels_[t]) * channels_, label_factor, channels_,
                   d_hidden_ + t * channels_);
    }
  }

  // The rows of the weight's gradient that belong to some blocks of the vocabulary, from all tokens of the
  // chunk.
  void vocabulary_blocks(int64_t begin, int64_t end) {
    Element* transposed =
        scratch_of_thread([&](Arena& arena) { return arena.take<Element>(kColumns * rows_); });
    const BlockScope block;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t n = blocks_.length_of(b), first = blocks_.begin(b);
      Element* terms = terms_ + b * chunk_ * kColumns;
      for (int64_t t = 0; t < rows_; ++t) {
        Element* row = terms + t * kColumns;
        scale_stored_row(kStorage<Element>, row, n, factor_[t] * std::exp(bases_[b * chunk_ + t] - lse_[t]),
                         row);
        const int64_t label = labels_[begin_ + t] - first;
        if (label >= 0 && label < n) row[label] = rounded_to(Element{}, label_factor_[t]);
      }
      block->transpose(terms, kColumns, rows_, n, transposed, rows_);
      for (int64_t k = 0; k < rows_; k += kDepth) {
        block->multiply(transposed + k, rows_,
                        packed_hidden_ + k / kDepth * packed_size<Element>(kDepth, channels_), n, channels_,
                        std::min(kDepth, rows_ - k), sink_ + first * channels_, channels_, true);
      }
    }
  }

  const LinearCrossEntropyOptions options_;
  const KeptPacked kept_;
  PackedWeight own_{MemoryPurpose::kWorkspace};  // where the caller keeps none
  const int64_t tokens_, channels_, vocabulary_;
  const Chunks blocks_;                // of the vocabulary
  const PanelLayout<Element> layout_;  // of for_logits_
  const int64_t chunk_;
  const Element* hidden_;
  const Tensor& weight_vd_;
  const Element* weight_;
  const int64_t* labels_;
  const float logit_scale_;  // 1 / temperature
  Element* d_hidden_;
  float* sink_;
  float *each_ = nullptr, *out_lse_ = nullptr, *out_label_ = nullptr, *out_entropy_ = nullptr;
  const float *known_lse_ = nullptr, *d_lse_ = nullptr, *d_label_ = nullptr;
  const float *known_entropy_ = nullptr, *d_entropy_ = nullptr;
  int64_t begin_ = 0, rows_ = 0;  // the chunk at hand

  std::vector<Tensor> held_;             // holds what follows
  const Element* for_logits_ = nullptr;  // W as the B of h Wᵀ
  const Element* for_hidden_ = nullptr;  // W as the B of dz W, block after block
  Element* terms_ = nullptr;             // [blocks, chunk, kColumns]: e^{z − base}
  float* bases_ = nullptr;               // [blocks, chunk]
  Element* packed_hidden_ = nullptr;
  // of the chunk's tokens; dz = factor · p, of the label label_factor
  float *lse_ = nullptr, *factor_ = nullptr, *label_factor_ = nullptr;
};

}  // namespace

Refusal refuse_cross_entropy_fused(const CrossEntropyProblem& problem,
                                   const CrossEntropyGradients& gradients) {
  const ScalarType type = problem.hidden_td.scalar_type();
  if (!problem.hidden_td.device().is_cpu()) return "the tensors are not on the CPU";
  if (type != at::kBFloat16 && type != at::kFloat) return "computes in bf16 and fp32";
  if (gradients.sink_vd.defined() && gradients.sink_vd.scalar_type() != at::kFloat)
    return "the weight's gradient is not kept in fp32";
  return "";
}

Tensor cross_entropy_fused(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  return problem.hidden_td.scalar_type() == at::kFloat ? FusedHead<float>(problem, gradients).loss()
                                                       : FusedHead<uint16_t>(problem, gradients).loss();
}

void token_logits_fused(const CrossEntropyProblem& problem, const TokenLogits& out) {
  if (problem.hidden_td.scalar_type() == at::kFloat)
    FusedHead<float>(problem, {}).logits(out);
  else
    FusedHead<uint16_t>(problem, {}).logits(out);
}

void token_logits_backward_fused(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                                 const CrossEntropyGradients& into) {
  if (problem.hidden_td.scalar_type() == at::kFloat)
    FusedHead<float>(problem, into, &of).run();
  else
    FusedHead<uint16_t>(problem, into, &of).run();
}

}  // namespace longhaul::kernels
