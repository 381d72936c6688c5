// The raw level of the loss: log-sum-exp, label's logit and entropy of every token at a temperature, and
// gradients of the three, against LibTorch's autograd in fp64 on whole logits; a vocabulary dealt out over
// parts.
#include "kernels/linear_cross_entropy/raw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/gemm/block.h"
#include "support/refused.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace longhaul::kernels::linear_cross_entropy_raw_test {
namespace {

using namespace longhaul::testing;

struct HeadCase {
  std::string name;
  int64_t tokens, hidden, vocabulary, unlabelled, chunk;
  double spread;
};
void PrintTo(const HeadCase& c, std::ostream* out) { *out << c.name; }

const HeadCase kHeadCases[] = {{"small, odd", 23, 8, 31, 7, 512, 1},
                               {"one token", 1, 16, 300, 0, 512, 1},
                               {"no token", 0, 16, 300, 0, 512, 1},
                               {"no label", 40, 16, 300, 1, 512, 1},
                               {"several chunks and blocks", 700, 40, 1003, 5, 96, 2},
                               {"one word takes all", 90, 24, 513, 4, 512, 60}};

struct HeadInputs {
  Tensor hidden, weight, labels, d_lse, d_label, d_entropy;  // the last undefined: not asked for
  double temperature = 1;
};

HeadInputs inputs_for(const HeadCase& c, at::ScalarType type, bool entropy = false) {
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  HeadInputs in{random_tensor({c.tokens, c.hidden}, 1)
                    .mul(c.spread / std::sqrt(static_cast<double>(c.hidden)))
                    .to(type),
                random_tensor({c.vocabulary, c.hidden}, 2).to(type),
                at::arange(c.tokens).mul(7919).remainder(c.vocabulary), random_tensor({c.tokens}, 3, wide),
                random_tensor({c.tokens}, 4, wide)};
  if (entropy) in.d_entropy = random_tensor({c.tokens}, 5, wide), in.temperature = 0.7;
  for (int64_t t = 0; c.unlabelled > 0 && t < c.tokens; t += c.unlabelled) in.labels[t] = -1;
  return in;
}

struct HeadResult {
  Tensor lse, label, entropy, d_hidden, d_weight;
};
constexpr double kLossRawStart = 2;  // what the weight's gradient is added to

HeadResult by_autograd(const HeadInputs& in) {
  const Tensor hidden = in.hidden.to(at::kDouble).requires_grad_(true),
               weight = in.weight.to(at::kDouble).requires_grad_(true);
  const Tensor z = at::mm(hidden, weight.t()).div(in.temperature), labelled = in.labels.ge(0).to(at::kDouble);
  const Tensor lse = z.logsumexp(1),
               label = z.gather(1, in.labels.clamp_min(0).unsqueeze(1)).squeeze(1).mul(labelled);
  const Tensor log_p = z.log_softmax(1), entropy = log_p.exp().mul(log_p).sum(1).neg();
  Tensor sum = lse.mul(in.d_lse.to(at::kDouble)).sum() + label.mul(in.d_label.to(at::kDouble)).sum();
  if (in.d_entropy.defined()) sum = sum + entropy.mul(in.d_entropy.to(at::kDouble)).sum();
  sum.backward();
  return {lse.detach(), label.detach(), entropy.detach(), hidden.grad(), weight.grad()};
}

HeadResult by_operator(const HeadInputs& in, int64_t chunk, int64_t parts = 1) {
  const at::ScalarType wide = in.d_lse.scalar_type();
  const int64_t vocabulary = in.weight.size(0);
  std::vector<TokenLogitsInputs> calls;
  const bool with_entropy = in.d_entropy.defined();
  std::vector<Tensor> lse, label, entropy;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t first = p * vocabulary / parts, end = (p + 1) * vocabulary / parts;
    const Tensor row = in.labels.sub(first),
                 own = row.masked_fill(row.lt(0).logical_or(row.ge(end - first)), -1);
    calls.push_back({in.hidden, in.weight.narrow(0, first, end - first), own, chunk, {}, in.temperature});
    const TokenLogits of_part = token_logits(calls.back(), with_entropy);
    lse.push_back(of_part.logsumexp_t);
    label.push_back(of_part.label_t);
    if (with_entropy) entropy.push_back(of_part.entropy_t);
  }
  const Tensor whole = at::stack(lse).logsumexp(0), log_share = at::stack(lse).sub(whole);
  const Tensor of_whole =
      with_entropy ? log_share.exp().mul(at::stack(entropy).sub(log_share)).sum(0) : Tensor();
  HeadResult result{whole, at::stack(label).sum(0), of_whole, at::zeros(in.hidden.sizes(), at::kDouble),
                    at::full(in.weight.sizes(), kLossRawStart, wide)};
  for (const TokenLogitsInputs& call : calls) {
    const Tensor d_hidden = at::full_like(in.hidden, NAN);
    const Tensor sink = result.d_weight.narrow(0, call.weight_vd.storage_offset() / in.weight.size(1),
                                               call.weight_vd.size(0));
    token_logits_backward(call, {result.lse, {}, result.entropy}, {in.d_lse, in.d_label, in.d_entropy},
                          d_hidden, sink);
    result.d_hidden.add_(d_hidden);
    // one alone
    token_logits_backward(call, {result.lse, {}, result.entropy}, {in.d_lse, in.d_label, in.d_entropy},
                          d_hidden, {});
    EXPECT_TRUE(d_hidden.isfinite().all().item<bool>());
  }
  result.d_weight = result.d_weight.sub(kLossRawStart);
  return result;
}

