// Decoding over pages against attention over one tensor.
#include "kernels/attention/paged/paged.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/attention/attention_cases.h"
#include "kernels/gemm/block.h"
#include "support/refused.h"
#include "support/threads.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::attention_paged_test {
namespace {

using namespace longhaul::testing;

struct Heads {
  int64_t heads, key_heads, key, value, window;
};

class PagedAttention : public ::testing::TestWithParam<Heads> {};

// 600 tokens in parts that end inside, at and beyond pages; after each part its queries are compared with
// attention over all keys so far.
TEST_P(PagedAttention, IsAttentionOverAllKeysSoFar) {
  const PoisonFreshMemory poison;
  const Heads h = GetParam();
  const std::pair<at::ScalarType, const char*> types[] = {
      {at::kDouble, "gathered"}, {at::kFloat, "cpu"}, {at::kBFloat16, "cpu"}};
  for (const auto& [type, answers] : types) {
    const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 1e-2;
    const Tensor q = random_tensor({600, h.heads, h.key}, 1, type),
                 k = random_tensor({600, h.key_heads, h.key}, 2, type),
                 v = random_tensor({600, h.key_heads, h.value}, 3, type);
    const AttentionOptions options{.scale = 0.3, .window = h.window};
    KeyValueCache cache({.heads = h.key_heads, .key = h.key, .value = h.value, .options = type});
    cache.grow(2);
    const std::vector<int64_t> row = {1};
    int64_t tokens = 0;
    for (const int64_t count : {1, 1, 2, 126, 126, 1, 254, 3, 1, 5, 79, 1}) {
      cache.append(row, std::vector<int64_t>{0, count}, k.narrow(0, tokens, count),
                   v.narrow(0, tokens, count));
      const Tensor fresh = q.narrow(0, tokens, count);
      tokens += count;
      const auto paged = attention_paged(fresh, {}, cache, row, options);
      EXPECT_EQ(Dispatcher::last("attention_paged").chosen, answers);
      const auto whole = attention_reference(fresh.to(at::kDouble), k.narrow(0, 0, tokens).to(at::kDouble),
                                             v.narrow(0, 0, tokens).to(at::kDouble),
                                             at::tensor({int64_t{0}, count}, at::kLong),
                                             at::tensor({int64_t{0}, tokens}, at::kLong), options);
      expect_near(paged.o_thd, whole.o_thd, tolerance, "o");
      expect_near(paged.logsumexp_th, whole.logsumexp_th, tolerance, "logsumexp");
    }
    EXPECT_EQ(cache.tokens(1), 600);
    EXPECT_EQ(cache.tokens(0), 0);
    EXPECT_TRUE(cache.keys_shd(1).equal(k));
    EXPECT_TRUE(cache.values_shd(1).equal(v));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PagedAttention,
                         ::testing::Values(Heads{4, 4, 16, 16, 0}, Heads{8, 2, 16, 8, 0},
                                           Heads{70, 1, 5, 9, 0}, Heads{2, 1, 64, 64, 130},
                                           Heads{5, 1, 8, 8, 200}));

// The same where the first channels of a key are its value (latent attention in decoding): to the bit what a
// cache with both has, and half the memory.
TEST(PagedCache, ValuesMayBeChannelsOfTheKeys) {
  const PoisonFreshMemory poison;
  for (const Heads& h : {Heads{6, 1, 20, 16, 0}, Heads{2, 1, 9, 9, 0}, Heads{32, 2, 40, 33, 130}}) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const Tensor q = random_tensor({600, h.heads, h.key}, 1, type),
                   k = random_tensor({600, h.key_heads, h.key}, 2, type);
      const AttentionOptions options{.scale = 0.3, .window = h.window};
      KeyValueCache both({.heads = h.key_heads, .key = h.key, .value = h.value, .options = type});
      KeyValueCache one(
          {.heads = h.key_heads, .key = h.key, .value = h.value, .values_in_keys = true, .options = type});
      both.grow(2);
      one.grow(2);
      int64_t tokens = 0;
      for (const int64_t count : {1, 253, 1, 3, 300, 42}) {
        const Tensor fresh_k = k.narrow(0, tokens, count), fresh_q = q.narrow(0, tokens, count);
        const std::vector<int64_t> row = {0}, offsets = {0, count};
        both.append(row, offsets, fresh_k, fresh_k.narrow(2, 0, h.value));
        one.append(row, offsets, fresh_k, Tensor());
        tokens += count;
        const auto expected = attention_paged(fresh_q, {}, both, row, options),
                   found = attention_paged(fresh_q, {}, one, row, options);
        EXPECT_TRUE(found.o_thd.equal(expected.o_thd)) << h.heads << " after " << tokens;
        EXPECT_TRUE(found.logsumexp_th.equal(expected.logsumexp_th)) << h.heads << " after " << tokens;
        both.forget(row, h.window);
        one.forget(row, h.window);
      }
      EXPECT_EQ(one.pool().page_bytes(),
                h.key_heads * PagePool::kTokens * h.key * static_cast<int64_t>(c10::elementSize(type)));
      one.copy(0, 1);  // shares the pages; whoever writes first copies the last one, values with it
      const Tensor more = random_tensor({1, h.key_heads, h.key}, 5, type);
      one.append(std::vector<int64_t>{1}, std::vector<int64_t>{0, 1}, more, Tensor());
      EXPECT_EQ(one.tokens(0), 600);
      const int64_t kept = one.tokens(1) - one.forgotten(1);
      EXPECT_TRUE(
          one.values_shd(1).equal(at::cat({k, more}).narrow(0, 601 - kept, kept).narrow(2, 0, h.value)));
      EXPECT_TRUE(one.keys_shd(0).equal(
          k.narrow(0, 600 - one.tokens(0) + one.forgotten(0), one.tokens(0) - one.forgotten(0))));
    }
  }
}

