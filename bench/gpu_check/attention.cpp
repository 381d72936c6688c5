// Checks and timings of attention against the definition in fp64: o = softmax(scale q kᵀ, masked) v, and its
// gradients.
#include "kernels/attention/cuda.h"

#include <cmath>
#include <limits>

#include "gpu_check/session.h"

namespace longhaul::gpu_check {
namespace {

using kernels::cuda::Attention;
using kernels::cuda::AttentionTile;

struct Case {
  const char* name;
  std::vector<int64_t> lengths, key_lengths;  // key_lengths empty: as lengths
  int heads, key_heads, keys, values, window;
  bool d_logsumexp = false;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"tiny", {5}, {}, 2, 2, 4, 4, 0},
      {"one head of 64, odd length", {201}, {}, 1, 1, 64, 64, 0, true},
      {"packed, short and empty documents", {1, 0, 63, 64, 65, 0, 130}, {}, 2, 2, 64, 64, 0},
      {"shared key heads, head size 128", {150, 70}, {}, 4, 2, 128, 128, 0, true},
      {"window", {300, 20}, {}, 2, 1, 64, 64, 70},
      {"window of one", {70}, {}, 1, 1, 32, 32, 1},
      {"head size 256", {100}, {}, 1, 1, 256, 256, 0},
      {"keys 192, values 128", {90, 31}, {}, 2, 1, 192, 128, 0},
      {"odd head sizes", {77, 66}, {}, 2, 2, 20, 36, 0},
      {"more keys than queries", {3, 65}, {140, 200}, 2, 1, 64, 64, 0},
      {"more queries than keys: rows without any key", {140, 5}, {70, 0}, 2, 2, 64, 64, 0, true},
      {"window, more keys than queries", {30}, {200}, 2, 2, 64, 64, 50},
      {"three steps of keys for two tiles of queries", {130}, {385}, 1, 1, 128, 128, 0},
      {"keys 40, values 72, five steps", {70}, {600}, 2, 1, 40, 72, 0},
  };
  return all;
}

std::vector<int64_t> boundaries(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> all{0};
  for (const int64_t length : lengths) all.push_back(all.back() + length);
  return all;
}

struct Reference {
  std::vector<double> o, logsumexp, d_q, d_k, d_v;
};

struct Inputs {
  std::vector<double> q, k, v, d_o, d_logsumexp;
};

// Query token t sees key tokens [first, last).
void reference_row(const Case& which, const Inputs& in, double scale, int64_t t, int64_t h, int64_t first,
                   int64_t last, Reference& out) {
  const auto at = [](int64_t token, int64_t heads, int64_t head, int64_t width) {
    return static_cast<size_t>((token * heads + head) * width);
  };
  const int64_t key_head = h / (which.heads / which.key_heads);
  const size_t q = at(t, which.heads, h, which.keys), o = at(t, which.heads, h, which.values),
               row = at(t, which.heads, h, 1);
  std::vector<double> p(static_cast<size_t>(last - first));
  double largest = -std::numeric_limits<double>::infinity(), sum = 0, common = -in.d_logsumexp[row];
  for (int64_t s = first; s < last; ++s) {
    double score = 0;
    for (int c = 0; c < which.keys; ++c)
      score += in.q[q + static_cast<size_t>(c)] *
               in.k[at(s, which.key_heads, key_head, which.keys) + static_cast<size_t>(c)];
    p[static_cast<size_t>(s - first)] = scale * score;
    largest = std::max(largest, scale * score);
  }
  for (double& x : p) sum += x = std::exp(x - largest);
  out.logsumexp[row] = p.empty() ? largest : largest + std::log(sum);
  for (double& x : p) x /= sum;
  for (size_t d = 0; d < static_cast<size_t>(which.values); ++d) {
    double total = 0;
    for (int64_t s = first; s < last; ++s)
      total += p[static_cast<size_t>(s - first)] * in.v[at(s, which.key_heads, key_head, which.values) + d];
    out.o[o + d] = total;
    common += total * in.d_o[o + d];
  }
  for (int64_t s = first; s < last; ++s) {
    const size_t k = at(s, which.key_heads, key_head, which.keys),
                 v = at(s, which.key_heads, key_head, which.values);
    double d_score = -common;
    for (size_t d = 0; d < static_cast<size_t>(which.values); ++d) {
      d_score += in.d_o[o + d] * in.v[v + d];
      out.d_v[v + d] += p[static_cast<size_t>(s - first)] * in.d_o[o + d];
    }
    d_score *= p[static_cast<size_t>(s - first)] * scale;
    for (size_t c = 0; c < static_cast<size_t>(which.keys); ++c) {
      out.d_q[q + c] += d_score * in.k[k + c];
      out.d_k[k + c] += d_score * in.q[q + c];
    }
  }
}

