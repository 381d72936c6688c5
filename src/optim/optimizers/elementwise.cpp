#include "optim/optimizers/elementwise.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/matmul/tasks.h"
#include "recipe/optimizers/optimizers.h"

namespace longhaul::optim {
namespace {

using kernels::kUpdateStretch;

bool implemented(const Precision& precision, const model::Parameter& parameter) {
  const ScalarType master = precision.master, value = parameter.value.scalar_type();
  if (master != at::kFloat && master != at::kDouble) return false;
  return precision.state == master && parameter.grad.scalar_type() == master &&
         (value == master || (value == at::kBFloat16 && master == at::kFloat));
}

void require_implemented(const std::string& optimizer, const Precision& precision,
                         const model::Parameter& parameter) {
  if (implemented(precision, parameter)) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = optimizer + " has no implementation for these dtypes",
       .expected = "master, states and main gradient all fp32 or all fp64; working weights of the same "
                   "dtype, or bf16 "
                   "beside fp32",
       .found = fmt::format("{}: master {}, states {}, main gradient {}, working weights {}", parameter.name,
                            name_of(precision.master), name_of(precision.state),
                            name_of(parameter.grad.scalar_type()), name_of(parameter.value.scalar_type())),
       .where = "train.dtype",
       .hint = "train.dtype=bf16"});
}

}  // namespace

Elementwise::Elementwise(Members given, const recipe::OptimOptions& options, Runs runs)
    : Optimizer(std::move(given)), options_(options), states_(recipe::states_of(options)) {
  for (const auto& parameter : parameters()) {
    if (parameter->trainable()) require_implemented(options_.name, members().precision, *parameter);
    on_cpu_ = on_cpu_ && parameter->value.device().is_cpu();
  }
  list_pieces(runs);
}

// Those of moments that the optimizer has.
recipe::StateFormats Elementwise::formats_of(const layout::ParameterSpec& spec) const {
  using enum recipe::OptimizerState::Of;
  const auto has = [&](recipe::OptimizerState::Of of) {
    return std::ranges::find(states_, of, &recipe::OptimizerState::of) != states_.end();
  };
  recipe::StateFormats formats = recipe::state_formats(options_, spec.tensor.role, spec.tensor.global_shape);
  if (!has(kFirstMoment)) formats.first = recipe::StateDtype::kFloat32;
  if (!has(kSecondMoment)) formats.second = recipe::StateDtype::kFloat32;
  return formats;
}

void Elementwise::list_pieces(Runs runs) {
  for (size_t p = 0; p < parameters().size(); ++p) {
    const model::Parameter& parameter = *parameters()[p];
    if (!parameter.trainable()) continue;
    for (size_t part = 0; part < parameter.parts.size(); ++part) {
      const layout::ParameterSpec& spec = parameter.parts[part].spec;
      const layout::Range run = parameter.own_run_of(part);
      if (run.length == 0 || !members().has(spec)) continue;
      Piece piece{
          p, run.begin, run.length, spec.decay ? options_.weight_decay : 0, spec.lr_factor, spec.trainable};
      piece.columns = parameter.parts[part].own.length.size() == 2 ? parameter.parts[part].own.length[1] : 1;
      piece.formats = formats_of(spec);
      // Neighbours that are treated alike are one piece: a layer's experts are a single run.
      if (runs == Runs::kOfNeighbours && !pieces_.empty() && pieces_.back().like(piece) &&
          pieces_.back().begin + pieces_.back().length == run.begin) {
        pieces_.back().length += run.length;
      } else {
        pieces_.push_back(std::move(piece));
        if (pieces_.back().formats.narrow()) make_states(pieces_.back(), part);
      }
    }
  }
  for (Piece& piece : pieces_) {
    if (!piece.formats.narrow()) make_states(piece, 0);
  }
}

// `part`: of a piece with narrow states, which is that part.
void Elementwise::make_states(Piece& piece, size_t part) const {
  const model::Parameter& parameter = *parameters()[piece.parameter];
  const at::TensorOptions like = parameter.own_value.options().dtype(members().precision.state);
  for (const recipe::OptimizerState& state : states_) {
    LONGHAUL_ASSERT(state.of_elements(), "{} is no state of every element", state.kind);
    const bool second = state.of == recipe::OptimizerState::Of::kSecondMoment;
    const recipe::StateDtype dtype = second ? piece.formats.second : piece.formats.first;
    const bool wide = dtype == recipe::StateDtype::kFloat32;
    piece.states.push_back(wide ? at::zeros({piece.length}, like) : Tensor());
    if (!piece.formats.narrow()) continue;
    const kernels::Signs signs = second ? kernels::Signs::kPositive : kernels::Signs::kBoth;
    piece.narrow.emplace_back(parameter, part, std::string(state.kind),
                              NarrowState::Format{dtype, signs, options_.state_block, members().seed});
  }
}

bool Elementwise::packs(const Piece& piece) const {
  const model::Parameter& parameter = *parameters()[piece.parameter];
  return piece.trainable && parameter.packed.in_use() && piece.length == parameter.value.numel();
}

