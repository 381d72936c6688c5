// TokenDataset: the shards of one side (train or held out) of one prepared source, as one list of documents.
// It is memory-mapped: opening needs no memory, and a document's tokens are found in O(log shards). Documents
// keep the order of the corpus. Immutable; several threads may read it.
//
// PreparedSource: the folder that `prepare` makes: dataset.json (docs/formats/token-shards.md), train/ and
// held-out/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/corpus/corpus.h"
#include "data/tokens/shard.h"

namespace longhaul::data {

struct ShardEntry {  // a line of the manifest
  std::string file;
  int64_t documents = 0, tokens = 0, text_bytes = 0;
  uint64_t checksum = 0;  // ShardHeader::blocks_checksum: detects another file with the same name
};

class TokenDataset {
 public:
  static TokenDataset open(const std::filesystem::path& folder, const std::vector<ShardEntry>& shards,
                           const ShardIdentity& identity);

  int64_t documents() const { return documents_; }
  int64_t tokens() const { return tokens_; }
  int64_t text_bytes() const { return text_bytes_; }
  int64_t shards() const { return static_cast<int64_t>(shards_.size()); }
  const ShardIdentity& identity() const { return identity_; }
  // Hash of the content: 64 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  const std::filesystem::path& folder() const { return folder_; }

  int64_t length(int64_t document) const;  // tokens, without separator
  // The labels of a document: each of its tokens and its end; for a whole document (ShardIdentity) each token
  // but the first.
  int64_t labels(int64_t document) const { return length(document) + labels_more(); }
  int64_t labels() const { return tokens_ + labels_more() * documents_; }  // of all documents
  // labels of a document beyond its tokens
  int64_t labels_more() const { return identity_.whole() ? -1 : 1; }
  int64_t text_bytes(int64_t document) const;
  // Tokens first … of the document.
  void read(int64_t document, int64_t first, std::span<int64_t> into) const;
  // Whether any document has tokens that weigh something else than 1 in the loss.
  bool weighted() const;
  // What labels first … of the document weigh in the loss: label k is token k, and the one after the last
  // token is the document's end, which weighs as the token before it. Of a whole document label k is token k
  // + 1.
  void read_weights(int64_t document, int64_t first, std::span<float> into) const;
  // The segments of which read_weights() tells; none: every token weighs 1.
  std::vector<LossSegment> segments(int64_t document) const;
  // Labels of all documents, their ends included, that weigh something.
  int64_t counted_labels() const;
  // Lengths of all documents in order; computed at each call (8 bytes per document).
  std::vector<int64_t> lengths() const;
  void verify() const;  // every block of every shard

 private:
  struct Place {
    const TokenShard* shard;
    int64_t document;
  };
  Place place(int64_t document) const;

  std::filesystem::path folder_;
  ShardIdentity identity_;
  std::string fingerprint_;
  std::vector<TokenShard> shards_;
  std::vector<int64_t> first_document_;  // first document of each shard
  int64_t documents_ = 0, tokens_ = 0, text_bytes_ = 0;
};

struct PreparedSource {
  std::string source;
  std::filesystem::path folder;
  ShardIdentity identity;
  CorpusCounts counts;
  std::vector<LeftOutFile> not_text;  // the first kNamedFiles of them
  TokenDataset train, held_out;       // of a validation source, `train` is empty
  bool reused = false;

  static PreparedSource open(const std::filesystem::path& folder, const ShardIdentity* expected = nullptr);
};

inline constexpr int kDatasetVersion = 1;
inline constexpr size_t kNamedFiles = 100;

// DataPart: what happened to the documents, for tables: "training", "held out", then those that were left
// out, if any.
struct DataPart {
  std::string name;
  int64_t documents = 0, bytes = 0, tokens = 0, shards = 0;
};
std::vector<DataPart> parts_of(std::span<const PreparedSource> sources);

nlohmann::json to_json(const CorpusCounts& counts);
CorpusCounts counts_from_json(const nlohmann::json& json);
nlohmann::json to_json(const std::vector<ShardEntry>& shards);
std::vector<ShardEntry> shards_from_json(const nlohmann::json& json);
// Writes a JSON file atomically with a "checksum" over the rest; reading refuses bad JSON and a wrong
// checksum (kData).
void write_checked_json(const std::filesystem::path& path, nlohmann::json content);
nlohmann::json read_checked_json(const std::filesystem::path& path);

}  // namespace longhaul::data