// What a token's row is in eight bits, by LibTorch's operators.
Tensor in_eight_bits(const Tensor& x_thc) {
  const Tensor wide = x_thc.to(at::kFloat), scale = wide.abs().amax(2, true).div(127);
  return wide.div(scale).round().mul(scale).to(x_thc.scalar_type());
}

// Rows whose sizes differ by token and head, so that another's scale would show.
Tensor uneven_rows(int64_t heads, int64_t channels, uint64_t seed, ScalarType type) {
  const Tensor sizes = random_tensor({600, heads, 1}, seed + 10).exp();
  return random_tensor({600, heads, channels}, seed).mul(sizes).to(type);
}

TEST_P(PagedAttention, InEightBitsIsAttentionOverRoundedTokens) {
  const PoisonFreshMemory poison;
  const Heads h = GetParam();
  const std::pair<at::ScalarType, const char*> types[] = {
      {at::kDouble, "gathered"}, {at::kFloat, "cpu"}, {at::kBFloat16, "cpu"}};
  for (const auto& [type, answers] : types) {
    const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 1e-2;
    const Tensor q = random_tensor({600, h.heads, h.key}, 1, type),
                 k = uneven_rows(h.key_heads, h.key, 2, type), v = uneven_rows(h.key_heads, h.value, 3, type);
    const Tensor rounded_k = in_eight_bits(k), rounded_v = in_eight_bits(v);
    const AttentionOptions options{.scale = 0.3, .window = h.window};
    KeyValueCache cache(
        {.heads = h.key_heads, .key = h.key, .value = h.value, .options = type, .int8 = true});
    cache.grow(3);
    const std::vector<int64_t> row = {1};
    int64_t tokens = 0;
    for (const int64_t count : {1, 2, 252, 1, 3, 340, 1}) {
      cache.append(row, std::vector<int64_t>{0, count}, k.narrow(0, tokens, count),
                   v.narrow(0, tokens, count));
      const Tensor fresh = q.narrow(0, tokens, count);
      tokens += count;
      const auto paged = attention_paged(fresh, {}, cache, row, options);
      EXPECT_EQ(Dispatcher::last("attention_paged").chosen, answers);
      const auto whole = attention_reference(
          fresh.to(at::kDouble), rounded_k.narrow(0, 0, tokens).to(at::kDouble),
          rounded_v.narrow(0, 0, tokens).to(at::kDouble), at::tensor({int64_t{0}, count}, at::kLong),
          at::tensor({int64_t{0}, tokens}, at::kLong), options);
      expect_near(paged.o_thd, whole.o_thd, tolerance, "o");
      expect_near(paged.logsumexp_th, whole.logsumexp_th, tolerance, "logsumexp");
    }
    EXPECT_TRUE(cache.keys_shd(1).equal(rounded_k));
    EXPECT_TRUE(cache.values_shd(1).equal(rounded_v));
    EXPECT_EQ(cache.pool().page_bytes(), h.key_heads * PagePool::kTokens * (h.key + h.value + 8));
    // Beside another sequence, and after it was kept elsewhere: the same bits.
    cache.restore(2, cache.save(1));
    cache.copy(1, 0);
    cache.append(std::vector<int64_t>{0}, std::vector<int64_t>{0, 1}, k.narrow(0, 0, 1), v.narrow(0, 0, 1));
    EXPECT_TRUE(cache.keys_shd(2).equal(rounded_k)) << "the copy wrote into a page of its own";
    EXPECT_TRUE(cache.keys_shd(0).equal(at::cat({rounded_k, rounded_k.narrow(0, 0, 1)})));
    EXPECT_TRUE(cache.values_shd(0).equal(at::cat({rounded_v, rounded_v.narrow(0, 0, 1)})));
    const Tensor last = q.narrow(0, 599, 1);
    const Tensor alone = attention_paged(last, {}, cache, row, options).o_thd;
    const Tensor both = attention_paged(at::cat({q.narrow(0, 7, 1), last}), at::tensor({0, 1, 2}, at::kLong),
                                        cache, std::vector<int64_t>{0, 2}, options)
                            .o_thd;
    EXPECT_TRUE(both[1].equal(alone[0]));
  }
}

