#include "train/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "checkpoint/load.h"
#include "checkpoint/optimizer_state.h"
#include "checkpoint/save.h"
#include "comm/run_ranks.h"
#include "parallel/arrangement.h"
#include "storage/checkpoint_name.h"
#include "train/step.h"

namespace longhaul::train {
namespace {

constexpr int64_t kSteps = 3, kSavedStep = 2;

// A box of a logical tensor.
struct Held {
  std::string name;
  layout::Rectangle box;
  Tensor values;
};

// What a rank has seen.
struct Seen {
  std::vector<double> losses, norms;
  std::vector<Held> gradients, parameters;
};

// Of what the ranks cut each keeps a share of gradients, and at stage 3 of values.
std::vector<Held> held_of(const model::ParameterSet& parameters, bool gradients) {
  std::vector<Held> result;
  const bool shares = gradients || parameters.place().zero >= 3;
  for (const auto& parameter : parameters.all()) {
    if (gradients && !parameter->trainable()) continue;
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const model::Part& part = parameter->parts[i];
      const Tensor found = shares ? parameter->own_part_of(gradients ? parameter->own_grad : parameter->own_value, i)
                                  : parameter->part_of(parameter->value.detach(), i);
      result.push_back({part.spec.tensor.name, shares ? part.own : part.held, found.to(at::kDouble).clone()});
    }
  }
  return result;
}

// What is proved of every layout.
struct Subject {
  recipe::ModelConfig config;
  recipe::OptimOptions optim;
  std::string dtype;
  ProofLayout layout;
};

struct ProofCheckpoint {
  std::string layout;  // that saved it
  std::filesystem::path folder;
};

// A training run of a few steps on one rank.
class ProofRun {
 public:
  ProofRun(const Subject& subject, parallel::Ranks& ranks)  // both must outlive it
      : ranks_(ranks),
        mistake_(subject.layout.mistake),
        task_(subject.config, Precision::named(subject.dtype), ranks, subject.layout),
        optimizer_(optim::make_optimizer(options_of(subject.optim), task_.parameters(), task_.precision())),
        state_(*optimizer_),
        router_bias_rate_(subject.config.router.bias_rate) {}

  void step(int64_t step) {
    const auto look = [&] {
      if (mistake_ != nullptr && mistake_->gradients) mistake_->gradients(ranks_.place(), step, task_.parameters());
      if (step == 1) seen.gradients = held_of(task_.parameters(), true);
    };
    // What is not finite is seen as a difference.
    const StepResult result =
        run_step(task_, *optimizer_, ranks_, step,
                 {.lr = 1e-2, .clip_norm = 1.0, .seed = kProofSeed, .router_bias_rate = router_bias_rate_, .with_gradients = look});
    seen.losses.push_back(result.loss);
    seen.norms.push_back(result.gradient_norm);
    parallel::Sharding* const sharding = ranks_.sharding_of(task_.parameters());
    if (sharding != nullptr && ranks_.place().zero < 3) sharding->gather_values();
    seen.parameters = held_of(task_.parameters(), false);
  }
  void save(const ProofCheckpoint& checkpoint) {
    std::optional<Error> failure;
    checkpoint::Saver saver(
        files_, {.folder = checkpoint.folder, .on_result = [&](const checkpoint::SaveResult& result) { failure = result.failure; }},
        ranks_.everyone("checkpoint"));
    saver.save(kSavedStep, providers_, {.run_id = "prove"});
    saver.wait();
    if (failure) throw Error(*failure);
  }
  void resume(const ProofCheckpoint& checkpoint) {
    const std::string name = storage::CheckpointName{.step = kSavedStep, .generation = 1}.text();
    checkpoint::load_training_state(storage::Checkpoint::open(files_, checkpoint.folder / name), providers_, ranks_.world());
    ranks_.share_values(task_.parameters());
  }
  Seen seen;

 private:
  static recipe::OptimOptions options_of(recipe::OptimOptions options) {
    options.eps = 1e-2;
    options.square_eps = options.residual_eps = 1e-4;
    return options;
  }

