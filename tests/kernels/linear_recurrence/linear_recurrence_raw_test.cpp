// The raw level of linear_recurrence: a row cut into ranges anywhere, whose states pass from range to range
// (LASP) or are folded first and composed by their decays (LASP-2), is the row in one piece, forward and
// backward. ctest: timeout=120
#include "kernels/linear_recurrence/raw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/linear_recurrence/linear_recurrence_cases.h"
#include "support/refused.h"
#include "support/threads.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::linear_recurrence_raw_test {
namespace {

using namespace longhaul::testing;

constexpr double kRecurrenceRawScale = 0.5;

struct Gradients {
  Tensor d_o, d_final;
};

// Places in the row, with documents that begin and end anywhere in it.
struct Cut {
  std::vector<int64_t> ends;
};

struct Part {
  RecurrenceInputs in;
  Tensor d_o;
  int64_t begin, tokens;
  int64_t first_document, documents;  // of the row, counted with empty ones
};

Tensor rows(const Tensor& x, int64_t begin, int64_t tokens) {
  return x.defined() ? x.narrow(0, begin, tokens) : x;
}

// Documents of one range: those that have tokens in it.
std::vector<Part> parts_of(const Case& c, const Inputs& in, const Tensor& d_o,
                           const std::vector<int64_t>& ends, const LinearRecurrenceOptions& options) {
  std::vector<Part> parts;
  int64_t begin = 0;
  for (const int64_t end : ends) {
    Part part{.begin = begin, .tokens = end - begin, .first_document = -1, .documents = 0};
    std::vector<int64_t> offsets{0};
    for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
      const int64_t from = std::max(c.offsets[n], begin), to = std::min(c.offsets[n + 1], end);
      if (from >= to) continue;
      if (part.first_document < 0) part.first_document = static_cast<int64_t>(n);
      EXPECT_EQ(part.first_document + part.documents, static_cast<int64_t>(n))
          << "cases of this test have no empty documents inside";
      ++part.documents;
      offsets.push_back(to - begin);
    }
    const Tensor decay = in.log_decay.defined() && in.log_decay.dim() > 1
                             ? rows(in.log_decay, begin, end - begin)
                             : in.log_decay;
    part.in = {rows(in.q, begin, part.tokens),
               rows(in.k, begin, part.tokens),
               rows(in.v, begin, part.tokens),
               decay,
               {},
               to_tensor(offsets),
               options};
    part.d_o = rows(d_o, begin, part.tokens);
    parts.push_back(part);
    begin = end;
  }
  return parts;
}

struct Whole {
  Tensor o, final_state, dq, dk, dv, d_decay, d_initial;
};

// By the plain loops in one piece; the reference's own gradients are checked against finite differences
// elsewhere.
Whole in_one_piece(const Case& c, const Inputs& values, const Gradients& outer,
                   const LinearRecurrenceOptions& options) {
  Inputs in = widened(values);
  for (Tensor* x : {&in.q, &in.k, &in.v, &in.initial, &in.log_decay}) {
    if (x->defined()) *x = x->detach().clone().requires_grad_(true);
  }
  const auto result =
      linear_recurrence_reference(in.q, in.k, in.v, in.log_decay, in.initial, to_tensor(c.offsets), options);
  (result.o_thd.mul(outer.d_o.to(at::kDouble)).sum() +
   result.final_state_nhkv.mul(outer.d_final.to(at::kDouble)).sum())
      .backward();
  return {result.o_thd.detach(), result.final_state_nhkv.detach(),
          in.q.grad(),           in.k.grad(),
          in.v.grad(),           in.log_decay.defined() ? in.log_decay.grad() : Tensor(),
          in.initial.grad()};
}

