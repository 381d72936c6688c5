// How much memory attention on the CPU works in, from sizes alone: bytes, no tensors. What a planner states;
// tests compare it with what the allocator counts as workspace.
//
//   forward    thread  t (64 e D' + 256 Dv + 512) + 32,768 + 8,192 e + 128 e (D + Dv) + 4 max(D, Dv)
//   backward   shared  min(Σ Q, max(most_shared, max Q / Hk)),  Q = 256 H D ⌈queries / 64⌉, of documents
//              whose keys are cut
//              thread  c (e (2 D + Dv) + 4 (D + Dv)) + 8 (128 e (D' + Dv') + 256 D) + 65,536 + 24,576 e
//
// with e bytes of an element, H heads, Hk kv heads, D key and Dv value channels, D' and Dv' rounded up to 32
// (fp32: 16), sums of parts that are rounded up to 64 bytes. t are the query tiles of an item: G max(⌊16 /
// G⌋, 1) for G = H / Hk, fewer where threads would have no work. c are the keys of the longest piece, in one
// of its copies rounded up to 128. A document of L keys has pieces of min(2,048, ⌈L / cuts⌉ rounded up to
// 128), cuts = clamp(min(⌈32 L / (Hk Σ L)⌉, ⌊L / 512⌋), 1, 8): it is not cut below 1,024 keys, nor up to
// 2,048 where there are 32 pieces anyway.
#pragma once

#include "kernels/attention/cpu.h"

namespace longhaul::kernels {

struct AttentionWorkspace {
  int64_t shared = 0;   // of the call, freed with it
  int64_t thread = 0;   // of each thread that works: kept, for the next operator too (kernels/scratch.h)
  int64_t threads = 0;  // that work
  int64_t bytes() const { return shared + thread * threads; }
};

// element_bytes: 2 or 4; threads: at hand.
AttentionWorkspace attention_forward_workspace(const AttentionSizes& sizes, int64_t element_bytes,
                                               int64_t threads);
AttentionWorkspace attention_backward_workspace(const AttentionSizes& sizes, int64_t element_bytes,
                                                int64_t threads);

}  // namespace longhaul::kernels
