#include "kernels/attention/flash.h"

#include <ATen/Context.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "kernels/cuda/calls.h"
#include "kernels/cuda/tables.h"
#include "tensor/device.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kUnit = 8;  // channels that it reads at once
constexpr int64_t kWidestHead = 256;
// The log-sum-exp of a row that sees nothing, theirs and ours.
constexpr double kTheirBlind = std::numeric_limits<double>::infinity(), kBlind = -kTheirBlind;

// The deterministic form keeps one sum of dq for each group of blocks. It is refused where the sums of one
// sequence would take more than this, computed for more multiprocessors than any GPU of today has.
constexpr int64_t kMultiprocessors = 160, kMostSumBytes = int64_t{2} << 30;

// LibTorch counts from the last query at the last key: query i sees key j if
// i + (keys − queries) − left ≤ j ≤ i + (keys − queries) + right. Below 0: no limit.
struct Limits {
  int64_t left = -1, right = -1;
};

// One limit for all documents, of which each wants `limit` unless at least `none` has the same effect.
// Nothing: there is none.
class CommonLimit {
 public:
  void want(int64_t limit, int64_t none) {
    if (limit >= none) {
      least_ = std::max(least_, none);
    } else if (!limit_) {
      limit_ = limit;
    } else if (*limit_ != limit) {
      agreed_ = false;
    }
  }
  std::optional<int64_t> found() const {
    if (!limit_) return -1;
    if (!agreed_ || *limit_ < 0 || *limit_ < least_) return std::nullopt;
    return limit_;
  }

 private:
  std::optional<int64_t> limit_;
  int64_t least_ = 0;
  bool agreed_ = true;
};

bool partnered(const AttentionDocument& document) { return document.queries > 0 && document.keys > 0; }

std::optional<Limits> limits_of(const Visibility& visible) {
  CommonLimit left, right;
  for (const AttentionDocument& document : visible.documents) {
    if (!partnered(document)) continue;
    if (document.prefix > 0) return std::nullopt;
    const int64_t ahead = document.shift - (document.keys - document.queries), window = visible.window;
    if (window > 0) left.want(window - 1 - ahead, document.keys - 1);
    if (visible.causal)
      right.want(ahead, document.queries - 1);
    else if (window > 0)
      right.want(ahead + window - 1, document.queries - 1);
  }
  const std::optional<int64_t> of_left = left.found(), of_right = right.found();
  if (!of_left || !of_right) return std::nullopt;
  return Limits{*of_left, *of_right};
}

Refusal refuse_device(const Tensor& x) {
  if (!on_gpu(x)) return "the tensors are not on a GPU";
  if (x.scalar_type() != at::kBFloat16) return "it computes in bf16";
  return "";
}

// As LibTorch's kernels read it: contiguous channels, rows and heads at 16-byte addresses.
Tensor readable(const Tensor& x) {
  const bool as_it_is = x.stride(2) == 1 && x.stride(0) % kUnit == 0 && x.stride(1) % kUnit == 0 &&
                        reinterpret_cast<uintptr_t>(x.const_data_ptr()) % (kUnit * sizeof(uint16_t)) == 0;
  return as_it_is ? x.detach() : x.detach().contiguous();
}

struct SequenceEnds {
  SequenceEnds(const AttentionProblem& problem) {
    std::vector<int32_t> of_queries{0}, of_keys{0};
    for (const AttentionDocument& document : problem.visible.documents) {
      of_queries.push_back(static_cast<int32_t>(document.q + document.queries));
      of_keys.push_back(static_cast<int32_t>(document.k + document.keys));
      most_queries = std::max(most_queries, document.queries);
      most_keys = std::max(most_keys, document.keys);
    }
    const auto on_device = [&](const std::vector<int32_t>& values) {
      return cuda::Table(values, problem.q_thd).memory.view(at::kInt);
    };
    queries = on_device(of_queries);
    keys = on_device(of_keys);
  }
  Tensor queries, keys;
  int64_t most_queries = 0, most_keys = 0;
};

// While an object of this class lives, LibTorch's flash attention adds up in one order. It asks the whole
// process: one at a time, and nothing else of it is changed.
class InOneOrder {
 public:
  InOneOrder()
      : lock_(mutex()),
        context_(at::globalContext()),
        deterministic_(context_.deterministicAlgorithms()),
        warns_(context_.deterministicAlgorithmsWarnOnly()),
        fills_(context_.deterministicFillUninitializedMemory()) {
    context_.setDeterministicFillUninitializedMemory(false);
    context_.setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  ~InOneOrder() {
    context_.setDeterministicAlgorithms(deterministic_, warns_);
    context_.setDeterministicFillUninitializedMemory(fills_);
  }
  InOneOrder(const InOneOrder&) = delete;
  InOneOrder& operator=(const InOneOrder&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex it;
    return it;
  }
  std::lock_guard<std::mutex> lock_;
  at::Context& context_;
  bool deterministic_, warns_, fills_;
};

// f(document) for each with rows on one side only, whose rows LibTorch does not write in every case.
template <class Function>
void for_each_without_partner(const Visibility& visible, const Function& f) {
  for (const AttentionDocument& document : visible.documents) {
    if (!partnered(document)) f(document);
  }
}

// Two documents, shared keys, a window, and rows that see nothing: forward and backward beside the plain
// form.
bool works(at::Device device) {
  const auto numbers = [&](int64_t rows, int64_t heads, int64_t step) {
    const Tensor all = at::arange(rows * heads * 64).mul(step).remainder(101).sub(50).to(at::kFloat).div(40);
    return to_device(all.view({rows, heads, 64}).to(at::kBFloat16), device);
  };
  AttentionProblem problem{numbers(31, 4, 7), numbers(27, 2, 11), numbers(27, 2, 17), {}, 0.125};
  problem.visible.documents = {{0, 12, 0, 8}, {12, 19, 8, 19}};
  problem.visible.window = 6;
  const Tensor d_o = numbers(31, 4, 23);
  const AttentionResult found = attention_forward_flash(problem),
                        expected = attention_forward_aten(problem, /*wide=*/false);
  const Tensor delta = attention_delta(expected.o_thd, d_o, Tensor());
  const AttentionOutside outside{d_o, expected.logsumexp_th, delta, expected.o_thd};
  const auto like = [](const Tensor& x) { return at::empty(x.sizes(), x.options()); };
  const AttentionGradients plain{like(problem.q_thd), like(problem.k_shd), like(problem.v_shd)},
      gradients = attention_backward_flash(problem, outside);
  attention_backward_aten(problem, outside, plain, /*add=*/false);
  return nearly_equal(found.o_thd, expected.o_thd) &&
         nearly_equal(found.logsumexp_th, expected.logsumexp_th) &&
         nearly_equal(gradients.q_thd, plain.q_thd) && nearly_equal(gradients.k_shd, plain.k_shd) &&
         nearly_equal(gradients.v_shd, plain.v_shd);
}

std::optional<int64_t> given(int64_t limit) { return limit < 0 ? std::nullopt : std::optional(limit); }

}  // namespace

