// How the CPU recurrence divides its work, as plain numbers. A document is cut into segments of a few blocks.
// What a token's result is made of does not depend on the number of threads: at the end of each segment but
// the last the state is composed anew as (decay of the segment) ∘ (state that entered it) + (the segment's
// own sum from zero), in every execution:
//
//   fused      one thread walks a document of a head from end to end
//   segmented  a first pass makes the sums of all segments side by side, a scan composes them,
//       then all segments run side by side;
//              the first pass repeats the products K ᵀV
//   two-pass   the same, but the first pass keeps KᵀV of every block, so nothing is repeated and more memory
//              is moved
//
// docs/sources/linear-attention.md §2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::kernels {

enum class RecurrenceExecution { kAuto, kFused, kSegmented, kTwoPass };

struct RecurrenceSegment {
  // start: tokens from the document's beginning, in the order they are walked
  int64_t document, start, length;
  // place of the state that enters it among all such states; −1 for a document's first segment
  int64_t slot;
  int64_t first_block;  // number of its first block among all blocks
  bool last;            // of its document
};

struct RecurrencePlan {
  int64_t block = 0;  // tokens that go through one set of products
  int64_t segment_blocks = 0;
  std::vector<RecurrenceSegment> segments;  // by document
  std::vector<int64_t> first_segment;       // [documents + 1]
  int64_t slots = 0, blocks = 0;
  RecurrenceExecution execution = RecurrenceExecution::kFused;
};

// The values on which the choice of an execution depends.
struct RecurrenceCost {
  int64_t sequences_per_document = 1;  // heads that can run side by side
  int64_t key = 1, value = 1;
  int64_t threads = 1;
  double flops_per_second = 1e11;  // of one thread, in products of blocks
};

// `block` 0: chosen. `segment`: tokens, rounded up to a block; 0: eight blocks. The segments depend on
// offsets, block and segment only; `execution` kAuto is replaced by the fastest one in the model.
RecurrencePlan plan_recurrence(std::span<const int64_t> offsets, int64_t block, RecurrenceExecution execution,
                               const RecurrenceCost& cost, int64_t segment = 0);

}  // namespace longhaul::kernels
