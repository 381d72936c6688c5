// Engines of several ranks that have one model together, beside one process that has all of it: stages of
// layers give its bits (but for fp64, whose products are LibTorch's, and residual factors), tensor ranks its
// numbers but for the order of sums; and all ranks the same.
// ctest: label=full timeout=600
#include "generate/rank_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/threads/run_ranks.h"
#include "generate/rank_followers.h"
#include "support/models.h"
#include "support/refused.h"

namespace longhaul::generate::rank_pass_test {
namespace {

using namespace longhaul::testing;

struct Cut {
  int64_t tp, pp;
};
const Cut kCuts[] = {{1, 2}, {2, 1}, {2, 2}};

parallel::Arrangement arrangement(const recipe::ModelConfig& config, const Cut& cut) {
  recipe::ParallelOptions options;
  options.tp = cut.tp;
  options.pp = cut.pp;
  return parallel::arrangement_of(config, options, cut.tp * cut.pp);
}

bool possible(const recipe::ModelConfig& config, const Cut& cut) {
  try {
    parallel::require_possible(config, arrangement(config, cut));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// This rank's boxes of the tensors that `whole` has.
void copy_share(const model::Decoder& whole, model::Decoder& share) {
  for (const auto& parameter : share.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const model::Part& part = parameter->parts[i];
      size_t at = 0;
      const model::Parameter* const holder = whole.parameters().holder_of(part.spec.tensor.name, &at);
      Tensor box = holder->part_of(holder->value.detach(), at);
      for (size_t d = 0; d < part.held.length.size(); ++d)
        box = box.narrow(static_cast<int64_t>(d), part.held.offset[d], part.held.length[d]);
      parameter->part_of(parameter->value.detach(), i).copy_(box);
    }
    parameter->written();
  }
}

std::vector<Request> requests(const recipe::ModelConfig& config, std::vector<Generation>& into) {
  std::vector<Request> all;
  const int64_t lengths[] = {7, 1, 12};
  into.resize(std::size(lengths));
  for (size_t i = 0; i < std::size(lengths); ++i) {
    Request request{.prompt = random_ids(lengths[i], config.vocabulary, 3 + i),
                    .settings = {.tokens = 6,
                                 .temperature = i == 2 ? 1.0 : 0.0,
                                 .seed = 8,
                                 .log_probabilities = true,
                                 .top_log_probabilities = 4}};
    request.on_end = [&into, i](int64_t, Generation generation) { into[i] = std::move(generation); };
    all.push_back(std::move(request));
  }
  return all;
}

std::vector<Generation> texts_of(Engine& engine, const recipe::ModelConfig& config) {
  std::vector<Generation> texts;
  for (Request& request : requests(config, texts)) {
    engine.submit(std::move(request));
    engine.step();
  }
  while (engine.step()) {
  }
  return texts;
}

// What every rank wrote.
std::vector<std::vector<Generation>> texts_on_ranks(const model::Decoder& whole, const char* dtype,
                                                    const Cut& cut, bool int8_keys_values = false) {
  const recipe::ModelConfig& config = whole.config();
  std::vector<std::vector<Generation>> all(static_cast<size_t>(cut.tp * cut.pp));
  comm::run_ranks(cut.tp * cut.pp, [&](comm::Communicator& world) {
    const at::NoGradGuard guard;
    const parallel::Ranks ranks(world, arrangement(config, cut));
    model::Decoder decoder(config, Precision::named(dtype), at::kCPU, model::Use::kInference, ranks.place());
    copy_share(whole, decoder);
    const RankPass pass(decoder, ranks);
    Engine engine(decoder, {.int8_keys_values = int8_keys_values, .pass = pass.function()});
    all[static_cast<size_t>(world.rank())] = texts_of(engine, config);
  });
  return all;
}

void expect_same_texts(const std::vector<Generation>& found, const std::vector<Generation>& expected,
                       double tolerance, const std::string& how) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, expected[i].ids) << how << " text " << i;
    ASSERT_EQ(found[i].log_probabilities.size(), expected[i].log_probabilities.size()) << how;
    for (size_t t = 0; t < found[i].log_probabilities.size(); ++t) {
      EXPECT_NEAR(found[i].log_probabilities[t], expected[i].log_probabilities[t], tolerance) << how;
      for (size_t k = 0; k < found[i].top[t].size(); ++k) {
        EXPECT_NEAR(found[i].top[t][k].log_probability, expected[i].top[t][k].log_probability, tolerance)
            << how;
      }
    }
  }
}

