// Memory: a second sequence that a mixer attends to (cross-attention): hidden states of this rank's own rows,
// and their view. Its documents are those of the mixer's input, one for one, each of any length; its rows may
// be of another width than the input's.
#pragma once

#include "model/parallel_ops.h"

namespace longhaul::model {

struct Memory {
  BlockInput input;
  layout::SequenceView view;

  // This rank's rows of rows_sd [tokens of the layout, channels], which it has whole. The gradient of rows
  // that other ranks have is zero here.
  static Memory cut_from(const Tensor& rows_sd, const layout::SequenceLayout& layout,
                         const layout::RowShare& share = {});
};

// Refuses a memory (kUsage) for the mixer of this name, which attends to its own tokens.
[[noreturn]] void refuse_memory(const std::string& mixer);

}  // namespace longhaul::model
