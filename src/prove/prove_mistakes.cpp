#include "prove/prove_mistakes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "comm/wrappers/wrapper.h"

namespace longhaul::prove {
namespace {

using comm::Call;
using comm::CallKind;
using layout::Axis;
using layout::MeshRank;
using model::ParameterSet;
using recipe::ModelConfig;
using recipe::ParallelOptions;

// ---- what a model must have

std::string experts(const ModelConfig& model) { return model.experts > 0 ? "" : "model.experts"; }
std::string balance(const ModelConfig& model) {
  return model.experts > 0 && model.auxiliary_loss > 0 ? "" : "model.experts and model.auxiliary_loss";
}
std::string tied(const ModelConfig& model) { return model.tie_embeddings ? "" : "model.tie_embeddings"; }
std::string biases(const ModelConfig& model) { return model.bias ? "" : "model.bias"; }
std::string softmax(const ModelConfig& model) {
  return std::ranges::count(model.mixers, recipe::Mixer::kSoftmax) > 0 ? "" : "softmax in model.mixers";
}
std::string linear(const ModelConfig& model) {
  return std::ranges::any_of(model.mixers,
                             [](recipe::Mixer mixer) {
                               return mixer != recipe::Mixer::kSoftmax && mixer != recipe::Mixer::kMla;
                             })
             ? ""
             : "a linear mixer in model.mixers";
}
std::string carried_state(const ModelConfig& model) {
  return model.causal ? linear(model) : "model.causal = true";
}
std::string no_order(const ModelConfig& model) { return model.causal ? "model.causal = false" : ""; }
std::string linear_without_order(const ModelConfig& model) {
  return model.causal ? no_order(model) : linear(model);
}
std::string key_copies(const ModelConfig& model) {
  return layout::key_copies(model, 4) > 1 ? "" : "two key heads, of which four tensor ranks hold copies";
}
std::string lightning(const ModelConfig& model) {
  return std::ranges::count(model.mixers, recipe::Mixer::kLightning) > 0 ? "" : "lightning in model.mixers";
}
std::string positions(const ModelConfig& model) {
  return !softmax(model).empty() || model.position == recipe::Position::kNone
             ? "softmax in model.mixers, with positions"
             : "";
}

// ---- which calls are left out

std::function<bool(const Call&)> calls_named(std::string name) {
  return [name = std::move(name)](const Call& call) { return call.options.name == name; };
}
// Sums of the gradients of arenas that lie over these axes; "": of all.
std::function<bool(const Call&)> sums_of_gradients(std::string over) {
  return [over = std::move(over)](const Call& call) {
    const std::string& name = call.options.name;
    return name.starts_with("gradients of ") &&
           (over.empty() || (name + ",").find(" over " + over + ",") != std::string::npos);
  };
}

void scale(const ParameterSet& parameters, double factor,
           const std::function<bool(const model::Parameter&)>& which) {
  for (const auto& parameter : parameters.all()) {
    if (parameter->trainable() && which(*parameter)) parameter->grad.mul_(factor);
  }
}
bool uncut_bias(const model::Parameter& parameter) {
  return parameter.name.ends_with(".bias") && parameter.value.numel() == parameter.parts[0].spec.elements();
}

// Rows become one document each.
void join_documents(ProofBatch& batch) {
  std::vector<int64_t> rows;
  for (size_t i = 1; i < batch.layout.row_offsets.size(); ++i)
    rows.push_back(batch.layout.row_offsets[i] - batch.layout.row_offsets[i - 1]);
  batch.layout = layout::in_rows(layout::make_packed(rows), rows[0]);
}

std::vector<ProofMistake> make_mistakes() {
  const ParallelOptions dp2{.ranks = 2}, tp2{.tp = 2}, pp2{.pp = 2}, cp2{.cp = 2}, ep2{.ep = 2};
  return {
      {.name = "norm-gradient-unsummed",
       .what = "Tensor ranks keep the gradient of a norm that their own tokens gave.",
       .layout = tp2,
       .left_out = sums_of_gradients("dp-cp-tp")},
      {.name = "key-gradient-unsummed",
       .what = "Tensor ranks that have the same key head keep the gradient that their own query heads gave.",
       .layout = {.tp = 4},
       .missing = key_copies,
       .left_out = sums_of_gradients("dp-cp-tpr")},
      {.name = "replicas-unsummed",
       .what = "Replicas keep the gradients of their own sequences.",
       .layout = dp2,
       .left_out = sums_of_gradients("")},
      {.name = "expert-gradient-unsummed",
       .what = "Copies of an expert keep the gradients of their own rows.",
       .layout = dp2,
       .missing = experts,
       .left_out = sums_of_gradients("edp")},
      {.name = "expert-scale-dropped",
       .what = "Gradients of experts are scaled as if each had as many copies as the dense layers.",
       .layout = ep2,
       .missing = experts,
       .gradients =
           [](const MeshRank& place, int64_t, const ParameterSet& parameters) {
             scale(parameters, static_cast<double>(place.mesh.size(Axis::kEp)),
                   [](const model::Parameter& parameter) { return parameter.parts[0].spec.expert >= 0; });
           }},
      {.name = "tied-embedding-unsummed",
       .what = "The first and the last stage keep their own gradients of a tied embedding.",
       .layout = pp2,
       .missing = tied,
       .left_out = calls_named("gradients that stages share")},
      {.name = "document-reset-lost",
       .what = "One replica does not see where documents end.",
       .layout = dp2,
       .batch =
           [](const MeshRank& place, ProofBatch& batch) {
             if (place.coordinate(Axis::kDp) == 1) join_documents(batch);
           }},
      {.name = "order-left-in",
       .what = "One replica's tokens read those before them alone, where the model has no order.",
       .layout = dp2,
       .missing = no_order,
       .model = [](const MeshRank& place,
                   ModelConfig& model) { model.causal = place.coordinate(Axis::kDp) == 1; }},
      {.name = "sums-of-own-tokens",
       .what = "Linear attention without an order adds up a context rank's own tokens of a document.",
       .layout = cp2,
       .missing = linear_without_order,
       .left_out = calls_named("sums of documents")},
      {.name = "mean-of-means",
       .what = "The loss is averaged on each replica and then over replicas, which have different numbers of "
               "labels.",
       .layout = dp2,
       .work = [](train::StepWork& work) { work.weight = 1; },
       .loss_factor = [](const train::StepWork& work, int64_t) { return 1 / work.weight; }},
      {.name = "last-micro-batch-forgotten",
       .what = "Gradients of the last micro-batch are not added.",
       .layout = dp2,
       .loss_factor = [](const train::StepWork& work,
                         int64_t micro_batch) { return micro_batch + 1 < work.micro_batches ? 1.0 : 0.0; }},
      {.name = "auxiliary-gradient-doubled",
       .what = "Each tensor rank adds the balance loss of the experts as if it had all tokens.",
       .layout = tp2,
       .missing = balance,
       .model =
           [](const MeshRank& place, ModelConfig& model) {
             model.auxiliary_loss *= static_cast<double>(place.mesh.size(Axis::kTp));
           }},
      {.name = "bias-counted-per-rank",
       .what = "A bias behind a sum over tensor ranks gets its gradient from each of them.",
       .layout = tp2,
       .missing = biases,
       .gradients =
           [](const MeshRank& place, int64_t, const ParameterSet& parameters) {
             scale(parameters, static_cast<double>(place.mesh.size(Axis::kTp)), uncut_bias);
           }},
      {.name = "wide-norm-of-own-heads",
       .what = "The norm over all heads takes the mean square of the rank's own.",
       .layout = tp2,
       .missing = lightning,
       .left_out = calls_named("squares of a norm")},
      {.name = "exponentials-of-own-vocabulary",
       .what = "The loss is normalised over the rank's part of the vocabulary.",
       .layout = tp2,
       .left_out = calls_named("sums of exponentials")},
      {.name = "products-unsummed",
       .what = "Products of heads and inner channels are not summed over tensor ranks.",
       .layout = tp2,
       .left_out = calls_named("products of the tensor ranks")},
      {.name = "token-gradients-unsummed",
       .what = "Gradients of what tensor ranks gathered are not summed.",
       .layout = tp2,
       .left_out = calls_named("tokens of the tensor ranks (gradient)")},
      {.name = "state-not-carried",
       .what = "Linear attention begins anew on every context rank.",
       .layout = cp2,
       .missing = carried_state,
       .left_out = calls_named("states of the recurrence")},
      {.name = "state-gradient-not-carried",
       .what = "The gradient of a state stays on its context rank.",
       .layout = cp2,
       .missing = carried_state,
       .left_out = calls_named("states of the recurrence (gradient)")},
      {.name = "keys-of-others-missing",
       .what = "Softmax attention sees zeros in place of other context ranks' keys.",
       .layout = cp2,
       .missing = softmax,
       .left_out = calls_named("keys")},
      {.name = "positions-begin-anew",
       .what = "A context rank counts positions from its own first token.",
       .layout = {.cp = 2, .context = {.split = recipe::ContextSplit::kContiguous}},
       .missing = positions,
       .batch =
           [](const MeshRank& place, ProofBatch& batch) {
             const int64_t before = batch.layout.tokens() / 2 * place.coordinate(Axis::kCp);
             for (int64_t& position : batch.layout.positions)
               position = std::max<int64_t>(0, position - before);
           }},
      {.name = "label-at-the-cut-lost",
       .what = "The last token of a context rank has no label.",
       .layout = cp2,
       .batch =
           [](const MeshRank& place, ProofBatch& batch) {
             const auto own =
                 layout::local_tokens(batch.layout.tokens(), place.mesh.size(Axis::kCp),
                                      place.coordinate(Axis::kCp), recipe::ContextSplit::kZigzag);
             batch.labels[static_cast<size_t>(own.back())] = layout::kIgnoreLabel;
             batch.labels[static_cast<size_t>(own.front())] = layout::kIgnoreLabel;
           }},
      {.name = "balance-of-own-tokens",
       .what = "The balance of experts is measured on the rank's own tokens of a sequence.",
       .layout = cp2,
       .missing = balance,
       .left_out = calls_named("statistics of sequences")},
      {.name = "expert-rows-lost",
       .what = "What experts of other ranks made of a row does not come back.",
       .layout = ep2,
       .missing = experts,
       .left_out = calls_named("rows from experts")},
      {.name = "norm-of-own-part",
       .what = "Gradients are clipped by the norm of the rank's own.",
       .layout = tp2,
       .left_out = calls_named("gradient norm")},
      {.name = "shares-not-gathered",
       .what = "A replica has zeros where others have a share of the weights.",
       .layout = {.ranks = 2, .zero = 3},
       .left_out = [](const Call& call) { return call.options.name.starts_with("values of "); }},
      {.name = "shares-unsummed",
       .what = "A replica keeps, of its share of the gradients, what its own sequences gave.",
       .layout = {.ranks = 2, .zero = 2},
       .left_out = sums_of_gradients("")},
      {.name = "replicas-start-apart",
       .what = "A replica begins with other weights.",
       .layout = dp2,
       .other_start = [](const MeshRank& place) { return place.coordinate(Axis::kDp) == 1; }},
      {.name = "update-missed",
       .what = "A replica takes the second step with gradients of zero.",
       .layout = dp2,
       .gradients =
           [](const MeshRank& place, int64_t step, const ParameterSet& parameters) {
             if (step == 2 && place.coordinate(Axis::kDp) == 1)
               scale(parameters, 0, [](const model::Parameter&) { return true; });
           }},
      {.name = "replica-drifts",
       .what =
           "A replica has other gradients than the others in the second step, from the fourteenth digit on.",
       .layout = dp2,
       .gradients =
           [](const MeshRank& place, int64_t step, const ParameterSet& parameters) {
             if (step == 2 && place.coordinate(Axis::kDp) == 1)
               scale(parameters, 1 + 1e-13, [](const model::Parameter&) { return true; });
           }},
      {.name = "replicas-unsummed-in-bf16",
       .what = "Replicas keep the gradients of their own sequences, in bf16.",
       .layout = dp2,
       .in_bf16 = true,
       .left_out = sums_of_gradients("")},
      {.name = "products-unsummed-in-bf16",
       .what = "Products of heads and inner channels are not summed over tensor ranks, in bf16.",
       .layout = tp2,
       .in_bf16 = true,
       .left_out = calls_named("products of the tensor ranks")},
      {.name = "stale-values-in-bf16",
       .what = "Behind an update all ranks go on with the bf16 weights that they had before it; only the "
               "masters have changed.",
       .layout = {.ranks = 2, .zero = 1},
       .in_bf16 = true,
       .undone = ProofMistake::Undone::kValues},
      {.name = "update-lost-in-bf16",
       .what = "No rank's weights change: what the optimizer makes of gradients is not kept, in bf16.",
       .layout = tp2,
       .in_bf16 = true,
       .undone = ProofMistake::Undone::kAll},
      {.name = "hidden-states-lost",
       .what = "A stage runs a micro-batch on zeros.",
       .layout = pp2,
       .left_out = calls_named("hidden states of micro-batch 1 from stage 0")},
      {.name = "stage-gradient-lost",
       .what = "A stage gets no gradient of a micro-batch.",
       .layout = pp2,
       .left_out = calls_named("gradient of micro-batch 1 from stage 1")},
  };
}

// The rows of rank `rank` in a tensor that is cut by rank.
Tensor rows_of(const Tensor& tensor, const std::vector<int64_t>& rows, int64_t rank) {
  int64_t first = 0;
  for (int64_t r = 0; r < rank; ++r) first += rows[static_cast<size_t>(r)];
  return tensor.narrow(0, first, rows[static_cast<size_t>(rank)]);
}

// A communicator that leaves out what a mistake leaves out, and all its groups.
class Forgetful final : public comm::Wrapper {
 public:
  Forgetful(std::shared_ptr<comm::Communicator> inner, const ProofMistake& mistake)
      : Wrapper(std::move(inner)), mistake_(mistake) {}
  comm::Work start(Call call) override {
    if (!mistake_.left_out(call)) return inner().start(std::move(call));
    leave_out(call);
    if (call.kind == CallKind::kExchange) return {};
    // it keeps its number
    Call meeting{.kind = CallKind::kBarrier, .sequence = call.sequence, .options = call.options};
    return inner().start(std::move(meeting));
  }

