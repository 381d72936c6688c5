#include "optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/adamw/cuda_call.h"
#include "kernels/dispatch.h"
#include "kernels/matmul/tasks.h"

namespace longhaul::optim {
namespace {

// Elements a thread takes at least: half a megabyte of traffic, far above the cost of starting a team.
constexpr int64_t kGrain = 16384;
// Elements of a stretch, about: its weights are packed from the second-level cache.
constexpr int64_t kStretch = 32768;

bool implemented(ScalarType master, ScalarType state, const model::Parameter& parameter) {
  if (master != at::kFloat && master != at::kDouble) return false;
  const ScalarType value = parameter.value.scalar_type();
  return state == master && parameter.grad.scalar_type() == master && (value == master || (value == at::kBFloat16 && master == at::kFloat));
}

void require_implemented(const Precision& precision, const model::Parameter& parameter) {
  if (implemented(precision.master, precision.state, parameter)) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "adamw has no implementation for these dtypes",
       .expected = "master, moments and main gradient all fp32 or all fp64; working weights of the same dtype, or bf16 "
                   "beside fp32",
       .found = fmt::format("{}: master {}, moments {}, main gradient {}, working weights {}", parameter.name, name_of(precision.master),
                            name_of(precision.state), name_of(parameter.grad.scalar_type()), name_of(parameter.value.scalar_type())),
       .where = "train.dtype",
       .hint = "train.dtype=bf16"});
}

}  // namespace

AdamW::AdamW(const recipe::OptimOptions& options, model::ParameterSet& set, Precision precision, AdamwImplementation implementation)
    : Optimizer(set, precision), options_(options) {
  bool on_cpu = true;
  for (const auto& parameter : parameters()) {
    if (parameter->trainable()) require_implemented(precision, *parameter);
    on_cpu = on_cpu && parameter->value.device().is_cpu();
    const auto moments = parameter->own_value.options().dtype(precision.state);
    m_.push_back(parameter->trainable() ? at::zeros({parameter->own.length}, moments) : Tensor());
    v_.push_back(parameter->trainable() ? at::zeros({parameter->own.length}, moments) : Tensor());
  }
  list_pieces();
  implementation_ = implementation != AdamwImplementation::kAutomatic ? implementation : choose(on_cpu);
  LONGHAUL_ASSERT(implementation_ != AdamwImplementation::kFused || on_cpu, "the fused update works on CPU tensors");
  add_phase({"update", nullptr, [this](const StepSettings& settings) { update(settings); }});
}

AdamwImplementation AdamW::choose(bool on_cpu) {
  constexpr AdamwImplementation kImplementations[] = {AdamwImplementation::kCuda, AdamwImplementation::kFused,
                                                      AdamwImplementation::kTensorOperations};
  static constexpr std::string_view kNames[] = {"cuda", "fused", "tensor operations"};
  return kImplementations[kernels::Dispatcher("adamw", kNames).choose([&](size_t i) -> kernels::Refusal {
    if (i == 1) return on_cpu ? "" : "the tensors are not on the CPU";
    if (i == 2) return "";
    if (pieces_.empty()) return "nothing is trained";
    const Tensor& any = master(pieces_.front().parameter);
    return any.scalar_type() == at::kFloat ? kernels::refuse_cuda(any, /*bf16_only=*/false) : kernels::Refusal("the state is not fp32");
  })];
}

void AdamW::list_pieces() {
  for (size_t p = 0; p < parameters().size(); ++p) {
    const model::Parameter& parameter = *parameters()[p];
    if (!parameter.trainable()) continue;
    for (size_t part = 0; part < parameter.parts.size(); ++part) {
      const layout::ParameterSpec& spec = parameter.parts[part].spec;
      const layout::Range run = parameter.own_run_of(part);
      if (run.length == 0) continue;
      const Piece piece{p, run.begin, run.length, spec.decay ? options_.weight_decay : 0, spec.lr_factor, spec.trainable};
      // Neighbours that are treated alike are one piece: a layer's experts are a single run.
      if (!pieces_.empty() && pieces_.back().like(piece) && pieces_.back().begin + pieces_.back().length == run.begin) {
        pieces_.back().length += run.length;
      } else {
        pieces_.push_back(piece);
      }
    }
  }
}

