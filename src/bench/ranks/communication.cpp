#include "bench/ranks/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/traced.h"
#include "kernels/attention/op.h"
#include "kernels/linear_recurrence/op.h"
#include "layout/methods/methods.h"
#include "parallel/context/context_attention.h"
#include "parallel/context/context_recurrence.h"
#include "parallel/mesh_ops.h"
#include "recipe/architecture/presets.h"

namespace longhaul::bench {
namespace {

using layout::ContextSplit;
using recipe::ContextMethod;
using recipe::LinearContextMethod;

constexpr int64_t kContextRanks = 4, kQueryHeads = 8, kKeyHeads = 4, kHeadChannels = 16, kExperts = 8,
                  kExpertsPerToken = 2, kExpertHidden = 24;
constexpr int64_t kStateBytes = 4 * kQueryHeads * kHeadChannels * kHeadChannels;  // fp32
constexpr int64_t kKeyBytes = 2 * kKeyHeads * kHeadChannels,
                  kQueryBytes = 2 * kQueryHeads * kHeadChannels;  // of a token, in bf16: w_kv · c, w_q · c

struct SentBytes {
  int64_t forward = 0, backward = 0;
};

Tensor ones(std::vector<int64_t> sizes) { return at::ones(sizes, at::kBFloat16).requires_grad_(true); }

using Finish = std::function<void(const Tensor& result)>;

// Of the rank that sends most, in calls whose names begin with `name`. The layer hands its result to `finish`
// while its groups live.
SentBytes sent_by(const std::function<void(comm::Communicator&, const Finish& finish)>& layer,
                  const std::string& name = "") {
  SentBytes most;
  std::mutex mutex;
  comm::run_ranks(kContextRanks, [&](comm::Communicator& threads) {
    const auto log = std::make_shared<comm::CallLog>(threads.rank());
    comm::Traced traced(comm::borrowed(threads), log);
    const auto bytes = [&] {
      int64_t sum = 0;
      for (const comm::CallRecord& call : log->records().calls)
        sum += call.name.starts_with(name) ? call.traffic.sent : 0;
      return sum;
    };
    int64_t forward = 0;
    layer(traced, [&](const Tensor& y) {
      forward = bytes();
      y.backward(at::ones_like(y));
    });
    const std::lock_guard lock(mutex);
    most.forward = std::max(most.forward, forward);
    most.backward = std::max(most.backward, bytes() - forward);
  });
  return most;
}

layout::SequenceView view_of(int64_t tokens, ContextSplit split, const comm::Communicator& group) {
  return {layout::make_batch(1, tokens),
          {.context_ranks = kContextRanks, .context_rank = group.rank(), .split = split}};
}

SentBytes linear_layer(LinearContextMethod method, int64_t tokens, ContextSplit split) {
  return sent_by([&](comm::Communicator& group, const Finish& finish) {
    const layout::SequenceView view = view_of(tokens, split, group);
    const auto x = [&] { return ones({view.tokens(), kQueryHeads, kHeadChannels}); };
    finish(
        parallel::context_recurrence(method, group, x(), x(), x(), at::full({kQueryHeads}, -0.1), view, {}));
  });
}

SentBytes softmax_layer(ContextMethod method, int64_t tokens) {
  return sent_by([&](comm::Communicator& group, const Finish& finish) {
    const layout::SequenceView view = view_of(tokens, ContextSplit::kZigzag, group);
    const auto x = [&](int64_t heads) { return ones({view.tokens(), heads, kHeadChannels}); };
    finish(parallel::context_attention(method, group, x(kQueryHeads), x(kKeyHeads), x(kKeyHeads), view,
                                       {.scale = 0.25}));
  });
}

// [tokens, choices], for each rank to have some of its own.
using Choices = std::function<Tensor(int64_t tokens, int64_t rank)>;

Tensor even_choices(int64_t tokens, int64_t) {
  return at::arange(tokens * kExpertsPerToken).remainder(kExperts).view({tokens, kExpertsPerToken});
}

// Of some tokens two experts of one rank, of others of two; no two ranks choose alike.
Tensor uneven_choices(int64_t tokens, int64_t rank) {
  const Tensor token = at::arange(tokens),
               first = token.mul(5 + rank).add(token.div(3, "floor")).remainder(kExperts);
  return at::stack({first, first.add(token.remainder(kExperts - 1 - rank)).add(1).remainder(kExperts)}, 1);
}

SentBytes experts_layer(int64_t tokens, const char* name, recipe::Dispatcher dispatcher,
                        const Choices& choices_of) {
  return sent_by(
      [&](comm::Communicator& world, const Finish& finish) {
        const parallel::MeshGroups groups(world, layout::Mesh(kContextRanks, {.ep = kContextRanks}));
        parallel::MeshOps ops(groups, {}, {.dispatcher = dispatcher});
        const int64_t own = tokens / kContextRanks;
        const model::ExpertChoices choices{.choice_tk = choices_of(own, world.rank()),
                                           .weight_tk = at::ones({own, kExpertsPerToken}),
                                           .experts = kExperts};
        finish(ops.experts(ones({own, kExpertHidden}), choices,
                           [](const Tensor& rows, const auto&, const auto&) { return rows; }));
      },
      name);
}

// Tokens that a rank has for others and others for it, each counted once for a rank that has any of its
// experts; the most of any rank.
std::pair<int64_t, int64_t> tokens_away(int64_t tokens, const Choices& choices_of) {
  constexpr int64_t kOwnExperts = kExperts / kContextRanks;
  std::vector<int64_t> sent(kContextRanks), received(kContextRanks);
  for (int64_t rank = 0; rank < kContextRanks; ++rank) {
    const Tensor choices = choices_of(tokens, rank);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t to = 0; to < kContextRanks; ++to) {
        const Tensor ranks = choices[t].div(kOwnExperts, "floor");
        if (to == rank || !ranks.eq(to).any().item<bool>()) continue;
        ++sent[static_cast<size_t>(rank)];
        ++received[static_cast<size_t>(to)];
      }
    }
  }
  return {std::ranges::max(sent), std::ranges::max(received)};
}

