// ctest: label=full timeout=180
// Whole runs of a tiny hybrid model: resumed runs, two at once, signals, failing saves, refusals.
#include "run/language_run.h"
#include "run/run_fixture.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/files/file.h"
#include "base/process/signals.h"
#include "base/threads/parallel.h"
#include "data/corpus/skip_file.h"
#include "data/tokenizer/tokenizer.h"
#include "observe/events/event_comparison.h"
#include "observe/events/event_log.h"
#include "recipe/write.h"
#include "storage/catalog.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TrainRun : public RunFixture {
 protected:
  TrainRun() {
    write_text([](int i) { return 30 + i; });
  }
  ~TrainRun() override { clear_signal_requests(); }

  RunRequest request(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> overrides{"model.layers=2",
                                       "model.hidden=32",
                                       "model.heads=2",
                                       "model.kv_heads=1",
                                       "model.head_dim=16",
                                       "model.vocabulary=257",
                                       "model.mixers=lightning,softmax",
                                       "model.intermediate=32",
                                       "model.experts=2",
                                       "model.rotary_dim=8",
                                       "model.tie_embeddings=true",
                                       "data.tokenizer=bytes",
                                       "data.source=" + (folder_ / "text").string(),
                                       "data.cache=" + (folder_ / "cache").string(),
                                       "train.dtype=fp32",
                                       "train.batch=4",
                                       "train.micro_batch=2",
                                       "train.sequence=32",
                                       "train.steps=12",
                                       "train.checkpoint_every=5",
                                       "train.evaluate_every=0",
                                       "train.threads=1",
                                       "optim.lr=0.01",
                                       "optim.warmup_steps=3",
                                       "sample.tokens=0",
                                       "observe.compression_baseline=false",
                                       "observe.tensorboard=false",
                                       "observe.report=false"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return {.recipe = recipe::load_defaults(overrides), .run_folder = folder_ / name, .quiet = true};
  }

  fs::path checkpoint(const std::string& run, int64_t step) const {
    return storage::resolve(storage::LocalFileSystem(),
                            folder_ / run / "checkpoints" / storage::CheckpointName{.step = step}.text())
        .folder;
  }
  static void reseal(const fs::path& checkpoint, const std::function<void(storage::Manifest&)>& change) {
    storage::Manifest manifest = storage::read_manifest(storage::LocalFileSystem(), checkpoint);
    change(manifest);
    write_text_atomically(checkpoint / "manifest.json", storage::to_text(manifest));
  }
};

TEST_F(TrainRun, LearnsAndSaves) {
  const train::Outcome outcome = run_training(request("run", {"train.steps=40", "train.evaluate_every=20"}));
  EXPECT_EQ(outcome.reason, "finished");
  EXPECT_TRUE(outcome.saved);
  const auto steps = losses("run");
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_NEAR(steps.front(), std::log(257.0), 0.3);  // nothing learnt yet: uniform over the bytes
  EXPECT_LT(steps.back(), 0.7 * steps.front());
  const auto evaluations = events<observe::Evaluation>("run");
  ASSERT_EQ(evaluations.size(), 2u);
  EXPECT_LT(evaluations[1].loss, evaluations[0].loss);
  // the last three
  EXPECT_EQ(storage::list_checkpoints(storage::LocalFileSystem(), folder_ / "run" / "checkpoints").size(),
            3u);
}

// Recipe, events and checkpoints hold UTF-8; paths need not be.
TEST_F(TrainRun, PathsThatAreNotUtf8AreTrainedOnAndResumed) {
  const fs::path odd = folder_ / "caf\xe9";
  fs::create_directories(odd);
  for (int i = 0; i < 10; ++i)
    std::ofstream(odd / ("na\xefve" + std::to_string(i))) << std::string(400, static_cast<char>('a' + i));
  const auto run = [&](const char* steps) {
    return run_training(
        request("run \xff", {"data.source=" + odd.string(), steps, "train.evaluate_every=5"}));
  };
  EXPECT_EQ(run("train.steps=5").step, 5);
  EXPECT_EQ(run("train.steps=10").step, 10);
  EXPECT_EQ(events<observe::Resume>("run \xff").back().step, 5);
  EXPECT_EQ(recipe::load(folder_ / "run \xff" / "recipe.toml").recipe.data.source,
            std::vector{"file:" + (folder_ / "caf%E9").string()});
}

