// Impossible combinations, and the moment that train.until_time names.
#include "recipe/check.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>

#include "recipe/support.h"

namespace longhaul::recipe {
namespace {

using testing::HasSubstr;

// The reason for which these arguments are refused.
std::string reason(const std::vector<std::string>& arguments) {
  const ErrorFields fields = error_of([&] { load_defaults(arguments); });
  EXPECT_EQ(fields.code, ExitCode::kUsage);
  EXPECT_FALSE(fields.hint.empty());
  return fields.found;
}

TEST(RecipeCheck, RefusesImpossibleModels) {
  EXPECT_THAT(reason({"model.kv_heads=3"}), HasSubstr("model.kv_heads = 3 must divide model.heads = 8"));
  EXPECT_THAT(reason({"model.rotary_dim=66"}), HasSubstr("more than model.head_dim = 64"));
  EXPECT_THAT(reason({"model.rotary_dim=33"}), HasSubstr("even"));
  EXPECT_THAT(reason({"model.rotary_dim=0"}), HasSubstr("even and not 0"));
  EXPECT_THAT(reason({"model.mixers=mla", "model.mla.rotary_dim=33"}),
              HasSubstr("model.mla.rotary_dim = 33 must be even"));
  EXPECT_THAT(reason({"model.mixers=mla", "model.mla.rotary_dim=0"}), HasSubstr("must be even and not 0"));
  EXPECT_THAT(reason({"model.mixers=mla", "model.softmax.windows=[]"}), HasSubstr("names no layer"));
  EXPECT_THAT(
      reason({"model.mixers=mla", "model.softmax.rotary_scaling=llama3", "model.softmax.rotary_high=1"}),
      HasSubstr("must be more"));
  EXPECT_THAT(reason({"model.mixers=mla", "model.bias=true", "model.channel=gelu"}),
              HasSubstr("mla layers have no biases"));
  EXPECT_THAT(reason({"model.mixers=mixture", "model.mixture.linear=mla"}),
              HasSubstr("mla is no linear mixer"));
  EXPECT_THAT(reason({"model.mixers=mla", "model.family=llama"}), HasSubstr("softmax"));
  EXPECT_THAT(reason({"model.experts=2", "model.experts_per_token=3"}),
              HasSubstr("more than model.experts = 2"));
  EXPECT_THAT(reason({"model.experts=2", "model.channel=gelu"}), HasSubstr("SwiGLU"));
  EXPECT_THAT(reason({"model.bias=true"}), HasSubstr("no biases"));
  EXPECT_THAT(reason({"model.position=learned"}), HasSubstr("model.max_positions is 0"));
  EXPECT_THAT(reason({"model.preset=gpt2-124m", "model.position=none"}), HasSubstr("model.family = gpt2"));
  EXPECT_THAT(reason({"model.preset=gpt2-124m", "model.heads=6", "model.kv_heads=6"}), HasSubstr("hidden"));
  EXPECT_THAT(reason({"model.preset=llama-3-8b", "model.rotary_dim=64"}), HasSubstr("whole heads"));
  EXPECT_THAT(reason({"model.preset=minimax-text-01", "model.experts=0"}),
              HasSubstr("model.family = minimax"));
  EXPECT_THAT(reason({"model.layers=10000", "model.hidden=262144", "model.intermediate=4194304",
                      "model.experts=8192"}),
              HasSubstr("1e15"));
}

TEST(RecipeCheck, RefusesSpikesThatCannotBeCounted) {
  const auto spikes = [](std::vector<std::string> more) {
    more.insert(more.begin(), "spikes.coding=signed_bits");
    return reason(more);
  };
  EXPECT_THAT(spikes({"train.dtype=fp64"}), HasSubstr("counted in fp32"));
  EXPECT_THAT(spikes({"parallel.tp=2"}), HasSubstr("mean over all"));
  EXPECT_THAT(spikes({"model.mixers=mla"}), HasSubstr("mla multiplies its matrices"));
  EXPECT_THAT(spikes({"lora.rank=4"}), HasSubstr("adapters read"));
  EXPECT_THAT(spikes({"spikes.k=0"}), HasSubstr("0"));
  EXPECT_THAT(spikes({"spikes.k=65"}), HasSubstr("65"));
  EXPECT_NO_THROW(load_defaults({"spikes.coding=ternary", "parallel.cp=2", "spikes.weights=int8"}));
  EXPECT_NO_THROW(load_defaults({"spikes.coding=none", "train.dtype=fp64"}));
}

TEST(RecipeCheck, AWindowMayCountTheKeysBeforeTheTokenAlone) {
  const auto windows = [](const std::vector<std::string>& words) {
    return load_defaults(words).recipe.model.softmax.window(1);
  };
  EXPECT_EQ(windows({"model.softmax.windows=[0, 8]"}), 8);
  EXPECT_EQ(windows({"model.softmax.windows=[0, 8]", "model.softmax.window_plus_one=true"}), 9);
  EXPECT_EQ(windows({"model.softmax.windows=[8, 0]", "model.softmax.window_plus_one=true"}), 0) << "all keys";
}

TEST(RecipeCheck, AllowsWhatDoesNotMatter) {
  // Key heads and rotary channels belong to softmax layers; a model without them may say anything.
  EXPECT_NO_THROW(load_defaults({"model.mixers=lightning", "model.kv_heads=3", "model.rotary_dim=33"}));
  EXPECT_NO_THROW(load_defaults({"model.position=none", "model.rotary_dim=0"}));
  EXPECT_NO_THROW(load_defaults({"model.mixers=mla", "model.kv_heads=3", "model.rotary_dim=33"}));
  EXPECT_NO_THROW(load_defaults({"model.mixers=mla", "model.position=none", "model.mla.rotary_dim=33"}));
  EXPECT_NO_THROW(load_defaults({"model.experts=0", "model.experts_per_token=5"}));
  EXPECT_NO_THROW(load_defaults({"train.steps=1"}));  // shorter than the warm-up
}

TEST(RecipeCheck, RefusesImpossibleRuns) {
  EXPECT_THAT(reason({"train.batch=6", "train.micro_batch=4"}),
              HasSubstr("multiple of train.micro_batch = 4"));
  EXPECT_THAT(reason({"train.micro_batch=16"}), HasSubstr("train.batch = 8"));
  EXPECT_THAT(reason({"model.preset=gpt2-124m", "train.sequence=1025"}),
              HasSubstr("longer than the model's model.max_positions = 1024"));
  EXPECT_THAT(reason({"model.max_positions=100", "train.sequence=101"}), HasSubstr("longer"));
  EXPECT_THAT(reason({"model.mixers=cosformer", "train.sequence=4097"}),
              HasSubstr("longer than model.cosformer.longest = 4096"));
  EXPECT_NO_THROW(load_defaults({"model.mixers=cosformer", "train.sequence=4096"}));
  EXPECT_NO_THROW(load_defaults({"model.mixers=lightning", "train.sequence=4097"}));
  EXPECT_THAT(reason({"train.device=gpu"}), HasSubstr("cuda:N"));
  EXPECT_THAT(reason({"optim.state_dtype=int8", "train.dtype=fp64"}), HasSubstr("optim.state_dtype = int8"));
  EXPECT_THAT(
      reason({"optim.group=[{ tensors = \"norm\", state_dtype = \"bfloat16\" }]", "train.dtype=fp64"}),
      HasSubstr("optim.state_dtype = bfloat16"));
  EXPECT_THAT(reason({"optim.state_dtype=bfloat16", "train.device=cuda"}), HasSubstr("on the CPU"));
  EXPECT_THAT(reason({"train.device=cuda:"}), HasSubstr("cuda:N"));
  EXPECT_THAT(reason({"train.until_time=noon"}), HasSubstr("noon"));
  EXPECT_THAT(reason({"train.offload_share=1.5"}), HasSubstr("1.5"));
  EXPECT_THAT(reason({"train.recompute=full", "train.recompute_layers=1", "train.offload=file"}),
              HasSubstr("train.recompute_layers"));
  EXPECT_THAT(reason({"train.offload=host"}), HasSubstr("train.recompute = tokens"));
  EXPECT_THAT(reason({"data.source=[]"}), HasSubstr("nothing to train on"));
  EXPECT_THAT(reason({"data.validation=a,,b"}), HasSubstr("names nothing"));
  EXPECT_THAT(reason({"data.include=.py,"}), HasSubstr("every name ends so"));
  EXPECT_THAT(reason({"data.weights=[1.0, 2.0]"}), HasSubstr("2 numbers for 1 entry of"));
  EXPECT_THAT(reason({"data.vocabulary=32001"}), HasSubstr("do not fit"));
  EXPECT_THAT(reason({"data.tokenizer=bytes", "model.vocabulary=256"}), HasSubstr("257"));
  EXPECT_THAT(reason({"data.tokenizer="}), HasSubstr("empty"));
  EXPECT_NO_THROW(load_defaults({"train.device=cuda:3"}));
}

TEST(RecipeCheck, RefusesWhatSupposesAnOrderWhereThereIsNone) {
  const auto refused = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"model.causal=false", "train.objective=masked"});
    return reason(more);
  };
  EXPECT_THAT(
      refused({"model.mixers=lightnet,hgrn2"}),
      HasSubstr("hgrn2 reads tokens in their order, and has no form without; softmax, lightnet have"));
  EXPECT_THAT(refused({"model.mixers=mixture"}), HasSubstr("mixture reads tokens in their order"));
  EXPECT_THAT(refused({"model.softmax.windows=16"}), HasSubstr("a window counts the keys before a token"));
  EXPECT_THAT(refused({"model.predict_ahead=1"}),
              HasSubstr("would predict tokens that the hidden states have read"));
  EXPECT_THAT(refused({"model.preset=llama-3-8b"}), HasSubstr("its models are causal"));
  EXPECT_THAT(refused({"train.task=recall"}), HasSubstr("train.task = recall predicts what comes next"));
  EXPECT_THAT(reason({"model.causal=false"}),
              HasSubstr("every token reads the one behind it, which train.objective = next is to predict"));
  EXPECT_THAT(reason({"train.objective=masked", "model.predict_ahead=1"}),
              HasSubstr("no token further ahead"));
  EXPECT_THAT(reason({"train.objective=masked", "data.tokenizer=bytes", "model.vocabulary=257"}),
              HasSubstr("needs 258 rows, one of them for train.objective = masked"));
  EXPECT_THAT(reason({"train.objective=masked", "data.vocabulary=300", "model.vocabulary=300"}),
              HasSubstr("300 tokens and a mask token"));

  EXPECT_NO_THROW(load_defaults({"model.causal=false", "train.objective=masked",
                                 "model.mixers=lightnet,softmax", "data.tokenizer=bytes"}));
  EXPECT_NO_THROW(load_defaults({"train.objective=masked"}))
      << "what the tokens before a masked one tell of it";
  EXPECT_NO_THROW(load_defaults(
      {"model.causal=false", "train.objective=masked", "model.mixers=lightnet", "model.softmax.windows=16"}))
      << "windows of layers that there are not";
}