// LASP: the state goes from range to range, its gradient comes back.
Whole chained(const Case& c, const Inputs& in, const Gradients& outer, const std::vector<int64_t>& ends,
              const LinearRecurrenceOptions& options) {
  std::vector<Part> parts = parts_of(c, in, outer.d_o, ends, options);
  std::vector<Tensor> o, boundaries, dq, dk, dv, d_decay;
  const Tensor state = in.initial.clone();  // of each document so far
  for (Part& part : parts) {
    part.in.initial_state_nhkv = state.narrow(0, part.first_document, part.documents).clone();
    const RecurrenceRun run = run_recurrence(part.in);
    o.push_back(run.result.o_thd);
    boundaries.push_back(run.boundaries);
    state.narrow(0, part.first_document, part.documents).copy_(run.result.final_state_nhkv);
  }
  const Tensor d_state = outer.d_final.clone();
  for (size_t i = parts.size(); i-- > 0;) {
    const Part& part = parts[i];
    const Tensor of_documents = d_state.narrow(0, part.first_document, part.documents);
    const auto out = run_recurrence_backward(part.in, i % 2 == 0 ? boundaries[i] : Tensor(), part.d_o,
                                             of_documents.clone(), in.log_decay.defined());
    dq.insert(dq.begin(), out.q_thk);
    dk.insert(dk.begin(), out.k_thk);
    dv.insert(dv.begin(), out.v_thv);
    if (out.log_decay.defined()) d_decay.insert(d_decay.begin(), out.log_decay);
    of_documents.copy_(out.initial_state_nhkv);
  }
  Whole whole{at::cat(o), state, at::cat(dq), at::cat(dk), at::cat(dv), Tensor(), d_state};
  if (!d_decay.empty()) whole.d_decay = c.decay == "head" ? at::stack(d_decay).sum(0) : at::cat(d_decay);
  return whole;
}

// LASP-2: every range is folded by itself; states that enter and gradients that leave are composed from the
// folds alone.
Whole gathered(const Case& c, const Inputs& in, const Gradients& outer, const std::vector<int64_t>& ends,
               const LinearRecurrenceOptions& options) {
  std::vector<Part> parts = parts_of(c, in, outer.d_o, ends, options);
  const Tensor state = in.initial.clone(), d_state = outer.d_final.clone();
  std::vector<Tensor> entering, leaving(parts.size()), o, dq, dk, dv, d_decay;
  const auto pass = [](const Tensor& of_documents, const RecurrenceFold& fold) {
    of_documents.mul_(fold.decay_nhk.unsqueeze(3)).add_(fold.state_nhkv);
  };
  for (const Part& part : parts) {
    const Tensor of_documents = state.narrow(0, part.first_document, part.documents);
    entering.push_back(of_documents.clone());
    RecurrenceInputs keys = part.in;
    keys.q_thk = Tensor();
    pass(of_documents, fold_recurrence(keys, c.heads));
  }
  for (size_t i = parts.size(); i-- > 0;) {
    const Tensor of_documents = d_state.narrow(0, parts[i].first_document, parts[i].documents);
    leaving[i] = of_documents.clone();
    RecurrenceInputs queries = parts[i].in;
    queries.k_thk = queries.v_thv = Tensor();
    pass(of_documents, fold_recurrence_gradient(queries, parts[i].d_o));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].in.initial_state_nhkv = entering[i];
    const RecurrenceRun run = run_recurrence(parts[i].in);
    o.push_back(run.result.o_thd);
    const auto out = run_recurrence_backward(parts[i].in, run.boundaries, parts[i].d_o, leaving[i],
                                             in.log_decay.defined());
    dq.push_back(out.q_thk);
    dk.push_back(out.k_thk);
    dv.push_back(out.v_thv);
    if (out.log_decay.defined()) d_decay.push_back(out.log_decay);
  }
  Whole whole{at::cat(o), state, at::cat(dq), at::cat(dk), at::cat(dv), Tensor(), d_state};
  if (!d_decay.empty()) whole.d_decay = c.decay == "head" ? at::stack(d_decay).sum(0) : at::cat(d_decay);
  return whole;
}

