// The loops of the CPU recurrence over blocks and segments (plan.h), one parallel region for each pass.
// Results do not depend on which thread computes what: work items are taken from a counter, and each result
// belongs to one item.
#pragma once

#include <algorithm>
#include <numeric>

#include "base/memory/memory_purpose.h"
#include "base/threads/parallel.h"
#include "kernels/linear_recurrence/cpu/cpu_worker.h"

namespace longhaul::kernels {

// documents up to this length are walked token by token: no block is worth its packing
constexpr int64_t kRecurrentTokens = 4;
constexpr double kGrainFlops = 1e6;  // of a thread: less is not worth waking one

// The state (or its gradient) on its way through a segment, and the place for its sum and decay.
struct Passage {
  const float* entered;
  float *sum, *decay;
  bool begun = false;

  void add(const StateLoops& loops, const float* total, const float* add, int64_t rows, int64_t columns) {
    if (!begun) {
      std::copy_n(add, rows * columns, sum);
      std::copy_n(total, rows, decay);
    } else {
      loops.advance(sum, total, sum, add, rows, columns);
      for (int64_t r = 0; r < rows; ++r) decay[r] *= total[r];
    }
    begun = true;
  }
  PassingState now() const { return begun ? PassingState{entered, decay, sum} : PassingState{entered}; }
};

inline const float* at_or_null(const float* data, int64_t offset) {
  return data == nullptr ? nullptr : data + offset;
}

// Both directions: segments, the states between them, and how work is handed out.
template <class Element>
class Walk {
 public:
  using Worker = RecurrenceWorker<Element>;

