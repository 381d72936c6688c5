#include "train/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "comm/run_ranks.h"
#include "model/decoder.h"
#include "train/step.h"
#include "train/text_stage.h"

namespace longhaul::train {
namespace {

using layout::Axis;

constexpr int64_t kRows = 8, kRowTokens = 25, kSteps = 3;
constexpr uint64_t kSeed = 20260101;
// Of each row: documents that end anywhere but at a cut, one of a single token, one as long as the row.
const std::vector<std::vector<int64_t>> kDocuments = {{7, 1, 17}, {25},     {5, 4, 3, 13}, {2, 23},
                                                      {1, 24},    {12, 13}, {8, 8, 9},     {1, 1, 20, 3}};

// What a micro-batch is made of: some rows.
struct Batch {
  layout::SequenceLayout layout;
  std::vector<int64_t> ids, labels;
};

Batch batch_of(int64_t first_row, int64_t rows, int64_t step, int64_t vocabulary) {
  const RandomStream stream(kSeed, fmt::format("prove/ids/{}", step));
  Batch batch;
  std::vector<int64_t> lengths;
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    const auto& documents = kDocuments[static_cast<size_t>(row)];
    lengths.insert(lengths.end(), documents.begin(), documents.end());
    for (int64_t t = 0; t < kRowTokens; ++t) {
      batch.ids.push_back(
          static_cast<int64_t>(stream.below(static_cast<uint64_t>(row * kRowTokens + t), static_cast<uint64_t>(vocabulary))));
    }
  }
  batch.layout = layout::in_rows(layout::make_packed(lengths), kRowTokens);
  batch.labels = layout::shifted_labels(batch.layout, batch.ids);
  return batch;
}

// A replica's share of the rows, two in a micro-batch or as many as it has; a stage's share of the layers.
class ProofTask final : public Task {
 public:
  ProofTask(const recipe::ModelConfig& config, Precision precision, const parallel::Ranks& ranks)
      : ranks_(ranks), decoder_(config, precision, at::kCPU, model::Use::kTraining, ranks.place()), stage_(decoder_, ranks) {
    decoder_.parameters().initialise(kSeed);
  }
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }

  StepWork prepare(int64_t step) override {
    const int64_t replicas = ranks_.place().mesh.size(Axis::kDp), own = kRows / replicas, in_micro_batch = std::min<int64_t>(own, 2);
    micro_batches_.clear();
    StepWork work;
    for (int64_t row = 0; row < own; row += in_micro_batch) {
      const int64_t first = ranks_.place().coordinate(Axis::kDp) * own + row;
      micro_batches_.push_back(batch_of(first, in_micro_batch, step, decoder_.config().vocabulary));
      for (const int64_t label : micro_batches_.back().labels) work.weight += label >= 0 ? 1 : 0;
      work.tokens += in_micro_batch * kRowTokens;
    }
    work.micro_batches = static_cast<int64_t>(micro_batches_.size());
    return work;
  }

  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override {
    return stage_.forward(context, text_of(micro_batch), entering);
  }
  StageInput stage_input(int64_t micro_batch) const override { return stage_.input(text_of(micro_batch)); }

 private:
  PackedText text_of(int64_t micro_batch) const {
    const Batch& batch = micro_batches_[static_cast<size_t>(micro_batch)];
    return {batch.layout, batch.ids, batch.labels};
  }

  const parallel::Ranks& ranks_;
  model::Decoder decoder_;
  TextStage stage_;
  std::vector<Batch> micro_batches_;
};

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

std::vector<Held> held_of(const model::ParameterSet& parameters, bool gradients) {
  std::vector<Held> result;
  for (const auto& parameter : parameters.all()) {
    if (gradients && !parameter->trainable()) continue;
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const Tensor storage = gradients ? parameter->grad : parameter->value.detach();
      result.push_back(
          {parameter->parts[i].spec.tensor.name, parameter->parts[i].held, parameter->part_of(storage, i).to(at::kDouble).clone()});
    }
  }
  return result;
}

// What is proved of every layout.
struct Subject {
  recipe::ModelConfig config;
  recipe::OptimOptions optim;
};