// Between stages the branch is added to the residual by itself, and elsewhere by the norm that follows: with
// factors (DeepNorm) these round in another order.
bool joins_to_the_bit(const recipe::ModelConfig& config) {
  const auto plain = [](const recipe::ModelConfig::ResidualFactors& factors) {
    return factors.residual == 1 && factors.branch == 1;
  };
  bool all = plain(config.channel_factors());
  for (int64_t l = 0; l < config.layers; ++l) all = all && plain(config.mixer_factors(l));
  return all;
}

class RankPassOf : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(RankPassOf, GivesTheTextsOfOneProcess) {
  const recipe::ModelConfig& config = GetParam().config;
  int cuts = 0;
  for (const Cut& cut : kCuts) {
    if (!possible(config, cut)) continue;
    ++cuts;
    for (const char* dtype : {"fp64", "fp32", "bf16"}) {
      const bool wide = std::string(dtype) == "fp64", exact = cut.tp == 1 && joins_to_the_bit(config);
      if (!exact && std::string(dtype) == "bf16") continue;  // other sums may draw other tokens
      model::Decoder whole = filled_decoder(config, dtype);
      Engine alone(whole, {});
      const std::vector<Generation> expected = texts_of(alone, config);
      const auto all = texts_on_ranks(whole, dtype, cut);
      const std::string how = fmt::format("{} tp {} pp {}", dtype, cut.tp, cut.pp);
      for (const auto& of_rank : all) expect_same_texts(of_rank, all[0], 0, how + ", other ranks");
      expect_same_texts(all[0], expected, wide ? 1e-9 : exact ? 0 : 2e-3, how);
    }
  }
  EXPECT_GT(cuts, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, RankPassOf, ::testing::ValuesIn(small_models()),
                         [](const auto& named) { return named.param.name; });

// A scale is of one head and token, which no cut divides.
TEST(RankPass, HasTheSameKeysInEightBits) {
  const recipe::ModelConfig config = qwen_like();
  model::Decoder whole = filled_decoder(config, "fp32");
  Engine alone(whole, {.int8_keys_values = true});
  const std::vector<Generation> expected = texts_of(alone, config);
  for (const Cut& cut : kCuts)
    expect_same_texts(texts_on_ranks(whole, "fp32", cut, true)[0], expected, cut.tp == 1 ? 0 : 2e-3,
                      fmt::format("tp {} pp {}", cut.tp, cut.pp));
}

// Only the first rank's engine hears of requests, one of them with two texts and one that is withdrawn; the
// others follow its passes. A text ends where the ranks have no more room for it.
TEST(RankFollowers, WriteWhatOneProcessWrites) {
  const recipe::ModelConfig config = hybrid_pre_norm_tied();
  const auto written = [&](Engine& engine) {
    std::vector<Generation> texts(4);
    const auto ask = [&](std::vector<int64_t> prompt, int64_t count, size_t first) {
      Request request{
          .prompt = std::move(prompt),
          .settings = {.tokens = 6, .temperature = 1, .seed = 8, .count = count, .log_probabilities = true}};
      request.on_end = [&texts, first](int64_t sequence, Generation generation) {
        texts[first + static_cast<size_t>(sequence)] = std::move(generation);
      };
      return engine.submit(std::move(request));
    };
    ask(random_ids(7, config.vocabulary, 3), 2, 0);
    engine.step();
    const int64_t withdrawn = ask(random_ids(70, config.vocabulary, 4), 1, 2);
    engine.step();
    engine.cancel(withdrawn);
    ask(random_ids(97, config.vocabulary, 5), 1, 3);
    while (engine.step()) {
    }
    return texts;
  };
  for (const Cut& cut : {Cut{1, 2}, Cut{2, 1}}) {
    if (!possible(config, cut)) continue;
    const char* const dtype = cut.tp == 1 ? "fp32" : "fp64";
    model::Decoder whole = filled_decoder(config, dtype);
    Engine alone(whole, {.tokens_of_text = 100});
    const std::vector<Generation> expected = written(alone);
    EXPECT_EQ(expected[3].finish, Finish::kPositions);
    EXPECT_EQ(expected[3].ids.size(), 4U) << "of 100 tokens 97 were the prompt's, and the last is not read";
    RankFollowers followers(cut.tp * cut.pp - 1);
    std::vector<Generation> found;
    comm::run_ranks(cut.tp * cut.pp, [&](comm::Communicator& world) {
      const parallel::Ranks ranks(world, arrangement(config, cut));
      model::Decoder share(config, Precision::named(dtype), at::kCPU, model::Use::kInference, ranks.place());
      copy_share(whole, share);
      const RankPass pass(share, ranks);
      if (world.rank() > 0) return followers.follow(world.rank() - 1, share, pass, false);
      Engine engine(share, followers.lead(pass, {.tokens_of_text = 100}));
      found = written(engine);
      followers.end();
    });
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].ids, expected[i].ids) << cut.tp << " text " << i;
      EXPECT_EQ(found[i].finish, expected[i].finish) << cut.tp << " text " << i;
      ASSERT_EQ(found[i].log_probabilities.size(), expected[i].log_probabilities.size());
      for (size_t t = 0; t < found[i].log_probabilities.size(); ++t)
        EXPECT_NEAR(found[i].log_probabilities[t], expected[i].log_probabilities[t], cut.tp == 1 ? 0 : 1e-9);
    }
  }
}

