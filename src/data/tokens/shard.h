// Token shards: files of token ids with the documents they came from (docs/formats/token-shards.md). Written once from front to
// back in bounded memory (16 bytes per document of the shard), renamed into place whole, then read through a memory map.
//
// Every MiB has its own checksum, which is compared when the block is first used, so a flipped bit is found wherever it is and
// opening costs nothing. Every refusal is kData (65) and names the file. TokenShard may be read from several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace longhaul::data {

inline constexpr uint32_t kShardVersion = 1;

// What all shards of a dataset share.
struct ShardIdentity {
  std::string tokenizer_sha256;  // 64 hexadecimal digits
  std::string preparation;       // likewise: the corpus's key with the options that made the tokens
  int64_t vocabulary = 0;        // ids are below it; decides between 2 and 4 bytes a token
  int32_t separator = 0;         // id of the end-of-document token; not stored between documents
  int32_t begin = 0;             // id of the token before a document, likewise: the separator or a template's first
  bool operator==(const ShardIdentity&) const = default;
};

struct ShardHeader {
  ShardIdentity identity;
  int64_t tokens = 0, documents = 0;
  int64_t text_bytes = 0;  // that the tokens stand for
  int32_t token_bytes = 2;
  int64_t file_bytes = 0;
  uint64_t blocks_checksum = 0;  // xxh3 of the table of block checksums: one number for all the content
};

// Checks magic, version, its own checksum and that all sizes add up to file_bytes. `where` is for errors.
ShardHeader parse_shard_header(std::span<const std::byte> header, int64_t file_bytes, const std::string& where);
inline constexpr int64_t kShardHeaderBytes = 256;
inline constexpr int64_t kShardBlockBytes = 1 << 20;

class ShardWriter {
 public:
  ShardWriter(std::filesystem::path path, ShardIdentity identity);  // writes path.partial
  ShardWriter(ShardWriter&&) = default;
  ~ShardWriter();  // removes what was not finished

  void append(std::span<const int32_t> tokens);
  void end_document(int64_t text_bytes);
  ShardHeader finish();  // header, sync, rename to path

  int64_t tokens() const { return header_.tokens; }
  int64_t documents() const { return header_.documents; }

 private:
  void put(std::span<const std::byte> data);
  void flush_block();

  std::filesystem::path path_, partial_;
  ShardHeader header_;
  File file_;
  std::vector<std::byte> block_;  // not yet written, less than kShardBlockBytes
  std::vector<uint64_t> checksums_;
  std::vector<int64_t> ends_;  // per document: tokens of the shard up to its end
  std::vector<int64_t> text_bytes_;
};

class TokenShard {
 public:
  // `expected` empty: any identity. Wrong tokenizer or preparation: error.
  static TokenShard open(const std::filesystem::path& path, const ShardIdentity* expected = nullptr);

  const ShardHeader& header() const { return header_; }
  int64_t tokens() const { return header_.tokens; }
  int64_t documents() const { return header_.documents; }
  std::span<const int64_t> ends() const;        // [documents]
  std::span<const int64_t> text_bytes() const;  // [documents]
  // Tokens first … first + into.size() of the shard, widened.
  void read(int64_t first, std::span<int64_t> into) const;
  void verify() const;  // every block

 private:
  std::span<const std::byte> checked(int64_t offset, int64_t length) const;
  void check_block(int64_t block) const;

  ShardHeader header_;
  MappedFile file_;
  std::unique_ptr<std::atomic<bool>[]> block_checked_;
};

}  // namespace longhaul::data