TEST(PagedCache, InEightBitsByHand) {
  KeyValueCache cache({.heads = 1, .key = 4, .value = 2, .options = at::kFloat, .int8 = true});
  cache.grow(1);
  const float none = 0, tiny = 1e-40f;
  const Tensor k = at::tensor({254.0f, 3.0f, 1.0f, -127.0f,  // scale 2: one and a half goes to 2, a half to 0
                               none, none, none, none,       //
                               tiny, none, none, -tiny,      // a scale that would be denormal
                               1.0f, INFINITY, 0.0f, 0.0f})
                       .view({4, 1, 4});
  cache.append(std::vector<int64_t>{0}, std::vector<int64_t>{0, 4}, k, at::ones({4, 1, 2}));
  const Tensor found = cache.keys_shd(0);
  EXPECT_TRUE(found[0][0].equal(at::tensor({254.0f, 4.0f, 0.0f, -128.0f})));
  EXPECT_TRUE(found[1].equal(at::zeros({1, 4})));
  EXPECT_TRUE(found[2].equal(at::zeros({1, 4})));
  EXPECT_TRUE(found[3].isnan().all().item<bool>()) << "what is not finite shows";
  EXPECT_TRUE(cache.values_shd(0).equal(at::ones({4, 1, 2})));
}

constexpr int64_t kPage = PagePool::kTokens;

// A cache of 2 kv heads, 8 key and 4 value channels in fp32, and what should be in it.
class Cache : public ::testing::Test {
 protected:
  Cache() { cache_.grow(4); }

  void append(int64_t row, int64_t count) {
    const Tensor k = random_tensor({count, 2, 8}, ++seed_, at::kFloat),
                 v = random_tensor({count, 2, 4}, ++seed_, at::kFloat);
    cache_.append(std::span(&row, 1), std::vector<int64_t>{0, count}, k, v);
    keys_[row] = keys_[row].defined() ? at::cat({keys_[row], k}) : k;
    values_[row] = values_[row].defined() ? at::cat({values_[row], v}) : v;
  }
  void copy(int64_t from, int64_t to) {
    cache_.copy(from, to);
    keys_[to] = keys_[from];
    values_[to] = values_[from];
  }
  void clear(int64_t row) {
    cache_.clear(row);
    keys_[row] = values_[row] = Tensor();
  }
  void expect_all() const {
    for (int64_t row = 0; row < 4; ++row) {
      ASSERT_EQ(cache_.tokens(row), keys_[row].defined() ? keys_[row].size(0) : 0) << row;
      if (!keys_[row].defined()) continue;
      EXPECT_TRUE(cache_.keys_shd(row).equal(keys_[row])) << row;
      EXPECT_TRUE(cache_.values_shd(row).equal(values_[row])) << row;
    }
  }

