// The forward pass. An item is up to 1,024 neighbouring queries (those of all heads that share a kv head) and
// walks over its key blocks once: a block of keys and values is prepared once for all of the item's tiles.
//
//   Sᵀ = K_j Q_iᵀ,   m' = max(m, max S),   P = 2^(S − m'),   ℓ = 2^(m − m') ℓ + Σ P,   Oᵀ = 2^(m − m') Oᵀ +
//                                                                                      V_jᵀ Pᵀ,   o = O / ℓ
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention/cpu.h"
#include "kernels/attention/cpu_parts.h"
#include "kernels/attention/workspace.h"
#include "kernels/int8/loops.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kItemQueries = 1024;
// Documents with at most this many queries of a kv head (decoding) go row by row: packing a tile costs more
// than it saves.
constexpr int64_t kDecodeRows = 3;

struct ForwardItem {
  int64_t document, key_head, begin, end;  // queries of the document
  int64_t cost;                            // visible pairs
};

// Queries of one head, or, where a document has one query, heads of one query: `lanes` rows of q.
struct Lanes {
  int64_t token, head, lanes;
  bool across_heads;
};

bool goes_by_rows(const AttentionSizes& sizes, const AttentionDocument& document) {
  return document.queries * sizes.group() <= kDecodeRows;
}

std::vector<ForwardItem> items_of(const AttentionSizes& sizes, int64_t threads) {
  std::vector<ForwardItem> items;
  const auto cut = [&](int64_t length) {
    items.clear();
    for (size_t n = 0; n < sizes.visible.documents.size(); ++n) {
      const AttentionDocument& document = sizes.visible.documents[n];
      for (int64_t begin = 0; begin < document.queries; begin += length) {
        const int64_t end = std::min(begin + length, document.queries);
        const TokenRange of_first = sizes.visible.seen(document, begin),
                         of_last = sizes.visible.seen(document, end - 1);
        const int64_t visible = of_first.last - of_first.first + of_last.last - of_last.first;
        for (int64_t h = 0; h < sizes.key_heads; ++h) {
          items.push_back(
              {static_cast<int64_t>(n), h, begin, end, (end - begin) * sizes.group() * visible / 2});
        }
      }
    }
  };
  // Longer items prepare fewer key blocks, shorter ones keep more threads busy; results are the same.
  int64_t length = std::max(kItemQueries / sizes.group() / kQueryTile, int64_t{1}) * kQueryTile;
  for (cut(length); static_cast<int64_t>(items.size()) < 4 * threads && length > kQueryTile; cut(length)) {
    length = std::max(length / 2 / kQueryTile, int64_t{1}) * kQueryTile;
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const ForwardItem& a, const ForwardItem& b) { return a.cost > b.cost; });
  return items;
}

// The most tiles that one item has.
int64_t most_tiles_of(const AttentionSizes& sizes, const std::vector<ForwardItem>& items) {
  int64_t most = 1;
  for (const ForwardItem& item : items)
    most = std::max(most, sizes.group() * ((item.end - item.begin + kQueryTile - 1) / kQueryTile));
  return most;
}

template <class Element>
class ForwardItems {
 public:
  ForwardItems(const AttentionForward<Element>& call, const Tools& tools, int64_t most_tiles, Arena& arena)
      : call_(call),
        tools_(tools),
        panel_elements_(packed_size<Element>(call.channels, kQueryTile)),
        q_panels_(arena.take<Element>(most_tiles * panel_elements_)),
        outputs_(arena.take<float>(most_tiles * call.values * kQueryTile)),
        largest_(arena.take<float>(most_tiles * kQueryTile)),
        sum_(arena.take<float>(most_tiles * kQueryTile)),
        scores_(arena.take<float>(kKeyBlock * kQueryTile)),
        p_panels_(arena.take<Element>(packed_size<Element>(kKeyBlock, kQueryTile))),
        keys_(arena.take<Element>(kKeyBlock * call.channels)),
        values_(arena.take<Element>(call.keys.narrow.empty() ? 0 : kKeyBlock * call.values)),
        values_t_(arena.take<Element>(kKeyBlock * call.values)),
        rows_(arena.take<float>(kDecodeRows * call.channels)) {}

