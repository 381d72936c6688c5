#include "posttrain/preference/packed_answers.h"

namespace longhaul::posttrain {

void AnswerPacker::begin_sample(int64_t index) {
  if (!packed_.samples.empty()) rows_.push_back(static_cast<int64_t>(packed_.inputs.size()));
  packed_.samples.push_back(index);
}

void AnswerPacker::add(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer) {
  const size_t before = packed_.inputs.size();
  packed_.inputs.insert(packed_.inputs.end(), prompt.begin(), prompt.end());
  packed_.inputs.insert(packed_.inputs.end(), answer.begin(), answer.end() - 1);
  packed_.labels.resize(before + prompt.size() - 1, layout::kIgnoreLabel);
  packed_.labels.insert(packed_.labels.end(), answer.begin(), answer.end());
  packed_.tokens.push_back(static_cast<int64_t>(answer.size()));
  packed_.last.push_back(static_cast<int64_t>(packed_.inputs.size()) - 1);
  lengths_.push_back(static_cast<int64_t>(packed_.inputs.size() - before));
}

PackedAnswers AnswerPacker::finish() {
  rows_.push_back(static_cast<int64_t>(packed_.inputs.size()));
  packed_.layout = layout::make_packed(lengths_);
  packed_.layout.row_offsets = rows_;
  return std::move(packed_);
}

Tensor sums_of_documents(const Tensor& values_t, const layout::SequenceView& view,
                         const parallel::Ranks& ranks) {
  std::vector<Tensor> sums(static_cast<size_t>(view.layout.documents()));
  const Tensor wide_t = values_t.to(at::kDouble);
  for (const layout::Segment& segment : view.segments) {
    Tensor& sum = sums[static_cast<size_t>(segment.document)];
    const Tensor part = wide_t.narrow(0, segment.local_start, segment.length).sum();
    sum = sum.defined() ? sum + part : part;
  }
  for (Tensor& sum : sums) {
    if (!sum.defined()) sum = at::zeros({}, wide_t.options());
  }
  const Tensor own_n = at::stack(sums);
  if (view.share.context_ranks == 1) return own_n;
  const Tensor all_n = own_n.detach().clone();
  ranks.reduce_over({layout::Axis::kCp}, all_n, comm::Reduction::kSum);
  return own_n + (all_n - own_n.detach());
}

Tensor counted_once(const Tensor& loss, const layout::SequenceView& view) {
  return view.share.context_rank == 0 ? loss : loss - loss.detach();
}

}  // namespace longhaul::posttrain