kernels::AdamwScalars AdamW::scalars(const StepSettings& settings, const Piece& piece) const {
  const double t = static_cast<double>(next_step()), lr = settings.lr * piece.lr_factor;
  return {.gradient_scale = settings.gradient_scale,
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .eps = options_.eps,
          .kept_weight = 1 - lr * piece.weight_decay,
          .step_size = lr / (1 - std::pow(options_.beta1, t)),
          .inverse_root_correction = 1 / std::sqrt(1 - std::pow(options_.beta2, t)),
          .zero_gradient = settings.zero_gradients};
}

void AdamW::update(const StepSettings& settings) {
  if (implementation_ == AdamwImplementation::kCuda) return update_on_gpu(settings);
  if (implementation_ == AdamwImplementation::kFused) return update_fused(settings);
  for (const Piece& piece : pieces_) update_with_tensor_operations(piece, scalars(settings, piece));
}

// One call for all tensors of one learning rate.
void AdamW::update_on_gpu(const StepSettings& settings) {
  std::map<double, std::vector<kernels::cuda::AdamwTensor>> by_lr_factor;
  std::map<double, kernels::AdamwScalars> scalars_of;
  for (const Piece& piece : pieces_) {
    const model::Parameter& parameter = *parameters()[piece.parameter];
    if (!piece.trainable) {
      if (settings.zero_gradients) parameter.own_grad.narrow(0, piece.begin, piece.length).zero_();
      continue;
    }
    const kernels::AdamwScalars own = scalars_of[piece.lr_factor] = scalars(settings, piece);
    const auto at = [&](const Tensor& tensor) { return static_cast<float*>(tensor.data_ptr()) + piece.begin; };
    const bool copied = parameter.value.scalar_type() == at::kBFloat16;
    by_lr_factor[piece.lr_factor].push_back(
        {.master = at(master(piece.parameter)),
         .m = at(m_[piece.parameter]),
         .v = at(v_[piece.parameter]),
         .gradient = at(parameter.own_grad),
         .value = copied ? static_cast<kernels::cuda::Bf16*>(parameter.own_value.data_ptr()) + piece.begin : nullptr,
         .count = piece.length,
         .kept_weight = static_cast<float>(own.kept_weight)});
  }
  for (const auto& [lr_factor, tensors] : by_lr_factor) {
    const kernels::AdamwScalars& own = scalars_of.at(lr_factor);
    const kernels::cuda::AdamwStep numbers{.beta1 = static_cast<float>(own.beta1),
                                           .beta2 = static_cast<float>(own.beta2),
                                           .eps = static_cast<float>(own.eps),
                                           .step_size = static_cast<float>(own.step_size),
                                           .inverse_root_correction = static_cast<float>(own.inverse_root_correction),
                                           .zero_gradient = own.zero_gradient};
    kernels::cuda_calls<kernels::AdamwCuda>().step(tensors, numbers, static_cast<float>(own.gradient_scale),
                                                   master(pieces_.front().parameter));
  }
}

bool AdamW::packs(const Piece& piece) const {
  const model::Parameter& parameter = *parameters()[piece.parameter];
  return piece.trainable && parameter.packed.in_use() && piece.length == parameter.value.numel();
}

// Where packed copies are in use: whole rows, as many at once as they are packed in; elsewhere any elements.
std::vector<AdamW::Stretch> AdamW::stretches_of(const Piece& piece) const {
  std::vector<Stretch> result;
  if (!packs(piece)) {
    for (int64_t at = 0; at < piece.length; at += kStretch)
      result.push_back({&piece, piece.begin + at, std::min(kStretch, piece.length - at), false});
    return result;
  }
  const Tensor& value = parameters()[piece.parameter]->value;
  constexpr int64_t kStep = kernels::PackedWeight::kRowStep;
  const int64_t columns = value.size(-1), matrix = value.size(-2) * columns,
                step = std::max<int64_t>(1, kStretch / (kStep * columns)) * kStep * columns;
  for (int64_t first = 0; first < piece.length; first += matrix) {
    for (int64_t at = 0; at < matrix; at += step) result.push_back({&piece, first + at, std::min(step, matrix - at), true});
  }
  return result;
}

