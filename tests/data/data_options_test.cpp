// Every option of [data], typed as a user types it, reaches what it is for.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/files/folders.h"
#include "base/text/path_text.h"
#include "base/text/utf8.h"
#include "data/run_data.h"
#include "data/support.h"
#include "recipe/load.h"

namespace longhaul::data {
namespace {

class DataOptions : public testing::Test {
 protected:
  DataOptions() {
    write_documents(folder_ / "a", 40, 300);
    write_documents(folder_ / "b", 12, 90);
    write_file(folder_ / "a/same.txt", read_file(folder_ / "a/0007.txt"));
    write_file(folder_ / "a/picture.dat", std::string(50, '\0'));
    write_file(
        folder_ / "lines.jsonl",
        "{\"text\": \"first\", \"body\": \"another\"}\nno line\n{\"text\": \"second\", \"body\": \"b\"}\n");
    write_file(folder_ / "good.jsonl", "{\"text\": \"first\", \"body\": \"another\"}\n");
  }

  recipe::DataOptions options(std::vector<std::string> more) const {
    std::vector<std::string> overrides{"data.source=" + a(), "data.tokenizer=bytes",
                                       "data.held_out_percent=0"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return recipe::load_defaults(overrides).recipe.data;
  }
  std::string a() const { return (folder_ / "a").string(); }
  std::string b() const { return (folder_ / "b").string(); }
  RunData open(std::vector<std::string> more = {}) const {
    const recipe::DataOptions chosen = options(std::move(more));
    return open_run_data(chosen, {}, folder_ / "cache");
  }
  std::vector<std::string> texts(std::vector<std::string> more) const {
    std::vector<std::string> result;
    for (const auto& [identity, text] :
         documents_of(Corpus::open(corpus_options(options(std::move(more)), {}))))
      result.push_back(text);
    return result;
  }
  Batch batch(std::vector<std::string> more = {}) const {
    const RunData data = open(more);
    return Loader(data.train(), with_batch(loader_options(options(more), 64), 6)).batch_at(0);
  }
  double first_weight(std::vector<std::string> more) const {
    more.push_back("data.source=" + a() + "," + b());
    const RunData data = open(more);
    return Loader(data.train(), with_batch(loader_options(options(more), 64), 6)).share(0, 0);
  }

  TemporaryFolder folder_;
};

TEST_F(DataOptions, EachReachesWhatItIsFor) {
  const std::string lines = "data.source=" + (folder_ / "lines.jsonl").string(),
                    good = "data.source=" + (folder_ / "good.jsonl").string();
  const std::map<std::string, std::function<void()>> checks{
      {"data.source", [&] { EXPECT_EQ(texts({"data.source=" + b()}).size(), 12u); }},
      {"data.validation",
       [&] {
         EXPECT_TRUE(open().held_out().empty());
         const RunData data = open({"data.source=" + a(), "data.validation=" + b()});
         ASSERT_EQ(data.held_out().size(), 1u);
         EXPECT_EQ(data.held_out()[0]->documents(), 12);
         EXPECT_EQ(data.train().size(), 1u);
       }},
      {"data.weights", [&] { EXPECT_NEAR(first_weight({"data.weights=1,3"}), 0.25, 1e-12); }},
      {"data.mix",
       [&] {
         const std::vector<std::string> more{
             "data.source=" + a() + "," + b(),
             "data.mix=[{ at_tokens = 130, weights = [0, 3] }, { at_tokens = 640, weights = [1, 1] }]"};
         const RunData data = open(more);
         const Loader loader(data.train(), with_batch(loader_options(options(more), 64), 6));
         EXPECT_EQ(loader.share(0, 3), 0) << "the first sample that begins behind 130 tokens";
         EXPECT_NEAR(loader.share(0, 5), 0.5 * 2 / 7, 1e-12);
         EXPECT_NEAR(loader.share(0, 10), 0.5, 1e-12);
         EXPECT_EQ(loader.origin_of(0).dataset, 1);
       }},
      {"data.include", [&] { EXPECT_TRUE(texts({"data.include=7.txt,8.txt"}).size() == 8u); }},
      {"data.jsonl_field",
       [&] {
         EXPECT_EQ(texts({good, "data.jsonl_field=body"}), std::vector<std::string>{"another"});
       }},
      {"data.loss_on",
       [&] {
         write_file(folder_ / "asked.jsonl", "{\"prompt\": \"ask\", \"completion\": \"answer\"}\n");
         const std::string asked = "data.source=" + (folder_ / "asked.jsonl").string();
         const RunData data = open({asked, "data.loss_on=completion", "data.held_out_percent=0"});
         EXPECT_EQ(data.train()[0]->segments(0), (std::vector<LossSegment>{{3, 0.0f}, {9, 1.0f}}));
         EXPECT_EQ(error_of([&] { open({asked}); }).code(), ExitCode::kData);
       }},
      {"data.skip_bad_lines",
       [&] {
         EXPECT_EQ(error_of([&] { texts({lines}); }).code(), ExitCode::kData);
         EXPECT_EQ(texts({lines, "data.skip_bad_lines=true"}).size(), 2u);
       }},
      {"data.keep_binary", [&] { EXPECT_EQ(texts({"data.keep_binary=true"}).size(), texts({}).size() + 1); }},
      {"data.tokenizer",
       [&] {
         Tokenizer::bytes().save(folder_ / "tokenizer.json");
         EXPECT_EQ(open({"data.tokenizer=" + (folder_ / "tokenizer.json").string()}).tokenizer.vocabulary(),
                   257);
       }},
      // Roles of the tokenizer's tokens, by their names: the bytes' only token of a name.
      {"data.end_of_document",
       [&] {
         const std::string bytes = "data.tokenizer=" + (folder_ / "tokenizer.json").string();
         Tokenizer::bytes().save(folder_ / "tokenizer.json");
         const std::string name = Tokenizer::bytes().token_of(256).value();
         EXPECT_EQ(open({bytes, "data.end_of_document=" + name}).tokenizer.end_of_document(), 256);
         EXPECT_THROW(open({bytes, "data.end_of_document=<nobody>"}), Error);
       }},
      {"data.stop_tokens",
       [&] {
         const std::string bytes = "data.tokenizer=" + (folder_ / "tokenizer.json").string();
         Tokenizer::bytes().save(folder_ / "tokenizer.json");
         const std::string name = Tokenizer::bytes().token_of(256).value();
         EXPECT_THAT(open({bytes, "data.stop_tokens=" + name}).tokenizer.stop_ids(),
                     ::testing::Contains(256));
         EXPECT_THROW(open({bytes, "data.stop_tokens=<nobody>"}), Error);
       }},
      {"data.vocabulary",
       [&] {
         EXPECT_EQ(open({"data.tokenizer=train", "data.vocabulary=270"}).tokenizer.vocabulary(), 270);
       }},
      {"data.held_out_percent",
       [&] {
         ASSERT_EQ(open({"data.held_out_percent=30"}).held_out().size(), 1u);
         EXPECT_EQ(recipe::load_defaults().recipe.data.percent_held_out(), 1);
         EXPECT_EQ(recipe::load_defaults({"data.validation=x"}).recipe.data.percent_held_out(), 0);
         EXPECT_EQ(recipe::load_defaults({"data.validation=x", "data.held_out_percent=2"})
                       .recipe.data.percent_held_out(),
                   2);
       }},
      {"data.remove_copies",
       [&] { EXPECT_EQ(texts({"data.remove_copies=false"}).size(), texts({}).size() + 1); }},
      {"data.document_boundaries",
       [&] {
         EXPECT_GT(batch().layout.documents(), 6);
         EXPECT_EQ(batch({"data.document_boundaries=false"}).layout.documents(), 6);
       }},
      {"data.seed", [&] { EXPECT_NE(batch({"data.seed=3"}).inputs, batch().inputs); }},
      {"data.prefetch", [&] { EXPECT_EQ(loader_options(options({"data.prefetch=9"}), 64).prefetch, 9); }},
      {"data.cache",
       [&] {
         EXPECT_EQ(cache_folder(options({"data.cache=/some/where"})), "/some/where");
         EXPECT_EQ(cache_folder(options({})), user_cache_folder());
       }},
  };
  std::set<std::string> declared, checked;
  recipe::Recipe recipe;
  const recipe::OptionSet set = recipe::options_of(recipe);
  for (const recipe::Option& option : set.all()) {
    if (option.section() == "data") declared.insert(option.name);
  }
  for (const auto& [name, check] : checks) {
    SCOPED_TRACE(name);
    checked.insert(name);
    check();
  }
  EXPECT_EQ(checked, declared) << "an option without a check here, or a check of none";
}

// A recipe holds UTF-8: what a path is that is not, comes back from recipe.toml as the same path.
TEST_F(DataOptions, PathsOfAnyBytes) {
  const std::string odd = (folder_ / "caf\xe9, \x1b odd").string();
  write_documents(odd, 9);
  write_file(std::filesystem::path(odd) / "na\xefve.txt", "one more document\n");
  const RunData data = open({"data.source=[\"" + a() + "\"]", "data.source=" + text_of_path(odd)});
  EXPECT_EQ(data.sources[0].counts.documents, 10);
  EXPECT_TRUE(valid_utf8(data.sources[0].source)) << data.sources[0].source;
  EXPECT_EQ(path_of_text(data.sources[0].source).native(), odd);
  const std::string plain = (folder_ / "caf\xe9").string();
  write_documents(plain, 5);
  const recipe::DataOptions typed =
      options({"data.source=" + plain + ", " + b(), "data.remove_copies=false"});
  ASSERT_EQ(typed.source.size(), 2u);
  EXPECT_TRUE(valid_utf8(typed.source[0]));
  EXPECT_EQ(documents_of(Corpus::open(corpus_options(typed, {}))).size(), 17u);
  EXPECT_EQ(PreparedSource::open(open({"data.source=" + plain}).sources[0].folder).source, typed.source[0]);
}

TEST_F(DataOptions, TheTableTellsWhatBecameOfTheDocuments) {
  const RunData data = open({"data.source=" + a() + "," + (folder_ / "lines.jsonl").string(),
                             "data.skip_bad_lines=true", "data.held_out_percent=20"});
  const std::vector<DataPart> parts = parts_of(data.sources);
  std::map<std::string, DataPart> by_name;
  for (const DataPart& part : parts) by_name[part.name] = part;
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[0].name, "training");
  EXPECT_EQ(parts[1].name, "held out");
  EXPECT_EQ(parts[0].documents + parts[1].documents, 42);
  EXPECT_EQ(by_name["left out: copies"].documents, 1);
  EXPECT_EQ(by_name["left out: bad lines"].documents, 1);
  EXPECT_EQ(by_name["left out: not text"].documents, 1);
  EXPECT_EQ(by_name["left out: not text"].bytes, 50);
  ASSERT_EQ(data.sources[0].not_text.size(), 1u);
  EXPECT_EQ(data.sources[0].not_text[0].name, "picture.dat");
  const PreparedSource again = PreparedSource::open(data.sources[0].folder);
  EXPECT_EQ(again.not_text.size(), 1u);
  EXPECT_EQ(again.counts.not_text_bytes, 50);
  write_file(folder_ / "book.txt", std::string(3000, 'a') + "\n" + std::string(3000, 'b') + "\n");
  EXPECT_EQ(
      parts_of(open({"data.source=" + (folder_ / "book.txt").string(), "data.held_out_percent=5"}).sources)[1]
          .name,
      "held out: the text's end");
}

}  // namespace
}  // namespace longhaul::data
