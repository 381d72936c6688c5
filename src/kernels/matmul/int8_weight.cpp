#include "kernels/matmul/int8_weight.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/memory/memory_purpose.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kMost = 127, kElementsAtOnce = 1 << 18;

}  // namespace

Int8Weight::Int8Weight(int64_t experts, int64_t out, int64_t in, at::Device device)
    : experts_(experts), out_(out), in_(in) {
  const MemoryPurposeScope scope(MemoryPurpose::kParameters);
  const auto options = at::TensorOptions().device(device);
  panels_ = at::zeros({experts * Int8Layout(in, out).size()}, options.dtype(at::kChar));
  scale_eo_ = at::zeros({experts, out}, options.dtype(at::kFloat));
}

Tensor Int8Weight::chunk_of(int64_t expert, int64_t chunk) const {
  const Int8Layout layout(in_, out_);
  const int64_t rows = packed_k(layout.chunks.length_of(chunk));
  return panels_.narrow(0, expert * layout.size() + layout.offset(chunk, 0), rows * packed_n(out_))
      .view({packed_n(out_) / kPanelColumns, rows, kPanelColumns});
}

void Int8Weight::write(int64_t expert, int64_t first, const Tensor& all_rows, const std::string& name) {
  LONGHAUL_ASSERT(
      all_rows.dim() == 2 && all_rows.size(1) == in_ && first >= 0 && first + all_rows.size(0) <= out_,
      "{} does not fit [{}, {}] from row {} on", name, out_, in_, first);
  const at::NoGradGuard no_gradient;
  const Chunks chunks = Int8Layout(in_, out_).chunks;
  const int64_t end = first + all_rows.size(0);
  for (int64_t row = first; row < end;) {
    // The rest of a panel, or whole ones.
    const int64_t lane = row % kPanelColumns, lanes = std::min(kPanelColumns - lane, end - row);
    const int64_t panels =
        lanes < kPanelColumns
            ? 1
            : std::clamp<int64_t>(kElementsAtOnce / (kPanelColumns * std::max<int64_t>(in_, 1)), 1,
                                  (end - row) / kPanelColumns);
    const int64_t count = panels * lanes;
    const Tensor wide = all_rows.narrow(0, row - first, count).to(panels_.device(), at::kFloat);
    Tensor scale =
        in_ == 0 ? at::zeros({count}, wide.options()) : wide.abs().amax(1).div(static_cast<double>(kMost));
    if (!scale.isfinite().all().item<bool>()) {
      throw Error({.code = ExitCode::kCheckpoint,
                   .what = "a weight that is not finite has no eight bits",
                   .expected = "finite numbers",
                   .found = "NaN or infinity",
                   .where = name,
                   .hint = "without --experts int8 it is taken as it is"});
    }
    scale.masked_fill_(scale.lt(std::numeric_limits<float>::min()), 0);
    const Tensor divisor = scale.masked_fill(scale.eq(0), std::numeric_limits<float>::max());
    const Tensor q = wide.div(divisor.unsqueeze(1)).round().to(at::kChar);
    for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
      const int64_t length = chunks.length_of(chunk);
      chunk_of(expert, chunk)
          .narrow(0, row / kPanelColumns, panels)
          .narrow(1, 0, length)
          .narrow(2, lane, lanes)
          .copy_(q.narrow(1, chunks.begin(chunk), length).reshape({panels, lanes, length}).transpose(1, 2));
    }
    scale_eo_[expert].narrow(0, row, count).copy_(scale);
    row += count;
  }
}

Tensor Int8Weight::values(int64_t expert) const {
  const Chunks chunks = Int8Layout(in_, out_).chunks;
  const Tensor q = at::empty({out_, in_}, panels_.options());
  for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
    const int64_t length = chunks.length_of(chunk);
    const Tensor rows =
        chunk_of(expert, chunk).narrow(1, 0, length).transpose(1, 2).reshape({packed_n(out_), length});
    q.narrow(1, chunks.begin(chunk), length).copy_(rows.narrow(0, 0, out_));
  }
  return q;
}

}  // namespace longhaul::kernels
