// Token shards: files of token ids with the documents from which they came (docs/formats/token-shards.md). A
// shard is written once from front to back in bounded memory (16 bytes per document of the shard), renamed
// into place when it is complete, and then read through a memory map.
//
// Every MiB has its own checksum, which is checked when the block is first used, so that a flipped bit is
// found anywhere and opening costs nothing. Every refusal is kData (65) and names the file. Several threads
// may read a TokenShard.
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

// 1: every token counts in the loss; 2: documents may have segments that weigh more, less or nothing. A shard
// without such a document is written as 1.
inline constexpr uint32_t kShardVersion = 1, kWeighedShardVersion = 2;

// A run of a document's tokens and what each of them weighs in the loss as a label, 0 or more.
struct LossSegment {
  int64_t end = 0;  // tokens of the document up to its end
  float weight = 1;
  bool operator==(const LossSegment&) const = default;
};

inline constexpr int32_t kWholeDocuments = -1;

// ShardIdentity: the properties that all shards of a dataset share.
struct ShardIdentity {
  std::string tokenizer_sha256;  // 64 hexadecimal digits
  // 64 hexadecimal digits: the corpus's key with the options that made the tokens
  std::string preparation;
  int64_t vocabulary = 0;  // ids are below it; it decides between 2 and 4 bytes per token
  int32_t separator = 0;   // id of the end-of-document token; not stored between documents
  // Id of the token before a document: the separator or a template's first token; not stored either.
  // kWholeDocuments: the documents are whole.
  int32_t begin = 0;
  // A whole document brings its own first and last token: nothing is put before or after it, its first token
  // is no label, and packing does not cut it where it fits into a row. Conversations are such documents.
  bool whole() const { return begin == kWholeDocuments; }
  bool operator==(const ShardIdentity&) const = default;
};

struct ShardHeader {
  ShardIdentity identity;
  int64_t tokens = 0, documents = 0;
  int64_t text_bytes = 0;  // bytes of the tokens' text
  int64_t segments = 0;    // of all documents; 0: every token weighs 1
  int32_t token_bytes = 2;
  int64_t file_bytes = 0;
  uint64_t blocks_checksum = 0;  // xxh3 of the table of block checksums: one number for the whole content
};

// Checks magic, version, the header's checksum and that all sizes add up to file_bytes. `where` is for
// errors.
ShardHeader parse_shard_header(std::span<const std::byte> header, int64_t file_bytes,
                               const std::string& where);
inline constexpr int64_t kShardHeaderBytes = 256;
inline constexpr int64_t kShardBlockBytes = 1 << 20;

class ShardWriter {
 public:
  ShardWriter(std::filesystem::path path, ShardIdentity identity);  // writes path.partial
  ShardWriter(ShardWriter&&) = default;
  ~ShardWriter();  // removes an unfinished file

  void append(std::span<const int32_t> tokens);
  // segments: those of the document, whose ends ascend up to its length; none: every token weighs 1.
  void end_document(int64_t text_bytes, std::span<const LossSegment> segments = {});
  ShardHeader finish();  // header, sync, rename to path

  int64_t tokens() const { return header_.tokens; }
  int64_t documents() const { return header_.documents; }

 private:
  void put(std::span<const std::byte> data);
  void put_segments();
  void flush_block();

  std::filesystem::path path_, partial_;
  ShardHeader header_;
  File file_;
  std::vector<std::byte> block_;  // not yet written; less than kShardBlockBytes
  std::vector<uint64_t> checksums_;
  std::vector<int64_t> ends_;  // per document: tokens of the shard up to its end
  std::vector<int64_t> text_bytes_;
  std::vector<int64_t> segment_ends_;  // per document: segments of the shard up to its end
  std::vector<LossSegment> segments_;  // ends counted in the document
};

class TokenShard {
 public:
  // `expected` null: any identity. A different tokenizer or preparation is an error.
  static TokenShard open(const std::filesystem::path& path, const ShardIdentity* expected = nullptr);

  const ShardHeader& header() const { return header_; }
  int64_t tokens() const { return header_.tokens; }
  int64_t documents() const { return header_.documents; }
  std::span<const int64_t> ends() const;        // [documents]
  std::span<const int64_t> text_bytes() const;  // [documents]
  // The segments of a document; none: every token of it weighs 1.
  std::vector<LossSegment> segments(int64_t document) const;
  // Tokens first … first + into.size() of the shard, widened.
  void read(int64_t first, std::span<int64_t> into) const;
  void verify() const;  // checks every block

 private:
  template <class Number>
  std::span<const Number> table(int64_t offset, int64_t count) const;
  void check_segments() const;
  std::span<const std::byte> checked(int64_t offset, int64_t length) const;
  void check_block(int64_t block) const;

  ShardHeader header_;
  MappedFile file_;
  std::unique_ptr<std::atomic<bool>[]> block_checked_;
};

}  // namespace longhaul::data
