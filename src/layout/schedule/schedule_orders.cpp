#include "layout/schedule/schedule_orders.h"

#include <algorithm>
#include <deque>

#include "base/error.h"

namespace longhaul::layout {
namespace {

// Appends passes of a chunk, with each kind's micro-batches in order.
class PassWriter {
 public:
  PassWriter(int64_t chunks, std::vector<int64_t> first_micro_batch = {}) {
    if (first_micro_batch.empty()) first_micro_batch.assign(static_cast<size_t>(chunks), 0);
    forward_ = backward_ = first_micro_batch;
  }
  void forward(int64_t chunk, bool joined = false) {
    add(Pass::kForward, chunk, forward_[at(chunk)]++, joined);
  }
  void backward(int64_t chunk) { add(Pass::kBackward, chunk, backward_[at(chunk)]++); }
  void backward_input(int64_t chunk) {
    waiting_.push_back({Pass::kBackwardWeight, chunk, backward_[at(chunk)]});
    add(Pass::kBackwardInput, chunk, backward_[at(chunk)]++);
  }
  void weight() {  // the one that has waited longest
    passes.push_back(waiting_.front());
    waiting_.pop_front();
  }
  void weight_of(int64_t chunk) {  // of this chunk
    const auto found = std::ranges::find(waiting_, chunk, &Action::chunk);
    passes.push_back(*found);
    waiting_.erase(found);
  }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t waiting_of(int64_t chunk) const { return std::ranges::count(waiting_, chunk, &Action::chunk); }
  int64_t forwards(int64_t chunk) const { return forward_[at(chunk)]; }
  Passes passes;

 private:
  static size_t at(int64_t chunk) { return static_cast<size_t>(chunk); }
  void add(Pass pass, int64_t chunk, int64_t micro_batch, bool joined = false) {
    passes.push_back({.pass = pass, .chunk = chunk, .micro_batch = micro_batch, .joined = joined});
  }
  std::vector<int64_t> forward_, backward_;
  std::deque<Action> waiting_;
};

}  // namespace

Passes gpipe_passes(int64_t /*rank*/, int64_t /*ranks*/, int64_t micro_batches) {
  PassWriter write(1);
  for (int64_t m = 0; m < micro_batches; ++m) write.forward(0);
  for (int64_t m = 0; m < micro_batches; ++m) write.backward(0);
  return write.passes;
}

Passes one_forward_one_backward(int64_t rank, int64_t ranks, int64_t micro_batches) {
  PassWriter write(1);
  const int64_t warm_up = std::min(ranks - rank - 1, micro_batches);
  for (int64_t m = 0; m < warm_up; ++m) write.forward(0);
  for (int64_t m = 0; m < micro_batches; ++m) {
    if (m + warm_up < micro_batches) write.forward(0);
    write.backward(0);
  }
  return write.passes;
}

int64_t interleaved_run(int64_t ranks, int64_t micro_batches) {
  for (int64_t run = ranks; run <= micro_batches; ++run) {
    if (micro_batches % run == 0 || micro_batches % run >= ranks) return run;
  }
  return 0;
}

int64_t interleaved_warm_up(int64_t rank, int64_t ranks, int64_t chunks, int64_t micro_batches, int64_t run) {
  return std::min(2 * (ranks - rank - 1) + (chunks - 1) * run, micro_batches * chunks);
}

Passes interleaved_passes(int64_t rank, int64_t ranks, int64_t chunks, int64_t micro_batches, int64_t run) {
  Passes order;  // of forward passes; backward ones mirror the chunks
  for (int64_t first = 0; first < micro_batches; first += run) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int64_t m = first; m < std::min(first + run, micro_batches); ++m) {
        order.push_back({.pass = Pass::kForward, .chunk = chunk, .micro_batch = m});
      }
    }
  }
  const auto backward = [&](size_t k) {
    return Action{
        .pass = Pass::kBackward, .chunk = chunks - 1 - order[k].chunk, .micro_batch = order[k].micro_batch};
  };
  const auto warm_up = static_cast<size_t>(interleaved_warm_up(rank, ranks, chunks, micro_batches, run));
  Passes passes(order.begin(), order.begin() + static_cast<ptrdiff_t>(warm_up));
  for (size_t k = 0; k < order.size(); ++k) {
    if (k + warm_up < order.size()) passes.push_back(order[k + warm_up]);
    passes.push_back(backward(k));
  }
  return passes;
}