void expect_equal(const Whole& found, const Whole& expected, double tolerance) {
  EXPECT_LT(rms_error(found.o, expected.o), tolerance) << "o";
  EXPECT_LT(rms_error(found.final_state, expected.final_state), tolerance) << "final state";
  EXPECT_LT(rms_error(found.dq, expected.dq), tolerance) << "dq";
  EXPECT_LT(rms_error(found.dk, expected.dk), tolerance) << "dk";
  EXPECT_LT(rms_error(found.dv, expected.dv), tolerance) << "dv";
  EXPECT_LT(rms_error(found.d_initial, expected.d_initial), tolerance) << "d initial state";
  ASSERT_EQ(found.d_decay.defined(), expected.d_decay.defined());
  if (!found.d_decay.defined()) return;
  EXPECT_LT(rms_error(found.d_decay, expected.d_decay), tolerance) << "d log_decay";
}

std::vector<Case> raw_cases() {
  std::vector<Case> cases;
  for (const char* decay : {"none", "head", "head_token", "key_token"}) {
    for (const int64_t key_heads : {4, 2}) {
      cases.push_back({.name = std::string(decay) + (key_heads == 4 ? "" : ", grouped heads"),
                       .decay = decay,
                       .offsets = {0, 700, 703, 1290, 1400},
                       .heads = 4,
                       .key_heads = key_heads,
                       .key = 24,
                       .value = 17,
                       .steep = 0.05});
    }
  }
  cases.push_back({.name = "spikes",
                   .decay = "key_token",
                   .offsets = {0, 300, 500},
                   .heads = 2,
                   .key_heads = 2,
                   .key = 16,
                   .value = 8,
                   .steep = 1,
                   .spikes = true});
  return cases;
}

class RawLinearRecurrence : public ::testing::TestWithParam<Case> {};

TEST_P(RawLinearRecurrence, RangesInAnyCutAreTheWhole) {
  const PoisonFreshMemory poison;
  const Case& c = GetParam();
  struct Form {
    const char* implementation;
    at::ScalarType type;
    double tolerance;
  };
  // fp64: sums of some hundred terms of 1e-16. bf16: results, and states where products read them, are
  // rounded to 8 bits.
  for (const Form& form : {Form{"aten", at::kDouble, 1e-12},
                           {"reference", at::kDouble, 1e-12},
                           {"cpu", at::kFloat, 2e-5},
                           {"cpu", at::kBFloat16, 1e-2}}) {
    SCOPED_TRACE(form.implementation + std::string(" ") + std::string(name_of(form.type)));
    const Inputs in = inputs_of(c, form.type);
    const Gradients outer{random_tensor({c.tokens(), c.heads, c.value}, 31, form.type),
                          random_tensor(in.initial.sizes(), 32, in.initial.scalar_type())};
    const LinearRecurrenceOptions options{.scale = kRecurrenceRawScale};
    const Whole expected = in_one_piece(c, in, outer, options);
    Dispatcher::force("linear_recurrence", form.implementation);
    Dispatcher::force("linear_recurrence_fold", form.implementation);
    const int64_t tokens = c.tokens();
    for (const std::vector<int64_t>& ends : {std::vector<int64_t>{tokens},
                                             {tokens / 2, tokens},
                                             {1, 65, tokens / 2 + 1, tokens / 2 + 4, tokens - 100, tokens}}) {
      expect_equal(chained(c, in, outer, ends, options), expected, form.tolerance);
      expect_equal(gathered(c, in, outer, ends, options), expected, form.tolerance);
    }
    Dispatcher::force("linear_recurrence", std::nullopt);
    Dispatcher::force("linear_recurrence_fold", std::nullopt);
  }
}