void check_case(Session& session, const Case& which) {
  const double scale = 1 / std::sqrt(static_cast<double>(which.keys));
  const std::vector<int64_t> offsets = boundaries(which.lengths),
                             key_offsets =
                                 boundaries(which.key_lengths.empty() ? which.lengths : which.key_lengths);
  const int64_t tokens = offsets.back(), key_tokens = key_offsets.back();
  Buffer<Bf16> q(random_bf16(session, tokens * which.heads * which.keys)),
      k(random_bf16(session, key_tokens * which.key_heads * which.keys)),
      v(random_bf16(session, key_tokens * which.key_heads * which.values)),
      d_o(random_bf16(session, tokens * which.heads * which.values));
  Buffer<float> d_logsumexp(random_fp32(session, tokens * which.heads, which.d_logsumexp ? 1 : 0));
  const Inputs in{widened(q.host), widened(k.host), widened(v.host), widened(d_o.host),
                  widened(d_logsumexp.host)};
  const auto zeros = [](int64_t count) { return std::vector<double>(static_cast<size_t>(count), 0); };
  Reference want{zeros(d_o.size()), zeros(tokens * which.heads), zeros(q.size()), zeros(k.size()),
                 zeros(v.size())};
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const int64_t shift = key_offsets[n + 1] - key_offsets[n] - (offsets[n + 1] - offsets[n]);
    for (int64_t t = offsets[n]; t < offsets[n + 1]; ++t) {
      const int64_t last = std::max<int64_t>(0, t - offsets[n] + shift + 1),
                    first = which.window > 0 ? std::max<int64_t>(0, last - which.window) : 0;
      for (int64_t h = 0; h < which.heads; ++h)
        reference_row(which, in, scale, t, h, key_offsets[n] + first, key_offsets[n] + last, want);
    }
  }

  const Attention problem{tokens,     key_tokens,   which.heads,  which.key_heads,
                          which.keys, which.values, which.window, static_cast<float>(scale),
                          q.device(), k.device(),   v.device()};
  const int rows = kernels::cuda::query_rows(kernels::cuda::padded_head(which.keys, which.values));
  Buffer<AttentionTile> forward(kernels::cuda::attention_tiles(offsets, key_offsets, rows, false)),
      queries(kernels::cuda::attention_tiles(offsets, key_offsets, kernels::cuda::kBackwardRows, false)),
      keys(kernels::cuda::attention_tiles(key_offsets, offsets, kernels::cuda::kKeyRows, true));
  const auto tiles = [](const Buffer<AttentionTile>& table) {
    return kernels::cuda::AttentionTiles{table.device(), static_cast<int>(table.size())};
  };
  auto o = Buffer<Bf16>::output(d_o.size()), d_q = Buffer<Bf16>::output(q.size()),
       d_k = Buffer<Bf16>::output(k.size()), d_v = Buffer<Bf16>::output(v.size());
  auto logsumexp = Buffer<float>::output(tokens * which.heads);
  auto delta = Buffer<float>::output(tokens * which.heads);
  const kernels::cuda::AttentionGradientPointers gradients{logsumexp.device(), delta.device(), d_o.device(),
                                                           d_q.device(),       d_k.device(),   d_v.device()};
  kernels::cuda::attention_forward(problem, tiles(forward), o.device(), logsumexp.device(), nullptr);
  kernels::cuda::attention_delta(o.device(), d_o.device(), which.d_logsumexp ? d_logsumexp.device() : nullptr,
                                 delta.device(), tokens * which.heads, which.values, nullptr);
  kernels::cuda::attention_backward(problem, tiles(queries), tiles(keys), gradients, nullptr);
  kernels::cuda::runtime::synchronize();
  const char* op = "attention";
  // Gradients: p, ds and o are rounded to bf16 on the way, and do·o − do·v cancels, so their error is about
  // twice that of one rounding.
  session.compare(op, which.name, "o", o, want.o, kBf16);
  session.compare(op, which.name, "logsumexp", logsumexp, want.logsumexp, kFp32);
  // One visible key: the softmax is constant and its gradient zero.
  const Tolerance gradient{8e-3, 3e-2, which.window == 1 ? 1.0 : 0.0};
  session.compare(op, which.name, "d_q", d_q, want.d_q, gradient);
  session.compare(op, which.name, "d_k", d_k, want.d_k, gradient);
  session.compare(op, which.name, "d_v", d_v, want.d_v, kBf16);
  session.expect(op, which.name, "delta", delta.guards_hold(), "wrote outside of delta");
}

