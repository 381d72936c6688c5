// The raw level of attention: every kind of visibility against an explicit mask in fp64, forward and
// backward, and keys and queries cut into ranges whose parts, merged and added up, are the whole.
// ctest: timeout=120
#include "kernels/attention/raw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/attention/visible_cases.h"
#include "kernels/gemm/block.h"
#include "support/refused.h"
#include "support/threads.h"

namespace longhaul::kernels::attention_raw_test {
namespace {

using namespace longhaul::testing;

constexpr double kScale = 0.3;

constexpr double kStart = 3;  // what gradients are added to

AttentionGradients sums_for(const AttentionInputs& in) {
  const auto sums = [](const Tensor& x) {
    return at::full(x.sizes(), kStart, x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  };
  return {sums(in.q), sums(in.k), sums(in.v)};
}

AttentionInputs inputs_for(int64_t queries, int64_t keys, at::ScalarType type) {
  AttentionCase c{.heads = 4, .key_heads = 2, .key = 24, .value = 17};
  c.offsets = {0, queries};
  c.key_offsets = {0, keys};
  return inputs_of(c, type);
}

void expect_close(const Evaluated& found, const Evaluated& expected, double tolerance) {
  expect_near(found.result.o_thd, expected.result.o_thd, tolerance, "o");
  expect_near(found.result.logsumexp_th, expected.result.logsumexp_th, tolerance, "logsumexp");
  expect_near(found.gradients.q_thd, expected.gradients.q_thd.add(kStart), tolerance, "dq");
  expect_near(found.gradients.k_shd, expected.gradients.k_shd.add(kStart), tolerance, "dk");
  expect_near(found.gradients.v_shd, expected.gradients.v_shd.add(kStart), tolerance, "dv");
}

// One call forward, one backward.
Evaluated whole(const AttentionInputs& in, const Visibility& visible, const Tensor& d_o,
                const Tensor& d_logsumexp) {
  const AttentionProblem problem{in.q, in.k, in.v, visible, kScale};
  const AttentionResult result = attention_forward(problem, true);
  const Tensor delta = attention_delta(result.o_thd, d_o.to(result.o_thd.scalar_type()), d_logsumexp);
  const AttentionGradients into = sums_for(in);
  attention_backward(problem, {d_o, result.logsumexp_th, delta}, into);
  return {result, into};
}

class RawAttention : public ::testing::TestWithParam<VisibleCase> {};

TEST_P(RawAttention, EqualsTheMask) {
  const PoisonFreshMemory poison;
  const VisibleCase& c = GetParam();
  const Tensor mask = mask_of(c.visible, c.queries, c.keys);
  struct Form {
    const char* implementation;
    at::ScalarType type;
    double tolerance;
  };
  // Tolerances as in cases.toml; fp64 sums of up to 2,300 terms of 1e-16.
  for (const Form& form : {Form{"aten", at::kDouble, 1e-12},
                           {"reference", at::kDouble, 1e-12},
                           {"cpu", at::kFloat, 2e-5},
                           {"cpu", at::kBFloat16, 1.5e-2},
                           {"aten", at::kBFloat16, 1.5e-2}}) {
    SCOPED_TRACE(form.implementation + std::string(" ") + std::string(name_of(form.type)));
    const AttentionInputs in = inputs_for(c.queries, c.keys, form.type);
    const Tensor d_o = random_tensor({c.queries, 4, 17}, 7, form.type);
    const Tensor d_logsumexp =
        random_tensor({c.queries, 4}, 8, form.type == at::kDouble ? at::kDouble : at::kFloat);
    const Evaluated expected = by_mask(in, mask, kScale, d_o, d_logsumexp);
    for (const BlockKernels* set : usable_block_kernels()) {
      if (std::string(form.implementation) == "cpu") force_block_kernels(set->name);
      Dispatcher::force("attention", form.implementation);
      expect_close(whole(in, c.visible, d_o, d_logsumexp), expected, form.tolerance);
      Dispatcher::force("attention", std::nullopt);
      force_block_kernels(std::nullopt);
      if (std::string(form.implementation) != "cpu") break;
    }
  }
}

// The plain form does the rows of a long document in runs, whose scores fit kScoreBytes (attention/aten.cpp):
// here 1,031 of 1,300.
TEST(RawAttentionPlain, LongDocumentsAreDoneInRunsOfRows) {
  AttentionCase sizes{.heads = 16, .key_heads = 8, .key = 4, .value = 4};
  sizes.offsets = {0, 1300};
  sizes.key_offsets = {0, 1017};
  const Visibility visible{{{0, 1300, 0, 1017, -283}}, true, 900};
  const AttentionInputs in = inputs_of(sizes, at::kFloat);
  const Tensor d_o = random_tensor({1300, 16, 4}, 7, at::kFloat), none = at::zeros({1300, 16});
  const Evaluated expected = whole(in, visible, d_o, none);
  EXPECT_EQ(Dispatcher::last("attention").chosen, "cpu");
  Dispatcher::force("attention", "aten");
  const Evaluated found = whole(in.to(at::kDouble), visible, d_o.to(at::kDouble), none.to(at::kDouble));
  Dispatcher::force("attention", std::nullopt);
  expect_near(found.result.o_thd, expected.result.o_thd, 2e-5, "o");
  expect_near(found.result.logsumexp_th, expected.result.logsumexp_th, 2e-5, "logsumexp");
  expect_near(found.gradients.q_thd, expected.gradients.q_thd, 2e-5, "dq");
  expect_near(found.gradients.k_shd, expected.gradients.k_shd, 2e-5, "dk");
  expect_near(found.gradients.v_shd, expected.gradients.v_shd, 2e-5, "dv");
}

TEST_P(RawAttention, DoesNotDependOnThreads) {
  const VisibleCase& c = GetParam();
  const AttentionInputs in = inputs_for(c.queries, c.keys, at::kBFloat16);
  const Tensor d_o = random_tensor({c.queries, 4, 17}, 7, at::kBFloat16), none = at::zeros({c.queries, 4});
  expect_same_for_all_threads([&] {
    const Evaluated all = whole(in, c.visible, d_o, none);
    return std::vector<Tensor>{all.result.o_thd, all.result.logsumexp_th, all.gradients.q_thd,
                               all.gradients.k_shd, all.gradients.v_shd};
  });
}

// The integers that implementations go by, against the rule.
TEST_P(RawAttention, RangesHoldWhatIsSeen) {
  const VisibleCase& c = GetParam();
  for (const AttentionDocument& document : c.visible.documents) {
    TokenRange before{0, 0};
    for (int64_t i = 0; i < document.queries; ++i) {
      const TokenRange range = c.visible.seen(document, i), near = c.visible.near(document, i);
      EXPECT_GE(range.first, before.first);
      EXPECT_GE(range.last, before.last);
      before = range;
      for (int64_t j = 0; j < document.keys; ++j) {
        EXPECT_EQ(j < document.prefix || (j >= near.first && j < near.last), sees(c.visible, document, i, j))
            << i << " " << j;
      }
    }
    for (int64_t first = 0; first < document.keys; first += 37) {
      const TokenRange keys{first, std::min(first + 50, document.keys)},
          seeing = c.visible.seeing(document, keys);
      for (int64_t i = 0; i < document.queries; ++i) {
        bool any = false;
        for (int64_t j = keys.first; j < keys.last; ++j) any = any || sees(c.visible, document, i, j);
        EXPECT_TRUE(!any || (i >= seeing.first && i < seeing.last)) << i;
        // Nor is the range wider, so that what no query sees is skipped. With a prefix it is, for the pieces
        // of keys that follow what everybody sees.
        if (document.prefix == 0 && (i == seeing.first || i == seeing.last - 1)) {
          EXPECT_TRUE(any || seeing.empty()) << i;
        }
      }
    }
  }
}

std::vector<TokenRange> ranges(const std::vector<int64_t>& ends) {
  std::vector<TokenRange> result;
  for (int64_t begin = 0; const int64_t end : ends) {
    result.push_back({begin, end});
    begin = end;
  }
  return result;
}

// As context ranks do it: each range of queries meets each range of keys, in an order of its own; partial
// results are merged, gradients added.
Evaluated in_parts(const AttentionInputs& in, const Visibility& visible, const Tensor& d_o,
                   const Tensor& d_logsumexp, const std::vector<TokenRange>& of_queries,
                   const std::vector<TokenRange>& of_keys) {
  const auto rows = [](const Tensor& x, TokenRange range) {
    return x.narrow(0, range.first, range.last - range.first);
  };
  const at::ScalarType wide = in.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const AttentionResult result{at::full({in.q.size(0), in.q.size(1), in.v.size(2)}, NAN, wide),
                               at::full({in.q.size(0), in.q.size(1)}, NAN, wide)};
  const AttentionGradients into = sums_for(in);
  for (size_t a = 0; a < of_queries.size(); ++a) {
    const TokenRange queries = of_queries[a];
    const auto problem = [&](TokenRange keys) {
      return AttentionProblem{rows(in.q, queries), rows(in.k, keys), rows(in.v, keys),
                              visible.pair(queries, keys), kScale};
    };
    AttentionResult sum;
    for (size_t b = 0; b < of_keys.size(); ++b) {
      const AttentionResult part = attention_forward(problem(of_keys[(a + b) % of_keys.size()]), true);
      if (b == 0)
        sum = part;
      else
        merge_attention(sum, part);
    }
    const AttentionOutside outside{
        rows(d_o, queries), sum.logsumexp_th,
        attention_delta(sum.o_thd, rows(d_o, queries).to(wide), rows(d_logsumexp, queries))};
    for (const TokenRange keys : of_keys)
      attention_backward(problem(keys), outside,
                         {rows(into.q_thd, queries), rows(into.k_shd, keys), rows(into.v_shd, keys)});
    rows(result.o_thd, queries).copy_(sum.o_thd);
    rows(result.logsumexp_th, queries).copy_(sum.logsumexp_th);
  }
  return {result, into};
}

TEST_P(RawAttention, PartsMergedAreTheWhole) {
  const PoisonFreshMemory poison;
  const VisibleCase& c = GetParam();
  const auto ends = [](int64_t tokens, std::vector<int64_t> shares) {  // of a hundred
    for (int64_t& share : shares) share = share * tokens / 100;
    return ranges(shares);
  };
  struct Split {
    std::vector<int64_t> of_queries, of_keys;
  };
  const Tensor mask = mask_of(c.visible, c.queries, c.keys);
  for (const Split& split : {Split{{100}, {31, 100}},
                             {{50, 100}, {50, 100}},
                             {{25, 50, 75, 100}, {25, 50, 75, 100}},
                             {{7, 60, 100}, {1, 2, 90, 100}}}) {
    for (const auto& [type, tolerance] :
         {std::pair{at::kDouble, 1e-12}, {at::kFloat, 2e-5}, {at::kBFloat16, 1.5e-2}}) {
      SCOPED_TRACE(std::string(name_of(type)));
      const AttentionInputs in = inputs_for(c.queries, c.keys, type);
      const Tensor d_o = random_tensor({c.queries, 4, 17}, 7, type);
      const Tensor d_logsumexp =
          random_tensor({c.queries, 4}, 8, type == at::kDouble ? at::kDouble : at::kFloat);
      expect_close(in_parts(in, c.visible, d_o, d_logsumexp, ends(c.queries, split.of_queries),
                            ends(c.keys, split.of_keys)),
                   by_mask(in, mask, kScale, d_o, d_logsumexp), tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RawAttention, ::testing::ValuesIn(visible_cases()));

// Packed documents of uneven lengths over two ranks: contiguous halves, and zig-zag (rank 0 holds chunks 0
// and 3, rank 1 chunks 1 and 2).
TEST(RawAttentionSplits, ZigZagOfPackedDocuments) {
  const std::vector<int64_t> offsets = {0, 90, 91, 301, 301, 512};
  const Visibility visible = Visibility::packed(offsets, offsets);
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-12}, {at::kBFloat16, 1.5e-2}}) {
    const AttentionInputs in = inputs_for(512, 512, type);
    const Tensor d_o = random_tensor({512, 4, 17}, 7, type),
                 none = at::zeros({512, 4}, type == at::kDouble ? at::kDouble : at::kFloat);
    const Evaluated expected = by_mask(in, mask_of(visible, 512, 512), kScale, d_o, none);
    const std::vector<TokenRange> zig_zag = {{0, 128}, {384, 512}, {128, 256}, {256, 384}};
    expect_close(in_parts(in, visible, d_o, none, zig_zag, zig_zag), expected, tolerance);
  }
}

TEST(MergeAttention, TakesAnyOrderAndGrouping) {
  std::vector<AttentionResult> parts;
  for (int i = 0; i < 4; ++i) {
    parts.push_back({random_tensor({6, 2, 3}, 10 + i), random_tensor({6, 2}, 20 + i).mul(i == 2 ? 500 : 3)});
    parts[static_cast<size_t>(i)].logsumexp_th[i].fill_(-INFINITY);
    parts[static_cast<size_t>(i)].o_thd[i].zero_();
    parts[static_cast<size_t>(i)].logsumexp_th[5].fill_(-INFINITY);
    parts[static_cast<size_t>(i)].o_thd[5].zero_();
  }
  const auto copy = [&](int i) {
    const AttentionResult& part = parts[static_cast<size_t>(i)];
    return AttentionResult{part.o_thd.clone(), part.logsumexp_th.clone()};
  };
  const AttentionResult left = copy(0), right = copy(3), pair = copy(2);
  for (const int i : {1, 2, 3}) merge_attention(left, parts[static_cast<size_t>(i)]);
  merge_attention(pair, parts[1]);
  merge_attention(right, pair);
  merge_attention(right, parts[0]);
  // By the definition, with everything at once.
  std::vector<Tensor> lse, o;
  for (const AttentionResult& part : parts) lse.push_back(part.logsumexp_th), o.push_back(part.o_thd);
  const Tensor weights = at::stack(lse).softmax(0).nan_to_num(0).unsqueeze(3),
               expected = weights.mul(at::stack(o)).sum(0);
  for (const AttentionResult& result : {left, right}) {
    expect_near(result.o_thd, expected, 1e-14, "o");
    expect_near(result.logsumexp_th, at::stack(lse).logsumexp(0), 1e-14, "logsumexp");
    EXPECT_EQ(result.o_thd[5].abs().max().item<double>(), 0);
    EXPECT_TRUE(result.logsumexp_th[5].eq(-INFINITY).all().item<bool>());
  }
}

// Every so many-th row of queries and of keys, key by key: what the whole mask has in these places.
TEST(Visibility, OfStripesIsThatOfTheirRows) {
  const std::vector<int64_t> offsets = {0, 1, 1, 9, 20, 23, 40};
  const int64_t rows = offsets.back();
  for (const auto& [causal, window] :
       {std::pair(true, 0), {true, 1}, {true, 2}, {true, 3}, {true, 7}, {false, 0}}) {
    Visibility whole = Visibility::packed(offsets, offsets);
    whole.causal = causal, whole.window = window;
    const Tensor mask = longhaul::testing::mask_of(whole, rows, rows);
    for (const int64_t stride : {1, 2, 3, 5, 41}) {
      for (int64_t q = 0; q < stride; ++q) {
        for (int64_t k = 0; k < stride; ++k) {
          const auto of = [&](int64_t first) { return at::arange(std::min(first, rows), rows, stride); };
          const Tensor own = of(q), others = of(k);
          EXPECT_TRUE(longhaul::testing::mask_of(whole.striped(stride, q, k), own.size(0), others.size(0))
                          .equal(mask.index_select(0, own).index_select(1, others)))
              << "stride " << stride << ", queries " << q << ", keys " << k << ", window " << window;
        }
      }
    }
  }
}

// What nobody sees may be anything, and what a call does not own stays as it is.
TEST(RawAttentionBounds, UnseenKeysAndOtherRowsDoNotCount) {
  const Visibility visible{{{10, 100, 20, 130, 30}}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    AttentionInputs in = inputs_for(120, 160, type);
    for (const Tensor* x : {&in.k, &in.v}) {
      x->narrow(0, 0, 20).fill_(NAN);
      x->narrow(0, 150, 10).fill_(NAN);
    }
    const Tensor d_o = random_tensor({120, 4, 17}, 7, type);
    const Evaluated all =
        whole(in, visible, d_o, at::zeros({120, 4}, type == at::kDouble ? at::kDouble : at::kFloat));
    EXPECT_EQ(all.result.o_thd.narrow(0, 0, 10).abs().max().item<double>(), 0);
    EXPECT_EQ(all.result.o_thd.narrow(0, 110, 10).abs().max().item<double>(), 0);
    EXPECT_TRUE(all.result.o_thd.isfinite().all().item<bool>());
    EXPECT_TRUE(all.gradients.q_thd.isfinite().all().item<bool>());
    EXPECT_TRUE(all.gradients.q_thd.narrow(0, 0, 10).eq(kStart).all().item<bool>());
    EXPECT_TRUE(all.gradients.k_shd.narrow(0, 0, 20).eq(kStart).all().item<bool>());
    EXPECT_TRUE(all.gradients.v_shd.narrow(0, 150, 10).eq(kStart).all().item<bool>());
  }
}

TEST(RawAttentionChecks, RefuseByName) {
  using ::testing::HasSubstr;
  const Tensor x = at::zeros({8, 2, 4}), rows = at::zeros({8, 2});
  const auto problem = [&](const Visibility& visible) { return AttentionProblem{x, x, x, visible, 1.0}; };
  const auto forward = [&](const Visibility& visible) {
    return refused([&] { attention_forward(problem(visible)); });
  };
  EXPECT_THAT(forward({{{0, 9, 0, 8}}}), HasSubstr("bad argument visible"));
  EXPECT_THAT(forward({{{0, 5, 0, 5}, {4, 4, 5, 3}}}), HasSubstr("bad argument visible"));
  EXPECT_THAT(forward({{{0, 5, 0, 5}, {5, 3, 4, 4}}}), HasSubstr("bad argument visible"));
  EXPECT_THAT(forward({{{0, 8, 0, 8, 0, 9}}}), HasSubstr("bad argument visible"));
  EXPECT_THAT(forward({{{0, 8, 0, 8}}, true, -1}), HasSubstr("bad argument window"));
  const Visibility causal{{{0, 8, 0, 8}}};
  const auto backward = [&](const AttentionOutside& outside, const AttentionGradients& into) {
    return refused([&] { attention_backward(problem(causal), outside, into); });
  };
  EXPECT_EQ(backward({x, rows, rows}, {x.clone(), x.clone(), x.clone()}), "accepted");
  EXPECT_THAT(backward({x.to(at::kDouble), rows, rows}, {x, x, x}), HasSubstr("bad argument d_o"));
  EXPECT_THAT(backward({x, rows, {}}, {x, x, x}), HasSubstr("bad argument delta"));
  EXPECT_THAT(backward({x, rows, rows}, {x.to(at::kBFloat16), x, x}), HasSubstr("bad argument dq"));
  EXPECT_THAT(backward({x, rows, rows}, {x, x.transpose(1, 2).contiguous().transpose(1, 2), x}),
              HasSubstr("bad argument dk"));
  EXPECT_THAT(refused([&] {
                merge_attention({x.to(at::kBFloat16), rows}, {x, rows});
              }),
              HasSubstr("bad argument o"));
}

}  // namespace
}  // namespace longhaul::kernels::attention_raw_test
