// The backward pass. An item owns a range of keys of one kv head, hence its dK and dV, and walks over the
// queries that see them, tile by tile (key block j, query tile i):
//
//   Sᵀ = K_j Q_iᵀ,  P = 2^(S − L),  dPᵀ = V_j dO_iᵀ,  dS = P ∘ (dP − D),  D = Σ dO∘O − dL
//   (L and D are given: keys of other calls count in them)
//   dV_j += Pᵀ dO_i,  dK_j += dSᵀ Q_i,  dQ_iᵀ += K_jᵀ dSᵀ
//
// Where a document's keys are one piece, dQ is written at once. Otherwise the pieces of a kv head add to one
// dQ in fp32, tile by tile in ascending order: a piece waits for the one before it at each tile, and the last
// one that sees a tile writes it out. Items are handed out so that a piece never comes before an earlier one
// of its kv head; so who waits, waits for a thread that is at work. Where the dQ of all kv heads would exceed
// most_shared, they take turns in waves. The cut into pieces depends on shapes only, and what is added in
// which order on that alone.
#include <atomic>
#include <cmath>
#include <limits>

#include "kernels/attention/cpu.h"
#include "kernels/attention/cpu_parts.h"
#include "kernels/attention/workspace.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kWantedItems = 32, kMostCuts = 8, kShortestCut = 512;
constexpr int64_t kPieceKeys = 2048;  // dK and dV of so many keys are in work at once
constexpr int64_t kTilesAtOnce = 8;   // query tiles prepared together

// The pieces of one document and kv head.
struct Team {
  int64_t document, key_head;
  int64_t length, pieces;  // keys of a piece, but the last; pieces of them
  int64_t tiles;           // of its queries
  // where its dQ begins in the workspace, −1: not needed; and its turns, [group, tiles]
  int64_t d_q = -1, turn = 0;
};

struct Item {
  int64_t team, piece, cost;
};

struct Plan {
  std::vector<Team> teams;
  // one after another, each in the order in which its items are handed out
  std::vector<std::vector<Item>> waves;
  int64_t elements = 0;  // of the workspace
  // of each tile and head whose dQ is shared: the piece that may add to it
  std::vector<std::atomic<int32_t>> turns;
};

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// From the first to the last piece of keys that some query of the tile sees; asked only of tiles that see
// one.
TokenRange pieces_of_tile(const Visibility& visible, const AttentionDocument& document, int64_t length,
                          int64_t tile) {
  const int64_t begin = tile * kQueryTile,
                last = visible.seen(document, std::min(begin + kQueryTile, document.queries) - 1).last;
  return {visible.seen(document, begin).first / length, (last + length - 1) / length};
}

// Keys of a piece: enough pieces for many threads, but none of fewer than kShortestCut keys, and none of more
// than kPieceKeys.
int64_t piece_length(const AttentionSizes& sizes, int64_t keys, int64_t all_keys) {
  const int64_t share =
      all_keys == 0 ? 1
                    : (kWantedItems * keys + all_keys * sizes.key_heads - 1) / (all_keys * sizes.key_heads);
  const int64_t cuts = std::clamp<int64_t>(std::min(share, keys / kShortestCut), 1, kMostCuts);
  return std::clamp(round_up((keys + cuts - 1) / cuts, kKeyBlock), kKeyBlock, kPieceKeys);
}

std::vector<Team> teams_of(const AttentionSizes& sizes) {
  std::vector<Team> teams;
  int64_t all_keys = 0;
  for (const AttentionDocument& document : sizes.visible.documents) all_keys += document.keys;
  for (size_t n = 0; n < sizes.visible.documents.size(); ++n) {
    const AttentionDocument& document = sizes.visible.documents[n];
    const int64_t length = piece_length(sizes, document.keys, all_keys);
    for (int64_t h = 0; h < sizes.key_heads; ++h) {
      teams.push_back({.document = static_cast<int64_t>(n),
                       .key_head = h,
                       .length = length,
                       .pieces = std::max<int64_t>(1, (document.keys + length - 1) / length),
                       .tiles = (document.queries + kQueryTile - 1) / kQueryTile});
    }
  }
  return teams;
}

int64_t d_q_elements(const AttentionSizes& sizes, const Team& team) {
  return team.pieces > 1 ? sizes.group() * team.tiles * sizes.channels * kQueryTile : 0;
}