void AdamW::pack_rows(const Stretch& stretch) {
  model::Parameter& parameter = *parameters()[stretch.piece->parameter];
  const int64_t columns = parameter.value.size(-1), rows = parameter.value.size(-2), row = stretch.begin / columns;
  parameter.packed.pack_rows(parameter.value, row / rows, row % rows, row % rows + stretch.length / columns);
}

// Threads share all elements evenly, whatever pieces they belong to. Elements do not see each other, so the cuts change nothing.
void AdamW::update_fused(const StepSettings& settings) {
  kernels::TaskList<Stretch> stretches;
  for (const Piece& piece : pieces_) {
    for (const Stretch& stretch : stretches_of(piece)) stretches.add(stretch, stretch.length);
  }
  stretches.run(kGrain, [&](const Stretch* first, const Stretch* last) {
    for (const Stretch* stretch = first; stretch != last; ++stretch) {
      update_piece(*stretch->piece, stretch->begin, stretch->length, scalars(settings, *stretch->piece));
      if (stretch->packs) pack_rows(*stretch);
    }
  });
  for (const Piece& piece : pieces_) {
    model::Parameter& parameter = *parameters()[piece.parameter];
    if (packs(piece)) parameter.packed.refreshed(parameter.value, parameter.version + 1);  // the version that step() is about to give it
  }
}

void AdamW::update_piece(const Piece& piece, int64_t begin, int64_t length, const kernels::AdamwScalars& own) {
  const model::Parameter& parameter = *parameters()[piece.parameter];
  const auto at = [&](const Tensor& tensor, auto real) { return static_cast<decltype(real)*>(tensor.data_ptr()) + begin; };
  const Tensor& w = master(piece.parameter);
  const Tensor &m = m_[piece.parameter], &v = v_[piece.parameter];
  const kernels::ElementLoops& loops = kernels::element_loops();
  const bool fp64 = w.scalar_type() == at::kDouble;
  if (!piece.trainable) {
    if (!own.zero_gradient) return;
    if (fp64)
      std::fill_n(at(parameter.own_grad, double{}), length, 0.0);
    else
      std::fill_n(at(parameter.own_grad, float{}), length, 0.0f);
  } else if (fp64) {
    loops.adamw_fp64(at(w, double{}), at(m, double{}), at(v, double{}), at(parameter.own_grad, double{}), length, own);
  } else if (parameter.value.scalar_type() == at::kBFloat16) {
    loops.adamw_bf16(at(w, float{}), at(m, float{}), at(v, float{}), at(parameter.own_grad, float{}), at(parameter.own_value, uint16_t{}),
                     length, own);
  } else {
    loops.adamw_fp32(at(w, float{}), at(m, float{}), at(v, float{}), at(parameter.own_grad, float{}), length, own);
  }
}

void AdamW::update_with_tensor_operations(const Piece& piece, const kernels::AdamwScalars& own) {
  const model::Parameter& parameter = *parameters()[piece.parameter];
  const auto cut = [&](const Tensor& storage) { return storage.narrow(0, piece.begin, piece.length); };
  const Tensor gradient = cut(parameter.own_grad);
  if (piece.trainable) {
    kernels::adamw_aten(cut(master(piece.parameter)), cut(m_[piece.parameter]), cut(v_[piece.parameter]), gradient,
                        cut(parameter.own_value), own);
  }
  if (own.zero_gradient) gradient.zero_();
}

std::vector<StateTensor> AdamW::state() {
  std::vector<StateTensor> result;
  for (size_t p = 0; p < parameters().size(); ++p) {
    append_state(result, p, "master", master(p));
    if (!parameters()[p]->trainable()) continue;
    append_state(result, p, "m", m_[p]);
    append_state(result, p, "v", v_[p]);
  }
  return result;
}

}  // namespace longhaul::optim