// Where packed copies are in use: whole rows, as many at once as they are packed in; elsewhere any elements.
void Elementwise::add_stretches(const Piece& piece, bool packing, std::vector<Stretch>& to) const {
  if (!packing || !packs(piece)) {
    const int64_t step = piece.formats.narrow()
                             ? std::max<int64_t>(1, kUpdateStretch / piece.columns) * piece.columns
                             : kUpdateStretch;
    for (int64_t at = 0; at < piece.length; at += step)
      to.push_back({&piece, piece.begin + at, std::min(step, piece.length - at), false});
    return;
  }
  const Tensor& value = parameters()[piece.parameter]->value;
  constexpr int64_t kStep = kernels::PackedWeight::kRowStep;
  const int64_t columns = value.size(-1), matrix = value.size(-2) * columns,
                step = std::max<int64_t>(1, kUpdateStretch / (kStep * columns)) * kStep * columns;
  for (int64_t first = 0; first < piece.length; first += matrix) {
    for (int64_t at = 0; at < matrix; at += step)
      to.push_back({&piece, first + at, std::min(step, matrix - at), true});
  }
}

std::vector<Elementwise::Stretch> Elementwise::stretches(bool packing) const {
  std::vector<Stretch> result;
  for (const Piece& piece : pieces_) {
    if (piece.trainable) add_stretches(piece, packing, result);
  }
  return result;
}

void Elementwise::pack_rows(const Stretch& stretch) {
  model::Parameter& parameter = *parameters()[stretch.piece->parameter];
  const int64_t columns = parameter.value.size(-1), rows = parameter.value.size(-2),
                row = stretch.begin / columns;
  parameter.packed.pack_rows(parameter.value, row / rows, row % rows, row % rows + stretch.length / columns);
}

void Elementwise::run(const std::vector<Stretch>& stretches, const Update& update) {
  kernels::TaskList<const Stretch*> tasks;
  for (const Stretch& stretch : stretches) tasks.add(&stretch, stretch.length);
  tasks.run(kernels::kUpdateGrain, [&](const Stretch* const* first, const Stretch* const* last) {
    for (const Stretch* const* stretch = first; stretch != last; ++stretch) update(**stretch);
  });
}

void Elementwise::write(const StepSettings& settings, const Update& update) {
  run(stretches(/*packing=*/true), [&](const Stretch& stretch) {
    update(stretch);
    if (stretch.packs) pack_rows(stretch);
  });
  for (const Piece& piece : pieces_) {
    model::Parameter& parameter = *parameters()[piece.parameter];
    // the version that step() is about to give it
    if (packs(piece)) parameter.packed.refreshed(parameter.value, parameter.version + 1);
    if (!piece.trainable && settings.zero_gradients)
      parameter.own_grad.narrow(0, piece.begin, piece.length).zero_();
  }
}

Elementwise::Views Elementwise::views_of(const Piece& piece) {
  const auto cut = [&](const Tensor& storage) { return storage.narrow(0, piece.begin, piece.length); };
  return {cut(master(piece.parameter)), cut(parameters()[piece.parameter]->own_grad), piece.states};
}

void Elementwise::refresh(const Piece& piece, const StepSettings& settings) {
  const Tensor& value = parameters()[piece.parameter]->own_value;
  const Views views = views_of(piece);
  if (piece.trainable && !master(piece.parameter).is_alias_of(value))
    value.narrow(0, piece.begin, piece.length).copy_(views.master);
  if (settings.zero_gradients) views.gradient.zero_();
}

// Of the part's share; the pieces lie in the order of parameters and runs. A rank without a share has empty
// states, of the format they have elsewhere.
void Elementwise::append_state(std::vector<StateTensor>& to, size_t parameter, size_t part,
                               size_t kind) const {
  const model::Parameter& holder = *parameters()[parameter];
  const model::Part& of = holder.parts[part];
  const layout::Range run = holder.own_run_of(part);
  const std::string name(states_[kind].kind);
  if (run.length == 0) {
    Piece none{.parameter = parameter, .formats = formats_of(of.spec)};
    make_states(none, part);
    if (none.formats.narrow() && none.narrow[kind].defined()) return none.narrow[kind].append(to);
    return to.push_back(state_of_part(holder, part, name, none.states[kind].view(of.own.length)));
  }
  const auto before = [](const std::pair<size_t, int64_t>& at, const Piece& piece) {
    return at < std::pair(piece.parameter, piece.begin);
  };
  const Piece& piece =
      *std::prev(std::upper_bound(pieces_.begin(), pieces_.end(), std::pair(parameter, run.begin), before));
  if (!piece.narrow.empty() && piece.narrow[kind].defined()) return piece.narrow[kind].append(to);
  to.push_back(
      state_of_part(holder, part, name,
                    piece.states[kind].narrow(0, run.begin - piece.begin, run.length).view(of.own.length)));
}

std::vector<StateTensor> Elementwise::state() {
  std::vector<StateTensor> result;
  for (size_t p = 0; p < parameters().size(); ++p) {
    const model::Parameter& parameter = *parameters()[p];
    append_masters(result, p);
    if (!parameter.trainable()) continue;
    for (size_t kind = 0; kind < states_.size(); ++kind) {
      for (size_t part = 0; part < parameter.parts.size(); ++part) {
        if (members().has(parameter.parts[part].spec)) append_state(result, p, part, kind);
      }
    }
  }
  return result;
}

}  // namespace longhaul::optim