  Walk(const RecurrenceJob<Element>& job, bool backward, const float* outer, float* ends, float* slots)
      : job_(job), plan_(job.plan), backward_(backward), outer_(outer), ends_(ends), slots_(slots) {
    order_.resize(job.offsets.size() - 1);
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int64_t a, int64_t b) { return length(a) > length(b); });
  }

  void run() {
    if (plan_.execution == RecurrenceExecution::kFused) {
      const int64_t each = units_walked_together(), parts = units() / each,
                    documents = static_cast<int64_t>(order_.size());
      return share(documents * parts, [&](Worker& worker, int64_t item) {
        walk_document(worker, order_[static_cast<size_t>(item / parts)],
                      far_apart(item % parts, parts) * each, each);
      });
    }
    empty_documents();
    const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
    fold_decays_ = at::empty({plan_.slots, job_.heads, job_.keys}, at::kFloat);
    if (plan_.execution == RecurrenceExecution::kTwoPass)
      kept_ = at::empty({plan_.blocks, job_.heads, job_.area()}, at::kFloat);
    std::vector<size_t> folded;  // the segments that pass something on
    for (size_t s = 0; s < plan_.segments.size(); ++s) {
      if (passes_on(plan_.segments[s])) folded.push_back(s);
    }
    share(static_cast<int64_t>(folded.size()) * job_.heads, [&](Worker& worker, int64_t item) {
      fold_segment(worker, folded[static_cast<size_t>(item / job_.heads)],
                   far_apart(item % job_.heads, job_.heads));
    });
    share(static_cast<int64_t>(order_.size()) * job_.heads,
          [&](Worker&, int64_t item) { scan(item / job_.heads, item % job_.heads); });
    share(static_cast<int64_t>(plan_.segments.size()) * units(), [&](Worker& worker, int64_t item) {
      const auto s = static_cast<size_t>(item / units());
      walk_segment(worker, s, far_apart(item % units(), units()));
    });
  }

  // Whole documents from zero, without outputs: what they leave at `ends`, and their decays at `decays`
  // [documents, heads, keys].
  void fold(float* decays) {
    const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
    fold_decays_ =
        at::empty({plan_.slots + static_cast<int64_t>(order_.size()), job_.heads, job_.keys}, at::kFloat);
    empty_documents();
    share(static_cast<int64_t>(plan_.segments.size()) * job_.heads, [&](Worker& worker, int64_t item) {
      fold_segment(worker, static_cast<size_t>(item / job_.heads), far_apart(item % job_.heads, job_.heads));
    });
    share(static_cast<int64_t>(order_.size()) * job_.heads, [&](Worker&, int64_t item) {
      const int64_t document = item / job_.heads, head = item % job_.heads;
      scan(document, head);
      finish_fold(document, head, decays + item * job_.keys);
    });
  }

  std::vector<double> head_sums;         // [segments, heads] Σ dg of a decay per head
  std::vector<double> lower_bound_sums;  // [segments, heads, keys] Σ of a gate's dγ
  const float* boundaries = nullptr;     // backward: the forward's slots

 private:
  // heads that are walked on their own
  int64_t units() const { return backward_ ? job_.heads / job_.group : job_.heads; }
  // An order of heads: threads that walk neighbours at the same time take each other's lines.
  static int64_t far_apart(int64_t i, int64_t heads) { return i % 2 * ((heads + 1) / 2) + i / 2; }
  int64_t length(int64_t document) const {
    return job_.offsets[static_cast<size_t>(document) + 1] - job_.offsets[static_cast<size_t>(document)];
  }
  int64_t outer_at(int64_t document, int64_t head) const {
    const int64_t row = job_.state_rows.empty() ? document : job_.state_rows[static_cast<size_t>(document)];
    return (row * job_.heads + head) * job_.area();
  }
  float* slot(int64_t index, int64_t head) const {
    return slots_ + (index * job_.heads + head) * job_.area();
  }
  float* fold_decay(int64_t index, int64_t head) const {
    return fold_decays_.mutable_data_ptr<float>() + (index * job_.heads + head) * job_.keys;
  }
  float* kept(int64_t block, int64_t head) const {
    return kept_.mutable_data_ptr<float>() + (block * job_.heads + head) * job_.area();
  }

  // The slot of the boundary that a segment's walk begins at, and of the one it ends at; −1 at the ends of
  // the document.
  int64_t slot_from(size_t s) const {
    if (!backward_) return plan_.segments[s].slot;
    return plan_.segments[s].last ? -1 : plan_.segments[s + 1].slot;
  }
  int64_t slot_to(size_t s) const {
    if (backward_) return plan_.segments[s].slot;
    return plan_.segments[s].last ? -1 : plan_.segments[s + 1].slot;
  }
  bool passes_on(const RecurrenceSegment& segment) const {
    return backward_ ? segment.slot >= 0 : !segment.last;
  }
  int64_t blocks_of(const RecurrenceSegment& segment) const {
    return (segment.length + plan_.block - 1) / plan_.block;
  }

  template <class Body>
  void share(int64_t items, const Body& body) const {
    const double flops =
        static_cast<double>(job_.offsets.back() * job_.heads) * 4.0 * static_cast<double>(job_.area());
    const int64_t workers = std::clamp<int64_t>(static_cast<int64_t>(flops / kGrainFlops), 1,
                                                std::max<int64_t>(1, std::min<int64_t>(threads(), items)));
    parallel_items(items, workers, [&](const auto& each) {
      Worker worker(job_, backward_);
      each([&](int64_t item) { body(worker, item); });
    });
  }

  void empty_documents() const {
    for (const int64_t n : order_) {
      if (length(n) > 0) continue;
      for (int64_t h = 0; h < job_.heads; ++h) pass_through(n, h);
    }
  }
  void pass_through(int64_t document, int64_t head) const {
    float* const to = ends_ + outer_at(document, head);
    if (outer_ == nullptr)
      std::fill_n(to, job_.area(), 0.0f);
    else if (outer_ != ends_)
      std::copy_n(outer_ + outer_at(document, head), job_.area(), to);
  }

  // ---- the blocks of one segment

  // What block b of a segment adds to the state, from its place if the first pass kept it.
  const float* addition(Worker& worker, const RecurrenceSegment& segment, int64_t b, int64_t head,
                        bool known) const {
    float* const to = kept_.defined() && passes_on(segment) ? kept(segment.first_block + b, head) : worker.x;
    if (known && to != worker.x) return to;
    if (backward_)
      worker.gradient_write(to);
    else
      worker.write_block(to);
    return to;
  }
  // A step of a walk: where it begins, counted from the document's beginning, and what it reads. Before or
  // behind the document: none.
  struct Step {
    int64_t start;
    unsigned rows;
  };
  Step step_of(const RecurrenceSegment& segment, int64_t b, unsigned rows) const {
    return {segment.start + b * plan_.block, rows};
  }
  // Enters block b to read `rows`, and says what comes next.
  void enter(Worker& worker, const RecurrenceSegment& segment, int64_t b, int64_t head, unsigned rows,
             const Step& next) const {
    const int64_t first = b * plan_.block,
                  after = std::min(plan_.block, length(segment.document) - next.start);
    worker.enter_block(segment.document, segment.start + first, std::min(plan_.block, segment.length - first),
                       head, rows, backward_ ? b : 0);
    if (next.start >= 0 && after > 0)
      worker.announce_block(segment.document, next.start, after, head, next.rows);
  }

  void forward_blocks(Worker& worker, const RecurrenceSegment& segment, int64_t head, Passage& state) const {
    for (int64_t b = 0; b < blocks_of(segment); ++b) {
      constexpr unsigned kRows = kQueries | kKeysAndValues;
      enter(worker, segment, b, head, kRows, step_of(segment, b + 1, kRows));
      worker.pack_values();
      worker.read_block(state.now());
      state.add(loops_, worker.total(), addition(worker, segment, b, head, true), job_.keys, job_.values);
    }
  }

  void backward_blocks(Worker& worker, size_t s, int64_t head, Passage& gradient) {
    const RecurrenceSegment& segment = plan_.segments[s];
    const int64_t blocks = blocks_of(segment), area = job_.area();
    const float* entering = segment.slot < 0 ? at_or_null(initial, outer_at(segment.document, head))
                                             : boundaries + (segment.slot * job_.heads + head) * area;
    const auto state_of = [&](int64_t b) { return b == 0 ? entering : worker.states + (b - 1) * area; };
    constexpr unsigned kOfQueries = kQueries | kOutputGradients;
    for (int64_t b = 0; b + 1 < blocks; ++b) {
      enter(worker, segment, b, head, kKeysAndValues,
            step_of(segment, b + 1, b + 2 < blocks ? kKeysAndValues : kKeysAndValues | kOfQueries));
      worker.pack_values();
      float* const next = worker.states + b * area;
      worker.write_block(next);
      if (state_of(b) != nullptr)
        loops_.advance(next, worker.total(), state_of(b), next, job_.keys, job_.values);
    }
    double sum = 0;
    const size_t of_head = s * static_cast<size_t>(job_.heads) + static_cast<size_t>(head);
    if (!lower_bound_sums.empty())
      worker.lower_bound_sums = lower_bound_sums.data() + of_head * static_cast<size_t>(job_.keys);
    for (int64_t b = blocks - 1; b >= 0; --b) {
      const int64_t first = b * plan_.block;
      const Step next = b > 0 ? step_of(segment, b - 1, kOfQueries)
                              : step_of(segment, -plan_.segment_blocks, kKeysAndValues);
      enter(worker, segment, b, head, kOfQueries | (b + 1 < blocks ? kKeptKeysAndValues : kKeysAndValues),
            next);
      worker.pack_output_gradients();
      sum += worker.gradient_block(state_of(b), gradient.now(),
                                   job_.group > 1 ? worker.group_dk + first * job_.keys : nullptr,
                                   job_.group > 1 ? worker.group_dv + first * job_.values : nullptr);
      gradient.add(loops_, worker.total(), addition(worker, segment, b, head, true), job_.keys, job_.values);
    }
    if (!head_sums.empty()) head_sums[of_head] = sum;
  }

  // Walks a segment from the state that enters it, and leaves the one that it passes on at `to` (null: known
  // already).
  void blocks(Worker& worker, size_t s, int64_t head, const float* entered, float* to) {
    Passage passage{entered, worker.passage_sum, worker.passage_decay};
    if (backward_)
      backward_blocks(worker, s, head, passage);
    else
      forward_blocks(worker, plan_.segments[s], head, passage);
    if (to != nullptr) compose(to, worker.passage_decay, entered, worker.passage_sum);
  }

  // The heads of one unit, with the sums of a group around them.
  template <class Body>
  void heads_of(Worker& worker, const RecurrenceSegment& segment, int64_t unit, const Body& body) const {
    if (!backward_ || job_.group == 1) return body(unit);
    std::fill_n(worker.group_dk, segment.length * job_.keys, 0.0f);
    std::fill_n(worker.group_dv, segment.length * job_.values, 0.0f);
    for (int64_t h = unit * job_.group; h < (unit + 1) * job_.group; ++h) body(h);
    const auto& loops = recurrence_loops<Element>();
    const auto round = [&](const float* sums, const HeadView<Element>& view, int64_t columns) {
      if (view.data == nullptr) return;
      const auto rows = job_.rows(view, segment.document, segment.start, unit);
      loops.join_rows(sums, nullptr, columns, nullptr, segment.length, columns, job_.past_caches, rows.data,
                      rows.ld);
    };
    round(worker.group_dk, job_.dk, job_.keys);
    round(worker.group_dv, job_.dv, job_.values);
  }

  bool walked_by_token(Worker& worker, int64_t document, int64_t head) const {
    if (backward_ || length(document) > kRecurrentTokens) return false;
    const int64_t at = outer_at(document, head);
    worker.recurrent_steps(document, length(document), head, at_or_null(outer_, at), ends_ + at);
    return true;
  }

  // ---- fused

  // Units that one thread takes through a document segment by segment, so that what lies side by side in
  // memory is read at about the same time; as many as leave all threads the same work.
  int64_t units_walked_together() const {
    int64_t each = units();
    while (each > 1 && (units() % each != 0 || units() / each % threads() != 0)) --each;
    return each;
  }

  void walk_document(Worker& worker, int64_t document, int64_t unit, int64_t units_together) {
    const auto first = static_cast<size_t>(plan_.first_segment[static_cast<size_t>(document)]);
    const auto end = static_cast<size_t>(plan_.first_segment[static_cast<size_t>(document) + 1]);
    const int64_t heads = job_.heads / units();
    for (int64_t h = unit * heads; first == end && h < (unit + units_together) * heads; ++h)
      pass_through(document, h);
    for (size_t i = first; i < end; ++i) {
      const size_t s = backward_ ? first + (end - 1 - i) : i;
      for (int64_t u = unit; u < unit + units_together; ++u) {
        if (walked_by_token(worker, document, u)) continue;  // one segment
        heads_of(worker, plan_.segments[s], u, [&](int64_t head) { fused_segment(worker, s, head); });
      }
    }
  }

  void fused_segment(Worker& worker, size_t s, int64_t head) {
    const int64_t at = outer_at(plan_.segments[s].document, head);
    const auto place = [&](int64_t slot_index) {
      return slots_ != nullptr && slot_index >= 0 ? slot(slot_index, head) : ends_ + at;
    };
    blocks(worker, s, head, slot_from(s) < 0 ? at_or_null(outer_, at) : place(slot_from(s)),
           place(slot_to(s)));
  }

  void compose(float* out, const float* decay, const float* entered, const float* sum) const {
    if (entered != nullptr)
      loops_.advance(out, decay, entered, sum, job_.keys, job_.values);
    else if (out != sum)
      std::copy_n(sum, job_.area(), out);
  }

  // ---- segmented and two-pass

  void fold_segment(Worker& worker, size_t s, int64_t head) const {
    const RecurrenceSegment& segment = plan_.segments[s];
    const bool on = passes_on(segment);  // else it is the end of a document that is folded whole
    Passage sum{nullptr, on ? slot(slot_to(s), head) : ends_ + outer_at(segment.document, head),
                fold_decay(on ? slot_to(s) : plan_.slots + segment.document, head)};
    const int64_t count = blocks_of(segment);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t b = backward_ ? count - 1 - i : i;
      const unsigned rows = backward_ ? kQueries | kOutputGradients : kKeysAndValues;
      enter(worker, segment, b, head, rows, step_of(segment, backward_ ? b - 1 : b + 1, rows));
      if (backward_)
        worker.pack_output_gradients();
      else
        worker.pack_values();
      sum.add(loops_, worker.total(), addition(worker, segment, b, head, false), job_.keys, job_.values);
    }
  }

  void scan(int64_t document, int64_t head) const {
    const auto first = static_cast<size_t>(plan_.first_segment[static_cast<size_t>(document)]);
    const auto end = static_cast<size_t>(plan_.first_segment[static_cast<size_t>(document) + 1]);
    const float* entered = at_or_null(outer_, outer_at(document, head));
    for (size_t i = first; i + 1 < end; ++i) {
      const int64_t to = slot_to(backward_ ? first + (end - 1 - i) : i);
      compose(slot(to, head), fold_decay(to, head), entered, slot(to, head));
      entered = slot(to, head);
    }
  }

  // After scan: the last segment's sum and the decays of all, of a document from zero.
  void finish_fold(int64_t document, int64_t head, float* decays) const {
    const auto first = static_cast<size_t>(plan_.first_segment[static_cast<size_t>(document)]);
    const auto end = static_cast<size_t>(plan_.first_segment[static_cast<size_t>(document) + 1]);
    std::fill_n(decays, job_.keys, 1.0f);
    if (first == end) return;
    float* const sum = ends_ + outer_at(document, head);
    const float* const last = fold_decay(plan_.slots + document, head);
    const float* entered = nullptr;
    for (size_t i = first; i + 1 < end; ++i) {
      const int64_t to = slot_to(backward_ ? first + (end - 1 - i) : i);
      entered = slot(to, head);
      for (int64_t c = 0; c < job_.keys; ++c) decays[c] *= fold_decay(to, head)[c];
    }
    compose(sum, last, entered, sum);
    for (int64_t c = 0; c < job_.keys; ++c) decays[c] *= last[c];
  }

  void walk_segment(Worker& worker, size_t s, int64_t unit) {
    const RecurrenceSegment& segment = plan_.segments[s];
    if (walked_by_token(worker, segment.document, unit)) return;
    heads_of(worker, segment, unit, [&](int64_t head) {
      const int64_t at = outer_at(segment.document, head);
      blocks(worker, s, head, slot_from(s) < 0 ? at_or_null(outer_, at) : slot(slot_from(s), head),
             passes_on(segment) ? nullptr : ends_ + at);
    });
  }

  const RecurrenceJob<Element>& job_;
  const RecurrencePlan& plan_;
  const bool backward_;
  const StateLoops& loops_ = state_loops();
  // [documents or rows, heads, area] states (gradients) that come from outside, or null
  const float* outer_;
  float* ends_;                 // the same, that leave; where nothing is segmented it may be the same memory
  float* slots_;                // [slots, heads, area] between segments; null: not kept
  std::vector<int64_t> order_;  // documents, longest first
  Tensor fold_decays_, kept_;

 public:
  const float* initial = nullptr;  // backward: the states that entered the documents
};

}  // namespace longhaul::kernels