TEST(RecipeCheck, RefusesGridsThatNobodyCanStandOn) {
  const auto refused = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"model.mixers=lightnet", "model.lightnet.positions=true", "train.sequence=34",
                               "model.lightnet.grid=4,4"});
    return reason(more);
  };
  EXPECT_THAT(refused({"model.lightnet.positions=false"}), HasSubstr("ask nobody"));
  EXPECT_THAT(refused({"model.toeplitz=4"}),
              HasSubstr("keeps no sums to go on from, and a causal model decodes"));
  EXPECT_NO_THROW(load_defaults({"model.mixers=lightnet", "model.toeplitz=4", "train.sequence=34",
                                 "model.lightnet.grid=4,4", "model.causal=false", "train.objective=masked",
                                 "data.tokenizer=bytes"}))
      << "the Toeplitz encoding alone stands on it";
  EXPECT_THAT(refused({"train.sequence=32"}), HasSubstr("train.sequence = 32 is no multiple of 17"));
  EXPECT_THAT(refused({"data.document_boundaries=false"}), HasSubstr("several grids in one document"));
  EXPECT_THAT(refused({"model.lightnet.expand=1"}), HasSubstr("2 axes, more than the 1 key channels"));
  EXPECT_NO_THROW(load_defaults({"model.mixers=lightnet", "model.lightnet.positions=true",
                                 "train.sequence=34", "model.lightnet.grid=4,4"}));
  EXPECT_NO_THROW(load_defaults({"model.lightnet.grid=4,4"})) << "a grid of layers that there are not";
}