TEST_F(TrainRun, StepsSayHowOftenTheDataHaveBeenRead) {
  run_training(request("run", {"data.held_out_percent=0"}));
  int64_t bytes = 0, files = 0;
  for (const auto& file : fs::directory_iterator(folder_ / "text"))
    bytes += static_cast<int64_t>(file.file_size()), ++files;
  const auto samples = static_cast<double>((bytes + files + 31) / 32);
  const auto steps = events<observe::StepReport>("run");
  ASSERT_EQ(steps.size(), 12u);
  for (const auto& step : steps)
    EXPECT_DOUBLE_EQ(step.epoch.value(), static_cast<double>(step.step * 4) / samples);
}

TEST_F(TrainRun, ResumedRunEqualsTheUninterruptedOneBitByBit) {
  struct Kind {
    std::string dtype, mixers, schedule = "optim.schedule=constant";
  };
  const Kind kinds[] = {{"train.dtype=fp32", "model.mixers=lightning,softmax"},
                        {"train.dtype=bf16", "model.mixers=lightning,softmax"},
                        {"train.dtype=fp32", "model.mixers=softmax,hgrn2", "optim.schedule=cosine_restarts"},
                        {"train.dtype=bf16", "model.mixers=hgrn2"}};
  for (const auto& [dtype, mixers, schedule] : kinds) {
    const std::string whole = "whole " + dtype + " " + mixers, parts = "parts " + dtype + " " + mixers;
    const std::vector<std::string> given = {dtype, mixers, schedule, "optim.restart_steps=4"};
    auto shorter = given;
    shorter.push_back("train.steps=7");
    run_training(request(whole, given));
    run_training(request(parts, shorter));
    const train::Outcome outcome = run_training(request(parts, given));
    EXPECT_EQ(outcome.step, 12);
    EXPECT_EQ(events<observe::Resume>(parts).back().step, 7);
    const observe::Comparison comparison = observe::compare(folder_ / whole, folder_ / parts);
    EXPECT_TRUE(comparison.equal()) << comparison.text();
    EXPECT_EQ(comparison.steps_in_both, 12);
  }
}

TEST_F(TrainRun, TwoTrainersInOneProcessGiveTheLossesOfTwoProcesses) {
  run_training(request("alone-a", {"train.seed=1"}));
  run_training(request("alone-b", {"train.seed=2"}));
  std::thread a([&] { run_training(request("both-a", {"train.seed=1"})); });
  std::thread b([&] { run_training(request("both-b", {"train.seed=2"})); });
  a.join();
  b.join();
  EXPECT_EQ(losses("alone-a"), losses("both-a"));
  EXPECT_EQ(losses("alone-b"), losses("both-b"));
  EXPECT_NE(losses("alone-a"), losses("alone-b"));
}

TEST_F(TrainRun, AFailedSaveRaisesAnAlarmAndTrainingGoesOn) {
  fs::create_directories(folder_ / "run" / "checkpoints");
  std::ofstream(folder_ / "run" / "checkpoints" / "step-000000005.tmp-1")
      << "a file where the save of step 5 wants a folder";
  const train::Outcome outcome = run_training(request("run"));
  EXPECT_EQ(outcome.step, 12);
  EXPECT_TRUE(outcome.saved);  // the last one was saved
  EXPECT_EQ(losses("run").size(), 12u);
  const auto alarms = events<observe::Alarm>("run");
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_THAT(alarms[0].message, HasSubstr("step 5"));
  EXPECT_EQ(events<observe::CheckpointSaved>("run").size(), 2u);  // steps 10 and 12
}