  const PoisonFreshMemory poison_;
  KeyValueCache cache_{{.heads = 2, .key = 8, .value = 4, .options = at::kFloat}};
  Tensor keys_[4], values_[4];
  uint64_t seed_ = 0;
};

TEST_F(Cache, GrowsByPageAndLeavesPagesWhereTheyAre) {
  EXPECT_EQ(cache_.pool().bytes(), 0);
  append(0, 1);
  const int64_t page = cache_.pool().bytes();
  EXPECT_EQ(page, kPage * 2 * (8 + 4) * 4);
  const void* const first = cache_.pool().keys(cache_.pages(0)[0]).const_data_ptr();
  append(0, kPage - 1);
  EXPECT_EQ(cache_.pool().bytes(), page);
  append(0, 1);
  EXPECT_EQ(cache_.pool().bytes(), 2 * page);
  append(0, 3 * kPage);
  EXPECT_EQ(cache_.pool().bytes(), 5 * page);
  EXPECT_EQ(cache_.pool().keys(cache_.pages(0)[0]).const_data_ptr(), first);
  expect_all();
}

TEST_F(Cache, CopiesShareTheirPagesUntilOneWrites) {
  append(0, kPage + 7);
  copy(0, 1);
  copy(0, 2);
  EXPECT_EQ(cache_.pool().in_use(), 2) << "a copy takes no page";
  append(1, 1);
  EXPECT_EQ(cache_.pool().in_use(), 3) << "the unfinished page is copied first";
  EXPECT_EQ(cache_.pages(1)[0], cache_.pages(0)[0]) << "the full one is not";
  EXPECT_NE(cache_.pages(1)[1], cache_.pages(0)[1]);
  append(0, 2);
  EXPECT_EQ(cache_.pool().in_use(), 4);
  const int64_t last = cache_.pages(2)[1];
  append(2, 3);
  EXPECT_EQ(cache_.pool().in_use(), 4) << "the last one that has it keeps it";
  EXPECT_EQ(cache_.pages(2)[1], last);
  expect_all();
}

TEST_F(Cache, ACopyOfFullPagesTakesAFreshOne) {
  append(0, kPage);
  copy(0, 3);
  append(3, 1);
  append(0, 1);
  EXPECT_EQ(cache_.pool().in_use(), 3);
  expect_all();
}

TEST_F(Cache, FreedPagesAreUsedAgain) {
  append(0, 2 * kPage + 1);
  copy(0, 1);
  append(1, kPage);
  const int64_t bytes = cache_.pool().bytes();
  clear(0);
  EXPECT_EQ(cache_.pool().in_use(), 4) << "only what nobody else has is free";
  append(2, kPage);
  EXPECT_EQ(cache_.pool().bytes(), bytes) << "and taken first";
  copy(2, 1);
  EXPECT_EQ(cache_.pool().in_use(), 1) << "what the target had is given back";
  append(3, 4 * kPage);
  EXPECT_EQ(cache_.pool().bytes(), bytes);
  expect_all();
}

// What a window has left is given back, at once and never what a later token sees; pages that another
// sequence has stay.
TEST_F(Cache, PagesThatAWindowHasLeftAreGivenBack) {
  const std::vector<int64_t> row = {0};
  const auto forget = [&](int64_t window) { cache_.forget(row, window); };
  append(0, kPage + 9);
  forget(10);
  EXPECT_EQ(cache_.forgotten(0), kPage) << "the next token sees 9 older ones";
  append(1, kPage + 8);
  cache_.forget(std::vector<int64_t>{1}, 10);
  EXPECT_EQ(cache_.forgotten(1), 0) << "it sees the last key of the first page";
  forget(0);
  EXPECT_EQ(cache_.tokens(0), kPage + 9);
  EXPECT_TRUE(cache_.keys_shd(0).equal(keys_[0].narrow(0, kPage, 9)));
  EXPECT_TRUE(cache_.values_shd(0).equal(values_[0].narrow(0, kPage, 9)));
  copy(0, 2);
  EXPECT_EQ(cache_.forgotten(2), kPage);
  append(0, 3 * kPage);
  forget(10);
  EXPECT_EQ(cache_.forgotten(0), 4 * kPage);
  EXPECT_EQ(cache_.pages(0).size(), 1u);
  EXPECT_EQ(cache_.pages(2).size(), 1u) << "the copy keeps its own";
  EXPECT_TRUE(cache_.keys_shd(2).equal(keys_[2].narrow(0, kPage, 9)));
  clear(0);
  EXPECT_EQ(cache_.forgotten(0), 0);
}