TEST(RecipeCheck, RefusesASecondBalanceBesideSinkhorn) {
  const std::vector<std::string> sinkhorn = {"model.experts=4", "model.router_choice=sinkhorn"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sinkhorn.begin(), sinkhorn.end());
    return more;
  };
  EXPECT_THAT(reason(with({})), HasSubstr("model.auxiliary_loss = 0.01 would balance them too"));
  EXPECT_THAT(reason(with({"model.auxiliary_loss=0", "model.router_bias_rate=0.001"})),
              HasSubstr("model.router_bias_rate = 0.001 would"));
  EXPECT_THAT(
      reason(with({"model.auxiliary_loss=0", "model.router_groups=2", "model.router_groups_per_token=1"})),
      HasSubstr("model.router_groups = 2 would take most experts out"));
  EXPECT_NO_THROW(load_defaults(with({"model.auxiliary_loss=0", "model.router_jitter=0.01"})));
  const std::vector<std::string> quantile = {"model.experts=4", "model.router_choice=quantile"};
  EXPECT_THAT(reason(quantile), HasSubstr("model.auxiliary_loss = 0.01 would balance them too"));
  EXPECT_THAT(reason({"model.experts=2", "model.router_choice=quantile", "model.auxiliary_loss=0"}),
              HasSubstr("model.experts_per_token = 2 leaves no expert out"));
  EXPECT_THAT(reason({"model.experts=4", "model.router_choice=quantile", "model.auxiliary_loss=0",
                      "model.family=mixtral"}),
              HasSubstr("without bias"));
  EXPECT_NO_THROW(load_defaults({"model.experts=4", "model.router_choice=quantile", "model.auxiliary_loss=0",
                                 "model.router_quantile_memory=0"}));
  EXPECT_THAT(reason({"model.experts=4", "model.router_choice=biased", "model.router_bias_rate=0.001"}),
              HasSubstr("biased makes the choices by itself, and model.router_bias_rate = 0.001 would have "
                        "no part in them"));
  EXPECT_NO_THROW(
      load_defaults({"model.experts=4", "model.router_choice=biased", "model.router_choice_std=0"}));
  const auto expected = [](const std::string& word) {
    return error_of([&] { load_defaults({word}); }).expected;
  };
  EXPECT_THAT(expected("model.router_jitter=1"), HasSubstr("0.99"));
  EXPECT_THAT(expected("model.router_jitter=-0.1"), HasSubstr("0 to 0.99"));
  EXPECT_THAT(expected("model.router_choice=balanced"), HasSubstr("sinkhorn"));
  EXPECT_THAT(expected("model.auxiliary_loss_of=rank"), HasSubstr("batch_so_far"));
}

