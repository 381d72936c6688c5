#include "data/run_data.h"

#include <csignal>

#include "base/files/file.h"
#include "base/process/signals.h"
#include "data/support.h"
#include "data/tokenizer/bpe_trainer.h"

namespace longhaul::data {
namespace {

TEST(RunData, TrainsTheTokenizerOnceAndPreparesOnce) {
  TemporaryFolder folder;
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (int k = 0; k < 50; ++k)
      text += fmt::format("def function_{}_{}(value):\n    return value + {}\n", i, k * i % 17,
                          k * k * 7919 % 100003);
    write_file(folder / fmt::format("text/{}.py", i), text);
  }
  recipe::DataOptions options;
  options.source = {(folder / "text").string()};
  options.vocabulary = 400;
  options.held_out_percent = 10;
  const RunData first = open_run_data(options, {}, folder / "cache");
  EXPECT_FALSE(first.sources[0].reused);
  EXPECT_EQ(first.tokenizer.vocabulary(), 400);
  ASSERT_EQ(first.train().size(), 1u);
  ASSERT_EQ(first.held_out().size(), 1u);
  const RunData second = open_run_data(options, {}, folder / "cache");
  EXPECT_TRUE(second.sources[0].reused);
  EXPECT_EQ(second.tokenizer.sha256(), first.tokenizer.sha256());
  EXPECT_EQ(second.train()[0]->fingerprint(), first.train()[0]->fingerprint());
  // What the model sees decodes to the document.
  Collector train;
  first.corpus.read(0, Split::kTrain, train);
  for (size_t d = 0; d < train.documents.size(); ++d) {
    std::vector<int64_t> ids(static_cast<size_t>(first.train()[0]->length(static_cast<int64_t>(d))));
    first.train()[0]->read(static_cast<int64_t>(d), 0, ids);
    EXPECT_EQ(first.tokenizer.decode(std::vector<int32_t>(ids.begin(), ids.end())),
              train.documents[d].second);
  }
  Loader loader(first.train(), with_batch(loader_options(options, 64), 4));
  EXPECT_EQ(loader.take(0).inputs.size(), 256u);
}

TEST(RunData, TokenizerIsTrainedOnTheTrainingPartOnly) {
  TemporaryFolder folder;
  for (int i = 0; i < 40; ++i)
    write_file(folder / fmt::format("text/{}.txt", i),
               fmt::format("plain words number {} and some more plain words\n", i));
  recipe::DataOptions options;
  options.source = {(folder / "text").string()};
  options.vocabulary = 300;
  options.held_out_percent = 20;
  const Corpus before = Corpus::open(corpus_options(options, {}));
  const std::string first = open_tokenizer(options, before, folder / "one").sha256();
  Collector held;
  before.read(0, Split::kHeldOut, held);
  ASSERT_FALSE(held.documents.empty());
  for (const auto& [identity, text] : held.documents) std::filesystem::remove((folder / "text") / identity);
  options.held_out_percent = 0;
  EXPECT_EQ(open_tokenizer(options, Corpus::open(corpus_options(options, {})), folder / "two").sha256(),
            first);
}

// While it reads, and while it merges pairs.
TEST(RunData, ARequestToStopEndsTheTrainingOfATokenizer) {
  TemporaryFolder folder;
  write_documents(folder / "text", 5);
  recipe::DataOptions options;
  options.source = {(folder / "text").string()};
  options.vocabulary = 300;
  request_stop(SIGINT);
  const Error reading = error_of([&] { open_run_data(options, {}, folder / "cache"); });
  clear_signal_requests();
  EXPECT_EQ(reading.code(), ExitCode::kPreemptedNotSaved);
  EXPECT_TRUE(!std::filesystem::exists(folder / "cache") || list_files(folder / "cache").empty());

  const TextSource ending = [given = false](std::string& text) mutable {
    if (given) request_stop(SIGINT);
    text = "one two three one two three four five";
    return !std::exchange(given, true);
  };
  const Error merging = error_of([&] { train_bpe(ending, {.vocabulary = 300}); });
  clear_signal_requests();
  EXPECT_EQ(merging.code(), ExitCode::kPreemptedNotSaved);
  EXPECT_EQ(merging.fields().what, "stopped while training the tokenizer");
}

TEST(RunData, TokenizerFromTheRecipe) {
  TemporaryFolder folder;
  write_documents(folder / "text", 5);
  recipe::DataOptions options;
  options.source = {(folder / "text").string()};
  options.tokenizer = "bytes";
  EXPECT_EQ(open_run_data(options, {}, folder / "cache").tokenizer.vocabulary(), 257);
  Tokenizer::bytes().save(folder / "tokenizer.json");
  options.tokenizer = (folder / "tokenizer.json").string();
  EXPECT_TRUE(open_run_data(options, {}, folder / "cache").sources[0].reused)
      << "the same tokenizer by another name";
  options.tokenizer = (folder / "missing.json").string();
  EXPECT_EQ(error_of([&] { open_run_data(options, {}, folder / "cache"); }).code(), ExitCode::kData);
}

}  // namespace
}  // namespace longhaul::data
