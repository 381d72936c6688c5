#include "kernels/linear_cross_entropy/log_probabilities.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/differentiable.h"
#include "kernels/linear/op.h"
#include "kernels/linear_cross_entropy/problem.h"
#include "kernels/sampling/log_softmax.h"

namespace longhaul::kernels {
namespace {

// The labels as rows of this rank; −1 where the label is none of them. By arithmetic, which meta tensors know
// as well.
Tensor own_rows_of(const Tensor& labels, const Tensor& weight, int64_t first_row) {
  const Tensor row = labels.sub(first_row),
               here = row.ge(0).bitwise_and(row.lt(weight.size(0))).bitwise_and(labels.ge(0));
  return row.add(1).mul(here).sub(1);
}

template <class Logit>
void measure_drawn(const Tensor& logits_tv, const Tensor& labels, double temperature, double* result) {
  const int64_t vocabulary = logits_tv.size(1);
  const Logit* const row = logits_tv.const_data_ptr<Logit>();
  const int64_t* const label = labels.const_data_ptr<int64_t>();
  parallel_for(0, logits_tv.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (label[t] < 0) continue;
      const std::span<const Logit> logits(row + t * vocabulary, static_cast<size_t>(vocabulary));
      result[t] = LogSoftmax<Logit>(logits, temperature).of(label[t]);
    }
  });
}

// [tokens] fp64; 0 without a label.
Tensor drawn_log_probabilities(const Tensor& hidden, const Head& head, const Tensor& labels,
                               double temperature) {
  LONGHAUL_ASSERT(hidden.is_cpu() && labels.is_cpu(), "an engine's numbers are made on the CPU");
  constexpr int64_t kLogitsAtOnce = 1 << 22;
  const Tensor result_t = at::zeros(labels.sizes(), at::kDouble), label_t = labels.contiguous();
  const int64_t at_once = std::max<int64_t>(1, kLogitsAtOnce / head.weight_vd.size(0));
  for (int64_t begin = 0; begin < labels.size(0); begin += at_once) {
    const int64_t count = std::min(at_once, labels.size(0) - begin);
    const Tensor logits_tv =
        linear_wide(hidden.narrow(0, begin, count), head.weight_vd, head.kept).contiguous();
    double* const result = result_t.mutable_data_ptr<double>() + begin;
    if (logits_tv.scalar_type() == at::kDouble)
      measure_drawn<double>(logits_tv, label_t.narrow(0, begin, count), temperature, result);
    else
      measure_drawn<float>(logits_tv, label_t.narrow(0, begin, count), temperature, result);
  }
  return result_t;
}

// The results in the order in which autograd knows them.
struct AskedFor {
  bool entropy = false, logsumexp = false;

  std::vector<Tensor> results(const TokenLogits& of, const Tensor& labelled) const {
    std::vector<Tensor> list = {of.label_t.sub(of.logsumexp_t).mul(labelled)};
    if (entropy) list.push_back(of.entropy_t.mul(labelled));
    if (logsumexp) list.push_back(of.logsumexp_t.mul(labelled));
    return list;
  }
  TokenLogProbabilities named(const std::vector<Tensor>& list) const {
    return {list[0], entropy ? list[1] : Tensor(), logsumexp ? list.back() : Tensor()};
  }
  // Of L, the label's logit and H, from those of the results; undefined where a result was not used.
  TokenLogits gradients(const std::vector<Tensor>& of_results, const Tensor& labelled) const {
    const auto of_result = [&](size_t i) {
      return of_results[i].defined() ? of_results[i].to(labelled.scalar_type()).mul(labelled)
                                     : at::zeros_like(labelled);
    };
    const Tensor d_label = of_result(0);
    Tensor d_logsumexp = d_label.neg();
    if (logsumexp && of_results.back().defined())
      d_logsumexp = d_logsumexp.add(of_results.back().mul(labelled));
    return {d_logsumexp, d_label, entropy && of_results[1].defined() ? of_result(1) : Tensor()};
  }
};

}  // namespace

TokenLogProbabilities log_probabilities_of_all(const Tensor& hidden, const Head& head, const Tensor& labels,
                                               const LogProbabilityOptions& options,
                                               const VocabularyRows& rows) {
  const AskedFor asked{options.entropy, options.logsumexp};
  if (rows.joined) check_labels(labels, rows.vocabulary);
  const auto results = differentiable("token_log_probabilities", {hidden, head.weight_vd}, [&]() -> Recorded {
    const Tensor own = rows.joined ? own_rows_of(labels, head.weight_vd, rows.first_row) : labels;
    const TokenLogitsInputs in{hidden, head.weight_vd, own, options.chunk, head.kept, options.temperature};
    const TokenLogits of_rank = token_logits(in, options.entropy),
                      of = rows.joined ? rows.joined(of_rank) : of_rank;
    const Tensor labelled = labels.ge(0).to(of.logsumexp_t.scalar_type());
    std::vector<Tensor> told = asked.results(of, labelled);
    if (options.as_drawn) {
      LONGHAUL_ASSERT(!rows.joined, "an engine's numbers are of all rows of the head");
      told[0] = drawn_log_probabilities(hidden, head, labels, options.temperature);
    }
    std::vector<Tensor> kept_tensors = {hidden, head.weight_vd, own, of.logsumexp_t, labelled};
    if (options.entropy) kept_tensors.push_back(of.entropy_t);
    return {.results = std::move(told),
            .saved = kept_tensors,
            .backward =
                [asked, sink = head.sink, kept = head.kept, options](const BackwardCall& call) {
                  const std::vector<Tensor>& saved = call.saved;
                  const TokenLogitsInputs again{saved[0],      saved[1], saved[2],
                                                options.chunk, kept,     options.temperature};
                  const Tensor d_hidden =
                      call.wanted[0] ? at::empty(saved[0].sizes(), saved[0].options()) : Tensor();
                  token_logits_backward_to_sink(again,
                                                {saved[3], Tensor(), options.entropy ? saved[5] : Tensor()},
                                                asked.gradients(call.gradients, saved[4]), d_hidden, sink);
                  return std::vector<Tensor>{d_hidden, Tensor()};
                },
            .sinks = {head.sink},
            .zeros_for_missing = false};
  });
  return asked.named(results);
}

TokenLogProbabilities token_log_probabilities(const Tensor& hidden, const Head& head, const Tensor& labels,
                                              const LogProbabilityOptions& options,
                                              const VocabularyRows& rows) {
  if (!rows.joined) check_cross_entropy(hidden, head.weight_vd, labels, {.chunk = options.chunk});
  if (!labels.is_cpu()) return log_probabilities_of_all(hidden, head, labels, options, rows);
  const Tensor has_label = labels.ge(0);
  if (has_label.all().item<bool>()) return log_probabilities_of_all(hidden, head, labels, options, rows);
  const Tensor where = has_label.nonzero().squeeze(1);
  const auto of_some = log_probabilities_of_all(hidden.index_select(0, where), head,
                                                labels.index_select(0, where), options, rows);
  const auto spread = [&](const Tensor& x) {
    return x.defined() ? at::zeros(labels.sizes(), x.options().requires_grad(false)).index_copy(0, where, x)
                       : x;
  };
  return {spread(of_some.log_probability_t), spread(of_some.entropy_t), spread(of_some.logsumexp_t)};
}

}  // namespace longhaul::kernels