// Of the workspace.
int64_t elements_of(const AttentionSizes& sizes, const std::vector<Team>& teams) {
  int64_t all = 0, largest = 0;
  for (const Team& team : teams) {
    all += d_q_elements(sizes, team);
    largest = std::max(largest, d_q_elements(sizes, team));
  }
  return std::min(all, std::max(largest, sizes.most_shared / static_cast<int64_t>(sizeof(float))));
}

// Pairs of the team's pieces with the queries that see them, about; never less than those of a later piece.
std::vector<int64_t> costs_of(const AttentionSizes& sizes, const Team& team) {
  const AttentionDocument& document = sizes.visible.documents[static_cast<size_t>(team.document)];
  std::vector<int64_t> costs(static_cast<size_t>(team.pieces));
  int64_t later = 0;
  for (int64_t p = team.pieces - 1; p >= 0; --p) {
    const int64_t key = p * team.length, end = std::min(document.keys, key + team.length);
    const auto [first, last] = sizes.visible.seeing(document, {key, end});
    const int64_t reach = sizes.visible.window > 0
                              ? std::min(last - first, sizes.visible.window)
                              : (last - first + std::max<int64_t>(0, last - (end - document.shift))) / 2;
    later = std::max(later, (end - key) * reach);
    costs[static_cast<size_t>(p)] = later;
  }
  return costs;
}

// The items of teams [first, end): the costliest first, a team's in ascending order, and of equal ones those
// of different teams beside each other, so that few threads wait for each other.
std::vector<Item> wave_of(const AttentionSizes& sizes, const std::vector<Team>& teams, size_t first,
                          size_t end) {
  std::vector<Item> items;
  for (size_t t = first; t < end; ++t) {
    const std::vector<int64_t> costs = costs_of(sizes, teams[t]);
    for (size_t p = 0; p < costs.size(); ++p)
      items.push_back({static_cast<int64_t>(t), static_cast<int64_t>(p), costs[p]});
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.piece < b.piece;
  });
  return items;
}

Plan make_plan(const AttentionSizes& sizes) {
  Plan plan{.teams = teams_of(sizes)};
  plan.elements = elements_of(sizes, plan.teams);
  int64_t used = 0, turns = 0;
  size_t first = 0;
  for (size_t t = 0; t < plan.teams.size(); ++t) {
    Team& team = plan.teams[t];
    const int64_t elements = d_q_elements(sizes, team);
    if (elements == 0) continue;
    if (used + elements > plan.elements) {
      plan.waves.push_back(wave_of(sizes, plan.teams, first, t));
      first = t;
      used = 0;
    }
    team.d_q = used;
    used += elements;
    team.turn = turns;
    turns += sizes.group() * team.tiles;
  }
  plan.waves.push_back(wave_of(sizes, plan.teams, first, plan.teams.size()));
  plan.turns = std::vector<std::atomic<int32_t>>(static_cast<size_t>(turns));
  for (const Team& team : plan.teams) {
    if (team.d_q < 0) continue;
    const AttentionDocument& document = sizes.visible.documents[static_cast<size_t>(team.document)];
    for (int64_t i = 0; i < sizes.group() * team.tiles; ++i) {
      plan.turns[static_cast<size_t>(team.turn + i)] =
          static_cast<int32_t>(pieces_of_tile(sizes.visible, document, team.length, i % team.tiles).first);
    }
  }
  return plan;
}

void wait_for(const std::atomic<int32_t>& turn, int64_t piece) {
  for (int32_t now = turn.load(std::memory_order_acquire); now != piece;
       now = turn.load(std::memory_order_acquire))
    turn.wait(now, std::memory_order_acquire);
}

// A query tile of one head, prepared for all key blocks.
template <class Element>
struct QueryTile {
  QueryTile(const AttentionSizes& sizes, Arena& arena)
      : q_t(arena.take<Element>(packed_size<Element>(sizes.channels, kQueryTile))),
        q(arena.take<Element>(packed_size<Element>(kQueryTile, sizes.channels))),
        d_o_t(arena.take<Element>(packed_size<Element>(sizes.values, kQueryTile))),
        d_o(arena.take<Element>(packed_size<Element>(kQueryTile, sizes.values))),
        own_d_q(arena.take<float>(sizes.channels * kQueryTile)) {}
  Element *q_t, *q, *d_o_t, *d_o;  // panels: [channels × queries], [queries × channels], …
  float *own_d_q, *d_q = nullptr;  // [channels, kQueryTile]: dQᵀ so far
  int64_t begin = 0, queries = 0;  // of the document
  float logsumexp2[kQueryTile], common[kQueryTile];
};

