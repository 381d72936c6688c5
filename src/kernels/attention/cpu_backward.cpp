// The backward pass. An item owns a range of keys of one kv head, hence its dK and dV, and walks over the queries that see them, tile by
// tile (key block j, query tile i):
//
//   Sᵀ = K_j Q_iᵀ,  P = 2^(S − L),  dPᵀ = V_j dO_iᵀ,  dS = P ∘ (dP − D),  D = Σ dO∘O − dL
//   dV_j += Pᵀ dO_i,  dK_j += dSᵀ Q_i,  dQ_iᵀ += K_jᵀ dSᵀ
//
// Where a document's keys are one range, dQ is written at once. Otherwise each range keeps its own part of dQ, and who finishes the last
// range of a kv head adds the parts in ascending order. The cut into ranges depends on shapes only.
#include <atomic>
#include <cmath>
#include <limits>

#include "kernels/attention/cpu.h"
#include "kernels/attention/cpu_parts.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kWantedItems = 32, kMostRanges = 8, kShortestRange = 512;
constexpr int64_t kPieceKeys = 2048;  // dK and dV of so many keys are in work at once; longer ranges go piece by piece
constexpr int64_t kTilesAtOnce = 8;   // query tiles prepared together

// The ranges of one document and kv head.
struct Team {
  int64_t document, key_head, first_item, items;
  std::atomic<int64_t> left;
};

struct Item {
  int64_t team, key, key_end;          // keys of the document
  int64_t query_tile, query_tile_end;  // tiles of its queries that see them
  int64_t part;                        // where its part of dQ begins; −1: it writes dQ itself
  int64_t cost;
};

struct Plan {
  std::vector<Team> teams;
  std::vector<Item> items;  // by team and range
  std::vector<int64_t> order;
  int64_t part_elements = 0;
};

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Queries [first, second) see some key of [key, end).
std::pair<int64_t, int64_t> queries_of_keys(const AttentionDocument& document, int64_t window, int64_t key, int64_t end) {
  const int64_t first = std::clamp<int64_t>(key - document.shift(), 0, document.queries);
  return {first, window > 0 ? std::clamp<int64_t>(end - 1 - document.shift() + window, first, document.queries) : document.queries};
}