// A rank that fails ends the others: the first one's next pass fails, and nobody waits.
TEST(RankFollowers, EndWhereOneOfThemFails) {
  const recipe::ModelConfig config = hybrid_pre_norm_tied();
  model::Decoder whole = filled_decoder(config, "fp32");
  RankFollowers followers(1);
  const auto run = [&] {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      const parallel::Ranks ranks(world, arrangement(config, {1, 2}));
      model::Decoder share(config, Precision::named("fp32"), at::kCPU, model::Use::kInference, ranks.place());
      copy_share(whole, share);
      const RankPass pass(share, ranks);
      if (world.rank() > 0) throw Error({.code = ExitCode::kData, .what = "a disk is gone"});
      Engine engine(share, followers.lead(pass, {}));
      engine.submit({.prompt = {1, 2, 3}, .settings = {.tokens = 2}});
      engine.step();
    });
  };
  EXPECT_THAT(refused(run), ::testing::HasSubstr("a disk is gone"));
}

// By hand: a row of three layers' sums, and two pages.
TEST(RankFollowers, TextsHaveTheRoomOfTheirShare) {
  model::Decoder decoder = filled_decoder(hybrid_experts_post_norm(), "fp32");
  const model::DecoderState state = decoder.make_state();
  const int64_t row = 2 * 4 * 8 * 8 * 4, page = 2 * 256 * 16 * 4, of_one = 2 * row + 2 * page;
  EXPECT_EQ(tokens_that_fit(state, 3, 3 * of_one, 10'000), 512);
  EXPECT_EQ(tokens_that_fit(state, 3, 3 * (of_one - 1), 10'000), 256);
  EXPECT_EQ(tokens_that_fit(state, 3, 3 * of_one, 300), 300);
  EXPECT_EQ(tokens_that_fit(state, 4, 4 * row, 10'000), 0);
}

// All tokens of a document at once, as `score` asks for them.
TEST(RankPass, LogitsOfAllTokens) {
  const recipe::ModelConfig config = hybrid_experts_post_norm();
  model::Decoder whole = filled_decoder(config, "fp64");
  const std::vector<int64_t> ids = random_ids(11, config.vocabulary, 4), wanted = {0, 1, 5, 10};
  model::LocalOps ops;
  model::Context context(ops, whole.precision());
  context.training = false;
  const at::NoGradGuard guard;
  const Tensor expected = whole.logits(whole.hidden(context, id_tensor(ids), layout::make_single(11)))
                              .index_select(0, id_tensor(wanted));
  for (const Cut& cut : kCuts) {
    comm::run_ranks(cut.tp * cut.pp, [&](comm::Communicator& world) {
      const at::NoGradGuard own_guard;
      const parallel::Ranks ranks(world, arrangement(config, cut));
      model::Decoder share(config, Precision::named("fp64"), at::kCPU, model::Use::kInference, ranks.place());
      copy_share(whole, share);
      const RankPass pass(share, ranks);
      EXPECT_LT(relative_error(pass.logits(ids, layout::make_single(11), wanted), expected), 1e-12);
    });
  }
}

}  // namespace
}  // namespace longhaul::generate::rank_pass_test