// 1,400 tokens in parts, with a window: attention over all of them, from a cache that never has more pages
// than window and part take.
TEST(PagedCache, KeepsOnlyTheWindow) {
  const PoisonFreshMemory poison;
  const std::vector<int64_t> row = {0};
  for (const int64_t window : {1, 100, 256, 300, 700}) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      KeyValueCache cache({.heads = 2, .key = 16, .value = 16, .options = type});
      cache.grow(1);
      const Tensor q = random_tensor({1400, 4, 16}, 1, type), k = random_tensor({1400, 2, 16}, 2, type),
                   v = random_tensor({1400, 2, 16}, 3, type);
      const AttentionOptions options{.scale = 0.3, .window = window};
      const Tensor whole =
          attention_reference(q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble), {}, {}, options).o_thd;
      int64_t tokens = 0;
      for (uint64_t i = 0; tokens < 1400; ++i) {
        const int64_t part =
            std::min<int64_t>(std::vector<int64_t>{1, 255, 2, 600, 1, 1}[i % 6], 1400 - tokens);
        cache.append(row, std::vector<int64_t>{0, part}, k.narrow(0, tokens, part),
                     v.narrow(0, tokens, part));
        const Tensor o = attention_paged(q.narrow(0, tokens, part), {}, cache, row, options).o_thd;
        expect_near(o, whole.narrow(0, tokens, part), type == at::kFloat ? 1e-5 : 1e-12, "o");
        cache.forget(row, window);
        tokens += part;
        EXPECT_LE(cache.pool().in_use(), (window - 1) / kPage + 2);
      }
      EXPECT_LE(cache.pool().bytes(), ((window - 1 + 600) / kPage + 2) * cache.pool().page_bytes())
          << "beside a part of 600 tokens";
      const Tensor last = q.narrow(0, 1399, 1);
      const auto with_window = [&](int64_t other) {
        return refused([&] { attention_paged(last, {}, cache, row, {.scale = 0.3, .window = other}); });
      };
      EXPECT_THAT(with_window(0), ::testing::HasSubstr("bad argument window"));
      EXPECT_THAT(with_window(2000), ::testing::HasSubstr("forgot"));
    }
  }
}