// One expert a token, its weight divided by itself: the router would learn nothing from the loss.
TEST(RecipeCheck, RefusesOneNormalisedExpert) {
  const ErrorFields error = error_of([] { load_defaults({"model.experts=4", "model.experts_per_token=1"}); });
  EXPECT_THAT(error.found, HasSubstr("gives every expert the weight 1"));
  EXPECT_THAT(error.hint, HasSubstr("model.router_normalised=false"));
  EXPECT_THAT(reason({"model.experts=4", "model.experts_per_token=1", "model.router_score=sigmoid"}),
              HasSubstr("weight 1"));
  EXPECT_NO_THROW(
      load_defaults({"model.experts=4", "model.experts_per_token=1", "model.router_normalised=false"}));
  EXPECT_NO_THROW(load_defaults({"model.experts=1", "model.experts_per_token=1"}));
}

TEST(RecipeCheck, NamesTheChannelThatExpertsAreNot) {
  EXPECT_THAT(reason({"model.experts=4", "model.channel=glu"}),
              HasSubstr("model.channel = glu is for dense layers"));
  EXPECT_THAT(reason({"model.experts=4", "model.channel=gelu"}),
              HasSubstr("model.channel = gelu is for dense layers"));
}

TEST(RecipeCheck, RefusesRoutersThatAreNoLayersInAJointBalance) {
  EXPECT_THAT(reason({"model.experts=4", "model.auxiliary_loss_form=hugging_face", "model.predict_ahead=1"}),
              HasSubstr("joins the routers of all layers"));
  EXPECT_NO_THROW(load_defaults({"model.experts=4", "model.auxiliary_loss_form=hugging_face",
                                 "model.predict_ahead=1", "model.auxiliary_loss=0"}));
}