void expect_close(const char* what, const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  if (found.numel() == 0) return;
  const double scale = std::max(1e-30, expected.abs().max().item<double>());
  const double worst = found.to(at::kDouble).sub(expected).abs().max().item<double>();
  EXPECT_TRUE(worst <= tolerance * scale) << what << ": " << worst << " of " << scale;
}

struct Form {
  const char* implementation;
  at::ScalarType type;
  double logits, gradients;  // tolerances, as in cases.toml
};

void expect_like_autograd(const Form& form, const HeadInputs& in, int64_t chunk) {
  const HeadResult expected = by_autograd(in);
  for (const BlockKernels* set : usable_block_kernels()) {
    const bool fused = form.implementation == std::string("fused");
    if (fused) force_block_kernels(set->name);
    Dispatcher::force("token_logits", form.implementation);
    for (const int64_t parts : {1, 3}) {
      SCOPED_TRACE(form.implementation + std::string(" ") + std::string(name_of(form.type)) + " " +
                   set->name + ", parts " + std::to_string(parts));
      const HeadResult found = by_operator(in, chunk, parts);
      expect_close("logsumexp", found.lse, expected.lse, form.logits);
      expect_close("label", found.label, expected.label, form.logits);
      // a logit is rounded by its size, and the entropy with it
      if (in.d_entropy.defined() && in.d_entropy.numel() > 0) {
        const double unit = form.logits * std::max(1.0, expected.lse.abs().max().item<double>());
        EXPECT_LE(found.entropy.to(at::kDouble).sub(expected.entropy).abs().max().item<double>(), unit)
            << "entropy";
      }
      // A part's rows are rounded on their own, and may be larger than their sum.
      expect_close("d hidden", found.d_hidden, expected.d_hidden, form.gradients * (parts == 1 ? 1 : 2));
      expect_close("d weight", found.d_weight, expected.d_weight,
                   std::max(form.gradients, parts == 1 ? 0 : 1e-12));
    }
    Dispatcher::force("token_logits", std::nullopt);
    force_block_kernels(std::nullopt);
    if (!fused) break;
  }
}

class TokenLogitsCases : public ::testing::TestWithParam<HeadCase> {};

TEST_P(TokenLogitsCases, EqualAutogradOnWholeLogits) {
  const PoisonFreshMemory poison;
  for (const Form& form : {Form{"aten", at::kDouble, 1e-12, 1e-12},
                           {"reference", at::kDouble, 1e-12, 1e-12},
                           {"fused", at::kFloat, 1e-6, 2e-5},
                           {"fused", at::kBFloat16, 1e-6, 1.5e-2},
                           {"aten", at::kBFloat16, 1e-6, 1.5e-2}}) {
    if (form.implementation == std::string("reference") && GetParam().tokens > 100) continue;  // slow
    for (const bool entropy : {false, true})
      expect_like_autograd(form, inputs_for(GetParam(), form.type, entropy), GetParam().chunk);
  }
}
TEST_P(TokenLogitsCases, DoNotDependOnThreads) {
  const HeadInputs in = inputs_for(GetParam(), at::kBFloat16, /*entropy=*/true);
  expect_same_for_all_threads([&] {
    const HeadResult found = by_operator(in, GetParam().chunk);
    EXPECT_EQ(Dispatcher::last("token_logits").chosen, "fused");
    return std::vector<Tensor>{found.lse, found.label, found.entropy, found.d_hidden, found.d_weight};
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, TokenLogitsCases, ::testing::ValuesIn(kHeadCases));

TEST(TokenLogitsChecks, RefuseByName) {
  using ::testing::HasSubstr;
  const Tensor hidden = at::zeros({4, 8}), weight = at::zeros({5, 8}), labels = at::zeros({4}, at::kLong),
               each = at::zeros({4});
  const TokenLogitsInputs in{hidden, weight, labels};
  EXPECT_THAT(refused([&] {
                token_logits({hidden, weight, labels.add(5)});
              }),
              HasSubstr("bad argument labels"));
  EXPECT_THAT(refused([&] { token_logits({hidden, weight, labels, -1}); }), HasSubstr("bad argument chunk"));
  EXPECT_THAT(refused([&] {
                token_logits_backward(in, {each.narrow(0, 0, 3), {}}, {each, each}, {}, weight);
              }),
              HasSubstr("bad argument logsumexp"));
  EXPECT_THAT(refused([&] {
                token_logits_backward(in, {each, {}}, {each, each.to(at::kDouble)}, {}, weight);
              }),
              HasSubstr("label's logit"));
  EXPECT_THAT(refused([&] {
                token_logits_backward(in, {each, {}}, {each, each}, hidden.to(at::kDouble), {});
              }),
              HasSubstr("bad argument d_hidden"));
  EXPECT_THAT(refused([&] {
                token_logits_backward(in, {each, {}}, {each, each}, {}, hidden);
              }),
              HasSubstr("bad argument sink"));
  EXPECT_THAT(refused([&] {
                token_logits_backward(in, {each, {}}, {each, each, each}, {}, weight);
              }),
              HasSubstr("bad argument entropy"));
  for (const double temperature : {0.0, -1.0, std::nan("")}) {
    EXPECT_THAT(refused([&] {
                  token_logits({hidden, weight, labels, 4, {}, temperature});
                }),
                HasSubstr("bad argument temperature"));
  }
}

}  // namespace
}  // namespace longhaul::kernels::linear_cross_entropy_raw_test