// Pages in shuffled order; lengths around a page's and a part's size.
void check_decode(Session& session, const std::vector<int32_t>& lengths, int heads, int key_heads, int keys,
                  int values, int window) {
  constexpr int kPage = 16;
  const int longest = *std::max_element(lengths.begin(), lengths.end());
  const int sequences = static_cast<int>(lengths.size()), width = longest / kPage + 2,
            pages = sequences * width;
  std::vector<int32_t> table(static_cast<size_t>(pages));
  for (int i = 0; i < pages; ++i)
    table[static_cast<size_t>(i)] = static_cast<int32_t>((int64_t{i} * 37 + 11) % pages);
  Buffer<Bf16> q(random_bf16(session, static_cast<int64_t>(sequences) * heads * keys)),
      k(random_bf16(session, static_cast<int64_t>(pages) * kPage * key_heads * keys)),
      v(random_bf16(session, static_cast<int64_t>(pages) * kPage * key_heads * values));
  const auto page_table = [&](const Buffer<Bf16>& memory, int channels) {
    std::vector<const Bf16*> addresses;
    for (const int32_t page : table)
      addresses.push_back(memory.device() + static_cast<int64_t>(page) * kPage * key_heads * channels);
    return Buffer<const Bf16*>(addresses);
  };
  const Buffer<const Bf16*> k_pages = page_table(k, keys), v_pages = page_table(v, values);
  Buffer<int32_t> lengths_on_device(lengths);
  const double scale = 1 / std::sqrt(static_cast<double>(keys));
  const kernels::cuda::AttentionDecode problem{sequences,
                                               heads,
                                               key_heads,
                                               keys,
                                               values,
                                               window,
                                               kPage,
                                               width,
                                               longest,
                                               static_cast<float>(scale),
                                               q.device(),
                                               k_pages.device(),
                                               v_pages.device(),
                                               lengths_on_device.device()};
  auto o = Buffer<Bf16>::output(static_cast<int64_t>(sequences) * heads * values);
  auto logsumexp = Buffer<float>::output(static_cast<int64_t>(sequences) * heads);
  auto workspace = Buffer<unsigned char>::output(kernels::cuda::decode_workspace_bytes(problem));
  kernels::cuda::attention_decode(problem, o.device(), logsumexp.device(), workspace.device(), nullptr);
  kernels::cuda::runtime::synchronize();

  // The same keys in a row, one query each.
  const std::vector<double> wide_k = widened(k.host), wide_v = widened(v.host);
  Case which{"decoding", {}, {}, heads, key_heads, keys, values, window};
  const auto zeros = [](int64_t count) { return std::vector<double>(static_cast<size_t>(count), 0); };
  Reference want{zeros(o.size()), zeros(logsumexp.size()), zeros(q.size()), zeros(k.size()), zeros(v.size())};
  const std::vector<double> no_gradient = zeros(o.size()), no_logsumexp_gradient = zeros(logsumexp.size());
  for (int n = 0; n < sequences; ++n) {
    Inputs in{widened(q.host), zeros(k.size()), zeros(v.size()), no_gradient, no_logsumexp_gradient};
    for (int s = 0; s < lengths[static_cast<size_t>(n)]; ++s) {
      for (int h = 0; h < key_heads; ++h) {
        const int64_t row =
            (static_cast<int64_t>(table[static_cast<size_t>(n * width + s / kPage)]) * key_heads + h) *
                kPage +
            s % kPage;
        const int64_t to = static_cast<int64_t>(s) * key_heads + h;
        std::copy_n(wide_k.begin() + row * keys, keys, in.k.begin() + to * keys);
        std::copy_n(wide_v.begin() + row * values, values, in.v.begin() + to * values);
      }
    }
    const int64_t last = lengths[static_cast<size_t>(n)],
                  first = window > 0 ? std::max<int64_t>(0, last - window) : 0;
    for (int h = 0; h < heads; ++h) reference_row(which, in, scale, n, h, first, last, want);
  }
  const std::string name = "paged decoding, up to " + std::to_string(longest) + " keys, " +
                           std::to_string(heads) + "/" + std::to_string(key_heads) + " heads, " +
                           std::to_string(keys) + " × " + std::to_string(values) + ", window " +
                           std::to_string(window);
  session.compare("attention decode", name, "o", o, want.o, kBf16);
  session.compare("attention decode", name, "logsumexp", logsumexp, want.logsumexp, kFp32);
  session.expect("attention decode", name, "workspace", workspace.guards_hold(),
                 "wrote outside the workspace");
}

