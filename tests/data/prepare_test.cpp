#include <atomic>
#include <csignal>
#include <map>

#include "base/files/file.h"
#include "base/process/signals.h"
#include "base/threads/parallel.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

struct Interrupted {};

std::map<std::string, std::string> files_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& path : list_files(folder)) {
    if (path.extension() != ".lock") files[path.lexically_relative(folder).string()] = read_file(path);
  }
  return files;
}

void expect_same_text(const Corpus& corpus, const PreparedSource& prepared) {
  for (Split split : {Split::kTrain, Split::kHeldOut}) {
    Collector expected;
    corpus.read(0, split, expected);
    const TokenDataset& dataset = split == Split::kTrain ? prepared.train : prepared.held_out;
    ASSERT_EQ(dataset.documents(), static_cast<int64_t>(expected.documents.size()));
    for (int64_t d = 0; d < dataset.documents(); ++d) {
      const std::string& text = expected.documents[static_cast<size_t>(d)].second;
      EXPECT_EQ(text_of(dataset, d), text);
      EXPECT_EQ(dataset.text_bytes(d), static_cast<int64_t>(text.size()));
    }
  }
}

TEST(Prepare, TokensAreTheDocumentsOfBothSides) {
  TemporaryFolder folder;
  write_documents(folder / "text", 300);
  write_file(folder / "text/more.jsonl", "{\"text\":\"one\"}\n{\"text\":\"\"}\n{\"text\":\"two\"}\n");
  const Corpus corpus = corpus_of(folder / "text", 20);
  const PreparedSource prepared =
      prepare(corpus, 0, byte_encoder(), folder / "cache", {.shard_tokens = 20000});
  EXPECT_FALSE(prepared.reused);
  EXPECT_GT(prepared.train.shards(), 3);
  EXPECT_GT(prepared.held_out.documents(), 10);
  EXPECT_EQ(prepared.counts.empty, 1);
  expect_same_text(corpus, prepared);
  prepared.train.verify();
}

TEST(Prepare, SecondTimeIsReusedAndChangedFilesAreNot) {
  TemporaryFolder folder;
  write_documents(folder / "text", 20);
  EXPECT_FALSE(prepare(corpus_of(folder / "text"), 0, byte_encoder(), folder / "cache").reused);
  const PreparedSource again = prepare(corpus_of(folder / "text"), 0, byte_encoder(), folder / "cache");
  EXPECT_TRUE(again.reused);
  EXPECT_EQ(again.counts.documents, 20);
  EXPECT_FALSE(prepare(corpus_of(folder / "text"), 0, byte_encoder(1000), folder / "cache").reused);
  write_file(folder / "text/new.txt", "new");
  EXPECT_FALSE(prepare(corpus_of(folder / "text"), 0, byte_encoder(), folder / "cache").reused);
}

// Killed after any commit, the next attempt leaves the files of an uninterrupted one, byte for byte.
TEST(Prepare, InterruptedPreparationGoesOn) {
  TemporaryFolder folder;
  write_documents(folder / "text", 120);
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += fmt::format("{{\"text\":\"line {} {}\"}}\n", i, std::string(static_cast<size_t>(i) * 7, 'y'));
  write_file(folder / "text/0060.jsonl", lines);
  const Corpus corpus = corpus_of(folder / "text", 10);
  PrepareOptions options{.shard_tokens = 40000, .batch_bytes = 3000, .long_document_bytes = 700};
  const auto whole = files_below(prepare(corpus, 0, byte_encoder(), folder / "whole", options).folder);
  int commits = 0;
  for (int stop = 1;; ++stop) {
    const auto cache = folder / fmt::format("cache-{}", stop);
    commits = 0;
    options.after_commit = [&] {
      if (++commits == stop) throw Interrupted();
    };
    bool interrupted = false;
    try {
      prepare(corpus, 0, byte_encoder(), cache, options);
    } catch (const Interrupted&) {
      interrupted = true;
    }
    if (!interrupted) break;
    // What a kill leaves behind besides: an unfinished shard and one that the state does not know.
    const auto left = std::filesystem::directory_iterator(cache)->path();
    write_file(left / "train/shard-00099.tokens.partial", "torn");
    write_file(left / "train/shard-00050.tokens", "not in the state");
    std::atomic<int64_t> encoded = 0;
    Encoder counting = byte_encoder();
    counting.encode = [&, encode = counting.encode](std::string_view text, std::vector<int32_t>& ids) {
      ++encoded;
      encode(text, ids);
    };
    options.after_commit = nullptr;
    const PreparedSource prepared = prepare(corpus, 0, counting, cache, options);
    EXPECT_EQ(files_below(prepared.folder), whole) << "stopped at commit " << stop;
    EXPECT_LT(encoded, prepared.counts.documents) << "began anew";
  }
  EXPECT_GE(commits, 4);
}