TEST_F(TrainRun, AChangedOptionThatMustStayIsRefusedBeforeAnythingIsTouched) {
  run_training(request("run"));
  const auto before = read_text(folder_ / "run" / "events.jsonl");
  try {
    run_training(request("run", {"train.seed=7"}));
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("train.seed"));
  }
  EXPECT_EQ(read_text(folder_ / "run" / "events.jsonl"), before);
}

// Whatever became of recipe.toml: the checkpoint says what the run is.
TEST_F(TrainRun, AChangedOptionIsRefusedByTheCheckpointToo) {
  run_training(request("run"));
  const auto sidecar = folder_ / "run" / "recipe.toml";
  const auto manifest =
      storage::open_checkpoint(storage::LocalFileSystem(), folder_ / "run").folder() / "manifest.json";
  const auto before = read_text(folder_ / "run" / "events.jsonl");
  for (const auto& [option, was] :
       std::vector<std::pair<std::string, std::string>>{{"train.batch=8", "4"}, {"data.seed=5", "0"}}) {
    const std::string key = option.substr(0, option.find('='));
    for (const bool edited : {false, true}) {
      fs::remove(sidecar);
      if (edited)
        std::ofstream(sidecar) << recipe::to_toml(request("run", {option, "train.steps=20"}).recipe);
      try {
        run_training(request("run", {option, "train.steps=20"}));
        FAIL() << "the run went on";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
        EXPECT_THAT(error.fields().expected,
                    AllOf(HasSubstr(key + " = " + was + " ("), HasSubstr(manifest.string())));
        EXPECT_THAT(error.fields().found,
                    HasSubstr(key + " = " + option.substr(key.size() + 1) + " (command line"));
      }
    }
  }
  EXPECT_EQ(read_text(folder_ / "run" / "events.jsonl"), before);
  fs::remove(sidecar);
  EXPECT_EQ(run_training(request("run", {"train.steps=14"})).step, 14) << "what may change does";
}

// The newest checkpoint may turn out to be damaged, and the one that loads instead be of another run.
TEST_F(TrainRun, TheCheckpointThatLoadsIsComparedToo) {
  run_training(request("run"));
  {
    std::fstream weights(checkpoint("run", 12) / "model.safetensors",
                         std::ios::in | std::ios::out | std::ios::binary);
    weights.seekp(-3, std::ios::end);
    weights.put('x');
  }
  reseal(checkpoint("run", 10), [&](storage::Manifest& manifest) {
    manifest.recipe["toml"] = recipe::to_toml(request("run", {"train.batch=8"}).recipe);
  });
  try {
    run_training(request("run", {"train.steps=20"}));
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
    EXPECT_THAT(error.what(), AllOf(HasSubstr("train.batch"), HasSubstr("step-000000010")));
  }
}

// Samples would be lost or come twice where this start goes on at another one than the checkpoint stopped at.
TEST_F(TrainRun, ACheckpointThatStoppedAtAnotherSampleIsRefused) {
  run_training(request("run"));
  const auto untouched = storage::read_manifest(storage::LocalFileSystem(), checkpoint("run", 12));
  EXPECT_EQ(untouched.data_position.at("first_sample"), 12 * 4);
  const auto refused = [&](const std::function<void(nlohmann::json&)>& change) {
    reseal(checkpoint("run", 12), [&](storage::Manifest& manifest) {
      manifest = untouched;
      change(manifest.data_position);
    });
    try {
      run_training(request("run", {"train.steps=20"}));
      return std::string("the run went on");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
      return fmt::format("{}: {} / {}", error.fields().what, error.fields().expected, error.fields().found);
    }
  };
  EXPECT_THAT(refused([](auto& position) { position["first_sample"] = 44; }),
              HasSubstr("first sample of the next step changed since"));
  EXPECT_THAT(refused([](auto& position) { position["first_sample"] = 44; }), HasSubstr(": 44 / 48"));
  // A list may grow behind the checkpoint only.
  const std::filesystem::path skips = data::skip_file(checkpoint("run", 12).parent_path().parent_path());
  data::add_skip(skips, {.range = {3, 5}, .reason = "a test", .by = "driver"});
  EXPECT_THAT(refused([](auto&) {}), HasSubstr("samples to skip changed since"));
  EXPECT_THAT(refused([](auto&) {}), HasSubstr(": none / [3, 5)"));
  std::filesystem::remove(skips);
  EXPECT_EQ(refused([](auto&) {}), "the run went on");
}

