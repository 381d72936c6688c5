#include "optim/elementwise.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/matmul/tasks.h"

namespace longhaul::optim {
namespace {

// Elements a thread takes at least: half a megabyte of traffic, far above the cost of starting a team.
constexpr int64_t kGrain = 16384;
// Elements of a stretch, about: its weights are packed from the second-level cache.
constexpr int64_t kStretch = 32768;

bool implemented(const Precision& precision, const model::Parameter& parameter) {
  const ScalarType master = precision.master, value = parameter.value.scalar_type();
  if (master != at::kFloat && master != at::kDouble) return false;
  return precision.state == master && parameter.grad.scalar_type() == master &&
         (value == master || (value == at::kBFloat16 && master == at::kFloat));
}

void require_implemented(const std::string& optimizer, const Precision& precision, const model::Parameter& parameter) {
  if (implemented(precision, parameter)) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = optimizer + " has no implementation for these dtypes",
       .expected = "master, states and main gradient all fp32 or all fp64; working weights of the same dtype, or bf16 "
                   "beside fp32",
       .found = fmt::format("{}: master {}, states {}, main gradient {}, working weights {}", parameter.name, name_of(precision.master),
                            name_of(precision.state), name_of(parameter.grad.scalar_type()), name_of(parameter.value.scalar_type())),
       .where = "train.dtype",
       .hint = "train.dtype=bf16"});
}

}  // namespace

Elementwise::Elementwise(Members given, const recipe::OptimOptions& options, std::vector<std::string> kinds, Runs runs)
    : Optimizer(std::move(given)), options_(options), kinds_(std::move(kinds)) {
  for (const auto& parameter : parameters()) {
    if (parameter->trainable()) require_implemented(options_.name, members().precision, *parameter);
    on_cpu_ = on_cpu_ && parameter->value.device().is_cpu();
  }
  list_pieces(runs);
}

void Elementwise::list_pieces(Runs runs) {
  for (size_t p = 0; p < parameters().size(); ++p) {
    const model::Parameter& parameter = *parameters()[p];
    if (!parameter.trainable()) continue;
    for (size_t part = 0; part < parameter.parts.size(); ++part) {
      const layout::ParameterSpec& spec = parameter.parts[part].spec;
      const layout::Range run = parameter.own_run_of(part);
      if (run.length == 0 || !members().has(spec)) continue;
      const Piece piece{p, run.begin, run.length, spec.decay ? options_.weight_decay : 0, spec.lr_factor, spec.trainable, {}};
      // Neighbours that are treated alike are one piece: a layer's experts are a single run.
      if (runs == Runs::kOfNeighbours && !pieces_.empty() && pieces_.back().like(piece) &&
          pieces_.back().begin + pieces_.back().length == run.begin) {
        pieces_.back().length += run.length;
      } else {
        pieces_.push_back(piece);
      }
    }
  }
  for (Piece& piece : pieces_) {
    const at::TensorOptions like = parameters()[piece.parameter]->own_value.options().dtype(members().precision.state);
    for (size_t k = 0; k < kinds_.size(); ++k) piece.states.push_back(at::zeros({piece.length}, like));
  }
}

bool Elementwise::packs(const Piece& piece) const {
  const model::Parameter& parameter = *parameters()[piece.parameter];
  return piece.trainable && parameter.packed.in_use() && piece.length == parameter.value.numel();
}

// Where packed copies are in use: whole rows, as many at once as they are packed in; elsewhere any elements.
void Elementwise::add_stretches(const Piece& piece, bool packing, std::vector<Stretch>& to) const {
  if (!packing || !packs(piece)) {
    for (int64_t at = 0; at < piece.length; at += kStretch)
      to.push_back({&piece, piece.begin + at, std::min(kStretch, piece.length - at), false});
    return;
  }
  const Tensor& value = parameters()[piece.parameter]->value;
  constexpr int64_t kStep = kernels::PackedWeight::kRowStep;
  const int64_t columns = value.size(-1), matrix = value.size(-2) * columns,
                step = std::max<int64_t>(1, kStretch / (kStep * columns)) * kStep * columns;
  for (int64_t first = 0; first < piece.length; first += matrix) {
    for (int64_t at = 0; at < matrix; at += step) to.push_back({&piece, first + at, std::min(step, matrix - at), true});
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
  const int64_t columns = parameter.value.size(-1), rows = parameter.value.size(-2), row = stretch.begin / columns;
  parameter.packed.pack_rows(parameter.value, row / rows, row % rows, row % rows + stretch.length / columns);
}

void Elementwise::run(const std::vector<Stretch>& stretches, const Update& update) {
  kernels::TaskList<const Stretch*> tasks;
  for (const Stretch& stretch : stretches) tasks.add(&stretch, stretch.length);
  tasks.run(kGrain, [&](const Stretch* const* first, const Stretch* const* last) {
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
    if (packs(piece)) parameter.packed.refreshed(parameter.value, parameter.version + 1);  // the version that step() is about to give it
    if (!piece.trainable && settings.zero_gradients) parameter.own_grad.narrow(0, piece.begin, piece.length).zero_();
  }
}

Elementwise::Views Elementwise::views_of(const Piece& piece) {
  const auto cut = [&](const Tensor& storage) { return storage.narrow(0, piece.begin, piece.length); };
  return {cut(master(piece.parameter)), cut(parameters()[piece.parameter]->own_grad), piece.states};
}

void Elementwise::refresh(const Piece& piece, const StepSettings& settings) {
  const Tensor& value = parameters()[piece.parameter]->own_value;
  const Views views = views_of(piece);
  if (piece.trainable && !master(piece.parameter).is_alias_of(value)) value.narrow(0, piece.begin, piece.length).copy_(views.master);
  if (settings.zero_gradients) views.gradient.zero_();
}

// Of the part's share; the pieces lie in the order of parameters and runs.
Tensor Elementwise::state_of(size_t parameter, size_t part, size_t kind) const {
  const layout::Range run = parameters()[parameter]->own_run_of(part);
  if (run.length == 0) return at::empty({0}, at::TensorOptions().dtype(members().precision.state));
  const auto before = [](const std::pair<size_t, int64_t>& at, const Piece& piece) { return at < std::pair(piece.parameter, piece.begin); };
  const Piece& piece = *std::prev(std::upper_bound(pieces_.begin(), pieces_.end(), std::pair(parameter, run.begin), before));
  return piece.states[kind].narrow(0, run.begin - piece.begin, run.length);
}

std::vector<StateTensor> Elementwise::state() {
  std::vector<StateTensor> result;
  for (size_t p = 0; p < parameters().size(); ++p) {
    const model::Parameter& parameter = *parameters()[p];
    append_masters(result, p);
    if (!parameter.trainable()) continue;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      for (size_t part = 0; part < parameter.parts.size(); ++part) {
        const model::Part& of = parameter.parts[part];
        if (members().has(of.spec))
          result.push_back(state_of_part(parameter, part, kinds_[kind], state_of(p, part, kind).view(of.own.length)));
      }
    }
  }
  return result;
}

}  // namespace longhaul::optim
