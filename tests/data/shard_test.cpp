#include <fstream>

#include "data/support.h"
#include "data/tokens/dataset.h"

namespace longhaul::data {
namespace {

ShardIdentity identity_of(int64_t vocabulary) {
  return {sha256_hex("tokenizer"), sha256_hex("preparation"), vocabulary, 0};
}

std::vector<std::vector<int32_t>> sample_documents(int64_t vocabulary, int count) {
  std::vector<std::vector<int32_t>> documents;
  for (int d = 0; d < count; ++d) {
    std::vector<int32_t> ids;
    for (int i = 0; i < d * 37 % 5000; ++i)
      ids.push_back(static_cast<int32_t>((int64_t{d} * 7919 + i * 104729) % vocabulary));
    documents.push_back(ids);
  }
  return documents;
}

void write_shard(const std::filesystem::path& path, int64_t vocabulary,
                 const std::vector<std::vector<int32_t>>& documents) {
  ShardWriter writer(path, identity_of(vocabulary));
  for (const auto& ids : documents) {
    const std::span all(ids);
    writer.append(all.first(ids.size() / 2));
    writer.append(all.subspan(ids.size() / 2));
    writer.end_document(static_cast<int64_t>(3 * ids.size()));
  }
  writer.finish();
}

TEST(TokenShard, KeepsTokensOfEitherWidth) {
  for (int64_t vocabulary : {int64_t{50257}, int64_t{65536}, int64_t{65537}, int64_t{200064}}) {
    TemporaryFolder folder;
    const auto documents = sample_documents(vocabulary, 700);
    write_shard(folder / "a.tokens", vocabulary, documents);
    EXPECT_FALSE(std::filesystem::exists(folder / "a.tokens.partial"));
    const ShardIdentity identity = identity_of(vocabulary);
    const TokenShard shard = TokenShard::open(folder / "a.tokens", &identity);
    EXPECT_EQ(shard.header().token_bytes, vocabulary <= 65536 ? 2 : 4);
    ASSERT_EQ(shard.documents(), 700);
    int64_t begin = 0;
    for (size_t d = 0; d < documents.size(); ++d) {
      ASSERT_EQ(shard.ends()[d] - begin, static_cast<int64_t>(documents[d].size()));
      EXPECT_EQ(shard.text_bytes()[d], static_cast<int64_t>(3 * documents[d].size()));
      std::vector<int64_t> ids(documents[d].size());
      shard.read(begin, ids);
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), documents[d].begin()));
      begin = shard.ends()[d];
    }
    shard.verify();
  }
}

TEST(TokenShard, EveryFlippedBitIsFound) {
  TemporaryFolder folder;
  const auto path = folder / "a.tokens";
  write_shard(path, 70000, sample_documents(70000, 300));  // more than one block
  const std::string good = read_file(path);
  ASSERT_GT(good.size(), size_t{1} << 21);
  for (size_t at = 0; at < good.size(); at += at < 300 || at > good.size() - 64 ? 1 : 65537) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    write_file(path, bad);
    const Error error = error_of([&] { TokenShard::open(path).verify(); });
    EXPECT_EQ(error.code(), ExitCode::kData) << at;
    EXPECT_EQ(error.fields().where, path.string()) << at;
  }
}

TEST(TokenShard, FlippedBitIsFoundWhenItsTokensAreRead) {
  TemporaryFolder folder;
  const auto path = folder / "a.tokens";
  write_shard(path, 70000, sample_documents(70000, 300));
  std::string bad = read_file(path);
  bad[256 + (3 << 19)] ^= 4;  // in the second block
  write_file(path, bad);
  const TokenShard shard = TokenShard::open(path);
  std::vector<int64_t> ids(10);
  shard.read(0, ids);
  EXPECT_EQ(error_of([&] { shard.read((3 << 19) / 4 + 1000, ids); }).code(), ExitCode::kData);
}

TEST(TokenShard, TruncatedLongerAndForeignFilesAreRefused) {
  TemporaryFolder folder;
  const auto path = folder / "a.tokens";
  write_shard(path, 1000, sample_documents(1000, 40));
  const std::string good = read_file(path);
  for (size_t size :
       {size_t{0}, size_t{7}, size_t{255}, size_t{256}, size_t{1000}, good.size() - 8, good.size() - 1}) {
    write_file(path, good.substr(0, size));
    EXPECT_EQ(error_of([&] { TokenShard::open(path); }).code(), ExitCode::kData) << size;
  }
  write_file(path, good + "x");
  EXPECT_EQ(error_of([&] { TokenShard::open(path); }).code(), ExitCode::kData);
  std::string other_version = good;
  other_version[8] = 3;
  write_file(path, other_version);
  EXPECT_NE(std::string(error_of([&] { TokenShard::open(path); }).what()).find("version 3"),
            std::string::npos);
  write_file(path, good);
  ShardIdentity other = identity_of(1000);
  other.tokenizer_sha256 = sha256_hex("another");
  EXPECT_NE(std::string(error_of([&] { TokenShard::open(path, &other); }).what()).find("tokenizer"),
            std::string::npos);
  other = identity_of(1000);
  other.preparation = sha256_hex("another");
  EXPECT_EQ(error_of([&] { TokenShard::open(path, &other); }).code(), ExitCode::kData);
}

TEST(TokenShard, IdOutsideTheVocabularyIsRefused) {
  TemporaryFolder folder;
  ShardWriter writer(folder / "a.tokens", identity_of(100));
  EXPECT_EQ(error_of([&] { writer.append(std::vector<int32_t>{1, 100}); }).code(), ExitCode::kData);
  EXPECT_EQ(error_of([&] { writer.append(std::vector<int32_t>{-1}); }).code(), ExitCode::kData);
}

TEST(TokenShard, EmptyShard) {
  TemporaryFolder folder;
  write_shard(folder / "a.tokens", 100, {});
  EXPECT_EQ(TokenShard::open(folder / "a.tokens").documents(), 0);
}

}  // namespace
}  // namespace longhaul::data