Seen three_steps(const Subject& subject, const std::string& dtype, parallel::Ranks& ranks) {
  ProofTask task(subject.config, Precision::named(dtype), ranks);
  recipe::OptimOptions options = subject.optim;
  options.eps = 1e-2;
  options.square_eps = options.residual_eps = 1e-4;
  const auto optimizer = optim::make_optimizer(options, task.parameters(), task.precision());
  Seen seen;
  for (int64_t step = 1; step <= kSteps; ++step) {
    const auto look = [&] {
      if (step == 1) seen.gradients = held_of(task.parameters(), true);
    };
    const StepResult result =
        run_step(task, *optimizer, ranks, step, {.lr = 1e-2, .clip_norm = 1.0, .seed = kSeed, .with_gradients = look});
    LONGHAUL_ASSERT(!result.skipped, "{} is not finite in step {} of the proof", result.skipped->tensor, step);
    seen.losses.push_back(result.loss);
    seen.norms.push_back(result.gradient_norm);
  }
  seen.parameters = held_of(task.parameters(), false);
  return seen;
}

using Reference = std::map<std::string, Tensor>;

Reference by_name(const std::vector<Held>& all) {
  Reference result;
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
  void note(const char* what, const Reference& reference, const std::vector<Held>& held) {
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

std::vector<Seen> on_ranks(const Subject& subject, const std::string& dtype, const ProofLayout& layout) {
  std::vector<Seen> seen(static_cast<size_t>(layout.world));
  const parallel::Arrangement arrangement{{layout.world, layout.shape}, layout.context, layout.pipeline};
  const layout::Mesh& mesh = arrangement.mesh;
  parallel::require_possible(subject.config, arrangement);
  if (kRows % mesh.size(Axis::kDp) != 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the proof's sequences cannot be dealt out",
                 .expected = fmt::format("a number of replicas that divides {}", kRows),
                 .found = std::to_string(mesh.size(Axis::kDp))});
  }
  comm::run_ranks(layout.world, [&](comm::Communicator& world) {
    parallel::Ranks ranks(world, arrangement);
    seen[static_cast<size_t>(world.rank())] = three_steps(subject, dtype, ranks);
  });
  return seen;
}

struct Single {
  Seen seen;
  Reference gradients, parameters;
};

Single single(const Subject& subject, const std::string& dtype) {
  parallel::Ranks alone;
  Single result{three_steps(subject, dtype, alone), {}, {}};
  result.gradients = by_name(result.seen.gradients);
  result.parameters = by_name(result.seen.parameters);
  return result;
}

std::string reason_to_skip(const recipe::ModelConfig& config, const ProofLayout& layout) {
  return layout.shape.ep > 1 && config.experts == 0 ? "the model has no experts" : "";
}

Proof proof_of(const Subject& subject, const ProofLayout& layout, const Single& fp64, const Single& bf16) {
  Proof proof{.layout = layout.name, .reason = reason_to_skip(subject.config, layout)};
  if (!proof.reason.empty()) {
    proof.status = Proof::Status::kSkipped;
    return proof;
  }
  try {
    using enum Difference::Measure;
    Difference exact(kProofBound, kLargest), coarse(kProofBoundBf16, kMeanSquare), scalars(kProofBoundBf16Scalars, kMeanSquare);
    for (const Seen& seen : on_ranks(subject, "fp64", layout)) {
      exact.note("loss", fp64.seen.losses, seen.losses);
      exact.note("gradient norm", fp64.seen.norms, seen.norms);
      exact.note("gradient", fp64.gradients, seen.gradients);
      exact.note("value after three steps", fp64.parameters, seen.parameters);
    }
    for (const Seen& seen : on_ranks(subject, "bf16", layout)) {
      scalars.note("bf16 loss", {bf16.seen.losses[0]}, {seen.losses[0]});
      scalars.note("bf16 gradient norm", {bf16.seen.norms[0]}, {seen.norms[0]});
      coarse.note("bf16 gradient", bf16.gradients, seen.gradients);
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
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage) throw;
    proof.status = Proof::Status::kRefused;
    proof.reason = fmt::format("{}: {} expected, {} found", error.fields().what, error.fields().expected, error.fields().found);
  }
  return proof;
}

}  // namespace

