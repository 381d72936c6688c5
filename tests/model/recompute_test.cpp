// Recomputation changes what is kept and nothing else: losses and gradients have the same bits as without it,
// what a block reports is reported once, and gradients count as whole at the same moments. That a difference
// would be seen is shown by scripts/mutations/recompute.
#include <gtest/gtest.h>

#include <deque>

#include "base/memory/memory_purpose.h"
#include "kernels/operator_clock.h"
#include "kernels/saved/file_offload.h"
#include "kernels/saved/host_offload.h"
#include "model/arena.h"
#include "model/state.h"
#include "support/models.h"
#include "support/nightly.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::model::recompute_test {
namespace {

using namespace longhaul::testing;
using recipe::Recompute;

constexpr int64_t kMicroBatches = 3, kTokens = 24;
constexpr Recompute kAgain[] = {Recompute::kSelective, Recompute::kTokens, Recompute::kFull};

layout::SequenceLayout documents(int64_t micro_batch) {
  const std::vector<std::vector<int64_t>> lengths = {{7, 1, 16}, {24}, {5, 4, 3, 12}};
  return layout::make_packed(lengths[static_cast<size_t>(micro_batch)]);
}

struct Trained {
  std::vector<Tensor> losses, gradients;
  std::vector<double> reported;    // auxiliary losses and statistics
  std::vector<std::string> ready;  // arenas in the order in which they were whole
  int64_t inspected = 0;
};

// Forward passes of all micro-batches, then their backward passes; weights' products at once or afterwards.
Trained train(const recipe::ModelConfig& config, const char* dtype, Recompute recompute,
              bool postponed = false, bool embedding = true, int64_t* moved = nullptr,
              std::optional<double> host_share = {}, int64_t host_room = INT64_MAX,
              int64_t recomputed_layers = 0) {
  Decoder decoder = filled_decoder(config, dtype);
  std::vector<Tensor> weights;
  for (const auto& arena : decoder.parameters().arenas()) weights.push_back(arena->values);
  kernels::FileOffload offload(std::filesystem::temp_directory_path(), 64, weights);
  if (moved != nullptr) decoder.set_offload(&offload);
  // What has no room on the host goes to a file.
  kernels::HostOffload host(
      {.stays = weights,
       .room_bytes = host_room,
       .share = host_share.value_or(0),
       .file_folder = host_room == INT64_MAX ? "" : std::filesystem::temp_directory_path()});
  if (host_share) decoder.set_offload(&host);
  if (!embedding)
    decoder.parameters().freeze(
        [](const Parameter& parameter) { return parameter.name.starts_with("embedding"); });
  decoder.set_recompute(recompute, recomputed_layers);
  ParameterSet& parameters = decoder.parameters();
  Trained trained;
  parameters.begin_step([&](Arena& arena) { trained.ready.push_back(arena.name); });
  LocalOps ops;
  for (int64_t m = 0; m < kMicroBatches; ++m) {
    Context context(ops, decoder.precision());
    context.micro_batch = m;
    context.inspect = [&](const std::string&, const Tensor&) { ++trained.inspected; };
    const layout::SequenceLayout row = documents(m);
    const Tensor ids = id_tensor(random_ids(kTokens, config.vocabulary, static_cast<uint64_t>(m))),
                 labels = id_tensor(layout::shifted_labels(
                     row, random_ids(kTokens, config.vocabulary, static_cast<uint64_t>(m))));
    trained.losses.push_back(decoder.loss(context, decoder.hidden(context, ids, row), labels));
    for (const auto& [block, loss] : context.auxiliary_losses)
      trained.reported.push_back(loss.item<double>());
    for (const auto& [name, of_blocks] : context.statistics) {
      for (const auto& [block, value] : of_blocks) trained.reported.push_back(value.sum().item<double>());
    }
  }
  parameters.all_announced();
  EXPECT_TRUE(trained.ready.empty());
  const int64_t inspected = trained.inspected;
  std::vector<std::function<void()>> queue;
  if (postponed) parameters.postpone_gradients(&queue);
  for (const Tensor& loss : trained.losses) loss.backward();
  parameters.postpone_gradients(nullptr);
  const at::NoGradGuard no_gradient;
  for (const auto& product : queue) product();
  EXPECT_EQ(trained.inspected, inspected) << "a block was looked at again";
  if (moved != nullptr) *moved = host_share ? host.use().moved_bytes : offload.moved_bytes();
  EXPECT_EQ(host.use().fetched_bytes, host.use().moved_bytes) << "all came back";
  parameters.end_step();
  for (const auto& parameter : parameters.all()) {
    if (parameter->trainable()) trained.gradients.push_back(parameter->grad.clone());
  }
  return trained;
}

void expect_same(const Trained& expected, const Trained& found) {
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (size_t m = 0; m < expected.losses.size(); ++m)
    EXPECT_TRUE(found.losses[m].equal(expected.losses[m])) << "micro-batch " << m;
  for (size_t p = 0; p < expected.gradients.size(); ++p) {
    EXPECT_TRUE(found.gradients[p].equal(expected.gradients[p])) << "gradient " << p;
    EXPECT_GT(expected.gradients[p].abs().max().item<double>(), 0)
        << "gradient " << p << ": nothing is compared";
  }
  EXPECT_EQ(found.reported, expected.reported);
  EXPECT_EQ(found.ready, expected.ready);
  EXPECT_EQ(found.inspected, expected.inspected);
}

class Recomputation : public ::testing::TestWithParam<std::tuple<NamedConfig, std::string>> {
 protected:
  const recipe::ModelConfig& config() const { return std::get<0>(GetParam()).config; }
  const char* dtype() const { return std::get<1>(GetParam()).c_str(); }
  bool at_night_only(const char* by_day) const { return dtype() != std::string(by_day) && !takes_all(); }
};

TEST_P(Recomputation, IsTheSameToTheBit) {
  const PoisonFreshMemory poison;
  const Trained expected = train(config(), dtype(), Recompute::kNone);
  for (const Recompute recompute : kAgain) {
    SCOPED_TRACE(recipe::names_of(recompute)[static_cast<size_t>(recompute)]);
    expect_same(expected, train(config(), dtype(), recompute));
    for (const int64_t layers : {1, 2})
      expect_same(expected, train(config(), dtype(), recompute, /*postponed=*/layers == 2, true, nullptr, {},
                                  INT64_MAX, layers));
  }
}

TEST_P(Recomputation, LeavesPostponedProductsAsTheyAre) {
  if (at_night_only("bf16")) GTEST_SKIP() << "nightly.whole_models";
  const Trained expected = train(config(), dtype(), Recompute::kNone, /*postponed=*/true);
  for (const Recompute recompute : kAgain) {
    expect_same(expected, train(config(), dtype(), recompute, /*postponed=*/true));
  }
}

// Nothing that enters the first layer wants a gradient then.
TEST_P(Recomputation, BehindAFrozenEmbedding) {
  if (at_night_only("fp32")) GTEST_SKIP() << "nightly.whole_models";
  const Trained expected = train(config(), dtype(), Recompute::kNone, false, /*embedding=*/false);
  for (const Recompute recompute : kAgain) {
    expect_same(expected, train(config(), dtype(), recompute, false, /*embedding=*/false));
  }
}

// Moved to a file and back: the same bits, alone and beside recomputation, and less of it where less is kept.
TEST_P(Recomputation, OrOffload) {
  if (at_night_only("fp64")) GTEST_SKIP() << "nightly.whole_models";
  const PoisonFreshMemory poison;
  const Trained expected = train(config(), dtype(), Recompute::kNone);
  std::map<Recompute, int64_t> moved;
  for (const Recompute recompute :
       {Recompute::kNone, Recompute::kSelective, Recompute::kTokens, Recompute::kFull}) {
    expect_same(expected, train(config(), dtype(), recompute, false, true, &moved[recompute]));
  }
  EXPECT_GT(moved[Recompute::kNone], moved[Recompute::kSelective]);
  EXPECT_GT(moved[Recompute::kSelective], moved[Recompute::kFull]);
  EXPECT_GE(moved[Recompute::kTokens], moved[Recompute::kFull]);
  const auto element = static_cast<int64_t>(at::elementSize(Precision::named(dtype()).compute));
  // the layers' inputs, and what softmax attention gave
  int64_t kept = config().layers * kTokens * config().hidden * element;
  const auto wide = static_cast<int64_t>(at::elementSize(Precision::named(dtype()).reduce));
  for (int64_t l = 0; l < config().layers; ++l) {
    const recipe::AttentionSizes attention = recipe::operators_of_layer(config(), l).attention;
    kept += kTokens * attention.heads * (attention.value_dim * element + wide);
  }
  EXPECT_EQ(moved[Recompute::kFull], kMicroBatches * kept);
}

// A share of the rows of products on the host and the others made again: the same bits, whatever the share.
TEST_P(Recomputation, OrTheHost) {
  const PoisonFreshMemory poison;
  recipe::ModelConfig deep = config();
  deep.layers = std::max<int64_t>(deep.layers, 4);  // the last two stay
  const Trained expected = train(deep, dtype(), Recompute::kNone);
  std::vector<int64_t> moved;
  for (const double share : {0.0, 0.3, 1.0}) {
    if (share == 1 && at_night_only("bf16")) continue;
    SCOPED_TRACE(share);
    expect_same(expected,
                train(deep, dtype(), Recompute::kTokens, false, true, &moved.emplace_back(), share));
  }
  EXPECT_GT(moved[0], 0);
  EXPECT_LE(moved[0], moved[1]);
  EXPECT_LT(moved[1], moved.size() > 2 ? moved[2] : INT64_MAX);
}

// A host with room for little, so that most goes to a file behind it.
TEST_P(Recomputation, OrAFileBehindTheHost) {
  if (at_night_only("bf16")) GTEST_SKIP() << "nightly.whole_models";
  const PoisonFreshMemory poison;
  recipe::ModelConfig deep = config();
  deep.layers = std::max<int64_t>(deep.layers, 4);  // the last two stay
  int64_t moved = 0, moved_too = 0;
  const Trained expected = train(deep, dtype(), Recompute::kNone);
  expect_same(expected, train(deep, dtype(), Recompute::kTokens, false, true, &moved, 0.3));
  expect_same(expected,
              train(deep, dtype(), Recompute::kTokens, false, true, &moved_too, 0.3, /*host_room=*/4096));
  EXPECT_EQ(moved_too, moved);
}

std::vector<NamedConfig> recomputed_models() {
  std::vector<NamedConfig> models = small_models();
  // Wide enough for our own products, whose channel mixer is one operator; an odd number of experts' rows.
  recipe::ModelConfig wide = hybrid_experts_post_norm();
  wide.hidden = 64, wide.head_dim = 16, wide.intermediate = 48, wide.softmax.rotary_dim = 8;
  models.push_back({"wide_experts", wide});
  wide.experts = 0, wide.wiring = recipe::Wiring::kPreNorm;
  models.push_back({"wide_dense", wide});
  models.push_back({"without_order", without_order()});
  return models;
}

INSTANTIATE_TEST_SUITE_P(Models, Recomputation,
                         ::testing::Combine(::testing::ValuesIn(recomputed_models()),
                                            ::testing::Values("bf16", "fp32", "fp64")),
                         [](const auto& each) {
                           return std::get<0>(each.param).name + "_" + std::get<1>(each.param);
                         });

// After a forward pass, what is still there of activations; and the most that was, over both passes.
struct Activations {
  int64_t kept = 0, peak = 0;
};
constexpr int64_t kTokensOfActivations = 512;
recipe::ModelConfig config_of_activations() {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.hidden = 64, config.head_dim = 16, config.intermediate = 48, config.layers = 8;
  return config;
}
Activations activations_of(Recompute recompute, bool offloads = false, int64_t layers = 0) {
  install_cpu_allocator();
  const recipe::ModelConfig config = config_of_activations();
  Decoder decoder = filled_decoder(config, "bf16");
  decoder.set_recompute(recompute, layers);
  std::vector<Tensor> weights;
  for (const auto& arena : decoder.parameters().arenas()) weights.push_back(arena->values);
  kernels::FileOffload offload(std::filesystem::temp_directory_path(), 4096, weights);
  if (offloads) decoder.set_offload(&offload);
  const Tensor ids = id_tensor(random_ids(kTokensOfActivations, config.vocabulary, 1));
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  reset_memory_peaks();
  const int64_t before = memory_statistics().of(MemoryPurpose::kActivations).bytes;
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor loss =
      decoder.loss(context, decoder.hidden(context, ids, layout::make_single(kTokensOfActivations)), ids);
  const int64_t kept = memory_statistics().of(MemoryPurpose::kActivations).bytes - before;
  loss.backward();
  return {kept, memory_statistics().of(MemoryPurpose::kActivations).peak - before};
}

// Three passes are on their way at once; a fourth and a fifth lie where earlier ones lay.
TEST(OffloadToAFile, UsesPlacesAgain) {
  Decoder decoder = filled_decoder(hybrid_experts_post_norm(), "fp32");
  std::vector<Tensor> weights;
  for (const auto& arena : decoder.parameters().arenas()) weights.push_back(arena->values);
  kernels::FileOffload offload(std::filesystem::temp_directory_path(), 64, weights);
  decoder.set_offload(&offload);
  const Tensor ids = id_tensor(random_ids(kTokens, decoder.config().vocabulary, 1));
  LocalOps ops;
  const auto forward = [&] {
    Context context(ops, decoder.precision());
    return decoder.loss(context, decoder.hidden(context, ids, layout::make_single(kTokens)), ids);
  };
  std::deque<Tensor> under_way;
  for (int pass = 0; pass < 3; ++pass) under_way.push_back(forward());
  const int64_t three = offload.file_bytes(), moved = offload.moved_bytes();
  EXPECT_LE(three, moved);  // some of a pass is gone before its end
  EXPECT_GT(2 * three, moved);
  for (int pass = 0; pass < 2; ++pass) {
    under_way.front().backward();
    under_way.pop_front();
    under_way.push_back(forward());
  }
  EXPECT_EQ(offload.moved_bytes(), moved / 3 * 5);
  EXPECT_EQ(offload.file_bytes(), three);
}

TEST(RecomputationMemory, KeepsTheInputOfEachLayerAndWhatAttentionGave) {
  const Activations none = activations_of(Recompute::kNone),
                    selective = activations_of(Recompute::kSelective),
                    full = activations_of(Recompute::kFull);
  const int64_t hidden = int64_t{512} * 64 * 2;
  // Eight layers; the first join, the last norm (its input, output and the loss's gradient) and the table of
  // angles beside them. Of each softmax layer [tokens, heads, channels] in bf16, and [tokens, heads] in fp32.
  const recipe::ModelConfig config = config_of_activations();
  int64_t attention = 0;
  for (int64_t l = 0; l < config.layers; ++l)
    attention +=
        config.mixer(l) == recipe::Mixer::kSoftmax ? kTokensOfActivations * config.heads * (16 * 2 + 4) : 0;
  EXPECT_GT(attention, 0);
  EXPECT_LE(full.kept, (8 + 5) * hidden + attention + 512 * 64);
  EXPECT_GE(full.kept, 8 * hidden + attention);
  EXPECT_LT(3 * full.peak, none.peak);
  EXPECT_LT(3 * selective.kept, 2 * none.kept);
  EXPECT_LT(selective.peak, none.peak);
  const Activations moved = activations_of(Recompute::kFull, /*offloads=*/true);
  EXPECT_LE(moved.kept, 5 * hidden + 512 * 64) << "what is not of a layer stays";
  EXPECT_LT(2 * activations_of(Recompute::kNone, /*offloads=*/true).peak, none.peak);
}

// The first layers are recomputed and the others keep what they kept: each one more of them saves as much as
// a layer of its kind, and all eight, or more than there are, are the same as no number.
TEST(RecomputationMemory, OfTheFirstLayersAlone) {
  for (const Recompute recompute : kAgain) {
    SCOPED_TRACE(recipe::names_of(recompute)[static_cast<size_t>(recompute)]);
    const int64_t none = activations_of(Recompute::kNone).kept, all = activations_of(recompute).kept;
    int64_t before = none;
    std::vector<int64_t> saved;
    for (int64_t layers = 1; layers <= 8; ++layers) {
      const int64_t kept = activations_of(recompute, false, layers).kept;
      saved.push_back(before - kept);
      before = kept;
    }
    EXPECT_EQ(before, all);
    EXPECT_EQ(activations_of(recompute, false, 9).kept, all);
    // Every third layer is of one kind; the first and the last part end elsewhere.
    for (size_t l = 4; l < 7; ++l) EXPECT_EQ(saved[l], saved[l - 3]) << "layer " << l;
    EXPECT_GT(std::ranges::min(saved), 0);
  }
}

// What recurrences gave, [tokens, heads, channels] in bf16, and the states between segments of a document
// longer than one are kept by tokens, in addition to what full keeps; and they are not computed again.
TEST(RecomputationMemory, ByTokensKeepsWhatRecurrencesGave) {
  const Activations full = activations_of(Recompute::kFull), tokens = activations_of(Recompute::kTokens);
  const recipe::ModelConfig config = config_of_activations();
  int64_t recurrences = 0;
  for (int64_t l = 0; l < config.layers; ++l) recurrences += config.mixer(l) == recipe::Mixer::kLightning;
  ASSERT_GT(recurrences, 0);
  const int64_t result = kTokensOfActivations * config.heads * config.head_dim * 2,
                state = config.heads * config.head_dim * config.head_dim * 4, more = tokens.kept - full.kept;
  EXPECT_GE(more, recurrences * result);
  EXPECT_LE(more, recurrences * (result + 4 * state));
  const auto flops_again = [&](Recompute recompute) {
    Decoder decoder = filled_decoder(config, "bf16");
    decoder.set_recompute(recompute);
    LocalOps ops;
    Context context(ops, decoder.precision());
    const Tensor ids = id_tensor(random_ids(kTokensOfActivations, config.vocabulary, 1));
    const Tensor loss =
        decoder.loss(context, decoder.hidden(context, ids, layout::make_single(kTokensOfActivations)), ids);
    const kernels::OperatorClock clock(at::kCPU);
    loss.backward();
    double flops = 0;
    for (const kernels::OperatorTime& row : clock.rows()) {
      if (row.op == "linear_recurrence" && row.pass == "forward") flops += row.flops;
    }
    return flops;
  };
  EXPECT_GT(flops_again(Recompute::kFull), 0);
  EXPECT_EQ(flops_again(Recompute::kTokens), 0);
}

// Of the products of eight layers' second runs as many rows are made as are not kept.
TEST(RecomputationByRows, MakesTheOthersOnly) {
  recipe::ModelConfig config = config_of_activations();
  config.experts = 0;
  const auto flops_again = [&](double share) {
    Decoder decoder = filled_decoder(config, "bf16");
    decoder.set_recompute(Recompute::kTokens);
    kernels::HostOffload host({.share = share});
    decoder.set_offload(&host);
    LocalOps ops;
    Context context(ops, decoder.precision());
    const Tensor ids = id_tensor(random_ids(kTokensOfActivations, config.vocabulary, 1));
    const Tensor loss =
        decoder.loss(context, decoder.hidden(context, ids, layout::make_single(kTokensOfActivations)), ids);
    const kernels::OperatorClock clock(at::kCPU);
    loss.backward();
    double flops = 0;
    for (const kernels::OperatorTime& row : clock.rows()) {
      if ((row.op == "linear" || row.op == "feed_forward") && row.pass == "forward") flops += row.flops;
    }
    return flops;
  };
  const double all = flops_again(0);
  EXPECT_GT(all, 0);
  EXPECT_NEAR(flops_again(0.25) / all, 0.75, 1e-3);
  EXPECT_EQ(flops_again(1), 0);
}

// Without a graph there is nothing to drop, and a decoding state is read and written once.
TEST(RecomputationDecoding, IsUntouched) {
  Decoder decoder = filled_decoder(hybrid_experts_post_norm(), "fp32");
  const Tensor ids = id_tensor(random_ids(12, decoder.config().vocabulary, 3));
  std::vector<Tensor> hidden;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    decoder.set_recompute(recompute);
    LocalOps ops;
    DecoderState state = decoder.make_state();
    const DecoderRows rows{state, {state.add()}};
    const at::NoGradGuard no_gradient;
    for (const bool more : {false, true}) {
      Context context(ops, decoder.precision());
      const layout::SequenceLayout row =
          more ? layout::make_packed(std::vector<int64_t>{12}, std::vector<int64_t>{12})
               : layout::make_single(12);
      hidden.push_back(decoder.hidden(context, ids, row, &rows));
    }
    EXPECT_EQ(state.tokens(rows.rows[0]), 24);
  }
  EXPECT_TRUE(hidden[0].equal(hidden[2]));
  EXPECT_TRUE(hidden[1].equal(hidden[3]));
}

}  // namespace
}  // namespace longhaul::model::recompute_test