// Between the two parts of a document that is cut, too.
TEST(Prepare, InterruptedInsideACutDocumentGoesOn) {
  for (const char* name : {"book.txt", "book.jsonl"}) {
    TemporaryFolder folder;
    std::string text, line;
    for (int i = 0; i < 3000; ++i)
      text += fmt::format("line {} of the book\n", i), line += fmt::format("line {} of the book\\n", i);
    const bool json = std::string_view(name).ends_with(".jsonl");
    write_file(folder / "text" / name,
               json ? "{\"text\":\"\"}\n{\"text\":\"" + line + "\"}\n{\"text\":\"\"}\n" : text);
    write_file(folder / "text/z.txt", "");
    const Corpus corpus = corpus_of(folder / "text", 5, true);
    PrepareOptions options{.shard_tokens = 1000, .long_document_bytes = 5000};
    const PreparedSource whole = prepare(corpus, 0, byte_encoder(), folder / "whole", options);
    EXPECT_EQ(whole.train.documents(), 1);
    EXPECT_EQ(whole.held_out.documents(), 1);
    EXPECT_EQ(text_of(whole.train, 0) + text_of(whole.held_out, 0), text);
    for (int stop = 1; stop <= 2; ++stop) {
      const auto cache = folder / fmt::format("cache-{}", stop);
      int commits = 0;
      options.after_commit = [&] {
        if (++commits == stop) throw Interrupted();
      };
      EXPECT_THROW(prepare(corpus, 0, byte_encoder(), cache, options), Interrupted);
      options.after_commit = nullptr;
      EXPECT_EQ(files_below(prepare(corpus, 0, byte_encoder(), cache, options).folder),
                files_below(whole.folder))
          << name << stop;
    }
  }
}

// A request to stop ends a preparation soon, with an error of its own; what it had open is gone, what it had
// finished stays.
TEST(Prepare, ARequestToStopLeavesNothingHalfWritten) {
  TemporaryFolder folder;
  write_documents(folder / "text", 120);
  const Corpus corpus = corpus_of(folder / "text", 10);
  PrepareOptions options{.shard_tokens = 8000, .batch_bytes = 3000};
  const auto whole = files_below(prepare(corpus, 0, byte_encoder(), folder / "whole", options).folder);
  const auto cache = folder / "cache";
  int commits = 0;
  options.after_commit = [&] { ++commits; };
  std::atomic<int64_t> encoded = 0;
  Encoder stopping = byte_encoder();
  stopping.encode = [&, encode = stopping.encode](std::string_view text, std::vector<int32_t>& ids) {
    if (++encoded == 60) request_stop(SIGINT);
    encode(text, ids);
  };
  EXPECT_EQ(error_of([&] { prepare(corpus, 0, stopping, cache, options); }).code(),
            ExitCode::kPreemptedNotSaved);
  clear_signal_requests();
  EXPECT_LT(encoded, 90) << "it went on";
  EXPECT_GT(commits, 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache))
    EXPECT_NE(entry.path().extension(), ".partial") << entry.path();

  const int64_t before = encoded;
  const PreparedSource prepared = prepare(corpus, 0, stopping, cache, options);
  EXPECT_EQ(files_below(prepared.folder), whole);
  EXPECT_LT(encoded - before, 120) << "began anew";
}