TEST(RecipeCheck, RefusesWhatHasNoOrderOfMicroBatches) {
  EXPECT_THAT(reason({"train.elastic=true", "parallel.ep=2"}),
              HasSubstr("tokens of several micro-batches at once"));
  EXPECT_THAT(
      reason({"train.elastic=true", "model.experts=4", "model.capacity_factor=1", "model.capacity_of=batch"}),
      HasSubstr("all of a step's sequences are one micro-batch"));
  EXPECT_THAT(reason({"train.elastic=true", "model.experts=4", "model.auxiliary_loss_of=batch_so_far"}),
              HasSubstr("model.auxiliary_loss_of = batch_so_far one micro-batch's gradient depends"));
  EXPECT_NO_THROW(load_defaults(
      {"train.elastic=true", "model.experts=4", "model.auxiliary_loss_of=batch", "model.auxiliary_loss=0"}));
  EXPECT_THAT(reason({"train.elastic=true", "parallel.etp=2"}),
              HasSubstr("tokens of several micro-batches at once"));
  EXPECT_THAT(reason({"train.elastic=true", "parallel.pp=2", "parallel.schedule=zb-h1"}),
              HasSubstr("parallel.schedule = zb-h1"));
  EXPECT_THAT(reason({"train.elastic=true", "optim.name=came", "parallel.zero=1"}),
              HasSubstr("came sums numbers of a matrix"));
  EXPECT_THAT(reason({"train.elastic=true", "train.device=cuda"}), HasSubstr("on the CPU"));
  EXPECT_NO_THROW(load_defaults({"train.elastic=true", "parallel.pp=2", "parallel.tp=2", "parallel.zero=3"}));
  EXPECT_NO_THROW(load_defaults({"train.elastic=true", "optim.name=came"}));
}

TEST(RecipeCheck, RefusesWhatWorkersThatTrainByThemselvesCannotHave) {
  EXPECT_THAT(reason({"optim.outer=co2", "train.elastic=true"}),
              HasSubstr("what co2 workers learn between two exchanges"));
  EXPECT_THAT(reason({"optim.outer=diloco", "train.device=cuda"}), HasSubstr("on the CPU"));
  EXPECT_THAT(reason({"parallel.workers=2"}), HasSubstr("parallel.workers is for outer loops"));
  EXPECT_THAT(reason({"optim.outer_every=2"}), HasSubstr("optim.outer_every is for outer loops"));
  EXPECT_THAT(reason({"optim.outer=co2", "optim.outer_every=60", "train.steps=100"}),
              HasSubstr("do not fit twice into train.steps = 100"));
  EXPECT_THAT(reason({"optim.outer=slowmo", "optim.outer_every=4", "train.steps=100",
                      "optim.stages=[{ from_step = 11, lr = 1e-4 }]"}),
              HasSubstr("begins inside a round"));
  EXPECT_NO_THROW(load_defaults({"optim.outer=slowmo", "optim.outer_every=5", "train.steps=100",
                                 "optim.stages=[{ from_step = 11, lr = 1e-4 }]"}));
  EXPECT_NO_THROW(load_defaults({"optim.outer=co2", "parallel.workers=4", "parallel.zero=2"}));
  EXPECT_THAT(reason({"optim.outer=co2", "optim.outer_delay=2"}),
              HasSubstr("for delay_corrected and streaming"));
  EXPECT_THAT(reason({"optim.outer=delay_corrected", "optim.outer_delay=2"}), HasSubstr("chosen only later"));
  EXPECT_THAT(reason({"optim.outer=delay_corrected", "optim.outer_every=4", "optim.outer_delay=5"}),
              HasSubstr("the next one begins after 4"));
  EXPECT_THAT(reason({"optim.outer=streaming", "optim.outer_every=8", "optim.outer_delay=5",
                      "optim.outer_fragments=2"}),
              HasSubstr("the next one begins after 4"));
  EXPECT_THAT(reason({"optim.outer=streaming", "optim.outer_every=10", "optim.outer_fragments=4"}),
              HasSubstr("at equal distances"));
  EXPECT_THAT(reason({"optim.outer=streaming", "model.layers=3", "optim.outer_fragments=4"}),
              HasSubstr("4 fragments of 3 layers"));
  EXPECT_NO_THROW(load_defaults(
      {"optim.outer=streaming", "optim.outer_every=8", "optim.outer_delay=4", "optim.outer_fragments=2"}));
  EXPECT_NO_THROW(load_defaults({"parallel.ep=2", "parallel.schedule=gpipe"}));
}

