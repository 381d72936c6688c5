#include "plan/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/expert_spread.h"
#include "layout/methods/methods.h"
#include "plan/link_rates.h"
#include "plan/reductions.h"

namespace longhaul::plan {
namespace {

double count(int64_t x) { return static_cast<double>(x); }

// One layer, one micro-batch, one rank: its passes by part.
struct LayerTime {
  double products = 0, expert_products = 0, attention = 0, recurrence = 0, elementwise = 0, scores = 0;
  double tensor = 0, context = 0, experts = 0;
  // Parts of `context` that a recomputed layer exchanges again: heads always, keys and values with their
  // attention; and what delta rules gather. The states that entered recurrences were kept.
  double context_again = 0, delta_again = 0;
  double attention_backward = 0;  // five products instead of two where scores are computed again
  double math() const { return products + expert_products + attention + recurrence; }
};

// The probability that a token has any of its experts on a given rank, if all experts are equally likely.
double any_expert(const Work& work, const PlanLayout& layout) {
  return layout::chance_of_any(work.expert_count, work.expert_count / layout.ep,
                               std::llround(work.experts_per_token));
}

layout::LayerBytes context_layer(const Work& work, const PlanLayout& layout, double tokens) {
  const double tp = count(layout.tp), row = tokens * count(layout.cp);
  const double key_ranks = std::min(tp, count(work.kv_heads));  // more have copies
  return {.keys = row * work.key_value_channels * 2 / key_ranks,
          .queries = row * work.attention_channels * 2 / tp,
          .linear_rows = row * work.linear_channels * 2 / tp,
          .states = work.state_bytes / tp,
          .delta_states = work.delta_state_bytes / tp,
          .summed_states = work.summed_state_bytes / tp};
}

// What context ranks send of one layer in a forward pass, by what it is.
struct ContextBytes {
  double attention = 0, linear_rows = 0, delta_states = 0, summed_states = 0;
  double state = 0;  // the states of one piece of the row
};

ContextBytes context_bytes(const Work& work, const PlanLayout& layout, double tokens) {
  const layout::RankSizes sizes = layout.sizes();
  const layout::LayerBytes layer = context_layer(work, layout, tokens);
  const auto sent = [&](const layout::LayerBytes& part) {
    return layout::kContextParallelism.sent(part, sizes).sent;
  };
  return {.attention = sent({.keys = layer.keys, .queries = layer.queries}),
          .linear_rows = sent({.linear_rows = layer.linear_rows}),
          .delta_states = sent({.delta_states = layer.delta_states}),
          .summed_states = sent({.summed_states = layer.summed_states}),
          .state = layer.states};
}

void add_exchanges(const Work& work, const PlanLayout& layout, const Cluster& cluster,
                   const Practice& practice, double tokens, LayerTime& time) {
  const double hidden = 2 * tokens * work.hidden, cp = count(layout.cp), ep = count(layout.ep),
               etp = count(layout.etp);
  const layout::RankSizes sizes = layout.sizes();
  if (layout.tp > 1) {
    const double exchanges = work.parallel_block ? 1 : 2;  // gathers, and as many sums
    const double tensor_rate =
        on_one_node(cluster, layout.tp, 1) ? link_rate(cluster, hidden) : ring_rate(cluster, layout.tp, 1);
    const double bytes = layout::kTensorParallelism.sent({.hidden = hidden}, sizes).sent;
    time.tensor = exchanges * (bytes / tensor_rate + 2 * link_latency_s(cluster)) * practice.tensor_exposed;
  }
  if (layout.cp > 1) {
    const ContextBytes bytes = context_bytes(work, layout, tokens);
    const double rate = ring_rate(cluster, layout.cp, layout.tp),
                 messages = (cp - 1) * link_message_s(cluster), attention = bytes.attention / rate,
                 delta = bytes.delta_states / rate, rows = bytes.linear_rows / rate;
    // A chain hands states on one after the other, and its last rank waits for all of them.
    const double states =
        (bytes.summed_states + bytes.state * layout::states_in_turn(layout.context, layout.cp)) / rate;
    const bool heads = layout.context.softmax == recipe::ContextMethod::kUlysses ||
                       layout.context.softmax == recipe::ContextMethod::kTwoLevel;
    const double all = attention + delta + states + rows,
                 again = (heads || practice.attention_again ? attention : 0) + rows;
    time.context = all + messages;
    time.context_again = all > 0 ? time.context * again / all : 0;
    time.delta_again = delta > 0 ? delta + messages : 0;
  }
  if (ep * etp > 1 && work.experts > 0) {
    // Bytes sent, and as many back.
    const auto [sent, whole] = layout::kExpertParallelism.sent({.hidden = hidden,
                                                                .rows_per_token = work.experts_per_token,
                                                                .imbalance = practice.imbalance,
                                                                .chance = any_expert(work, layout)},
                                                               sizes);
    // To other nodes.
    const double nodes = std::max(1.0, ep * etp / count(cluster.device.node)), away = 1 - 1 / nodes;
    const double share = cluster.efficiency.by_size ? all_to_all_share(sent, nodes) : 1;
    const double link_s = sent * (1 - away) / cluster.device.link_rate,
                 network_s = sent * away / cluster.device.nic_rate;
    // One rank has all experts: nothing is sent.
    const double dealt = sent > 0 ? std::max(link_s, network_s) / share + network_message_s(cluster) : 0;
    time.experts =
        2 * (dealt + (whole > 0 ? whole / link_rate(cluster, whole) + link_latency_s(cluster) : 0));
  }
}

LayerTime layer_time(const Work& work, const PlanLayout& layout, const Cluster& cluster,
                     const Practice& practice, double tokens) {
  const double peak = cluster.device.bf16_flops * cluster.efficiency.products,
               rate = cluster.device.memory_rate * cluster.efficiency.memory;
  const double tp = count(layout.tp);
  const double context = practice.window > 0 ? std::min(practice.window, work.sequence) : work.sequence;
  LayerTime time;
  time.products = 2 * tokens * work.dense_products_of(layout.tp) / peak;
  if (work.experts > 0) {  // at least the time in which the experts' weights are read
    const double held = work.expert_parameters / count(layout.ep * layout.etp);
    time.expert_products =
        std::max(2 * tokens * work.expert_products / tp * practice.imbalance / peak, 2 * held / rate);
  }
  const double keys =
      practice.causal && work.causal ? context * (1 - context / (2 * work.sequence)) : context;
  const double share = practice.attention > 0 ? practice.attention : cluster.efficiency.attention;
  time.attention = 4 * tokens * keys * work.attention_channels / tp /
                   (practice.flash && share > 0 ? cluster.device.bf16_flops * share : peak);
  time.attention_backward = (practice.flash ? 2.5 : 2) * time.attention;
  // Chunks of 128 tokens: products within one, and with the state.
  const double state_width = work.recurrence_products > 0
                                 ? std::sqrt(work.recurrence_products / std::max(1.0, count(work.heads)))
                                 : 0;
  time.recurrence =
      tokens * (4 * work.recurrence_products + 2 * 128 * state_width * count(work.heads)) / tp /
      (cluster.efficiency.recurrence > 0 ? cluster.device.bf16_flops * cluster.efficiency.recurrence : peak);
  // Norms and residuals (one of each in a parallel block), the channel mixer's activation, rows of experts in
  // both directions.
  const double residual = (practice.fused ? 10 : 24) * (work.parallel_block ? 0.5 : 1) * work.hidden /
                          (practice.sequence_parallel ? tp : 1);
  time.elementwise =
      tokens * (residual + (work.activation_bytes + work.dispatch_bytes * practice.imbalance) / tp) / rate;
  if (!practice.flash) time.scores = 12 * tokens * work.attention_heads * context / tp / rate;
  add_exchanges(work, layout, cluster, practice, tokens, time);
  return time;
}

// The fullest rank: without a pipeline with all layers; else a rank in the middle, or one that has the head
// or the embedding in addition to its layers, or in place of one.
double parameters_of_rank(const Work& work, const PlanLayout& layout) {
  const double layers = count(layout.stage_copies()) * layers_of_rank(work, layout),
               spare = spare_layers(work, layout);
  const double layer = work.dense_parameters_of(layout.tp), of_head = work.head_parameters / count(layout.tp),
               of_embedding = work.embedding_parameters / count(layout.tp);
  if (both_ends(layout)) return layers * layer + of_head + of_embedding;
  const double head = (spare >= 1 ? layers - 1 : layers) * layer + of_head,
               embedding = (spare >= 2 ? layers - 1 : layers) * layer + of_embedding;
  return std::max({layers * layer, head, embedding});
}

double experts_of_rank(const Work& work, const PlanLayout& layout) {
  return count(layout.stage_copies()) * layers_of_rank(work, layout) * work.expert_parameters /
         count(layout.ep * layout.etp);
}

}  // namespace

layout::RankSizes PlanLayout::sizes() const {
  return {.world = world(),
          .dp = dp,
          .tp = tp,
          .pp = pp,
          .cp = cp,
          .ep = ep,
          .etp = etp,
          .chunks = chunks,
          .micro_batch = micro_batch,
          .schedule = schedule,
          .context = context,
          .dispatcher = dispatcher};
}

std::string PlanLayout::text() const {
  const auto name = recipe::names_of(schedule)[static_cast<size_t>(schedule)];
  std::string text = fmt::format("dp {} tp {} pp {} cp {}", dp, tp, pp, cp);
  if (ep * etp > 1) text += fmt::format(" ep {} etp {}", ep, etp);
  if (ep * etp > 1 && dispatcher != recipe::Dispatcher::kAllToAll)
    text += fmt::format(" {}", recipe::names_of(dispatcher)[static_cast<size_t>(dispatcher)]);
  const PlanLayout usual;
  const auto [softmax, linear, split] = context;
  if (cp > 1 && softmax != usual.context.softmax)
    text += fmt::format(" {}", recipe::names_of(softmax)[static_cast<size_t>(softmax)]);
  if (cp > 1 && linear != usual.context.linear)
    text += fmt::format(" linear-{}", recipe::names_of(linear)[static_cast<size_t>(linear)]);
  text += fmt::format(" zero {}", zero) + (zero_copies > 1 ? fmt::format(" in {} copies", zero_copies) : "");
  if (pp > 1) text += fmt::format(" {}", name) + (chunks > 1 ? fmt::format("×{}", chunks) : "");
  text += fmt::format(" micro-batch {}", micro_batch);
  if (recompute != recipe::Recompute::kNone)
    text += fmt::format(" recompute {}", recipe::names_of(recompute)[static_cast<size_t>(recompute)]) +
            (recompute_layers > 0 ? fmt::format(" of {} layers a stage", recompute_layers) : "");
  if (to_host) text += " to the host" + (host_share ? fmt::format(" {:.2f}", *host_share) : "");
  return text + (offload ? " offload" : "");
}

PlanLayout layout_of_recipe(const recipe::Recipe& recipe) {
  const recipe::ParallelOptions& parallel = recipe.parallel;
  PlanLayout layout{.tp = parallel.tp,
                    .pp = parallel.pp,
                    .cp = parallel.cp,
                    .ep = parallel.ep,
                    .etp = parallel.etp,
                    .zero = parallel.zero,
                    .zero_copies = parallel.zero_copies};
  layout.dp = std::max<int64_t>(1, parallel.world() / (parallel.tp * parallel.pp * parallel.cp));
  layout.schedule = parallel.pipeline.schedule;
  layout.chunks = layout::Pipeline(parallel.pp, parallel.pipeline).chunks();
  layout.pairs_in_turns = parallel.arranged_pipeline().pairs_in_turns;
  layout.micro_batch = recipe.train.micro_batch;
  layout.recompute = recipe.train.recompute;
  layout.recompute_layers = recipe.train.recompute_layers;
  layout.context = parallel.context;
  layout.offload = recipe.train.offload == recipe::Offload::kFile;
  layout.to_host = recipe.train.offload == recipe::Offload::kHost;
  if (layout.to_host) layout.host_share = recipe::parse_offload_share(recipe.train.offload_share);
  layout.dispatcher = parallel.experts.dispatcher;
  return layout;
}

Practice default_practice(const PlanLayout& layout) {
  Practice practice;
  practice.data_exposed =
      // gradients leave layer by layer; the first and the last are visible
      layout.chunks > 1 ? 1 / count(layout.chunks) : 0.5;
  practice.layer_exposed = kLayerExposed;
  return practice;
}

double layers_of_rank(const Work& work, const PlanLayout& layout) {
  return count(layers_of_stage(work, layout) * layout.visits());
}

int64_t layers_of_stage(const Work& work, const PlanLayout& layout) {
  return static_cast<int64_t>(std::ceil(work.layers / count(layout.pp * layout.visits())));
}

double layers_again(const Work& work, const PlanLayout& layout) {
  const double layers = layers_of_rank(work, layout);
  if (layout.recompute == recipe::Recompute::kNone) return 0;
  return layout.recompute_layers == 0 ? layers
                                      : std::min(layers, count(layout.recompute_layers * layout.visits()));
}

// In zbv's V both are on the first rank, and with dualpipe on the first and on the last.
bool both_ends(const PlanLayout& layout) {
  return layout.pp == 1 || layout.schedule == recipe::PipelineSchedule::kZbV || layout.stage_copies() > 1;
}

double exchanged_state_bytes(const Work& work, const PlanLayout& layout) {
  const ContextBytes bytes = context_bytes(work, layout, 0);
  return layout::kContextParallelism.sent({.states = bytes.state}, layout.sizes()).sent + bytes.delta_states +
         bytes.summed_states;
}

double spare_layers(const Work& work, const PlanLayout& layout) {
  return layers_of_rank(work, layout) * count(layout.pp) - work.layers;
}

double bubble_seconds(const PlanLayout& layout, int64_t micro_batches, const StepParts& pass) {
  using recipe::PipelineSchedule;
  const double others = count(layout.pp - 1), forward = pass.forward,
               backward = pass.backward_input + pass.backward_weight;
  if (layout.pp == 1) return 0;
  switch (layout.schedule) {
    case PipelineSchedule::kGpipe:
    case PipelineSchedule::k1F1B:
      return others * (forward + backward + 2 * pass.transfer);
    case PipelineSchedule::kInterleaved: {
      const double chunk = (forward + backward + 2 * pass.transfer) / count(layout.chunks);
      const int64_t left = micro_batches % layout.pp;  // rounds that are not full wait for the rest
      return others * chunk + (left != 0 ? count(layout.chunks - 1) * count(layout.pp - left) * chunk : 0);
    }
    // The two halves of the micro-batches meet in the middle of the ranks, so that half of them wait. Without
    // pairs in turns a rank waits (p/2 − 1)(F + B − W); pairs in turns, whose messages go before and after
    // both passes, wait for one forward pass more. Where backward passes are longer than forward ones by more
    // than the pipeline can even out, or shorter, the difference adds up. The formula is this program's own;
    // it agrees with the lists of actions to rounding (plan_test Engines.DualPipe).
    case PipelineSchedule::kDualPipe: {
      const double half = count(layout.pp / 2 - 1), input = pass.backward_input,
                   weight = pass.backward_weight;
      const double uneven = std::max(0.0, half * input - (half + 1) * forward) +
                            (layout.pairs_in_turns ? 0 : half * std::max(0.0, forward - backward));
      return half * ((layout.pairs_in_turns ? 2 : 1) * forward + std::max(0.0, input - weight)) + uneven +
             2 * others * pass.transfer;
    }
    // Zero-bubble methods: weight gradients fill what they can (ZB-H1 (p−1)(F + B − W); with two chunks per
    // rank, half).
    default:
      return others *
             std::max(0.0, forward + pass.backward_input - pass.backward_weight + 2 * pass.transfer) /
             count(layout.chunks);
  }
}

StepParts step_parts(const Work& work, const PlanLayout& layout, int64_t batch, const Cluster& cluster,
                     const Practice& practice) {
  const double m = count(layout.micro_batches(batch)),
               tokens = count(layout.micro_batch) * work.sequence / count(layout.cp);
  const double layers = layers_of_rank(work, layout), recomputed = layers_again(work, layout),
               tp = count(layout.tp);
  const LayerTime one = layer_time(work, layout, cluster, practice, tokens);
  const double often = m * layers;
  StepParts parts;
  parts.products = 3 * often * (one.products + one.expert_products);
  parts.attention = often * (one.attention + one.attention_backward);
  parts.recurrence = 3 * often * one.recurrence;
  parts.elementwise = 2.6 * often * (one.elementwise + one.scores);
  parts.layer_overhead = 2 * often * cluster.efficiency.layer_s;
  parts.tensor_exchange = (1 + practice.backward_tensor) * often * one.tensor;
  parts.context_exchange = 3 * often * one.context;
  parts.expert_exchange = 2 * often * one.experts;
  const double whole_forward = one.math() + one.elementwise + one.scores + one.tensor + one.context +
                               one.experts + cluster.efficiency.layer_s;
  const double made_again = whole_forward - one.context -
                            (practice.attention_again ? 0 : one.attention + one.scores) + one.context_again +
                            one.delta_again;
  // Of a mean layer; a run splits each layer by what was measured (plan/offload_split.h).
  const double moved_s = tokens * work.kept_of(layout.recompute, layout.tp) / cluster.host_rate,
               rows_s = tokens * work.row_bytes / tp / cluster.host_rate;
  const double hidden = rows_s > 0 ? std::clamp((whole_forward - moved_s) / rows_s, 0.0, 1.0) : 0;
  const double share = layout.to_host ? layout.host_share.value_or(hidden) : 0;
  const double again = layout.recompute == recipe::Recompute::kFull ? made_again
                       : layout.recompute == recipe::Recompute::kTokens
                           ? made_again - one.recurrence - share * (one.products + one.expert_products)
                       : layout.recompute == recipe::Recompute::kSelective
                           ? (practice.flash ? 0.5 * one.elementwise : one.attention + one.scores)
                           : 0;
  parts.recomputation = m * recomputed * again;
  parts.forward = layers * whole_forward;
  parts.backward_weight = layers * (one.products + one.expert_products);
  parts.backward_input =
      layers * (one.products + one.expert_products + one.attention_backward + 2 * one.recurrence +
                1.6 * (one.elementwise + one.scores) + practice.backward_tensor * one.tensor +
                2 * one.context + one.experts + cluster.efficiency.layer_s) +
      recomputed * again;
  const double head =
      tokens / tp *
      (6 * work.head_rows / (cluster.device.bf16_flops * cluster.efficiency.products) +
       practice.loss_bytes * work.vocabulary / (cluster.device.memory_rate * cluster.efficiency.memory));
  const double a_layer = (parts.forward + parts.backward_input + parts.backward_weight) / layers;
  // In place of a layer, or in addition to all of them; two ranks with the head share the micro-batches.
  const double copies_of_stage = count(layout.stage_copies());
  parts.head = m / copies_of_stage * (spare_layers(work, layout) >= 1 ? std::max(0.0, head - a_layer) : head);
  if (layout.pp > 1) {  // both ways, once for every stage on the rank
    const double whole = 2 * tokens * work.hidden;
    double message =
        whole / tp / cluster.device.nic_rate + network_message_s(cluster) + cluster.efficiency.stop_s;
    // Each tensor rank sent a share.
    if (!practice.sequence_parallel) message += whole * (tp - 1) / tp / link_rate(cluster, whole);
    parts.transfer = practice.pipeline_exposed * message * count(layout.visits());
    parts.pipeline_exchange = m * 2 * parts.transfer;
  }
  parts.bubble = bubble_seconds(layout, layout.micro_batches(batch), parts);
  const double dense = parameters_of_rank(work, layout), experts = experts_of_rank(work, layout);
  // A rank with two stages has `held` layers, and sees half of the micro-batches in each of them.
  const double held = layers * copies_of_stage, rounds = m / copies_of_stage;
  parts.gradients = exposed_seconds(reduction_of(dense, layout.dp * layout.cp, layout.tp, layout, rounds,
                                                 held, cluster, practice.gradient_bytes) +
                                        reduction_of(experts, layout.expert_copies(), layout.ep * layout.etp,
                                                     layout, rounds, held, cluster, practice.gradient_bytes),
                                    layout, practice, parts, m, held);
  if (layout.stage_copies() > 1) {  // the two ranks that hold a stage add up what they have, when all is done
    const auto shared = [&](double parameters, int64_t copies) {
      return parameters / count(layout.zero >= 1 ? std::max<int64_t>(1, copies / layout.zero_copies) : 1);
    };
    parts.gradients += practice.gradient_bytes *
                           (shared(dense, layout.dp * layout.cp) + shared(experts, layout.expert_copies())) /
                           cluster.device.nic_rate +
                       network_message_s(cluster);
  }
  const double copies = count(std::max<int64_t>(1, layout.dp * layout.cp / layout.zero_copies));
  parts.update = practice.update_bytes * (dense + experts) /
                 (0.8 * cluster.device.memory_rate * (layout.zero >= 1 ? copies : 1));
  parts.fixed = cluster.efficiency.step_s;
  // What a layer keeps goes to the host and into the file, and comes back; passes wait for both.
  if (layout.offload) {
    const double bytes = tokens * work.kept_of(layout.recompute, layout.tp);
    parts.offload = 2 * often * bytes * (1 / cluster.host_rate + 1 / cluster.file_rate);
  }
  if (layout.to_host) {  // what compute, of which a backward pass has twice as much, does not hide
    const double copies_s = moved_s + share * rows_s;
    parts.offload = often * (std::max(0.0, copies_s - whole_forward) +
                             std::max(0.0, copies_s - 2 * whole_forward - again));
  }
  return parts;
}

std::vector<std::pair<const char*, double>> StepParts::rows() const {
  return {{"matrix products", products},
          {"attention", attention},
          {"recurrences", recurrence},
          {"elementwise operators", elementwise},
          {"launching of layers", layer_overhead},
          {"recomputation", recomputation},
          {"output head", head},
          {"tensor exchange", tensor_exchange},
          {"context exchange", context_exchange},
          {"expert exchange", expert_exchange},
          {"pipeline messages", pipeline_exchange},
          {"pipeline bubble", bubble},
          {"gradients and weights", gradients},
          {"update", update},
          {"offload", offload},
          {"of every step", fixed}};
}

double StepParts::total() const {
  double sum = 0;
  for (const auto& [name, seconds] : rows()) sum += seconds;
  return sum;
}

}  // namespace longhaul::plan