  parallel::Ranks& ranks_;
  const ProofMistake* mistake_;
  ProofTask task_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  checkpoint::OptimizerState state_;
  double router_bias_rate_;
  checkpoint::StateProvider* providers_[1] = {&state_};
  storage::LocalFileSystem files_;
};

using Values = std::map<std::string, Tensor>;

Values by_name(const std::vector<Held>& all) {
  Values result;
  for (const Held& each : all) result[each.name] = each.values;
  return result;
}

// The largest difference anywhere, relative to the largest value of its tensor, and what lies beyond the bound first.
class Difference {
 public:
  enum class Measure { kLargest, kMeanSquare };
  Difference(double bound, Measure measure) : bound_(bound), measure_(measure) {}
  void note(const std::string& what, double difference) {
    if (!(difference <= worst) || where.empty()) worst = difference, where = what;
    if (!(difference <= bound_) && first_beyond.empty()) first_beyond = fmt::format("{}: {:.3g}", what, difference);
  }
  void note(const std::string& what, const std::vector<double>& reference, const std::vector<double>& found) {
    for (size_t i = 0; i < reference.size(); ++i)
      note(fmt::format("{} of step {}", what, i + 1), std::abs(found[i] - reference[i]) / std::abs(reference[i]));
  }
  void note(const char* what, const Values& reference, const std::vector<Held>& held) {
    double least = 0;
    for (const auto& [name, values] : reference) least = std::max(least, 1e-2 * size(values));
    for (const Held& each : held) {
      const Tensor& whole = reference.at(each.name);
      Tensor expected = whole;
      for (size_t d = 0; d < each.box.length.size(); ++d)
        expected = expected.narrow(static_cast<int64_t>(d), each.box.offset[d], each.box.length[d]);
      if (each.values.numel() == 0) continue;
      note(fmt::format("{} of {}", what, each.name), size(each.values.sub(expected)) / std::max(size(whole), least));
    }
  }
  double worst = 0;
  std::string where, first_beyond;

 private:
  double size(const Tensor& x) const {
    if (x.numel() == 0) return 0;
    return measure_ == Measure::kLargest ? x.abs().max().item<double>() : x.square().mean().sqrt().item<double>();
  }
  double bound_;
  Measure measure_;
};

// The single process, which every layout of as many ranks is compared with, and the checkpoint that the next layout goes on from.
struct Reference {
  Seen seen;
  Values gradients, parameters;
};

class Prover {
 public:
  explicit Prover(const ProofRequest& request) : request_(request) {}

  Proof proof_of(const ProofLayout& layout) {
    const int64_t world = layout.parallel.world();
    Proof proof{.layout = layout.name, .ranks = world};
    if ((layout.parallel.ep > 1 || layout.parallel.etp > 1) && request_.model.experts == 0) {
      proof.status = Proof::Status::kSkipped;
      proof.reason = "the model has no experts";
      return proof;
    }
    try {
      compare(layout, proof);
    } catch (const Error& error) {
      if (error.code() == ExitCode::kCommunication && layout.mistake != nullptr) {
        proof.holds = false;
        proof.tensor = proof.reason = error.what();
        return proof;
      }
      if (error.code() != ExitCode::kUsage) throw;
      proof.status = Proof::Status::kRefused;
      proof.reason = fmt::format("{}: {} expected, {} found", error.fields().what, error.fields().expected, error.fields().found);
    }
    return proof;
  }

 private:
  Subject subject(const ProofLayout& layout, const std::string& dtype) const {
    return {made_small(request_.model, layout.parallel.world()), request_.optim, dtype, layout};
  }
  // Of models of one size on the same documents.
  std::string key_of(const ProofLayout& layout) const {
    return fmt::format("{}-{}", subject(layout, "").config.layers, layout.packed ? "packed" : "rows");
  }

  const Reference& reference(const ProofLayout& layout, const std::string& dtype) {
    const std::string key = key_of(layout);
    auto [found, fresh] = references_.try_emplace(key + dtype);
    if (!fresh) return found->second;
    Reference& made = found->second;
    parallel::Ranks alone;
    Subject trained = subject(layout, dtype);
    trained.layout = proof_layout({}, layout.packed);
    ProofRun run(trained, alone);
    for (int64_t step = 1; step <= kSteps; ++step) {
      run.step(step);
      if (step == kSavedStep && dtype == "fp64") run.save(checkpoints_[key] = new_checkpoint("one"));
    }
    made.seen = run.seen;
    made.gradients = by_name(run.seen.gradients);
    made.parameters = by_name(run.seen.parameters);
    return made;
  }