class Lines {
 public:
  explicit Lines(int64_t tokens) : tokens_(tokens) {}
  void add(const std::string& method, const SentBytes& sent, const SentBytes& expected,
           const std::string& forward, const std::string& backward) {
    lines.push_back({method, "forward", forward, kContextRanks, tokens_, sent.forward, expected.forward});
    if (!backward.empty())
      lines.push_back(
          {method, "backward", backward, kContextRanks, tokens_, sent.backward, expected.backward});
  }
  std::vector<CountedBytes> lines;

 private:
  int64_t tokens_;
};

void add_linear(Lines& lines, int64_t tokens) {
  using enum LinearContextMethod;
  const auto line = [&](LinearContextMethod method, ContextSplit split, const char* name,
                        const char* formula) {
    const int64_t bytes =
        std::llround(layout::kContextParallelism
                         .sent({.states = kStateBytes},
                               {.cp = kContextRanks, .context = {.linear = method, .split = split}})
                         .sent);
    lines.add(name, linear_layer(method, tokens, split), {bytes, bytes}, formula, formula);
  };
  line(kRing, ContextSplit::kContiguous, "linear: ring", "S");
  line(kRing, ContextSplit::kZigzag, "linear: ring, zig-zag", "2·S");
  line(kAllGather, ContextSplit::kContiguous, "linear: all-gather", "(P−1)·S");
  line(kAllGather, ContextSplit::kZigzag, "linear: all-gather, zig-zag", "2(P−1)·S");
  line(kAllScan, ContextSplit::kContiguous, "linear: all-scan", "S");
  line(kAllScan, ContextSplit::kZigzag, "linear: all-scan, zig-zag", "2·S");
}