Refusal refuse_attention_flash(const AttentionProblem& problem) {
  if (const Refusal refusal = refuse_device(problem.q_thd); !refusal.empty()) return refusal;
  const int64_t channels = problem.q_thd.size(2);
  if (channels != problem.v_shd.size(2)) return "it takes as many channels of values as of keys";
  if (channels % kUnit != 0 || channels < kUnit || channels > kWidestHead)
    return "it takes heads of 8 to 256 channels, in eights";
  const int64_t queries = problem.q_thd.size(0), keys = problem.k_shd.size(0);
  if (queries == 0 || keys == 0) return "there are no queries or no keys";
  if (std::max(queries, keys) > std::numeric_limits<int32_t>::max()) return "the tokens do not fit 32 bits";
  if (!limits_of(problem.visible)) return "its limits are the same for all documents, without a prefix";
  return flash_attention_check().refusal(problem.q_thd.device());
}

const LibraryCheck& flash_attention_check() {
  static const LibraryCheck check("flash attention", works);
  return check;
}

AttentionResult attention_forward_flash(const AttentionProblem& problem) {
  const DeviceScope device(problem.q_thd.device());
  const SequenceEnds at(problem);
  const Limits limits = *limits_of(problem.visible);
  const auto results = at::_flash_attention_forward(
      readable(problem.q_thd), readable(problem.k_shd), readable(problem.v_shd), at.queries, at.keys,
      at.most_queries, at.most_keys, /*dropout_p=*/0.0, /*is_causal=*/limits.left < 0 && limits.right == 0,
      /*return_debug_mask=*/false, problem.scale, given(limits.left), given(limits.right));
  const Tensor &o = std::get<0>(results), &logsumexp_ht = std::get<1>(results);
  const Tensor logsumexp = logsumexp_ht.t().contiguous();
  logsumexp.masked_fill_(logsumexp.eq(kTheirBlind), kBlind);
  for_each_without_partner(problem.visible, [&](const AttentionDocument& document) {
    o.narrow(0, document.q, document.queries).zero_();
    logsumexp.narrow(0, document.q, document.queries).fill_(kBlind);
  });
  return {o, logsumexp};
}

Refusal refuse_attention_backward_flash(const AttentionProblem& problem, const AttentionOutside& outside) {
  if (const Refusal refusal = refuse_attention_flash(problem); !refusal.empty()) return refusal;
  if (!outside.o_thd.defined()) return "it wants the output, and gives no gradient of the log-sum-exp";
  const int64_t sequences = static_cast<int64_t>(problem.visible.documents.size()) * problem.heads(),
                sums = (kMultiprocessors + sequences - 1) / sequences;
  if (sums * problem.q_thd.numel() * static_cast<int64_t>(sizeof(float)) > kMostSumBytes)
    return "its sums in one order would take more than 2 GiB";
  return "";
}

AttentionGradients attention_backward_flash(const AttentionProblem& problem,
                                            const AttentionOutside& outside) {
  const DeviceScope device(problem.q_thd.device());
  const SequenceEnds at(problem);
  const Limits limits = *limits_of(problem.visible);
  const Tensor& seen = outside.logsumexp_th;
  const Tensor logsumexp_ht = seen.masked_fill(seen.eq(kBlind), kTheirBlind).t().contiguous();
  const Tensor no_state = at::empty({0}, problem.q_thd.options().dtype(at::kLong));  // of dropout
  const InOneOrder in_one_order;
  const auto results = at::_flash_attention_backward(
      readable(outside.d_o_thd), readable(problem.q_thd), readable(problem.k_shd), readable(problem.v_shd),
      readable(outside.o_thd), logsumexp_ht, at.queries, at.keys, at.most_queries, at.most_keys,
      /*dropout_p=*/0.0, /*is_causal=*/limits.left < 0 && limits.right == 0, no_state, no_state,
      problem.scale, given(limits.left), given(limits.right));
  const AttentionGradients gradients{std::get<0>(results), std::get<1>(results), std::get<2>(results)};
  for_each_without_partner(problem.visible, [&](const AttentionDocument& document) {
    gradients.q_thd.narrow(0, document.q, document.queries).zero_();
    gradients.k_shd.narrow(0, document.k, document.keys).zero_();
    gradients.v_shd.narrow(0, document.k, document.keys).zero_();
  });
  return gradients;
}

}  // namespace longhaul::kernels
