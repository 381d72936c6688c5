#include "model/outside/memory.h"

#include "base/error.h"
#include "kernels/experts/rows.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

Memory Memory::cut_from(const Tensor& rows, const layout::SequenceLayout& layout,
                        const layout::RowShare& share) {
  Memory memory{.input = {}, .view = {layout, share}};
  const layout::Range& own = memory.view.own;
  const auto index = std::span(memory.view.token_index)
                         .subspan(static_cast<size_t>(own.begin), static_cast<size_t>(own.length));
  memory.input.own_td = share.whole() ? rows : kernels::take_rows(rows, to_tensor(index, rows.device()));
  return memory;
}

void refuse_memory(const std::string& mixer) {
  throw Error({.code = ExitCode::kUsage,
               .what = mixer + " cannot attend to a memory",
               .expected = "CrossAttention (model/mixers/cross_attention.h)",
               .found = "a mixer of its own tokens",
               .where = "SequenceMixer::cross_summand (model/module.h)"});
}

}  // namespace longhaul::model