// The bytes that the planner counts for a forward pass of a softmax layer (layout/methods/context.cpp).
int64_t planned(ContextMethod method, int64_t tokens) {
  const auto all = static_cast<double>(tokens);
  return std::llround(layout::kContextParallelism
                          .sent({.keys = all * 2 * kKeyBytes, .queries = all * kQueryBytes},
                                {.cp = kContextRanks, .context = {.softmax = method}})
                          .sent);
}

// Likewise of a linear layer whose heads are dealt out.
void add_linear_heads(Lines& lines, int64_t tokens) {
  const auto bytes =
      std::llround(layout::kContextParallelism
                       .sent({.linear_rows = static_cast<double>(tokens * 4 * kQueryBytes)},
                             {.cp = kContextRanks, .context = {.linear = LinearContextMethod::kUlysses}})
                       .sent);
  lines.add("linear: Ulysses", linear_layer(LinearContextMethod::kUlysses, tokens, ContextSplit::kZigzag),
            {bytes, bytes}, "(P−1)/P·(N/P)·(2w_k + 2w_v)·c", "the same");
}

void add_softmax(Lines& lines, int64_t tokens) {
  using enum ContextMethod;
  const int64_t own = tokens / kContextRanks, around = planned(kAllGather, tokens),
                heads = planned(kUlysses, tokens);
  // Gradients of keys and values travel in fp32 and go all the way home.
  lines.add("softmax: ring, zig-zag", softmax_layer(kRing, tokens),
            {around, around + kContextRanks * own * 2 * (2 * kKeyBytes)}, "(P−1)·(N/P)·2·w_kv·c",
            "the same + P·(N/P)·2·w_kv·4");
  lines.add("softmax: all-gather", softmax_layer(kAllGather, tokens), {around, around + 2 * around},
            "(P−1)·(N/P)·2·w_kv·c", "the same + (P−1)·(N/P)·2·w_kv·4");
  lines.add("softmax: Ulysses", softmax_layer(kUlysses, tokens), {heads, heads},
            "(P−1)/P·(N/P)·(2w_q + 2w_kv)·c", "the same");
  lines.add("softmax: two-level, all heads dealt out", softmax_layer(kTwoLevel, tokens), {heads, heads},
            "Ulysses among gcd(P, key heads)", "the same");
}

void add_experts(Lines& lines, int64_t tokens) {
  const int64_t own = tokens / kContextRanks, row = kExpertHidden * 2;
  const int64_t rows =
      std::llround(layout::kExpertParallelism
                       .sent({.hidden = static_cast<double>(own * row), .rows_per_token = kExpertsPerToken},
                             {.ep = kContextRanks})
                       .sent);
  const auto even = [&](const char* name) {
    return experts_layer(tokens, name, recipe::Dispatcher::kAllToAll, even_choices);
  };
  lines.add("experts: dispatch", even("rows to experts"), {rows, rows}, "T·k·H·b·(EP−1)/EP", "the same");
  lines.add("experts: combine", even("rows from experts"), {rows, rows}, "T·k·H·b·(EP−1)/EP", "the same");
  lines.add("experts: row counts", even("rows of experts"), {kExperts * 8 * (kContextRanks - 1), 0},
            "E·8·(EP−1)", "");
  const auto [sent, received] = tokens_away(own, uneven_choices);
  const auto flex = [&](const char* name) {
    return experts_layer(tokens, name, recipe::Dispatcher::kFlex, uneven_choices);
  };
  lines.add("experts, flex: dispatch", flex("tokens to experts"), {sent * row, received * row},
            "T·E[other ranks of its experts]·H·b", "the same, of what came");
  lines.add("experts, flex: combine", flex("sums of experts"), {received * row, sent * row},
            "T·E[other ranks of its experts]·H·b, of what came", "the same, of what went");
}

}  // namespace