TEST(RecipeCheck, RefusesImpossibleStages) {
  const std::string two = "data.source=a,b";
  EXPECT_THAT(reason({two, "data.weights=1,1", "data.mix=[{weights=[1,1]}]"}),
              HasSubstr("both say how sources are blended"));
  EXPECT_THAT(reason({two, "data.mix=[{weights=[1]}]"}), HasSubstr("1 weight for 2 entries"));
  EXPECT_THAT(reason({two, "data.mix=[{weights=[1,1]}, {at_tokens=9, weights=[0,0]}]"}),
              HasSubstr("point 2 of data.mix: no weight"));
  EXPECT_THAT(reason({two, "data.mix=[{at_tokens=9, weights=[1,1]}, {at_tokens=8, weights=[1,1]}]"}),
              HasSubstr("before the point before"));
  EXPECT_THAT(reason({two, "data.mix=[{weights=[1,0]}, {at_tokens=9, weights=[1,0]}]"}),
              HasSubstr("has no weight at any point"));
  EXPECT_THAT(reason({"optim.stages=[{lr=1}]"}), HasSubstr("exactly one of from_step and from_tokens"));
  EXPECT_THAT(reason({"optim.stages=[{from_step=1, from_tokens=1, lr=1}]"}), HasSubstr("exactly one"));
  EXPECT_THAT(reason({"optim.stages=[{from_step=1}]"}), HasSubstr("changes nothing"));
  EXPECT_THAT(reason({"optim.stages=[{from_step=1, batch=9}]"}), HasSubstr("multiple of train.micro_batch"));
  EXPECT_THAT(reason({"optim.stages=[{from_step=5, lr=1}, {from_step=5, lr=2}]"}),
              HasSubstr("does not begin after"));
  EXPECT_THAT(reason({"optim.stages=[{from_step=5, lr=1}, {from_tokens=9, lr=2}]"}),
              HasSubstr("another unit"));
  EXPECT_NO_THROW(load_defaults({"optim.stages=[{from_step=5, lr=1}, {from_step=6, batch=16}]"}));
  EXPECT_NO_THROW(load_defaults({"optim.stages=[{from_step=5, sequence=2048}]"}));
  EXPECT_THAT(reason({"optim.stages=[{from_step=5, sequence=64}]", "train.task=recall"}),
              HasSubstr("train.task = recall has one length of sequences"));
  EXPECT_THAT(reason({"model.position=learned", "model.max_positions=32", "train.sequence=32",
                      "optim.stages=[{from_step=5, sequence=32}, {from_step=9, sequence=64}]"}),
              HasSubstr("stage 2 of optim.stages: sequence = 64 is longer than the model's "
                        "model.max_positions = 32"));
}