Plan make_plan(const AttentionSizes& sizes) {
  Plan plan;
  int64_t total_keys = 0, teams = 0;
  for (const AttentionDocument& document : sizes.documents) total_keys += document.keys;
  plan.teams = std::vector<Team>(sizes.documents.size() * static_cast<size_t>(sizes.key_heads));
  for (size_t n = 0; n < sizes.documents.size(); ++n) {
    const AttentionDocument& document = sizes.documents[n];
    const int64_t share =
        total_keys == 0 ? 1 : (kWantedItems * document.keys + total_keys * sizes.key_heads - 1) / (total_keys * sizes.key_heads);
    const int64_t ranges = std::clamp<int64_t>(std::min(share, document.keys / kShortestRange), 1, kMostRanges);
    const int64_t length = std::max(round_up((document.keys + ranges - 1) / ranges, kKeyBlock), kKeyBlock);
    const int64_t cuts = std::max<int64_t>(1, (document.keys + length - 1) / length);
    const bool direct = document.keys <= kPieceKeys && cuts == 1;
    for (int64_t h = 0; h < sizes.key_heads; ++h, ++teams) {
      Team& team = plan.teams[static_cast<size_t>(teams)];
      team.document = static_cast<int64_t>(n);
      team.key_head = h;
      team.first_item = static_cast<int64_t>(plan.items.size());
      team.items = cuts;
      team.left = cuts;
      for (int64_t c = 0; c < cuts; ++c) {
        const int64_t key = c * length, end = std::min(document.keys, key + length);
        const auto [first, last] = queries_of_keys(document, sizes.window, key, end);
        Item item{teams, key, end, first / kQueryTile, (last + kQueryTile - 1) / kQueryTile, -1, 0};
        const int64_t reach = sizes.window > 0 ? std::min(last - first, sizes.window)
                                               : (last - first + std::max<int64_t>(0, last - (end - document.shift()))) / 2;
        item.cost = (end - key) * reach;
        if (!direct) {
          item.part = plan.part_elements;
          plan.part_elements += (item.query_tile_end - item.query_tile) * sizes.group() * sizes.channels * kQueryTile;
        }
        plan.items.push_back(item);
      }
    }
  }
  for (size_t i = 0; i < plan.items.size(); ++i) plan.order.push_back(static_cast<int64_t>(i));
  std::stable_sort(plan.order.begin(), plan.order.end(),
                   [&](int64_t a, int64_t b) { return plan.items[static_cast<size_t>(a)].cost > plan.items[static_cast<size_t>(b)].cost; });
  return plan;
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
  BackwardItems(const AttentionBackward<Element>& call, Plan& plan, const Tools& tools, int64_t keys, Arena& arena)
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
    Team& team = plan_.teams[static_cast<size_t>(item.team)];
    const AttentionDocument& document = call_.documents[static_cast<size_t>(team.document)];
    if (item.part >= 0)
      std::fill_n(call_.workspace + item.part, part_elements(item), 0.0f);
    else
      zero_unseeing_queries(team, document, item);
    for (int64_t key = item.key; key < item.key_end; key += kPieceKeys)
      run_piece(item, team, document, key, std::min(item.key_end, key + kPieceKeys));
    if (item.part >= 0 && team.left.fetch_sub(1, std::memory_order_acq_rel) == 1) add_parts(team, document);
  }

 private:
  int64_t part_elements(const Item& item) const {
    return (item.query_tile_end - item.query_tile) * call_.group() * call_.channels * kQueryTile;
  }
  // dQᵀ of the tile of query `begin` and the group's head g within an item's part.
  float* part_of(const Item& item, int64_t g, int64_t tile) const {
    return call_.workspace + item.part +
           (g * (item.query_tile_end - item.query_tile) + tile - item.query_tile) * call_.channels * kQueryTile;
  }

  // The item's tiles cover the queries that see a key: the others get a zero here.
  void zero_unseeing_queries(const Team& team, const AttentionDocument& document, const Item& item) {
    for (int64_t t = 0; t < document.queries; ++t) {
      if (item.key < item.key_end && t >= item.query_tile * kQueryTile && t < item.query_tile_end * kQueryTile) continue;
      for (int64_t g = 0; g < call_.group(); ++g)
        std::fill_n(call_.d_q.at(document.q + t, team.key_head * call_.group() + g), call_.channels, Element{});
    }
  }

  void run_piece(const Item& item, const Team& team, const AttentionDocument& document, int64_t key, int64_t end) {
    const int64_t count = end - key;
    for (int64_t r = 0; r < count; r += kKeyBlock) {
      const int64_t here = std::min(kKeyBlock, count - r);
      const auto rows = call_.keys.rows(call_.documents, team.document, key + r, team.key_head, call_.channels, call_.values);
      for (int64_t i = 0; i < here; ++i) {
        std::copy_n(rows.k + i * rows.k_stride, call_.channels, keys_ + (r + i) * call_.channels);
        std::copy_n(rows.v + i * rows.v_stride, call_.values, values_ + (r + i) * call_.values);
      }
      tools_.block->transpose(rows.k, rows.k_stride, here, call_.channels, keys_t_ + r * call_.channels, kKeyBlock);
    }
    std::fill_n(d_k_, count * call_.channels, 0.0f);
    std::fill_n(d_v_, count * call_.values, 0.0f);
    const auto [first, last] = queries_of_keys(document, call_.window, key, end);
    for (int64_t g = 0; g < call_.group(); ++g) {
      for (int64_t t = first / kQueryTile * kQueryTile; t < last; t += kTilesAtOnce * kQueryTile) {
        run_tiles(item, team, document, g, t, std::min(last, t + kTilesAtOnce * kQueryTile), key, count);
      }
    }
    const auto scale = static_cast<float>(call_.scale);
    tools_.scale_rows(d_k_, count, call_.channels, scale, call_.d_k.at(document.k + key, team.key_head), call_.d_k.token);
    tools_.scale_rows(d_v_, count, call_.values, 1.0f, call_.d_v.at(document.k + key, team.key_head), call_.d_v.token);
  }

  // Queries [begin, end) of the group's head g against the piece [key, key + count).
  void run_tiles(const Item& item, const Team& team, const AttentionDocument& document, int64_t g, int64_t begin, int64_t end, int64_t key,
                 int64_t count) {
    const int64_t head = team.key_head * call_.group() + g, used = (end - begin + kQueryTile - 1) / kQueryTile;
    for (int64_t i = 0; i < used; ++i) {
      QueryTile<Element>& tile = tiles_[static_cast<size_t>(i)];
      prepare(tile, document, head, begin + i * kQueryTile);
      tile.d_q = item.part >= 0 ? part_of(item, g, tile.begin / kQueryTile) : tile.own_d_q;
      if (item.part < 0) std::fill_n(tile.d_q, call_.channels * kQueryTile, 0.0f);
    }
    for (int64_t block = 0; block < count; block += kKeyBlock) {
      const int64_t here = std::min(kKeyBlock, count - block);
      for (int64_t i = 0; i < used; ++i) {
        const QueryTile<Element>& tile = tiles_[static_cast<size_t>(i)];
        const int64_t seen = std::min(here, document.last_key(tile.begin + tile.queries - 1) - key - block);
        if (seen <= 0 || document.first_key(tile.begin, call_.window) >= key + block + here) continue;
        run_tile(tile, document, key, block, seen);
      }
    }
    if (item.part >= 0) return;
    for (int64_t i = 0; i < used; ++i) {
      const QueryTile<Element>& tile = tiles_[static_cast<size_t>(i)];
      leave(tile.d_q, document.q + tile.begin, tile.queries, head);
    }
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
    tools_.row_dots(d_o, call_.d_o.token, call_.o.at(token, head), call_.o.token, tile.queries, call_.values, tile.common);
    for (int64_t i = 0; i < kQueryTile; ++i) {
      const float logsumexp = i < tile.queries ? *call_.logsumexp.at(token + i, head) : -kInfinity;
      tile.logsumexp2[i] = logsumexp == -kInfinity ? kInfinity : logsumexp * kLog2E;  // no key was visible: all probabilities are 0
      if (i >= tile.queries)
        tile.common[i] = 0;
      else if (call_.d_logsumexp.data != nullptr)
        tile.common[i] -= *call_.d_logsumexp.at(token + i, head);
    }
  }

  // Keys [key + block, key + block + seen) against one tile.
  void run_tile(const QueryTile<Element>& tile, const AttentionDocument& document, int64_t key, int64_t block, int64_t seen) {
    const int64_t channels = call_.channels, values = call_.values, columns = packed_n(tile.queries);
    tools_.block->multiply(keys_ + block * channels, channels, tile.q_t, seen, columns, channels, scores_, kQueryTile, false);
    tools_.block->multiply(values_ + block * values, values, tile.d_o_t, seen, columns, values, d_p_, kQueryTile, false);
    GradientTile gradient;
    gradient.rows = seen;
    gradient.columns = columns;
    gradient.stride = gradient.out_stride = kQueryTile;
    gradient.first = key + block - document.shift() - tile.begin;
    gradient.last = call_.window > 0 ? gradient.first + call_.window : kNoLimit;
    gradient.scores = scores_;
    gradient.d_probabilities = d_p_;
    gradient.factor = static_cast<float>(call_.scale) * kLog2E;
    gradient.logsumexp2 = tile.logsumexp2;
    gradient.common = tile.common;
    tools_.gradient(gradient, p_rows_, ds_rows_, ds_panels_);
    tools_.block->multiply(p_rows_, kQueryTile, tile.d_o, seen, values, tile.queries, d_v_ + block * values, values, true);
    tools_.block->multiply(ds_rows_, kQueryTile, tile.q, seen, channels, tile.queries, d_k_ + block * channels, channels, true);
    tools_.block->multiply(keys_t_ + block * channels, kKeyBlock, ds_panels_, channels, columns, seen, tile.d_q, kQueryTile, true);
  }

  // dQᵀ of a tile becomes rows of dQ.
  void leave(const float* d_q, int64_t token, int64_t queries, int64_t head) {
    float factors[kQueryTile];
    std::fill_n(factors, kQueryTile, static_cast<float>(call_.scale));
    tools_.leave(d_q, kQueryTile, call_.channels, queries, factors, call_.d_q.at(token, head), call_.d_q.token);
  }

  void add_parts(const Team& team, const AttentionDocument& document) {
    const int64_t elements = call_.channels * kQueryTile;
    float* const sum = tiles_[0].own_d_q;
    for (int64_t g = 0; g < call_.group(); ++g) {
      for (int64_t t = 0; t < document.queries; t += kQueryTile) {
        std::fill_n(sum, elements, 0.0f);
        for (int64_t i = team.first_item; i < team.first_item + team.items; ++i) {
          const Item& item = plan_.items[static_cast<size_t>(i)];
          const int64_t tile = t / kQueryTile;
          if (tile >= item.query_tile && tile < item.query_tile_end) tools_.add(part_of(item, g, tile), elements, sum);
        }
        leave(sum, document.q + t, std::min(kQueryTile, document.queries - t), team.key_head * call_.group() + g);
      }
    }
  }

  const AttentionBackward<Element>& call_;
  Plan& plan_;
  const Tools& tools_;
  Element *keys_, *keys_t_, *values_;  // keys_t_: [blocks][channels, kKeyBlock]
  float *d_k_, *d_v_, *scores_, *d_p_;
  Element *p_rows_, *ds_rows_, *ds_panels_;
  std::vector<QueryTile<Element>> tiles_;
};

}  // namespace

int64_t attention_backward_workspace(const AttentionSizes& sizes) { return make_plan(sizes).part_elements; }

template <class Element>
void run_attention_backward(const AttentionBackward<Element>& call) {
  Plan plan = make_plan(call);
  int64_t keys = 1;
  for (const Item& item : plan.items) keys = std::max(keys, std::min(item.key_end - item.key, kPieceKeys));
  for_each_item(static_cast<int64_t>(plan.items.size()), [&](const Tools& tools) {
    auto pieces = scratch_of_thread([&](Arena& arena) { return BackwardItems<Element>(call, plan, tools, keys, arena); });
    return [&plan, pieces = std::move(pieces)](int64_t i) mutable {
      pieces.run(plan.items[static_cast<size_t>(plan.order[static_cast<size_t>(i)])]);
    };
  });
}

template void run_attention_backward<uint16_t>(const AttentionBackward<uint16_t>&);
template void run_attention_backward<float>(const AttentionBackward<float>&);

}  // namespace longhaul::kernels