void time_case(Session& session, int64_t length, int heads, int key_heads, int head) {
  const Case which{"", {length}, {}, heads, key_heads, head, head, 0};
  const std::vector<int64_t> offsets = {0, length};
  Buffer<Bf16> q(random_bf16(session, length * heads * head)),
      k(random_bf16(session, length * key_heads * head)), v(random_bf16(session, length * key_heads * head)),
      d_o(random_bf16(session, length * heads * head));
  auto o = Buffer<Bf16>::output(d_o.size()), d_q = Buffer<Bf16>::output(q.size()),
       d_k = Buffer<Bf16>::output(k.size()), d_v = Buffer<Bf16>::output(v.size());
  auto logsumexp = Buffer<float>::output(length * heads);
  const Attention problem{length,     length,     heads,     key_heads,
                          head,       head,       0,         1 / std::sqrt(static_cast<float>(head)),
                          q.device(), k.device(), v.device()};
  auto delta = Buffer<float>::output(length * heads);
  Buffer<AttentionTile> forward(kernels::cuda::attention_tiles(
      offsets, offsets, kernels::cuda::query_rows(kernels::cuda::padded_head(head, head)), false)),
      queries(kernels::cuda::attention_tiles(offsets, offsets, kernels::cuda::kBackwardRows, false)),
      keys(kernels::cuda::attention_tiles(offsets, offsets, kernels::cuda::kKeyRows, true));
  const auto tiles = [](const Buffer<AttentionTile>& table) {
    return kernels::cuda::AttentionTiles{table.device(), static_cast<int>(table.size())};
  };
  const double n = static_cast<double>(length), flops = 2 * n * n * heads * head,
               bytes = 2 * n * head * (2 * heads + 2 * key_heads);  // causal: half of 4 n² d
  const std::string shape = "1 × " + std::to_string(length) + ", " + std::to_string(heads) + "/" +
                            std::to_string(key_heads) + " heads × " + std::to_string(head) + ", causal";
  const kernels::cuda::AttentionGradientPointers gradients{logsumexp.device(), delta.device(), d_o.device(),
                                                           d_q.device(),       d_k.device(),   d_v.device()};
  session.time("attention forward", shape, bytes, flops, [&] {
    kernels::cuda::attention_forward(problem, tiles(forward), o.device(), logsumexp.device(), nullptr);
  });
  session.time("attention backward", shape, 2 * bytes, 2.5 * flops, [&] {
    kernels::cuda::attention_delta(o.device(), d_o.device(), nullptr, delta.device(), length * heads, head,
                                   nullptr);
    kernels::cuda::attention_backward(problem, tiles(queries), tiles(keys), gradients, nullptr);
  });
}