  void run(const ForwardItem& item) {
    const AttentionDocument& document = call_.visible.documents[static_cast<size_t>(item.document)];
    if (goes_by_rows(call_, document)) return run_by_rows(item, document);
    make_tiles(item, document);
    const int64_t last = call_.visible.seen(document, item.end - 1).last;
    for (int64_t key = call_.visible.seen(document, item.begin).first / kKeyBlock * kKeyBlock, end;
         key < last; key = end) {
      end = block_end(document, key, last);
      run_block(item, document, key, end - key);
    }
    for (size_t i = 0; i < tiles_.size(); ++i) finish(static_cast<int64_t>(i), document);
  }

 private:
  void make_tiles(const ForwardItem& item, const AttentionDocument& document) {
    tiles_.clear();
    const int64_t group = call_.group(), head = item.key_head * group;
    if (document.queries == 1) {
      for (int64_t g = 0; g < group; g += kQueryTile)
        tiles_.push_back({0, head + g, std::min(kQueryTile, group - g), true});
    } else {
      for (int64_t g = 0; g < group; ++g) {
        for (int64_t t = item.begin; t < item.end; t += kQueryTile)
          tiles_.push_back({t, head + g, std::min(kQueryTile, item.end - t), false});
      }
    }
    for (size_t i = 0; i < tiles_.size(); ++i) {
      const Lanes& tile = tiles_[i];
      const auto at = static_cast<int64_t>(i);
      tools_.block->pack(call_.q.at(document.q + tile.token, tile.head),
                         tile.across_heads ? call_.q.head : call_.q.token, true, call_.channels, tile.lanes,
                         q_panels_ + at * panel_elements_);
      std::fill_n(largest_ + at * kQueryTile, kQueryTile, -kInfinity);
      std::fill_n(sum_ + at * kQueryTile, kQueryTile, 0.0f);
      std::fill_n(outputs_ + at * call_.values * kQueryTile, call_.values * kQueryTile, 0.0f);
    }
  }

  // Keys and values [key, key + count) of the item, of one block; what is in eight bits is made wide here.
  KeyRows<Element> rows_of(const ForwardItem& item, int64_t key, int64_t count) const {
    if (call_.keys.narrow.empty())
      return call_.keys.rows(call_.visible.documents, item.document, key, item.key_head, call_.channels);
    const auto& pages = call_.keys.narrow[static_cast<size_t>(item.document)];
    const auto page = static_cast<size_t>(key / call_.keys.page_tokens);
    const int64_t row = item.key_head * call_.keys.page_tokens + key % call_.keys.page_tokens;
    const Int8Loops& loops = int8_loops();
    loops.scale_rows(pages.k[page] + row * call_.channels, pages.k_scales[page] + row, count, call_.channels,
                     keys_);
    loops.scale_rows(pages.v[page] + row * call_.values, pages.v_scales[page] + row, count, call_.values,
                     values_);
    return {keys_, values_, call_.channels, call_.values};
  }

  // All tiles against keys [key, key + count).
  void run_block(const ForwardItem& item, const AttentionDocument& document, int64_t key, int64_t count) {
    KeyRows<Element> rows = rows_of(item, key, count);
    tools_.block->transpose(rows.v, rows.v_stride, count, call_.values, values_t_, kKeyBlock);
    if (tiles_.size() > 1 &&
        rows.k != keys_) {  // rows of a fused qkv lie on a page of memory each: gather them once
      for (int64_t r = 0; r < count; ++r)
        std::copy_n(rows.k + r * rows.k_stride, call_.channels, keys_ + r * call_.channels);
      rows.k = keys_;
      rows.k_stride = call_.channels;
    }
    for (size_t i = 0; i < tiles_.size(); ++i) {
      const Lanes& lanes = tiles_[i];
      const int64_t queries = lanes.across_heads ? 1 : lanes.lanes;
      const int64_t seen =
          rows_to_see(call_.visible, document, lanes.token, lanes.token + queries, key, key + count);
      if (seen > 0) run_tile(static_cast<int64_t>(i), lanes, document, rows, key, seen);
    }
  }

