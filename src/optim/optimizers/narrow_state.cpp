#include "optim/optimizers/narrow_state.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::optim {

using recipe::StateDtype;

NarrowState::NarrowState(const model::Parameter& parameter, size_t part, const std::string& kind,
                         const Format& format)
    : format_(format), kind_(kind), parameter_(&parameter), part_(part) {
  if (format.dtype == StateDtype::kFloat32) return;
  const model::Part& of = parameter.parts[part];
  const layout::LogicalTensor& tensor = of.spec.tensor;
  LONGHAUL_ASSERT(of.own.length.size() == 2 && parameter.own_value.device().is_cpu(),
                  "{} is no matrix on a CPU", tensor.name);
  first_row_ = of.own.offset[0], first_column_ = of.own.offset[1];
  blocks_ = (tensor.global_shape[1] + format.block - 1) / format.block;
  all_blocks_ = tensor.global_shape[0] * blocks_;
  stream_.emplace(format.seed, fmt::format("optimizer/{}/{}", kind, tensor.name));
  const bool coded = format.dtype == StateDtype::kInt8;
  values_ = at::full(of.own.length, 0, at::TensorOptions().dtype(coded ? at::kByte : at::kBFloat16));
  if (!coded) return;
  require_whole_blocks();
  const int64_t own_blocks = columns() == 0 ? 0 : block_of(columns() - 1) - block_of(0) + 1;
  scales_ = at::zeros({rows(), own_blocks}, at::TensorOptions().dtype(at::kFloat));
}

void NarrowState::require_whole_blocks() const {
  const layout::LogicalTensor& tensor = parameter_->parts[part_].spec.tensor;
  const int64_t end = first_column_ + columns();
  if (columns() == 0 ||
      (first_column_ % format_.block == 0 && (end % format_.block == 0 || end == tensor.global_shape[1])))
    return;
  throw Error({.code = ExitCode::kUsage,
               .what = "8-bit states cannot be cut inside their blocks",
               .expected = fmt::format("columns of {} cut at multiples of optim.state_block = {}",
                                       tensor.name, format_.block),
               .found = fmt::format("columns {} to {} of {} on a rank", first_column_, end - 1,
                                    tensor.global_shape[1]),
               .where = "optim.state_dtype = int8",
               .hint = "a smaller optim.state_block, optim.state_dtype=bfloat16, or fewer ranks in "
                       "parallel.tp (parallel.etp)"});
}

int64_t NarrowState::run_from(int64_t column) const {
  return std::min(columns(), (block_of(column) + 1) * format_.block - first_column_) - column;
}

template <class Real>
void NarrowState::read_run(int64_t row, int64_t column, int64_t count, Real* to) const {
  const kernels::NarrowLoops<Real>& loops = kernels::narrow_loops<Real>();
  const int64_t at = place(row, column);
  if (format_.dtype == StateDtype::kBfloat16)
    return loops.widen(static_cast<const uint16_t*>(values_.const_data_ptr()) + at, count, to);
  const float scale = scales_.const_data_ptr<float>()[row * scales_.size(1) + block_of(column) - block_of(0)];
  loops.decode(values_.const_data_ptr<uint8_t>() + at, scale, count, format_.signs, to);
}

template <class Real>
void NarrowState::keep_run(int64_t step, int64_t row, int64_t column, int64_t count, const Real* from) const {
  const kernels::NarrowLoops<Real>& loops = kernels::narrow_loops<Real>();
  const int64_t at = place(row, column), block = block_of(column);
  const uint64_t key =
      stream_->bits(static_cast<uint64_t>(step * all_blocks_ + (first_row_ + row) * blocks_ + block));
  if (format_.dtype == StateDtype::kBfloat16) {
    const int64_t first = first_column_ + column - block * format_.block;
    return loops.narrow(from, count, key, first, static_cast<uint16_t*>(values_.mutable_data_ptr()) + at);
  }
  float& scale = scales_.mutable_data_ptr<float>()[row * scales_.size(1) + block - block_of(0)];
  scale = loops.encode(from, count, format_.signs, key, values_.mutable_data_ptr<uint8_t>() + at);
}

template void NarrowState::read_run(int64_t, int64_t, int64_t, float*) const;
template void NarrowState::read_run(int64_t, int64_t, int64_t, double*) const;
template void NarrowState::keep_run(int64_t, int64_t, int64_t, int64_t, const float*) const;
template void NarrowState::keep_run(int64_t, int64_t, int64_t, int64_t, const double*) const;

void NarrowState::append(std::vector<StateTensor>& to) const {
  if (format_.dtype == StateDtype::kBfloat16)
    return to.push_back(state_of_part(*parameter_, part_, kind_, values_));
  to.push_back(state_of_part(*parameter_, part_, kind_ + "_codes", values_));
  StateTensor scales = state_of_part(*parameter_, part_, kind_ + "_scales", scales_);
  scales.global_shape[1] = blocks_;
  scales.held.offset[1] = first_column_ / format_.block;
  scales.held.length[1] = scales_.size(1);
  to.push_back(std::move(scales));
}

ShardState::ShardState(const Shard& shard, const std::string& kind, const recipe::OptimOptions& options,
                       uint64_t seed)
    : shard_(shard), kind_(kind) {
  const StateDtype dtype =
      recipe::state_formats(options, shard.spec().tensor.role, shard.global_shape()).first;
  narrow_ = NarrowState(*shard.parameter, shard.part, kind,
                        {.dtype = dtype, .block = options.state_block, .seed = seed});
  if (!narrow_.defined()) wide_ = at::zeros_like(shard.master, at::MemoryFormat::Contiguous);
}

namespace {

// body(real, row, column, count) for every run, on all threads.
template <class Body>
void for_runs(const NarrowState& state, const Tensor& wide, const Body& body) {
  const auto rows_of = [&](auto real) {
    auto* const at = static_cast<decltype(real)*>(wide.mutable_data_ptr());
    const int64_t columns = state.columns(),
                  grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
    parallel_for(0, state.rows(), grain, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        for (int64_t column = 0; column < columns;) {
          const int64_t count = state.run_from(column);
          body(at + row * columns + column, row, column, count);
          column += count;
        }
      }
    });
  };
  if (wide.scalar_type() == at::kDouble)
    rows_of(double{});
  else
    rows_of(float{});
}

}  // namespace

Tensor ShardState::take() const {
  if (!narrow_.defined()) return wide_;
  const Tensor all = at::empty({narrow_.rows(), narrow_.columns()}, shard_.master.options());
  for_runs(narrow_, all, [&](auto* at, int64_t row, int64_t column, int64_t count) {
    narrow_.read(row, column, count, at);
  });
  return all;
}

void ShardState::put(const Tensor& state, int64_t step) const {
  if (!narrow_.defined()) return;
  for_runs(narrow_, state.contiguous(), [&](const auto* at, int64_t row, int64_t column, int64_t count) {
    narrow_.keep(step, row, column, count, at);
  });
}

void ShardState::append(std::vector<StateTensor>& to) const {
  if (narrow_.defined()) return narrow_.append(to);
  if (wide_.defined()) to.push_back(state_of_part(*shard_.parameter, shard_.part, kind_, wide_));
}

}  // namespace longhaul::optim
