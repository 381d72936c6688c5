// Decoding over pages against attention over one tensor.
#include "kernels/attention/paged.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/attention_cases.h"
#include "kernels/block/block.h"
#include "support/threads.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

struct Heads {
  int64_t heads, key_heads, key, value, window;
};

class PagedAttention : public ::testing::TestWithParam<Heads> {};

// 600 tokens in parts that end inside, at and beyond pages; after each part its queries are compared with attention over all keys so far.
TEST_P(PagedAttention, IsAttentionOverAllKeysSoFar) {
  const PoisonFreshMemory poison;
  const Heads h = GetParam();
  const std::pair<at::ScalarType, const char*> types[] = {{at::kDouble, "gathered"}, {at::kFloat, "cpu"}, {at::kBFloat16, "cpu"}};
  for (const auto& [type, answers] : types) {
    const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 1e-2;
    const Tensor q = random_tensor({600, h.heads, h.key}, 1, type), k = random_tensor({600, h.key_heads, h.key}, 2, type),
                 v = random_tensor({600, h.key_heads, h.value}, 3, type);
    const AttentionOptions options{.scale = 0.3, .window = h.window};
    KeyValueCache cache;
    int64_t tokens = 0;
    for (const int64_t count : {1, 1, 2, 126, 126, 1, 254, 3, 1, 5, 79, 1}) {
      cache.append(k.narrow(0, tokens, count), v.narrow(0, tokens, count));
      const Tensor fresh = q.narrow(0, tokens, count);
      tokens += count;
      const KeyValueCache* const one = &cache;
      const auto paged = attention_paged(fresh, {}, std::span(&one, 1), options);
      EXPECT_EQ(Dispatcher::last("attention_paged").chosen, answers);
      const auto whole =
          attention_reference(fresh.to(at::kDouble), k.narrow(0, 0, tokens).to(at::kDouble), v.narrow(0, 0, tokens).to(at::kDouble),
                              at::tensor({int64_t{0}, count}, at::kLong), at::tensor({int64_t{0}, tokens}, at::kLong), options);
      expect_near(paged.o_thd, whole.o_thd, tolerance, "o");
      expect_near(paged.logsumexp_th, whole.logsumexp_th, tolerance, "logsumexp");
    }
    EXPECT_EQ(cache.tokens(), 600);
    EXPECT_TRUE(cache.keys_shd().equal(k));
    EXPECT_TRUE(cache.values_shd().equal(v));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PagedAttention,
                         ::testing::Values(Heads{4, 4, 16, 16, 0}, Heads{8, 2, 16, 8, 0}, Heads{70, 1, 5, 9, 0}, Heads{2, 1, 64, 64, 130},
                                           Heads{5, 1, 8, 8, 200}));

TEST(PagedCache, GrowsByPageAndLeavesPagesWhereTheyAre) {
  KeyValueCache cache;
  EXPECT_EQ(cache.bytes(), 0);
  const auto append = [&](int64_t count) { cache.append(at::ones({count, 2, 8}), at::ones({count, 2, 4})); };
  append(1);
  const int64_t page = cache.bytes();
  EXPECT_EQ(page, KeyValueCache::kPageTokens * 2 * (8 + 4) * 4);
  const void* const first = cache.key_pages()[0].const_data_ptr();
  append(KeyValueCache::kPageTokens - 1);
  EXPECT_EQ(cache.bytes(), page);
  append(1);
  EXPECT_EQ(cache.bytes(), 2 * page);
  append(3 * KeyValueCache::kPageTokens);
  EXPECT_EQ(cache.bytes(), 5 * page);
  EXPECT_EQ(cache.key_pages()[0].const_data_ptr(), first);
}

TEST(PagedCache, ServesSeveralSequencesAtOnce) {
  const int64_t lengths[] = {300, 1, 40}, queries[] = {1, 1, 30};
  const Tensor q = random_tensor({32, 4, 16}, 1, at::kFloat);
  std::vector<KeyValueCache> caches(3);
  std::vector<const KeyValueCache*> pointers;
  std::vector<Tensor> expected;
  int64_t token = 0;
  for (size_t n = 0; n < 3; ++n) {
    caches[n].append(random_tensor({lengths[n], 2, 16}, 10 + n, at::kFloat), random_tensor({lengths[n], 2, 16}, 20 + n, at::kFloat));
    pointers.push_back(&caches[n]);
    expected.push_back(attention_paged(q.narrow(0, token, queries[n]), {}, std::span(&pointers.back(), 1), {.scale = 0.3}).o_thd);
    token += queries[n];
  }
  const Tensor offsets = at::tensor({0, 1, 2, 32}, at::kLong);
  EXPECT_TRUE(attention_paged(q, offsets, pointers, {.scale = 0.3}).o_thd.equal(at::cat(expected)));
  expect_same_for_all_threads([&] { return std::vector<Tensor>{attention_paged(q, offsets, pointers, {.scale = 0.3}).o_thd}; });
}

TEST(PagedCache, RefusesBadArgumentsByName) {
  const auto refused = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  using ::testing::HasSubstr;
  KeyValueCache cache;
  const Tensor x = at::zeros({2, 2, 8});
  EXPECT_THAT(refused([&] { cache.append(at::zeros({2, 8}), x); }), HasSubstr("bad argument k"));
  EXPECT_THAT(refused([&] { cache.append(x, at::zeros({3, 2, 8})); }), HasSubstr("bad argument v"));
  cache.append(x, x);
  EXPECT_THAT(refused([&] { cache.append(at::zeros({2, 1, 8}), at::zeros({2, 1, 8})); }), HasSubstr("bad argument k"));
  EXPECT_THAT(refused([&] { cache.append(x, at::zeros({2, 2, 4})); }), HasSubstr("bad argument v"));
  const KeyValueCache* const one = &cache;
  const auto call = [&](const Tensor& q, const Tensor& offsets = {}) {
    return [&, q, offsets] { attention_paged(q, offsets, std::span(&one, 1), {}); };
  };
  EXPECT_THAT(refused(call(at::zeros({2, 8}))), HasSubstr("bad argument q"));
  EXPECT_THAT(refused(call(at::zeros({2, 2, 8}).requires_grad_())), HasSubstr("no gradient"));
  EXPECT_THAT(refused(call(at::zeros({3, 2, 8}))), HasSubstr("at least the 3 tokens"));
  EXPECT_THAT(refused(call(at::zeros({2, 3, 8}))), HasSubstr("bad argument caches"));
  EXPECT_THAT(refused(call(at::zeros({2, 2, 8}), at::tensor({0, 1, 2}, at::kLong))), HasSubstr("bad argument caches"));
}

}  // namespace
}  // namespace longhaul::kernels