  void compare(const ProofLayout& layout, Proof& proof) {
    using enum Difference::Measure;
    Difference exact(kProofBound, kLargest), coarse(kProofBoundBf16, kMeanSquare), scalars(kProofBoundBf16Scalars, kMeanSquare);
    const Reference& fp64 = reference(layout, "fp64");
    for (const auto& [seen, resumed] : on_ranks(layout, "fp64", proof)) {
      exact.note("loss", fp64.seen.losses, seen.losses);
      exact.note("gradient norm", fp64.seen.norms, seen.norms);
      exact.note("gradient", fp64.gradients, seen.gradients);
      exact.note("value after three steps", fp64.parameters, seen.parameters);
      exact.note("value after three steps, resumed", fp64.parameters, resumed.parameters);
    }
    if (layout.mistake == nullptr) {
      const Reference& bf16 = reference(layout, "bf16");
      for (const auto& [seen, resumed] : on_ranks(layout, "bf16", proof)) {
        scalars.note("bf16 loss", {bf16.seen.losses[0]}, {seen.losses[0]});
        scalars.note("bf16 gradient norm", {bf16.seen.norms[0]}, {seen.norms[0]});
        coarse.note("bf16 gradient", bf16.gradients, seen.gradients);
      }
    }
    proof.worst = exact.worst;
    proof.worst_bf16 = coarse.worst;
    proof.tensor = exact.where;
    for (const Difference* each : {&exact, &scalars, &coarse}) {
      if (each->first_beyond.empty()) continue;
      proof.holds = false;
      proof.tensor = proof.reason = each->first_beyond;
      break;
    }
  }

  // What each rank has seen, from the first step on, and in fp64 going on from another layout's checkpoint; its own becomes the next one's.
  std::vector<std::pair<Seen, Seen>> on_ranks(const ProofLayout& layout, const std::string& dtype, Proof& proof) {
    const int64_t world = layout.parallel.world();
    const Subject trained = subject(layout, dtype);
    const parallel::Arrangement arrangement = parallel::arrangement_of(layout.parallel, world);
    parallel::require_possible(trained.config, arrangement);
    if (kProofRows % arrangement.mesh.size(layout::Axis::kDp) != 0) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "the proof's sequences cannot be dealt out",
                   .expected = fmt::format("a number of replicas that divides {}", kProofRows),
                   .found = std::to_string(arrangement.mesh.size(layout::Axis::kDp))});
    }
    const bool resumes = dtype == "fp64" && layout.mistake == nullptr;
    const ProofCheckpoint earlier = checkpoints_[key_of(layout)], own = new_checkpoint(layout.name);
    std::vector<std::pair<Seen, Seen>> seen(static_cast<size_t>(world));
    comm::run_ranks(world, [&](comm::Communicator& given) {
      const bool forgets = layout.mistake != nullptr && layout.mistake->left_out;
      const std::unique_ptr<comm::Communicator> planted = forgets ? forgetful(given, *layout.mistake) : nullptr;
      parallel::Ranks ranks(planted ? *planted : given, arrangement);
      ProofRun run(trained, ranks);
      for (int64_t step = 1; step <= kSteps; ++step) {
        run.step(step);
        if (step == kSavedStep && resumes) run.save(own);
      }
      Seen resumed;
      if (resumes) {
        ProofRun second(trained, ranks);
        second.resume(earlier);
        second.step(kSavedStep + 1);
        resumed = second.seen;
      }
      seen[static_cast<size_t>(given.rank())] = {run.seen, std::move(resumed)};
    });
    if (resumes) {
      proof.resumed_from = earlier.layout;
      checkpoints_[key_of(layout)] = own;
      std::filesystem::remove_all(earlier.folder);
    }
    return seen;
  }

  ProofCheckpoint new_checkpoint(const std::string& layout) { return {layout, folder_ / std::to_string(++checkpoints_made_)}; }

  const ProofRequest& request_;
  TemporaryFolder folder_;
  int64_t checkpoints_made_ = 0;
  std::map<std::string, Reference> references_;
  std::map<std::string, ProofCheckpoint> checkpoints_;  // by key_of
};

}  // namespace

std::string_view Proof::status_name() const {
  constexpr std::string_view kNames[] = {"tried", "refused", "skipped"};
  return kNames[static_cast<size_t>(status)];
}

std::vector<Proof> prove(const ProofRequest& request) {
  Prover prover(request);
  std::vector<Proof> proofs;
  for (const ProofLayout& layout : request.layouts) {
    if (request.begins) request.begins(layout);
    proofs.push_back(prover.proof_of(layout));
  }
  return proofs;
}

}  // namespace longhaul::train