template <class Element>
class BackwardItems {
 public:
  BackwardItems(const AttentionBackward<Element>& call, Plan& plan, const Tools& tools, int64_t keys,
                Arena& arena)
      : call_(call),
        plan_(plan),
        tools_(tools),
        keys_(arena.take<Element>(keys * call.channels)),
        keys_t_(arena.take<Element>(round_up(keys, kKeyBlock) * call.channels)),
        values_(arena.take<Element>(keys * call.values)),
        d_k_(arena.take<float>(keys * call.channels)),
        d_v_(arena.take<float>(keys * call.values)),
        scores_(arena.take<float>(kKeyBlock * kQueryTile)),
        d_p_(arena.take<float>(kKeyBlock * kQueryTile)),
        p_rows_(arena.take<Element>(kKeyBlock * kQueryTile)),
        ds_rows_(arena.take<Element>(kKeyBlock * kQueryTile)),
        ds_panels_(arena.take<Element>(packed_size<Element>(kKeyBlock, kQueryTile))) {
    for (int64_t i = 0; i < kTilesAtOnce; ++i) tiles_.emplace_back(call, arena);
  }

  void run(const Item& item) {
    const Team& team = plan_.teams[static_cast<size_t>(item.team)];
    const AttentionDocument& document = call_.visible.documents[static_cast<size_t>(team.document)];
    if (item.piece == 0) zero_unseeing_queries(team, document);
    const int64_t key = item.piece * team.length, count = std::min(document.keys - key, team.length);
    if (count == 0) return;
    read_keys(team, key, count);
    std::fill_n(d_k_, count * call_.channels, 0.0f);
    std::fill_n(d_v_, count * call_.values, 0.0f);
    const auto [first, last] = call_.visible.seeing(document, {key, key + count});
    for (int64_t g = 0; g < call_.group(); ++g) {
      for (int64_t t = first / kQueryTile; t * kQueryTile < last; t += kTilesAtOnce)
        run_tiles(item, team, g, t, std::min(t + kTilesAtOnce, (last + kQueryTile - 1) / kQueryTile), key,
                  count);
    }
    leave_rows(d_k_, count, call_.channels, static_cast<float>(call_.scale), call_.d_k, document.k + key,
               team.key_head);
    leave_rows(d_v_, count, call_.values, 1.0f, call_.d_v, document.k + key, team.key_head);
  }