TEST_F(TrainRun, OtherDataUnderTheSameNameAreRefusedOnResume) {
  const std::vector<std::string> trained{"data.tokenizer=train", "data.vocabulary=260",
                                         "model.vocabulary=260"};
  run_training(request("run", trained));
  const std::string tokenizer = read_text(folder_ / "run" / "tokenizer.json"),
                    recipe = read_text(folder_ / "run" / "recipe.toml");
  for (int i = 0; i < 40; ++i)
    std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << std::string(1000, 'z') << i << "\n";
  auto more = trained;
  more.emplace_back("train.steps=20");
  try {
    run_training(request("run", more));
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
  }
  // What the run's checkpoints are used with is still theirs.
  EXPECT_EQ(read_text(folder_ / "run" / "tokenizer.json"), tokenizer);
  EXPECT_EQ(read_text(folder_ / "run" / "recipe.toml"), recipe);
}

// The lines of evaluations have gzip and xz beside them, after a resume too.
TEST_F(TrainRun, EveryStartSaysWhatCompressorsMakeOfTheText) {
  for (const char* steps : {"train.steps=3", "train.steps=5"})
    run_training(request("run", {"observe.compression_baseline=true", steps}));
  const auto found = events<observe::CompressionBaseline>("run");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_GT(found[0].gzip_bits_per_byte, 0);
  EXPECT_EQ(found[1].gzip_bits_per_byte, found[0].gzip_bits_per_byte);
  EXPECT_EQ(found[1].xz_bits_per_byte, found[0].xz_bits_per_byte);
}

TEST_F(TrainRun, FreshMovesTheEarlierRunAside) {
  run_training(request("run"));
  RunRequest again = request("run", {"train.seed=7"});
  again.fresh = true;
  run_training(again);
  EXPECT_EQ(losses("run").size(), 12u);
  size_t runs = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    runs += entry.path().filename().string().starts_with("run") ? 1 : 0;
  EXPECT_EQ(runs, 2u);
}

TEST_F(TrainRun, ASignalSavesAndStops) {
  run_training(request("prepares the data", {"train.steps=1"}));
  request_stop(15);
  const train::Outcome outcome = run_training(request("run"));
  EXPECT_EQ(outcome.reason, "signal");
  EXPECT_EQ(outcome.signal, 15);
  EXPECT_TRUE(outcome.saved);
}

TEST_F(TrainRun, ASignalEndsThePreparationOfDataAndTheNextStartMakesIt) {
  request_stop(2);
  try {
    run_training(request("run"));
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kPreemptedNotSaved);
    EXPECT_THAT(error.what(), HasSubstr("stopped while reading the corpus"));
  }
  EXPECT_TRUE(events<observe::StepReport>("run").empty());
  clear_signal_requests();
  EXPECT_EQ(run_training(request("run")).step, 12);
  run_training(request("undisturbed"));
  EXPECT_EQ(losses("run"), losses("undisturbed"));
}

