// adamw, lamb, lion, sgd: the loops of kernels/adamw and kernels/updates over stretches of all matrices.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/adamw/loops.h"
#include "kernels/matmul/tasks.h"
#include "kernels/optimizer_loops/loops.h"
#include "kernels/optimizer_loops/trust_ratio.h"
#include "kernels/optimizer_step/problem.h"

namespace longhaul::kernels {
namespace {

template <class Real>
struct ElementStretch {
  size_t matrix = 0;
  UpdateRun<Real> run;
};

template <class Real>
std::vector<ElementStretch<Real>> stretches_of(const StepProblem<Real>& problem) {
  std::vector<ElementStretch<Real>> stretches;
  for (size_t i = 0; i < problem.matrices.size(); ++i) {
    const StepMatrix<Real>& matrix = problem.matrices[i];
    const UpdateRun<Real> all{.master = matrix.value,
                              .gradient = matrix.gradient,
                              .first = matrix.first,
                              .second = matrix.second,
                              .count = matrix.elements()};
    for (int64_t at = 0; at < all.count; at += kUpdateStretch)
      stretches.push_back({i, all.from(at, std::min(kUpdateStretch, all.count - at))});
  }
  return stretches;
}

template <class Real, class Body>
void each_stretch(const std::vector<ElementStretch<Real>>& stretches, const Body& body) {
  TaskList<const ElementStretch<Real>*> tasks;
  for (const ElementStretch<Real>& stretch : stretches) tasks.add(&stretch, stretch.run.count);
  tasks.run(kUpdateGrain,
            [&](const ElementStretch<Real>* const* first, const ElementStretch<Real>* const* last) {
              for (; first != last; ++first) body(**first);
            });
}

}  // namespace

template <class Real>
void step_of_adamw(const StepProblem<Real>& problem) {
  const recipe::OptimOptions& options = problem.options;
  const auto t = static_cast<double>(problem.step);
  const AdamwScalars scalars{.beta1 = options.beta1,
                             .beta2 = options.beta2,
                             .eps = options.eps,
                             .kept_weight = 1 - problem.lr * options.weight_decay,
                             .step_size = problem.lr / (1 - std::pow(options.beta1, t)),
                             .inverse_root_correction = 1 / std::sqrt(1 - std::pow(options.beta2, t)),
                             .zero_gradient = false};
  each_stretch(stretches_of(problem), [&](const ElementStretch<Real>& stretch) {
    const UpdateRun<Real>& run = stretch.run;
    const auto update = [&](auto loop) {
      loop(run.master, run.first, run.second, run.gradient, run.value, run.count, scalars);
    };
    if constexpr (std::is_same_v<Real, double>)
      update(element_loops().adamw_fp64);
    else
      update(element_loops().adamw_fp32);
  });
}

template void step_of_adamw(const StepProblem<float>&);
template void step_of_adamw(const StepProblem<double>&);

// Sums of stretches are added up in their order.
template <class Real>
void step_of_lamb(const StepProblem<Real>& problem) {
  const recipe::OptimOptions& options = problem.options;
  const auto t = static_cast<double>(problem.step);
  const double decay = options.weight_decay;
  const bool l2 = options.lamb_decay == recipe::LambDecay::kL2;
  LambScalars scalars{.beta1 = options.beta1,
                      .beta2 = options.beta2,
                      .eps = options.eps,
                      .l2 = l2 ? decay : 0,
                      .decay = l2 ? 0 : decay,
                      .beta3 = gradient_share(options),
                      .correction = 1 / (1 - std::pow(options.beta1, t)),
                      .root_correction = 1 / std::sqrt(1 - std::pow(options.beta2, t)),
                      .zero_gradient = false};
  const std::vector<ElementStretch<Real>> stretches = stretches_of(problem);
  std::vector<LambSums> sums(stretches.size()), of_matrices(problem.matrices.size());
  each_stretch(stretches, [&](const ElementStretch<Real>& stretch) {
    sums[static_cast<size_t>(&stretch - stretches.data())] =
        update_loops<Real>().lamb_moments(stretch.run, scalars);
  });
  for (size_t i = 0; i < stretches.size(); ++i) {
    of_matrices[stretches[i].matrix].weights += sums[i].weights;
    of_matrices[stretches[i].matrix].updates += sums[i].updates;
  }
  each_stretch(stretches, [&](const ElementStretch<Real>& stretch) {
    LambScalars of_matrix = scalars;
    of_matrix.step = problem.lr;
    if (has_trust_ratio(options, decay)) of_matrix.step *= trust_ratio(options, of_matrices[stretch.matrix]);
    update_loops<Real>().lamb_update(stretch.run, of_matrix);
  });
}

template void step_of_lamb(const StepProblem<float>&);
template void step_of_lamb(const StepProblem<double>&);

template <class Real>
void step_of_lion(const StepProblem<Real>& problem) {
  const recipe::OptimOptions& options = problem.options;
  const LionScalars scalars{.beta1 = options.beta1,
                            .beta2 = options.beta2,
                            .kept_weight = 1 - problem.lr * options.weight_decay,
                            .lr = problem.lr,
                            .fade = options.sign_fade,
                            .zero_gradient = false};
  each_stretch(stretches_of(problem),
               [&](const ElementStretch<Real>& each) { update_loops<Real>().lion(each.run, scalars); });
}
template void step_of_lion(const StepProblem<float>&);
template void step_of_lion(const StepProblem<double>&);

template <class Real>
void step_of_sgd(const StepProblem<Real>& problem) {
  const SgdScalars scalars{.momentum = problem.momentum(),
                           .kept_weight = 1 - problem.lr * problem.options.weight_decay,
                           .lr = problem.lr,
                           .nesterov = problem.options.nesterov,
                           .zero_gradient = false};
  each_stretch(stretches_of(problem),
               [&](const ElementStretch<Real>& each) { update_loops<Real>().sgd(each.run, scalars); });
}
template void step_of_sgd(const StepProblem<float>&);
template void step_of_sgd(const StepProblem<double>&);

}  // namespace longhaul::kernels