 private:
  // Whole tiles of queries that see no key at all are in no piece. Such queries come first or last.
  void zero_unseeing_queries(const Team& team, const AttentionDocument& document) {
    if (call_.d_q.wide.data != nullptr) return;  // nothing is added
    const auto [first, last] = call_.visible.seeing(document, {0, document.keys});
    const auto zero = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        for (int64_t g = 0; g < call_.group(); ++g)
          std::fill_n(call_.d_q.narrow.at(document.q + t, team.key_head * call_.group() + g), call_.channels,
                      Element{});
      }
    };
    if (first >= last) return zero(0, document.queries);
    zero(0, first / kQueryTile * kQueryTile);
    zero(round_up(last, kQueryTile), document.queries);
  }

  // Rows of dK or dV become results.
  void leave_rows(const float* rows, int64_t count, int64_t columns, float factor,
                  const ResultRows<Element>& to, int64_t token, int64_t head) const {
    if (to.wide.data == nullptr)
      return tools_.scale_rows(rows, count, columns, factor, to.narrow.at(token, head), to.narrow.token);
    for (int64_t r = 0; r < count; ++r) {
      float* const sum = to.wide.at(token + r, head);
      for (int64_t c = 0; c < columns; ++c) sum[c] += rows[r * columns + c] * factor;
    }
  }

  void read_keys(const Team& team, int64_t key, int64_t count) {
    for (int64_t r = 0; r < count; r += kKeyBlock) {
      const int64_t here = std::min(kKeyBlock, count - r);
      const auto rows =
          call_.keys.rows(call_.visible.documents, team.document, key + r, team.key_head, call_.channels);
      for (int64_t i = 0; i < here; ++i) {
        std::copy_n(rows.k + i * rows.k_stride, call_.channels, keys_ + (r + i) * call_.channels);
        std::copy_n(rows.v + i * rows.v_stride, call_.values, values_ + (r + i) * call_.values);
      }
      tools_.block->transpose(rows.k, rows.k_stride, here, call_.channels, keys_t_ + r * call_.channels,
                              kKeyBlock);
    }
  }

  // Tiles [begin, end) of the group's head g against the piece [key, key + count).
  void run_tiles(const Item& item, const Team& team, int64_t g, int64_t begin, int64_t end, int64_t key,
                 int64_t count) {
    const AttentionDocument& document = call_.visible.documents[static_cast<size_t>(team.document)];
    const int64_t head = team.key_head * call_.group() + g, used = end - begin;
    for (int64_t i = 0; i < used; ++i) {
      QueryTile<Element>& tile = tiles_[static_cast<size_t>(i)];
      prepare(tile, document, head, (begin + i) * kQueryTile);
      take_d_q(tile, item, team, document, g);
    }
    for (int64_t block = key, next; block < key + count; block = next) {
      next = block_end(document, block, key + count);
      for (int64_t i = 0; i < used; ++i) {
        const QueryTile<Element>& tile = tiles_[static_cast<size_t>(i)];
        const int64_t seen =
            rows_to_see(call_.visible, document, tile.begin, tile.begin + tile.queries, block, next);
        if (seen > 0) run_tile(tile, document, key, block - key, seen);
      }
    }
    for (int64_t i = 0; i < used; ++i) pass_on_d_q(tiles_[static_cast<size_t>(i)], item, team, document, g);
  }

  std::atomic<int32_t>& turn_of(const QueryTile<Element>& tile, const Team& team, int64_t g) const {
    return plan_.turns[static_cast<size_t>(team.turn + g * team.tiles + tile.begin / kQueryTile)];
  }
  // dQᵀ of the tile as the pieces before this one left it.
  void take_d_q(QueryTile<Element>& tile, const Item& item, const Team& team,
                const AttentionDocument& document, int64_t g) const {
    const int64_t index = tile.begin / kQueryTile, elements = call_.channels * kQueryTile;
    tile.d_q = team.d_q < 0 ? tile.own_d_q : call_.workspace + team.d_q + (g * team.tiles + index) * elements;
    if (team.d_q >= 0) wait_for(turn_of(tile, team, g), item.piece);
    if (item.piece == pieces_of_tile(call_.visible, document, team.length, index).first)
      std::fill_n(tile.d_q, elements, 0.0f);
  }
  // To the next piece that sees the tile, or out.
  void pass_on_d_q(const QueryTile<Element>& tile, const Item& item, const Team& team,
                   const AttentionDocument& document, int64_t g) const {
    if (item.piece + 1 ==
        pieces_of_tile(call_.visible, document, team.length, tile.begin / kQueryTile).last) {
      leave(tile.d_q, document.q + tile.begin, tile.queries, team.key_head * call_.group() + g);
      return;
    }
    std::atomic<int32_t>& turn = turn_of(tile, team, g);
    turn.store(static_cast<int32_t>(item.piece + 1), std::memory_order_release);
    turn.notify_all();
  }

  // The whole tile, whatever part of it sees the piece, so that sums do not depend on where the piece begins.
  void prepare(QueryTile<Element>& tile, const AttentionDocument& document, int64_t head, int64_t begin) {
    tile.begin = begin;
    tile.queries = std::min(kQueryTile, document.queries - begin);
    const int64_t token = document.q + begin;
    const Element *q = call_.q.at(token, head), *d_o = call_.d_o.at(token, head);
    tools_.block->pack(q, call_.q.token, true, call_.channels, tile.queries, tile.q_t);
    tools_.block->pack(q, call_.q.token, false, tile.queries, call_.channels, tile.q);
    tools_.block->pack(d_o, call_.d_o.token, true, call_.values, tile.queries, tile.d_o_t);
    tools_.block->pack(d_o, call_.d_o.token, false, tile.queries, call_.values, tile.d_o);
    for (int64_t i = 0; i < kQueryTile; ++i) {
      const float logsumexp = i < tile.queries ? *call_.logsumexp.at(token + i, head) : -kInfinity;
      // no key was visible: all probabilities are 0
      tile.logsumexp2[i] = logsumexp == -kInfinity ? kInfinity : logsumexp * kLog2E;
      tile.common[i] = i < tile.queries ? *call_.delta.at(token + i, head) : 0;
    }
  }

  // Keys [key + block, key + block + seen) against one tile; within a block of the grid.
  void run_tile(const QueryTile<Element>& tile, const AttentionDocument& document, int64_t key, int64_t block,
                int64_t seen) {
    const int64_t channels = call_.channels, values = call_.values, columns = packed_n(tile.queries);
    tools_.block->multiply(keys_ + block * channels, channels, tile.q_t, seen, columns, channels, scores_,
                           kQueryTile, false);
    tools_.block->multiply(values_ + block * values, values, tile.d_o_t, seen, columns, values, d_p_,
                           kQueryTile, false);
    GradientTile gradient;
    gradient.rows = seen;
    gradient.columns = columns;
    gradient.stride = gradient.out_stride = kQueryTile;
    set_visible(gradient, call_.visible, document, key + block, tile.begin);
    gradient.scores = scores_;
    gradient.d_probabilities = d_p_;
    gradient.factor = static_cast<float>(call_.scale) * kLog2E;
    gradient.logsumexp2 = tile.logsumexp2;
    gradient.common = tile.common;
    tools_.gradient(gradient, p_rows_, ds_rows_, ds_panels_);
    tools_.block->multiply(p_rows_, kQueryTile, tile.d_o, seen, values, tile.queries, d_v_ + block * values,
                           values, true);
    tools_.block->multiply(ds_rows_, kQueryTile, tile.q, seen, channels, tile.queries,
                           d_k_ + block * channels, channels, true);
    const int64_t in_grid = block % kKeyBlock;
    tools_.block->multiply(keys_t_ + (block - in_grid) * channels + in_grid, kKeyBlock, ds_panels_, channels,
                           columns, seen, tile.d_q, kQueryTile, true);
  }

  // dQᵀ of a tile becomes rows of dQ.
  void leave(const float* d_q, int64_t token, int64_t queries, int64_t head) const {
    const auto scale = static_cast<float>(call_.scale);
    const ResultRows<Element>& to = call_.d_q;
    if (to.wide.data != nullptr) {
      for (int64_t t = 0; t < queries; ++t) {
        float* const sum = to.wide.at(token + t, head);
        for (int64_t c = 0; c < call_.channels; ++c) sum[c] += d_q[c * kQueryTile + t] * scale;
      }
      return;
    }
    float factors[kQueryTile];
    std::fill_n(factors, kQueryTile, scale);
    tools_.leave(d_q, kQueryTile, call_.channels, queries, factors, to.narrow.at(token, head),
                 to.narrow.token);
  }

  const AttentionBackward<Element>& call_;
  Plan& plan_;
  const Tools& tools_;
  Element *keys_, *keys_t_, *values_;  // keys_t_: [blocks][channels, kKeyBlock]
  float *d_k_, *d_v_, *scores_, *d_p_;
  Element *p_rows_, *ds_rows_, *ds_panels_;
  std::vector<QueryTile<Element>> tiles_;
};