std::vector<ProofLayout> proof_layouts(const recipe::ParallelOptions& own) {
  using enum recipe::ContextMethod;
  using enum recipe::ContextSplit;
  using enum recipe::PipelineSchedule;
  using recipe::LinearContextMethod;
  constexpr auto kAllScan = LinearContextMethod::kAllScan;
  std::vector<ProofLayout> layouts = {{"dp2", 2, {}},
                                      {"tp2", 2, {.tp = 2}},
                                      {"cp2-contiguous", 2, {.cp = 2}, {.split = kContiguous}},
                                      {"cp2-zigzag", 2, {.cp = 2}, {.split = kZigzag}},
                                      {"cp2-ulysses", 2, {.cp = 2}, {.softmax = kUlysses, .linear = kAllScan}},
                                      {"cp4-ring-contiguous", 4, {.cp = 4}, {kRing, LinearContextMethod::kRing, kContiguous}},
                                      {"cp4-ring-zigzag", 4, {.cp = 4}, {kRing, LinearContextMethod::kRing, kZigzag}},
                                      {"cp4-two-level", 4, {.cp = 4}, {.softmax = kTwoLevel, .linear = kAllScan, .split = kContiguous}},
                                      {"pp2-1f1b", 2, {.pp = 2}},
                                      {"pp2-gpipe", 2, {.pp = 2}, {}, {.schedule = kGpipe}},
                                      {"pp2-interleaved", 2, {.pp = 2}, {}, {.schedule = kInterleaved, .chunks = 2}},
                                      {"pp2-zb-h1", 2, {.pp = 2}, {}, {.schedule = kZbH1}},
                                      {"pp2-zbv", 2, {.pp = 2}, {}, {.schedule = kZbV}},
                                      {"pp2-dualpipe", 2, {.pp = 2}, {}, {.schedule = kDualPipe}},
                                      {"ep2", 2, {.ep = 2}},
                                      {"dp2-tp2", 4, {.tp = 2}}};
  if (own.world() == 1) return layouts;
  ProofLayout named{"", own.world(), {.pp = own.pp, .cp = own.cp, .tp = own.tp, .ep = own.ep, .etp = own.etp}, own.context, own.pipeline};
  const int64_t replicas = named.world / (own.pp * own.cp * own.tp);
  for (const auto& [axis, ranks] :
       {std::pair{"dp", replicas}, {"tp", own.tp}, {"pp", own.pp}, {"cp", own.cp}, {"ep", own.ep}, {"etp", own.etp}}) {
    if (ranks > 1) named.name += fmt::format("{}{}{}", named.name.empty() ? "" : "-", axis, ranks);
  }
  const auto same = [&](const ProofLayout& each) {
    return each.world == named.world && each.shape == named.shape && (own.cp == 1 || each.context == named.context) &&
           (own.pp == 1 || each.pipeline == named.pipeline);
  };
  if (std::ranges::none_of(layouts, same)) layouts.push_back(named);
  return layouts;
}

std::string_view name_of(Proof::Status status) {
  constexpr std::string_view kNames[] = {"tried", "refused", "skipped"};
  return kNames[static_cast<size_t>(status)];
}

recipe::ModelConfig made_small(recipe::ModelConfig model) {
  std::vector<recipe::Mixer> mixers;  // each once, then all of them again: two layers a stage
  for (const recipe::Mixer mixer : model.mixers) {
    if (std::ranges::find(mixers, mixer) == mixers.end()) mixers.push_back(mixer);
  }
  model.layers = std::max<int64_t>(4, static_cast<int64_t>(mixers.size()));
  model.mixers = mixers;
  const bool grouped = model.softmax.kv_heads < model.heads;
  model.heads = 4;
  model.softmax.kv_heads = grouped ? 2 : 4;
  model.head_dim = std::min<int64_t>(model.head_dim, 8);
  model.softmax.rotary_dim = std::min<int64_t>(model.softmax.rotary_dim, 4);
  model.hidden = 24;
  model.intermediate = 20;
  model.vocabulary = 53;  // no number of ranks divides it
  model.experts = std::min<int64_t>(model.experts, 4);
  model.experts_per_token = std::min<int64_t>(model.experts_per_token, 2);
  if (model.max_positions > 0) model.max_positions = kRowTokens + 3;
  return model;
}

std::vector<Proof> prove(const recipe::ModelConfig& model, const recipe::ParallelOptions& own, const recipe::OptimOptions& optim,
                         const std::function<void(const ProofLayout&)>& begins) {
  return prove_layouts(model, proof_layouts(own), optim, begins);
}

std::vector<Proof> prove_layouts(const recipe::ModelConfig& model, const std::vector<ProofLayout>& layouts,
                                 const recipe::OptimOptions& optim, const std::function<void(const ProofLayout&)>& begins) {
  const Subject subject{made_small(model), optim};
  const Single fp64 = single(subject, "fp64"), bf16 = single(subject, "bf16");
  std::vector<Proof> proofs;
  for (const ProofLayout& layout : layouts) {
    if (begins) begins(layout);
    proofs.push_back(proof_of(subject, layout, fp64, bf16));
  }
  return proofs;
}

}  // namespace longhaul::train