// Weights grow by themselves until a number is beyond what fp32 can hold.
TEST_F(TrainRun, WhereNoStepMayBeSkippedANanEndsTheRunAndKeepsItsCheckpoint) {
  const std::vector<std::string> diverging{"optim.schedule=constant",  "optim.lr=100",
                                           "optim.weight_decay=100",   "optim.warmup_steps=0",
                                           "train.steps=60",           "train.checkpoint_every=0",
                                           "train.nonfinite_limit=60", "train.checkpoint_keep=1"};
  for (const std::string name : {"ends", "skips"}) {
    run_training(request(name, {"train.steps=5"}));
    auto more = diverging;
    more.push_back(name == "ends" ? "train.skip_nonfinite=false" : "train.nonfinite_limit=1");
    try {
      run_training(request(name, more));
      FAIL() << "the run went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kNumeric) << error.what();
    }
    const auto kept = storage::list_checkpoints(storage::LocalFileSystem(), folder_ / name / "checkpoints");
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_EQ(kept[0].name.step, 5);
    EXPECT_TRUE(*events<observe::StepReport>(name).back().skipped);
    EXPECT_EQ(events<observe::End>(name).back().reason, "error");
  }
  const auto ends = events<observe::NonFinite>("ends"), skips = events<observe::NonFinite>("skips");
  ASSERT_EQ(ends.size(), 1u);
  ASSERT_EQ(skips.size(), 1u);
  EXPECT_EQ(ends[0].step, skips[0].step);
  EXPECT_EQ(ends[0].layer, skips[0].layer);
  EXPECT_EQ(ends[0].tensor, skips[0].tensor);
  EXPECT_EQ(ends[0].phase, skips[0].phase);
  EXPECT_THAT(ends[0].layer, HasSubstr("layers."));
}

TEST_F(TrainRun, ThePageOfAnEndedRunIsWhole) {
  run_training(request("run", {"observe.report=true", "train.evaluate_every=5", "sample.tokens=4"}));
  const std::string page = read_text(folder_ / "run" / "report.html");
  EXPECT_THAT(page, HasSubstr("<span class=\"status good\">finished</span>"));
  EXPECT_THAT(page, HasSubstr("All 3 evaluations as a table"));
  EXPECT_THAT(page, HasSubstr("<h2>What it writes"));
  // An error is an end too.
  EXPECT_THROW(run_training(request("run", {"observe.report=true", "train.steps=60", "train.evaluate_every=5",
                                            "optim.lr=100", "optim.weight_decay=100",
                                            "optim.schedule=constant", "train.skip_nonfinite=false"})),
               Error);
  EXPECT_THAT(read_text(folder_ / "run" / "report.html"),
              HasSubstr("<span class=\"status bad\">error</span>"));
}

TEST_F(TrainRun, MicroBatchesDoNotChangeGradients) {
  // fp64: only the order of sums differs.
  const std::vector<std::string> base{"train.dtype=fp64", "model.experts=4", "model.auxiliary_loss=0.5",
                                      "model.z_loss=0.1"};
  const auto with = [&](const std::string& micro_batch) {
    auto more = base;
    more.push_back(micro_batch);
    return more;
  };
  run_training(request("one", with("train.micro_batch=4")));
  run_training(request("four", with("train.micro_batch=1")));
  const auto one = events<observe::StepReport>("one"), four = events<observe::StepReport>("four");
  ASSERT_EQ(one.size(), four.size());
  EXPECT_NEAR(one[0].grad_norm, four[0].grad_norm, 1e-12 * one[0].grad_norm);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NEAR(one[i].loss, four[i].loss, 1e-10);
    EXPECT_GT(*one[i].auxiliary_loss, 0.5) << "one a layer when balanced, and z";
    EXPECT_NEAR(*one[i].auxiliary_loss, *four[i].auxiliary_loss, 1e-10);
  }
}

TEST_F(TrainRun, RefusesATokenizerLargerThanTheModel) {
  data::Tokenizer::bytes().save(folder_ / "tokenizer.json");
  try {
    run_training(
        request("run", {"model.vocabulary=200", "data.tokenizer=" + (folder_ / "tokenizer.json").string()}));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("257"));
  }
}

}  // namespace
}  // namespace longhaul::run