// 1F1B; stage r delays r products of weights, which fill the idle times of 1F1B.
Passes zero_bubble_h1(int64_t rank, int64_t ranks, int64_t micro_batches) {
  PassWriter write(1);
  for (const Action& action : one_forward_one_backward(rank, ranks, micro_batches)) {
    if (action.pass == Pass::kForward) {
      write.forward(0);
      continue;
    }
    write.backward_input(0);
    if (write.waiting() > rank) write.weight();
  }
  while (write.waiting() > 0) write.weight();
  return write.passes;
}

// The pattern needs 2p − 1 micro-batches to fill; of fewer, it is that pattern without those that are
// missing.
Passes zero_bubble_v(int64_t rank, int64_t ranks, int64_t micro_batches) {
  const int64_t filled = std::max(micro_batches, 2 * ranks - 1), to_turn = ranks - rank;
  PassWriter write(2);
  const auto split = [&](int64_t chunk) {
    write.backward_input(chunk);
    write.weight_of(chunk);
  };
  for (int64_t i = 0; i < 2 * to_turn - 1; ++i) write.forward(0);
  for (int64_t i = 0; i < rank; ++i) {
    write.forward(1);
    write.forward(0);
  }
  for (int64_t i = 0; i < to_turn; ++i) {
    write.forward(1);
    split(1);
  }
  while (write.forwards(1) < filled) {
    if (write.forwards(0) < filled) write.forward(0);
    split(0);
    write.forward(1);
    split(1);
  }
  for (int64_t i = 0; i < rank; ++i) {
    write.backward_input(0);
    write.backward_input(1);
  }
  for (int64_t i = 0; i < to_turn; ++i) {
    write.backward_input(0);
    write.weight_of(0);
  }
  while (write.waiting_of(1) > 0) write.weight_of(1);
  while (write.waiting_of(0) > 0) write.weight_of(0);
  std::erase_if(write.passes, [&](const Action& action) { return action.micro_batch >= micro_batches; });
  return write.passes;
}

// The eight phases of docs/sources/megascale.md §10.3. `near`: the chunk whose micro-batches enter at this
// half of the ranks; `far`: the other one.
Passes dual_pipe(int64_t rank, int64_t ranks, int64_t micro_batches) {
  const int64_t half = ranks / 2, from_end = std::min(rank, ranks - 1 - rank),
                to_middle = half - from_end - 1, n = micro_batches / 2;
  const int64_t near = rank < half ? 0 : 1, far = 1 - near;
  PassWriter write(2, {0, n});
  // One micro-batch's forward pass together with another's backward pass.
  const auto both = [&](int64_t forward, int64_t backward) {
    write.forward(forward, true);
    write.backward(backward);
  };
  for (int64_t i = 0; i < 2 * to_middle; ++i) write.forward(near);
  for (int64_t i = 0; i <= from_end; ++i) {
    write.forward(near);
    write.forward(far);
  }
  for (int64_t i = 0; i < to_middle; ++i) {
    write.backward_input(far);
    write.weight();
    write.forward(far);
  }
  for (int64_t i = 0; i < n - ranks + from_end + 1; ++i) {
    if (i == 0 && to_middle == 0) {
      write.forward(near);
      write.backward(far);
    } else {
      both(near, far);
    }
    both(far, near);
  }
  for (int64_t i = 0; i < to_middle; ++i) {
    write.backward(far);
    both(far, near);
  }
  for (int64_t i = 0; i < 2 * (from_end + 1); ++i) {  // the second half delay their weights
    const int64_t chunk = i % 2 == 0 ? far : near;
    if (i > from_end) {
      write.backward_input(chunk);
    } else {
      write.backward(chunk);
    }
  }
  for (int64_t i = 0; i < to_middle; ++i) {
    write.weight();
    write.backward_input(near);
  }
  while (write.waiting() > 0) write.weight();
  return write.passes;
}

}  // namespace longhaul::layout