TEST(RecipeCheck, RefusesABatchThatCannotFollowMeasurements) {
  const std::string grows = "optim.batch_growth=1", measures = "observe.batch_noise_every=5",
                    most = "optim.batch_most=32", batch = "train.batch=8";
  EXPECT_NO_THROW(load_defaults({grows, measures, most, batch}));
  EXPECT_NO_THROW(load_defaults({grows, measures, most, batch, "optim.stages=[{from_step=5, lr=1}]"}));
  EXPECT_THAT(reason({grows, most, batch}), HasSubstr("needs measurements"));
  EXPECT_THAT(reason({grows, measures, batch}),
              HasSubstr("never doubles: train.batch = 8, and optim.batch_most = 0"));
  EXPECT_THAT(reason({grows, measures, batch, "optim.batch_most=15"}), HasSubstr("never doubles"));
  EXPECT_THAT(reason({grows, measures, most, batch, "optim.stages=[{from_step=5, batch=16}]"}),
              HasSubstr("takes no stages with batches"));
  EXPECT_THAT(reason({grows, measures, most, batch, "optim.stages=[{from_step=5, sequence=64}]"}),
              HasSubstr("takes no stages with batches or sequences"));
  EXPECT_THAT(reason({grows, measures, most, batch, "optim.outer=local_sgd"}),
              HasSubstr("workers of an outer loop"));
}

TEST(RecipeCheck, ListsEveryProblemWithTheOriginsOfItsKeys) {
  const ErrorFields fields =
      error_of([] { load_text("[model]\nkv_heads = 3\n", "r.toml", {"train.batch=7"}); });
  EXPECT_THAT(fields.what, HasSubstr("2 impossible things"));
  EXPECT_THAT(fields.found, HasSubstr("model.kv_heads"));
  EXPECT_THAT(fields.found, HasSubstr("train.batch"));
  EXPECT_THAT(fields.where, HasSubstr("model.kv_heads: r.toml:2"));
  EXPECT_THAT(fields.where, HasSubstr("model.heads: default"));
  EXPECT_THAT(fields.where, HasSubstr("train.batch: command line"));
  Recipe changed;
  changed.train.micro_batch = 3;
  EXPECT_THROW(check(changed), Error);
}

TEST(RecipeUntilTime, TakesThreeForms) {
  const char* zone = std::getenv("TZ");
  const std::string zone_before = zone ? zone : "";
  setenv("TZ", "UTC", 1);
  tzset();
  constexpr double kNow = 1795228565;  // 2026-11-21T02:36:05Z
  EXPECT_EQ(parse_until_time("", kNow), 0);
  EXPECT_EQ(parse_until_time("2026-11-21T04:00", kNow), 1795233600);
  EXPECT_EQ(parse_until_time("2026-11-21 04:00:30", kNow), 1795233630);
  EXPECT_EQ(parse_until_time("04:00", kNow), 1795233600);
  EXPECT_EQ(parse_until_time("02:36", kNow), 1795228560 + 86400);  // passed five seconds ago: tomorrow
  EXPECT_EQ(parse_until_time("+5m", kNow), kNow + 300);
  EXPECT_EQ(parse_until_time("+1d2h30m4s", kNow), kNow + 86400 + 9004);
  EXPECT_EQ(parse_offload_share("auto"), std::nullopt);
  EXPECT_EQ(parse_offload_share("0"), 0);
  EXPECT_EQ(parse_offload_share("0.3"), 0.3);
  EXPECT_EQ(parse_offload_share("1"), 1);
  for (const char* wrong : {"", "all", "-0.1", "1.01", "0.3x", "nan", "+1"})
    EXPECT_THROW(parse_offload_share(wrong), Error) << wrong;
  for (const char* wrong :
       {"noon", "24:00", "04:60", "4:00", "04:00x", "+", "+5", "+m", "+-5m", "+5m3", "2026-11-21",
        "2026-13-21T04:00", "2026-02-31T04:00", "2026-11-21T04:00Z", "+99999999999999999999s", "+0s"}) {
    EXPECT_THROW(parse_until_time(wrong, kNow), Error) << wrong;
  }
  zone ? setenv("TZ", zone_before.c_str(), 1) : unsetenv("TZ");
  tzset();
}

}  // namespace
}  // namespace longhaul::recipe