TEST(Prepare, ThreadsDoNotChangeTheFiles) {
  TemporaryFolder folder;
  write_documents(folder / "text", 80);
  const Corpus corpus = corpus_of(folder / "text", 10);
  const int before = threads();
  set_threads(1);
  const auto one = files_below(prepare(corpus, 0, byte_encoder(), folder / "one").folder);
  set_threads(4);
  const auto four = files_below(prepare(corpus, 0, byte_encoder(), folder / "four").folder);
  set_threads(before);
  EXPECT_EQ(one, four);
}

TEST(Prepare, LongDocumentsGoThroughInPieces) {
  TemporaryFolder folder;
  write_documents(folder / "text", 30, 5000);
  const Corpus corpus = corpus_of(folder / "text");
  int long_documents = 0;
  Encoder counting = byte_encoder();
  counting.piecewise = [&, piecewise = counting.piecewise] {
    ++long_documents;
    return piecewise();
  };
  const PreparedSource prepared =
      prepare(corpus, 0, counting, folder / "cache", {.batch_bytes = 4000, .long_document_bytes = 1000});
  EXPECT_GT(long_documents, 5);
  expect_same_text(corpus, prepared);
}

TEST(Prepare, TokenizerOfLonghaulGivesTheTextBack) {
  TemporaryFolder folder;
  write_documents(folder / "text", 12);
  const Tokenizer tokenizer = Tokenizer::bytes();
  const Corpus corpus = corpus_of(folder / "text");
  const PreparedSource prepared =
      prepare(corpus, 0, encoder_of(tokenizer), folder / "cache", {.long_document_bytes = 300});
  const auto documents = documents_of(corpus);
  for (int64_t d = 0; d < prepared.train.documents(); ++d) {
    std::vector<int64_t> ids(static_cast<size_t>(prepared.train.length(d)));
    prepared.train.read(d, 0, ids);
    EXPECT_EQ(tokenizer.decode(std::vector<int32_t>(ids.begin(), ids.end())),
              documents[static_cast<size_t>(d)].second);
  }
}

TEST(Prepare, DamagedCacheIsAnErrorThatSaysWhatToRemove) {
  TemporaryFolder folder;
  write_documents(folder / "text", 20);
  const Corpus corpus = corpus_of(folder / "text");
  const auto prepared = prepare(corpus, 0, byte_encoder(), folder / "cache").folder;
  const std::string manifest = read_file(prepared / "dataset.json");
  for (size_t at = 0; at < manifest.size(); ++at) {
    std::string bad = manifest;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    // white space of the layout
    if (bad[at] == ' ' || manifest[at] == ' ' || bad[at] == '\v' || manifest[at] == '\n') continue;
    write_file(prepared / "dataset.json", bad);
    const Error error = error_of([&] { prepare(corpus, 0, byte_encoder(), folder / "cache"); });
    EXPECT_EQ(error.code(), ExitCode::kData) << at;
    EXPECT_NE(error.fields().hint.find(prepared.string()), std::string::npos);
  }
  write_file(prepared / "dataset.json", manifest);
  const auto shard = prepared / "train/shard-00000.tokens";
  const std::string good = read_file(shard);
  write_file(shard, good.substr(0, good.size() / 2));
  EXPECT_EQ(error_of([&] { prepare(corpus, 0, byte_encoder(), folder / "cache"); }).code(), ExitCode::kData);
  std::filesystem::remove(shard);
  EXPECT_EQ(error_of([&] { prepare(corpus, 0, byte_encoder(), folder / "cache"); }).code(), ExitCode::kData);
}

TEST(Prepare, NothingToTrainOnIsAnError) {
  TemporaryFolder folder;
  write_file(folder / "text/a.txt", "");
  EXPECT_NE(std::string(error_of([&] {
                          prepare_all(corpus_of(folder / "text"), byte_encoder(), folder / "cache");
                        }).what())
                .find("empty"),
            std::string::npos);
  write_file(folder / "text/a.txt", "text");
  const Error error =
      error_of([&] { prepare_all(corpus_of(folder / "text", 100), byte_encoder(), folder / "cache"); });
  EXPECT_EQ(error.code(), ExitCode::kData);
  EXPECT_NE(std::string(error.what()).find("held_out_percent"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::data