  void run_tile(int64_t i, const Lanes& lanes, const AttentionDocument& document,
                const KeyRows<Element>& rows, int64_t key, int64_t seen) {
    const int64_t columns = packed_n(lanes.lanes);
    float* const outputs = outputs_ + i * call_.values * kQueryTile;
    tools_.block->multiply(rows.k, rows.k_stride, q_panels_ + i * panel_elements_, seen, columns,
                           call_.channels, scores_, kQueryTile, false);
    SoftmaxTile tile;
    tile.rows = seen;
    tile.columns = columns;
    tile.stride = tile.outputs_stride = kQueryTile;
    set_visible(tile, call_.visible, document, key, lanes.token);
    // all lanes are the same query: hidden keys lie before a row, not before a column
    if (lanes.across_heads) {
      tile.first = -kNoLimit;
      tile.last = kNoLimit;
      const int64_t hidden = key < document.prefix ? 0 : call_.visible.near(document, 0).first - key;
      for (int64_t r = 0; r < hidden; ++r) std::fill_n(scores_ + r * kQueryTile, columns, -kInfinity);
    }
    tile.scores = scores_;
    tile.factor = static_cast<float>(call_.scale) * kLog2E;
    tile.largest = largest_ + i * kQueryTile;
    tile.sum = sum_ + i * kQueryTile;
    tile.outputs = outputs;
    tile.values = call_.values;
    tools_.softmax(tile, p_panels_);
    tools_.block->multiply(values_t_, kKeyBlock, p_panels_, call_.values, columns, seen, outputs, kQueryTile,
                           true);
  }

  void finish(int64_t i, const AttentionDocument& document) {
    const Lanes& lanes = tiles_[static_cast<size_t>(i)];
    float factors[kQueryTile];
    for (int64_t lane = 0; lane < lanes.lanes; ++lane) {
      const int64_t token = document.q + lanes.token + (lanes.across_heads ? 0 : lane),
                    head = lanes.head + (lanes.across_heads ? lane : 0);
      factors[lane] = close_row(largest_[i * kQueryTile + lane], sum_[i * kQueryTile + lane],
                                call_.logsumexp.at(token, head));
    }
    const auto leave = [&](const auto& rows) {
      tools_.leave(outputs_ + i * call_.values * kQueryTile, kQueryTile, call_.values, lanes.lanes, factors,
                   rows.at(document.q + lanes.token, lanes.head),
                   lanes.across_heads ? rows.head : rows.token);
    };
    call_.o.wide.data != nullptr ? leave(call_.o.wide) : leave(call_.o.narrow);
  }

  // Writes the log-sum-exp of a row and returns 1/ℓ; a row that saw no key gives −∞ and 0.
  static float close_row(float largest, float sum, float* logsumexp) {
    const bool none = largest == -kInfinity && sum == 0;
    *logsumexp = none ? -kInfinity : largest * kLn2 + std::log(sum);
    return none ? 0.0f : 1.0f / sum;
  }