TEST_P(RawLinearRecurrence, FoldsDoNotDependOnThreads) {
  const Case& c = GetParam();
  const Inputs in = inputs_of(c, at::kBFloat16);
  const Tensor d_o = random_tensor({c.tokens(), c.heads, c.value}, 31, at::kBFloat16);
  const RecurrenceInputs call{in.q, in.k, in.v, in.log_decay, {}, to_tensor(c.offsets), {}};
  expect_same_for_all_threads([&]() -> std::vector<Tensor> {
    const RecurrenceFold fold = fold_recurrence(call, c.heads), back = fold_recurrence_gradient(call, d_o);
    EXPECT_EQ(Dispatcher::last("linear_recurrence_fold").chosen, "cpu");
    return {fold.state_nhkv, fold.decay_nhk, back.state_nhkv, back.decay_nhk};
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, RawLinearRecurrence, ::testing::ValuesIn(raw_cases()));

// A gate's decays and tied keys; documents that run backwards; one without tokens.
TEST(RawLinearRecurrenceFold, EqualsTheLastStateOfARun) {
  const PoisonFreshMemory poison;
  const std::vector<int64_t> offsets = {0, 600, 600, 603, 700};
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-5}, {at::kBFloat16, 1e-2}}) {
    for (const bool reverse : {false, true}) {
      for (const bool bounded : {false, true}) {
        SCOPED_TRACE(std::string(name_of(type)) + (reverse ? " reverse" : "") + (bounded ? " bounded" : ""));
        LinearRecurrenceOptions options{.reverse = reverse, .tied_keys = true};
        options.gate.kind = bounded ? RecurrenceGate::Kind::kLowerBounded : RecurrenceGate::Kind::kLogSigmoid;
        if (bounded)
          options.gate.lower_bound_hk =
              random_tensor({4, 16}, 9, type == at::kDouble ? type : at::kFloat).sigmoid().mul(0.9);
        const RecurrenceInputs in{random_tensor({700, 4, 16}, 1, type),
                                  {},
                                  random_tensor({700, 2, 8}, 3, type),
                                  random_tensor({700, 4, 16}, 2, type).add(3),
                                  {},
                                  to_tensor(offsets),
                                  options};
        RecurrenceInputs keys = in;
        keys.q_thk = Tensor();
        const RecurrenceFold fold = fold_recurrence(keys, 4);
        // From one state and from another the same run ends in states that differ by Λ.
        RecurrenceInputs exact = in, from_one = in;
        exact.q_thk = in.q_thk.to(at::kDouble), exact.v_thv = in.v_thv.to(at::kDouble),
        exact.log_decay = in.log_decay.to(at::kDouble);
        if (bounded) exact.options.gate.lower_bound_hk = options.gate.lower_bound_hk.to(at::kDouble);
        from_one = exact;
        from_one.initial_state_nhkv = at::ones({4, 4, 16, 8}, at::kDouble);
        const auto last = [](const RecurrenceInputs& x) {
          return linear_recurrence_reference(x.q_thk, x.k_thk, x.v_thv, x.log_decay, x.initial_state_nhkv,
                                             x.offsets, x.options)
              .final_state_nhkv;
        };
        const Tensor zero = last(exact), one = last(from_one);
        EXPECT_LT(rms_error(fold.state_nhkv, zero), tolerance);
        EXPECT_LT(rms_error(fold.decay_nhk, one.sub(zero).select(3, 0)), std::max(tolerance, 1e-12));
        EXPECT_EQ(fold.state_nhkv[1].abs().max().item<double>(), 0);
        EXPECT_EQ(fold.decay_nhk[1].min().item<double>(), 1);
      }
    }
  }
}

TEST(RawLinearRecurrenceChecks, RefuseByName) {
  using ::testing::HasSubstr;
  const Tensor x = at::zeros({8, 2, 4});
  RecurrenceInputs in{x, x, x, {}, {}, {}, {}};
  EXPECT_THAT(refused([&] { run_recurrence_backward(in, {}, x, {}, true); }),
              HasSubstr("bad argument log_decay"));
  EXPECT_THAT(refused([&] { run_recurrence_backward(in, {}, x.narrow(0, 0, 7), {}, false); }),
              HasSubstr("bad argument d_o"));
  EXPECT_THAT(refused([&] { fold_recurrence_gradient(in, x.narrow(0, 0, 7)); }), HasSubstr("bad argument v"));
  in.k_thk = Tensor();
  EXPECT_THAT(refused([&] { fold_recurrence(in, 2); }), HasSubstr("bad argument k"));
}

}  // namespace
}  // namespace longhaul::kernels::linear_recurrence_raw_test