int64_t longest_piece(const AttentionSizes& sizes, const Plan& plan) {
  int64_t longest = 1;
  for (const Team& team : plan.teams)
    longest = std::max(
        longest, std::min(team.length, sizes.visible.documents[static_cast<size_t>(team.document)].keys));
  return longest;
}

template <class Element>
int64_t thread_bytes(const AttentionSizes& sizes, Plan& plan) {
  AttentionBackward<Element> call;
  static_cast<AttentionSizes&>(call) = sizes;
  const Tools tools;
  const int64_t keys = longest_piece(sizes, plan);
  return static_cast<int64_t>(
      scratch_bytes([&](Arena& arena) { return BackwardItems<Element>(call, plan, tools, keys, arena); }));
}

}  // namespace

AttentionWorkspace attention_backward_workspace(const AttentionSizes& sizes, int64_t element_bytes,
                                                int64_t threads) {
  Plan plan = make_plan(sizes);
  size_t most = 0;
  for (const auto& wave : plan.waves) most = std::max(most, wave.size());
  return {
      .shared = plan.elements * static_cast<int64_t>(sizeof(float)),
      .thread = element_bytes == 2 ? thread_bytes<uint16_t>(sizes, plan) : thread_bytes<float>(sizes, plan),
      .threads = std::min(static_cast<int64_t>(most), threads)};
}

template <class Element>
void run_attention_backward(const AttentionBackward<Element>& call) {
  Plan plan = make_plan(call);
  const int64_t keys = longest_piece(call, plan);
  for (const std::vector<Item>& wave : plan.waves) {
    for_each_item(static_cast<int64_t>(wave.size()), [&](const Tools& tools) {
      auto pieces = scratch_of_thread(
          [&](Arena& arena) { return BackwardItems<Element>(call, plan, tools, keys, arena); });
      return [&wave, pieces = std::move(pieces)](int64_t i) mutable {
        pieces.run(wave[static_cast<size_t>(i)]);
      };
    });
  }
}

template void run_attention_backward<uint16_t>(const AttentionBackward<uint16_t>&);
template void run_attention_backward<float>(const AttentionBackward<float>&);

}  // namespace longhaul::kernels