  // The few rows of a group side by side: a block of keys and values is read from memory once for all of
  // them.
  void run_by_rows(const ForwardItem& item, const AttentionDocument& document) {
    const int64_t group = call_.group(), rows = (item.end - item.begin) * group;
    const auto token = [&](int64_t r) { return item.begin + r / group; };
    const auto head = [&](int64_t r) { return item.key_head * group + r % group; };
    for (int64_t r = 0; r < rows; ++r) {
      tools_.widen(call_.q.at(document.q + token(r), head(r)), call_.channels, rows_ + r * call_.channels);
      largest_[r] = -kInfinity;
      sum_[r] = 0;
    }
    std::fill_n(outputs_, rows * call_.values, 0.0f);
    run_keys(item, rows, [&](int64_t) { return TokenRange{0, document.prefix}; });
    run_keys(item, rows, [&](int64_t r) {
      const TokenRange near = call_.visible.near(document, token(r));
      return TokenRange{std::max(near.first, document.prefix), near.last};
    });
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t t = document.q + token(r);
      const float factor = close_row(largest_[r], sum_[r], call_.logsumexp.at(t, head(r)));
      const auto leave = [&](const auto& to) {
        tools_.scale_rows(outputs_ + r * call_.values, 1, call_.values, factor, to.at(t, head(r)),
                          call_.values);
      };
      call_.o.wide.data != nullptr ? leave(call_.o.wide) : leave(call_.o.narrow);
    }
  }

  // keys_of(r): the keys of the document that row r sees now.
  template <class KeysOf>
  void run_keys(const ForwardItem& item, int64_t rows, const KeysOf& keys_of) {
    TokenRange all = keys_of(0);
    for (int64_t r = 1; r < rows; ++r) {
      const TokenRange keys = keys_of(r);
      all = {std::min(all.first, keys.first), std::max(all.last, keys.last)};
    }
    for (int64_t block = all.first / kKeyBlock * kKeyBlock; block < all.last; block += kKeyBlock) {
      const auto keys = rows_of(item, block, std::min(all.last - block, kKeyBlock));
      for (int64_t r = 0; r < rows; ++r) {
        const TokenRange seen = keys_of(r);
        const int64_t from = std::max(seen.first, block) - block,
                      count = std::min(seen.last - block, kKeyBlock) - from;
        if (count <= 0) continue;
        tools_.decode(DecodeRow<Element>{rows_ + r * call_.channels, keys.k + from * keys.k_stride,
                                         keys.v + from * keys.v_stride, keys.k_stride, keys.v_stride, count,
                                         call_.channels, call_.values,
                                         static_cast<float>(call_.scale) * kLog2E, scores_, largest_ + r,
                                         sum_ + r, outputs_ + r * call_.values});
      }
    }
  }

  const AttentionForward<Element>& call_;
  const Tools& tools_;
  int64_t panel_elements_;
  Element* q_panels_;
  float *outputs_, *largest_, *sum_, *scores_;
  Element *p_panels_, *keys_, *values_, *values_t_;
  float* rows_;
  std::vector<Lanes> tiles_;
};

template <class Element>
int64_t thread_bytes(const AttentionSizes& sizes, int64_t most_tiles) {
  AttentionForward<Element> call;
  static_cast<AttentionSizes&>(call) = sizes;
  const Tools tools;
  return static_cast<int64_t>(
      scratch_bytes([&](Arena& arena) { return ForwardItems<Element>(call, tools, most_tiles, arena); }));
}

}  // namespace

AttentionWorkspace attention_forward_workspace(const AttentionSizes& sizes, int64_t element_bytes,
                                               int64_t threads) {
  const std::vector<ForwardItem> items = items_of(sizes, threads);
  const int64_t most_tiles = most_tiles_of(sizes, items);
  return {.thread = element_bytes == 2 ? thread_bytes<uint16_t>(sizes, most_tiles)
                                       : thread_bytes<float>(sizes, most_tiles),
          .threads = std::min<int64_t>(static_cast<int64_t>(items.size()), threads)};
}

template <class Element>
void run_attention_forward(const AttentionForward<Element>& call) {
  const std::vector<ForwardItem> items = items_of(call, threads());
  const int64_t most_tiles = most_tiles_of(call, items);
  for_each_item(static_cast<int64_t>(items.size()), [&](const Tools& tools) {
    auto pieces = scratch_of_thread(
        [&](Arena& arena) { return ForwardItems<Element>(call, tools, most_tiles, arena); });
    return [&items, pieces](int64_t i) mutable { pieces.run(items[static_cast<size_t>(i)]); };
  });
}

template <class Element>
void run_attention_delta(const AttentionDelta<Element>& call) {
  constexpr int64_t kRows = 64;
  for_each_item((call.tokens + kRows - 1) / kRows, [&](const Tools& tools) {
    return [&](int64_t item) {
      const int64_t token = item * kRows, rows = std::min(kRows, call.tokens - token);
      float dots[kRows];
      for (int64_t h = 0; h < call.heads; ++h) {
        tools.row_dots(call.d_o.at(token, h), call.d_o.token, call.o.at(token, h), call.o.token, rows,
                       call.channels, dots);
        for (int64_t r = 0; r < rows; ++r)
          *call.delta.at(token + r, h) =
              dots[r] - (call.d_logsumexp.data == nullptr ? 0.0f : *call.d_logsumexp.at(token + r, h));
      }
    };
  });
}

template void run_attention_delta<uint16_t>(const AttentionDelta<uint16_t>&);
template void run_attention_delta<float>(const AttentionDelta<float>&);
template void run_attention_forward<uint16_t>(const AttentionForward<uint16_t>&);
template void run_attention_forward<float>(const AttentionForward<float>&);

}  // namespace longhaul::kernels