 private:
  Forgetful(std::shared_ptr<comm::Communicator> inner, std::shared_ptr<const comm::GroupPlace> place,
            const ProofMistake& mistake)
      : Wrapper(std::move(inner), std::move(place)), mistake_(mistake) {}
  std::unique_ptr<comm::Communicator> around(std::shared_ptr<comm::Communicator> group,
                                             std::shared_ptr<const comm::GroupPlace> place) const override {
    return std::unique_ptr<comm::Communicator>(new Forgetful(std::move(group), std::move(place), mistake_));
  }

  void leave_out(const Call& call) const {
    const at::NoGradGuard no_gradient;
    switch (call.kind) {
      case CallKind::kReduceScatter:
        call.output.copy_(rows_of(call.input, call.input_rows, rank()));
        return;
      case CallKind::kAllGather: {
        const Tensor own = call.input.clone();
        call.output.zero_();
        rows_of(call.output, call.output_rows, rank()).copy_(own);
        return;
      }
      case CallKind::kAllToAll: {
        const Tensor own = rows_of(call.input, call.input_rows, rank()).clone();
        call.output.zero_();
        rows_of(call.output, call.output_rows, rank()).copy_(own);
        return;
      }
      case CallKind::kExchange:
        for (const comm::Transfer& transfer : call.transfers) {
          if (transfer.direction == comm::Direction::kReceive) transfer.tensor.zero_();
        }
        return;
      default:  // sums stay what they are here
        return;
    }
  }

  const ProofMistake& mistake_;
};

}  // namespace

const std::vector<ProofMistake>& proof_mistakes() {
  static const std::vector<ProofMistake> all = make_mistakes();
  return all;
}

ProofLayout planted(const ProofMistake& mistake) {
  ProofLayout layout = proof_layout(mistake.layout);
  layout.mistake = &mistake;
  return layout;
}

const ProofMistake& proof_mistake(const std::string& name) {
  const auto found = std::ranges::find(proof_mistakes(), name, &ProofMistake::name);
  if (found != proof_mistakes().end()) return *found;
  std::vector<std::string> names;
  for (const ProofMistake& each : proof_mistakes()) names.push_back(each.name);
  throw Error({.code = ExitCode::kUsage,
               .what = "there is no such mistake to plant",
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .found = name,
               .where = "--break",
               .hint = "longhaul prove --break list"});
}

std::unique_ptr<comm::Communicator> forgetful(comm::Communicator& world, const ProofMistake& mistake) {
  return std::make_unique<Forgetful>(comm::borrowed(world), mistake);
}

}  // namespace longhaul::prove