// Three sequences in another order than their rows, of 300, 1 and 40 tokens, two of which share a beginning.
TEST(PagedCache, ServesSeveralSequencesAtOnce) {
  for (const int64_t heads : {2, 4, 8, 12}) {
    const std::vector<int64_t> rows = {3, 0, 1}, beginnings = {0, 299, 300, 310}, offsets = {0, 1, 2, 32};
    KeyValueCache cache({.heads = 2, .key = 16, .value = 16, .options = at::kFloat});
    cache.grow(4);
    const auto k = random_tensor({310, 2, 16}, 1, at::kFloat), v = random_tensor({310, 2, 16}, 2, at::kFloat);
    cache.append(rows, beginnings, k, v);
    const Tensor more_k = random_tensor({31, 2, 16}, 3, at::kFloat),
                 more_v = random_tensor({31, 2, 16}, 4, at::kFloat);
    cache.append(std::vector<int64_t>{1, 3}, std::vector<int64_t>{0, 30, 31}, more_k, more_v);
    const Tensor q = random_tensor({32, heads, 16}, 5, at::kFloat);
    const auto all = attention_paged(q, to_tensor(offsets), cache, rows, {.scale = 0.3});
    const std::vector<Tensor> keys = {at::cat({k.narrow(0, 0, 299), more_k.narrow(0, 30, 1)}),
                                      k.narrow(0, 299, 1),
                                      at::cat({k.narrow(0, 300, 10), more_k.narrow(0, 0, 30)})};
    const std::vector<Tensor> values = {at::cat({v.narrow(0, 0, 299), more_v.narrow(0, 30, 1)}),
                                        v.narrow(0, 299, 1),
                                        at::cat({v.narrow(0, 300, 10), more_v.narrow(0, 0, 30)})};
    const auto expected =
        attention_reference(q.to(at::kDouble), at::cat(keys).to(at::kDouble), at::cat(values).to(at::kDouble),
                            to_tensor(offsets), at::tensor({0, 300, 301, 341}, at::kLong), {.scale = 0.3});
    expect_near(all.o_thd, expected.o_thd, 1e-5, "o");
    expect_near(all.logsumexp_th, expected.logsumexp_th, 1e-5, "logsumexp");
    for (size_t n = 0; n < 3; ++n) {
      const Tensor own = q.narrow(0, offsets[n], offsets[n + 1] - offsets[n]);
      EXPECT_TRUE(all.o_thd.narrow(0, offsets[n], own.size(0))
                      .equal(attention_paged(own, {}, cache, std::span(&rows[n], 1), {.scale = 0.3}).o_thd))
          << "alone, bit for bit: " << heads << " heads, sequence " << n;
    }
    expect_same_for_all_threads([&] {
      return std::vector<Tensor>{attention_paged(q, to_tensor(offsets), cache, rows, {.scale = 0.3}).o_thd};
    });
  }
}

TEST(PagedCache, RefusesBadArgumentsByName) {
  using ::testing::HasSubstr;
  KeyValueCache cache({.heads = 2, .key = 8, .value = 8, .options = at::kFloat});
  cache.grow(2);
  const std::vector<int64_t> row = {0}, two = {0, 2};
  const Tensor x = at::zeros({2, 2, 8});
  const auto append = [&](const Tensor& k, const Tensor& v) {
    return refused([&] { cache.append(row, two, k, v); });
  };
  EXPECT_THAT(append(at::zeros({2, 8}), x), HasSubstr("bad argument k"));
  EXPECT_THAT(append(at::zeros({2, 1, 8}), x), HasSubstr("bad argument k"));
  EXPECT_THAT(append(x.to(at::kBFloat16), x), HasSubstr("bad argument k"));
  EXPECT_THAT(append(x, at::zeros({3, 2, 8})), HasSubstr("bad argument v"));
  EXPECT_THAT(append(x, at::zeros({2, 2, 4})), HasSubstr("bad argument v"));
  KeyValueCache in_keys({.heads = 2, .key = 8, .value = 6, .values_in_keys = true, .options = at::kFloat});
  in_keys.grow(1);
  EXPECT_THAT(refused([&] { in_keys.append(row, two, x, x.narrow(2, 0, 6)); }),
              HasSubstr("values are channels of keys"));
  cache.append(row, two, x, x);
  const auto call = [&](const Tensor& q, const Tensor& offsets = {}, std::vector<int64_t> rows = {0}) {
    return refused([&] { attention_paged(q, offsets, cache, rows, {}); });
  };
  EXPECT_THAT(call(at::zeros({2, 8})), HasSubstr("bad argument q"));
  EXPECT_THAT(call(at::zeros({2, 3, 8})), HasSubstr("bad argument q"));
  EXPECT_THAT(call(x.to(at::kBFloat16)), HasSubstr("bad argument q"));
  EXPECT_THAT(call(at::zeros({2, 2, 8}).requires_grad_()), HasSubstr("no gradient"));
  EXPECT_THAT(call(at::zeros({3, 2, 8})), HasSubstr("at least the 3 tokens"));
  EXPECT_THAT(call(x, {}, {1}), HasSubstr("found     0 tokens")) << "an empty sequence";
  EXPECT_THAT(call(x, {}, {2}), HasSubstr("bad argument rows"));
  EXPECT_THAT(call(x, at::tensor({0, 1, 2}, at::kLong)), HasSubstr("bad argument rows"));
}

}  // namespace
}  // namespace longhaul::kernels::attention_paged_test
