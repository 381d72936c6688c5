// Token files of Megatron-LM and llm.c, written here byte by byte as their programs write them, and every way
// in which they can be bad.
#include "data/corpus/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "data/run_data.h"
#include "data/support.h"
#include "data/tokens/prepare_tokens.h"

namespace longhaul::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using TokenDocuments = std::vector<std::vector<int32_t>>;

template <class Number>
void put(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Token>
std::string bin_of(const std::vector<std::vector<int>>& sequences) {
  std::string bytes;
  for (const auto& sequence : sequences) {
    for (const int token : sequence) put(bytes, static_cast<Token>(token));
  }
  return bytes;
}

// As indexed_dataset.py writes it. ends: first sequence of each document, and the number of sequences.
std::string index_of(const std::vector<std::vector<int>>& sequences, const std::vector<int64_t>& ends,
                     uint8_t code, int64_t token_bytes) {
  std::string bytes("MMIDIDX\0\0", 9);
  put(bytes, uint64_t{1});
  put(bytes, code);
  put(bytes, static_cast<uint64_t>(sequences.size()));
  put(bytes, static_cast<uint64_t>(ends.size()));
  for (const auto& sequence : sequences) put(bytes, static_cast<int32_t>(sequence.size()));
  int64_t offset = 0;
  for (const auto& sequence : sequences) {
    put(bytes, offset);
    offset += static_cast<int64_t>(sequence.size()) * token_bytes;
  }
  for (const int64_t end : ends) put(bytes, end);
  return bytes;
}

std::string llmc_of(const std::vector<int>& tokens, int32_t magic = 20240520, int32_t version = 1) {
  std::string bytes;
  put(bytes, magic);
  put(bytes, version);
  put(bytes, static_cast<int32_t>(tokens.size()));
  bytes.resize(1024);
  for (const int token : tokens) {
    if (magic == 20240520)
      put(bytes, static_cast<uint16_t>(token));
    else
      put(bytes, static_cast<uint32_t>(token));
  }
  return bytes;
}

class TokenFiles : public ::testing::Test {
 protected:
  TokenDocuments read(const std::filesystem::path& path, int64_t vocabulary = 257, int32_t separator = 256) {
    TokenDocuments documents;
    for (const TokenFile& file : token_files(path)) {
      read_token_file(file, vocabulary, {separator}, [&](std::span<const int32_t> tokens) {
        documents.emplace_back(tokens.begin(), tokens.end());
      });
    }
    return documents;
  }
  void write_megatron(const std::string& name, const std::vector<std::vector<int>>& sequences,
                      const std::vector<int64_t>& ends) {
    write_file(folder_ / (name + ".bin"), bin_of<uint16_t>(sequences));
    write_file(folder_ / (name + ".idx"), index_of(sequences, ends, 8, 2));
  }
  std::string refusal(const std::filesystem::path& path, int64_t vocabulary = 257) {
    const Error error = error_of([&] { read(path, vocabulary); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    return error.what();
  }
  TemporaryFolder folder_;
};

TEST_F(TokenFiles, MegatronsDocumentsOfEveryType) {
  // Two sequences make the first document; ends of documents are separators, one stands within.
  const std::vector<std::vector<int>> sequences = {{1, 2, 3}, {4, 256}, {5, 256, 6, 7}, {}, {8}};
  const TokenDocuments expected = {{1, 2, 3, 4}, {5}, {6, 7}, {8}};
  write_megatron("u16", sequences, {0, 2, 3, 5});
  EXPECT_EQ(read(folder_ / "u16.bin"), expected);
  EXPECT_EQ(read(folder_ / "u16.idx"), expected);
  write_file(folder_ / "i32.bin", bin_of<int32_t>(sequences));
  // with a mode for each sequence
  write_file(folder_ / "i32.idx", index_of(sequences, {0, 2, 3, 5}, 4, 4) + std::string(5, '\0'));
  EXPECT_EQ(read(folder_ / "i32.idx"), expected);
  write_file(folder_ / "i64.bin", bin_of<int64_t>(sequences));
  write_file(folder_ / "i64.idx", index_of(sequences, {0, 2, 3, 5}, 5, 8));
  EXPECT_EQ(read(folder_ / "i64.idx"), expected);
  write_file(folder_ / "u8.bin", bin_of<uint8_t>({{200, 3}}));
  write_file(folder_ / "u8.idx", index_of({{200, 3}}, {0, 1}, 1, 1));
  EXPECT_EQ(read(folder_ / "u8.idx"), (TokenDocuments{{200, 3}}));
}

TEST_F(TokenFiles, LlmcsDocumentsBeginWithTheSeparator) {
  write_file(folder_ / "a.bin", llmc_of({256, 1, 2, 256, 256, 3}));
  EXPECT_EQ(read(folder_ / "a.bin"), (TokenDocuments{{1, 2}, {3}}));
  write_file(folder_ / "b.bin", llmc_of({9, 70000, 256, 1}, 20240801, 7));
  EXPECT_EQ(read(folder_ / "b.bin", 70001), (TokenDocuments{{9, 70000}, {1}}));
  EXPECT_TRUE(names_token_files(folder_.path()));
  EXPECT_EQ(token_files(folder_.path()).size(), 2u);
  write_file(folder_ / "c.txt", "text");
  EXPECT_FALSE(names_token_files(folder_.path())) << "a folder with text is text";
}

TEST_F(TokenFiles, RefusesBadLlmcFiles) {
  const auto file = folder_ / "x.bin";
  const std::string good = llmc_of({256, 1, 2});
  write_file(file, good.substr(0, 1000));
  EXPECT_THAT(refusal(file), HasSubstr("header of 1024"));
  write_file(file, good.substr(0, good.size() - 1));
  EXPECT_THAT(refusal(file), HasSubstr("truncated"));
  write_file(file, good + "x");
  EXPECT_THAT(refusal(file), HasSubstr("appended"));
  write_file(file, llmc_of({1}, 20240522));
  EXPECT_THAT(refusal(file), HasSubstr("20240522"));
  write_file(file, llmc_of({1}, 20240520, 2));
  EXPECT_THAT(refusal(file), HasSubstr("version 1"));
  std::string negative = good;
  const int32_t count = -1;
  negative.replace(8, 4, reinterpret_cast<const char*>(&count), 4);
  write_file(file, negative);
  EXPECT_THAT(refusal(file), HasSubstr("-1 tokens"));
  write_file(file, llmc_of({1, 300}));
  EXPECT_THAT(refusal(file), HasSubstr("300 in place 1"));  // more than the tokenizer has
}

TEST_F(TokenFiles, RefusesBadMegatronFiles) {
  const std::vector<std::vector<int>> sequences = {{1, 2, 3}, {4, 5}};
  const auto idx = folder_ / "x.idx";
  write_megatron("x", sequences, {0, 1, 2});
  const std::string good = read_file(idx), bin = read_file(folder_ / "x.bin");
  EXPECT_EQ(read(idx), (TokenDocuments{{1, 2, 3}, {4, 5}}));
  const auto with = [&](size_t at, auto number) {
    std::string changed = good;
    changed.replace(at, sizeof number, reinterpret_cast<const char*>(&number), sizeof number);
    write_file(idx, changed);
    return refusal(idx);
  };
  EXPECT_THAT(with(0, 'X'), HasSubstr("MMIDIDX"));
  EXPECT_THAT(with(9, uint64_t{2}), HasSubstr("version 1"));
  EXPECT_THAT(with(17, uint8_t{7}), HasSubstr("floating-point"));
  EXPECT_THAT(with(17, uint8_t{77}), HasSubstr("code 77"));
  // offsets were of tokens of two bytes
  EXPECT_THAT(with(17, uint8_t{4}), HasSubstr("behind the one before"));
  EXPECT_THAT(with(18, uint64_t{3}), HasSubstr("truncated"));
  EXPECT_THAT(with(18, ~uint64_t{0}), HasSubstr("sensible"));
  EXPECT_THAT(with(34, int32_t{-3}), HasSubstr("at least 0"));
  EXPECT_THAT(with(42, int64_t{2}), HasSubstr("sequence 0 at byte 0"));
  EXPECT_THAT(with(50, int64_t{0}), HasSubstr("sequence 1 at byte 6"));  // overlaps the first
  EXPECT_THAT(with(58, int64_t{1}), HasSubstr("documents in order"));
  EXPECT_THAT(with(66, int64_t{5}), HasSubstr("documents in order"));
  EXPECT_THAT(with(74, int64_t{1}), HasSubstr("end at sequence 2"));
  write_file(idx, good.substr(0, 20));
  EXPECT_THAT(refusal(idx), HasSubstr("header of 34"));
  write_file(idx, good.substr(0, good.size() - 8));
  EXPECT_THAT(refusal(idx), HasSubstr("truncated"));
  write_file(idx, good);
  write_file(folder_ / "x.bin", bin.substr(0, bin.size() - 2));
  EXPECT_THAT(refusal(idx), HasSubstr("one of the two files"));
  std::filesystem::remove(folder_ / "x.bin");
  EXPECT_THAT(refusal(idx), HasSubstr("no such file"));
}

// By hand: the tokenizer of bytes makes every token one byte.
TEST_F(TokenFiles, ArePreparedOnceAndTrainedOn) {
  std::vector<std::vector<int>> sequences;
  std::vector<int64_t> ends = {0};
  for (int d = 0; d < 60; ++d) {
    sequences.push_back({'a' + d % 26, 'b', 'c' + d / 26, 256});
    ends.push_back(d + 1);
  }
  write_megatron("tokens/part", sequences, ends);
  write_file(folder_ / "text/a.txt", "some text of the usual kind");
  recipe::DataOptions options;
  options.source = {(folder_ / "text").string(), (folder_ / "tokens").string()};
  options.tokenizer = "bytes";
  options.held_out_percent = 20;
  const RunData first = open_run_data(options, {}, folder_ / "cache");
  ASSERT_EQ(first.sources.size(), 2u);
  EXPECT_FALSE(first.all_text());
  const PreparedSource& tokens = first.sources[1];
  EXPECT_EQ(tokens.source, (folder_ / "tokens").string());
  EXPECT_EQ(tokens.train.documents() + tokens.held_out.documents(), 60);
  EXPECT_GT(tokens.held_out.documents(), 0);
  EXPECT_EQ(tokens.train.text_bytes(), 3 * tokens.train.documents());
  std::set<std::string> texts;
  for (const TokenDataset* side : {&tokens.train, &tokens.held_out}) {
    for (int64_t d = 0; d < side->documents(); ++d) texts.insert(text_of(*side, d));
  }
  for (const auto& sequence : sequences)
    EXPECT_TRUE(texts.contains(
        {static_cast<char>(sequence[0]), static_cast<char>(sequence[1]), static_cast<char>(sequence[2])}));
  EXPECT_FALSE(tokens.reused);
  const RunData second = open_run_data(options, {}, folder_ / "cache");
  EXPECT_TRUE(second.sources[1].reused);
  EXPECT_EQ(second.sources[1].train.fingerprint(), tokens.train.fingerprint());
  // Tokens alone, and as what is evaluated on.
  options.source = {(folder_ / "tokens" / "part.idx").string()};
  EXPECT_GT(open_run_data(options, {}, folder_ / "cache").train()[0]->documents(), 0);
  options.source = {(folder_ / "text").string()};
  options.validation = {(folder_ / "tokens").string()};
  const RunData validated = open_run_data(options, {}, folder_ / "cache");
  EXPECT_EQ(validated.sources[1].train.documents(), 0);
  EXPECT_EQ(validated.sources[1].held_out.documents(), 60);
  options.tokenizer = "train";
  EXPECT_EQ(error_of([&] { open_run_data(options, {}, folder_ / "cache"); }).code(), ExitCode::kUsage);
}

// As a pipeline leaves them that writes the same number of other tokens and sets times back.
TEST_F(TokenFiles, OthersOfTheSameNameSizeAndTimeArePreparedAnew) {
  const auto file = folder_ / "tokens/part.bin";
  write_megatron("tokens/part", {{'a', 'b', 'c', 256}, {'d', 'e', 'f', 256}}, {0, 1, 2});
  const auto written = std::filesystem::last_write_time(file);
  const auto prepared = [&] {
    return prepare_tokens({folder_ / "tokens", 0}, Tokenizer::bytes(), folder_ / "cache");
  };
  EXPECT_FALSE(prepared().reused);
  EXPECT_TRUE(prepared().reused);
  write_file(file, bin_of<uint16_t>({{'a', 'b', 'c', 256}, {'d', 'x', 'f', 256}}));
  std::filesystem::last_write_time(file, written);
  const PreparedSource other = prepared();
  EXPECT_FALSE(other.reused);
  EXPECT_EQ(text_of(other.train, 1), "dxf");
}

// Llama 3's: <|begin_of_text|> in front of each document, and nothing behind it; a file that is full ends
// within one.
constexpr const char* kLlama3Like = R"({"version": "1.0", "added_tokens": [
    {"id": 3, "content": "<|begin_of_text|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 4, "content": "<|end_of_text|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
    "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
    "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}})";

TEST_F(TokenFiles, OfLlama3AreCutWhereTextsBegin) {
  const Tokenizer tokenizer = Tokenizer::from_json(kLlama3Like, "test");
  write_file(folder_ / "t/0.bin", llmc_of({3, 0, 1, 3, 2, 3, 1, 1}, 20240801, 7));
  write_file(folder_ / "t/1.bin", llmc_of({1, 2, 3, 0, 0}, 20240801, 7));  // goes on within a document
  const PreparedSource prepared = prepare_tokens({folder_ / "t", 0}, tokenizer, folder_ / "cache");
  std::vector<int64_t> lengths = prepared.train.lengths();
  EXPECT_THAT(lengths, ElementsAre(2, 1, 2, 2, 2));
  // Nothing tells documents apart: neither what the first file begins with, nor the tokenizer's end of one.
  write_file(folder_ / "bad/0.bin", llmc_of({0, 1, 3, 2}, 20240801, 7));
  const Error error = error_of([&] { prepare_tokens({folder_ / "bad", 0}, tokenizer, folder_ / "cache"); });
  EXPECT_EQ(error.code(), ExitCode::kData);
  EXPECT_THAT(error.what(), HasSubstr("<|end_of_text|> (4)"));
}

// docs/reference/recipe.md: "what is in them is never trained on".
TEST_F(TokenFiles, DocumentsOfValidationAreNotTrainedOn) {
  const auto shard = [](int first, int last) {
    std::vector<int> tokens;
    for (int d = first; d < last; ++d) tokens.insert(tokens.end(), {256, 'a' + d, 'b'});
    return llmc_of(tokens);
  };
  write_file(folder_ / "train/0.bin", shard(0, 20));
  write_file(folder_ / "val/0.bin", shard(15, 18));
  write_file(folder_ / "text/a.txt", "ab");  // the first of them, as text
  recipe::DataOptions options;
  options.tokenizer = "bytes";
  options.source = {(folder_ / "train").string()};
  options.validation = {(folder_ / "val").string(), (folder_ / "text").string()};
  const RunData data = open_run_data(options, {}, folder_ / "cache");
  ASSERT_EQ(data.sources.size(), 3u);
  EXPECT_EQ(data.sources[0].train.documents(), 16);
  EXPECT_EQ(data.sources[0].counts.copies, 4);
  EXPECT_EQ(data.sources[1].held_out.documents(), 3);
  std::set<std::string> trained;
  for (int64_t d = 0; d < 16; ++d) trained.insert(text_of(data.sources[0].train, d));
  for (const char* held : {"ab", "pb", "qb", "rb"}) EXPECT_FALSE(trained.contains(held)) << held;
  // Another validation text is another preparation.
  options.validation = {(folder_ / "text").string()};
  EXPECT_EQ(open_run_data(options, {}, folder_ / "cache").sources[0].train.documents(), 19);
}

TEST_F(TokenFiles, LinkedFoldersAreReadToo) {
  write_file(folder_ / "elsewhere/a.bin", llmc_of({256, 1}));
  std::filesystem::create_directories(folder_ / "t");
  std::filesystem::create_directory_symlink("../elsewhere", folder_ / "t/part");
  EXPECT_TRUE(names_token_files(folder_ / "t"));
  EXPECT_EQ(read(folder_ / "t"), (TokenDocuments{{1}}));
}

}  // namespace
}  // namespace longhaul::data