void time_decode(Session& session, int sequences, int32_t length, int heads, int key_heads, int head) {
  constexpr int kPage = 256;  // as KeyValueCache
  const int width = length / kPage;
  Buffer<int32_t> lengths(std::vector<int32_t>(static_cast<size_t>(sequences), length));
  const int64_t cached = static_cast<int64_t>(sequences) * length * key_heads * head;
  Buffer<Bf16> q(random_bf16(session, static_cast<int64_t>(sequences) * heads * head));
  const Memory k(cached * 2), v(cached * 2);
  kernels::cuda::runtime::fill(k.data(), 0, cached * 2);
  kernels::cuda::runtime::fill(v.data(), 0, cached * 2);
  const auto page_table = [&](const Memory& memory) {
    std::vector<const Bf16*> addresses;
    for (int64_t page = 0; page < static_cast<int64_t>(sequences) * width; ++page)
      addresses.push_back(static_cast<const Bf16*>(memory.data()) + page * kPage * key_heads * head);
    return Buffer<const Bf16*>(addresses);
  };
  const Buffer<const Bf16*> k_pages = page_table(k), v_pages = page_table(v);
  auto o = Buffer<Bf16>::output(q.size());
  auto logsumexp = Buffer<float>::output(static_cast<int64_t>(sequences) * heads);
  const kernels::cuda::AttentionDecode problem{sequences,
                                               heads,
                                               key_heads,
                                               head,
                                               head,
                                               0,
                                               kPage,
                                               width,
                                               length,
                                               0.1f,
                                               q.device(),
                                               k_pages.device(),
                                               v_pages.device(),
                                               lengths.device()};
  Memory workspace(kernels::cuda::decode_workspace_bytes(problem));
  session.time(
      "attention decode",
      std::to_string(sequences) + " sequences of " + std::to_string(length) + ", " + std::to_string(heads) +
          "/" + std::to_string(key_heads) + " heads × " + std::to_string(head),
      4 * static_cast<double>(cached), 4 * static_cast<double>(cached) * heads / key_heads, [&] {
        kernels::cuda::attention_decode(problem, o.device(), logsumexp.device(), workspace.data(), nullptr);
      });
}

}  // namespace

void check_attention(Session& session) {
  for (const Case& which : cases()) check_case(session, which);
  const std::vector<int32_t> lengths = {1, 17, 600, 512, 0};
  check_decode(session, lengths, 4, 2, 64, 64, 0);
  check_decode(session, lengths, 2, 2, 20, 256, 100);
  check_decode(session, {70, 16}, 8, 2, 128, 128, 50);
  check_decode(session, {33, 1100}, 38, 2, 72, 40, 0);  // 19 query heads a key head: two blocks
  check_decode(session, {600, 90}, 6, 3, 13, 5, 531);   // the window begins in the middle of a tile
  check_decode(session, {33500}, 2, 1, 8, 8, 0);        // more parts than are merged at once
}

void time_attention(Session& session) {
  time_case(session, 2048, 12, 12, 64);
  time_case(session, 4096, 16, 16, 128);
  time_case(session, 16384, 16, 16, 128);
  time_case(session, 16384, 32, 8, 128);
  time_case(session, 8192, 8, 8, 256);
  time_decode(session, 64, 8192, 32, 8, 128);
  time_decode(session, 1, 131072, 32, 8, 128);
}

}  // namespace longhaul::gpu_check