std::vector<CountedBytes> count_communication() {
  std::vector<CountedBytes> all;
  for (const int64_t tokens : {256, 1024}) {  // what does not depend on the length must not
    Lines lines(tokens);
    add_linear(lines, tokens);
    add_linear_heads(lines, tokens);
    add_softmax(lines, tokens);
    add_experts(lines, tokens);
    all.insert(all.end(), lines.lines.begin(), lines.lines.end());
  }
  return all;
}

std::vector<PublishedRun> published_runs() {
  return {{"minimax-text-01",
           {.model = recipe::preset_model("minimax-text-01"),
            .arrangement = {layout::Mesh(10240, {.pp = 10, .cp = 2, .tp = 8, .ep = 32})},
            .sequence = 65536}},
          {"megascale-175b",  // its six stages a rank (table 1)
           {.model = recipe::preset_model("megascale-175b"),
            .arrangement = {layout::Mesh(12288, {.pp = 8, .tp = 8}),
                            {},
                            {.schedule = recipe::PipelineSchedule::kInterleaved, .chunks = 6}},
            .sequence = 2048,
            .micro_batches = 8}}};
}

nlohmann::ordered_json to_json(const CountedBytes& line) {
  return {{"name", "communication"},
          {"method", line.method},
          {"pass", line.pass},
          {"ranks", line.ranks},
          {"tokens", line.tokens},
          {"formula", line.formula},
          {"bytes_counted", line.counted},
          {"bytes_formula", line.by_formula},
          {"equal", line.equal()}};
}

nlohmann::ordered_json to_json(const std::string& name, const run::DryRunRequest& request,
                               const run::DryRun& run) {
  nlohmann::ordered_json json{{"name", "dry_run"},
                              {"model", name},
                              {"mesh", request.arrangement.mesh.text()},
                              {"ranks", request.arrangement.mesh.world()},
                              {"ranks_run", run.ranks.size()},
                              {"groups", run.comparison.groups},
                              {"groups_with_all_members", run.comparison.whole_groups},
                              {"calls", run.comparison.calls},
                              {"agreed", run.comparison.agreed()},
                              {"bytes_sent", run.most_sent},
                              {"parameter_bytes", run.parameter_bytes}};
  if (!run.comparison.agreed()) json["disagreements"] = run.comparison.text();
  for (const auto& [of, totals] : run.most)
    json["by_group"][of.first][std::string(comm::name_of(of.second))] = {{"calls", totals.calls},
                                                                         {"bytes_sent", totals.traffic.sent}};
  return json;
}

observe::Table table_of(const std::vector<CountedBytes>& lines) {
  using observe::Align;
  observe::Table table("bytes that a rank sends for a layer", {{"method"},
                                                               {"pass"},
                                                               {"ranks", Align::kRight},
                                                               {"tokens", Align::kRight},
                                                               {"counted", Align::kRight},
                                                               {"formula", Align::kRight},
                                                               {""},
                                                               {"of"}});
  for (const CountedBytes& line : lines)
    table.row({line.method, line.pass, std::to_string(line.ranks), std::to_string(line.tokens),
               std::to_string(line.counted), std::to_string(line.by_formula),
               line.equal() ? "equal" : "DIFFERENT", line.formula});
  return table;
}

observe::Table table_of(const std::string& name, const run::DryRunRequest& request, const run::DryRun& run) {
  using observe::Align;
  observe::Table table(
      fmt::format("{}: {} micro-batches of {} tokens on {}; {} of them run", name, request.micro_batches,
                  request.sequence * request.rows, request.arrangement.mesh.text(), run.ranks.size()),
      {{"group"}, {"call"}, {"calls", Align::kRight}, {"bytes sent", Align::kRight}});
  for (const auto& [of, totals] : run.most)
    table.row({of.first, std::string(comm::name_of(of.second)), std::to_string(totals.calls),
               std::to_string(totals.traffic.sent)});
  table.total({"all", "", "", std::to_string(run.most_sent)});
  return table;
}

}  // namespace longhaul::bench
