#include "data/tokens/prepare_tokens.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "data/corpus/content_sample.h"
#include "data/corpus/token_files.h"
#include "data/tokens/cache.h"
#include "data/tokens/encoder.h"

namespace longhaul::data {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kTokensOfShard = 64 << 20, kDocumentsOfShard = 4 << 20;
constexpr std::array<const char*, 2> kFolderOfSide = {"train", "held-out"};  // by Split

// The tokens at which documents are cut: the tokenizer's end-of-document token, and the first token of
// llm.c's files, which is a special token of their tokenizer (Llama 3's begins a text, and nothing ends one).
std::set<int32_t> separators_of(const std::vector<TokenFile>& files, const Tokenizer& tokenizer,
                                const Encoder& encoder) {
  std::set<int32_t> separators{encoder.separator};
  const auto first = first_token(files);
  if (first && *first >= 0 && *first < encoder.vocabulary &&
      tokenizer.is_special(static_cast<int32_t>(*first)))
    separators.insert(static_cast<int32_t>(*first));
  return separators;
}

std::string key_of(const std::vector<TokenFile>& files, const TokenSource& source,
                   const std::set<int32_t>& separators, const Encoder& encoder) {
  std::string text =
      fmt::format("longhaul token files 2 {} {} {} {} {} {}\n", source.held_out_percent, encoder.sha256,
                  encoder.vocabulary, fmt::join(separators, ","), encoder.marks(), kShardVersion);
  std::vector<fs::path> paths;
  for (const TokenFile& file : files) {
    text += fmt::format("{} {} {} {} {}\n", file.name.size(), file.name, file.bytes, file.modified_ns,
                        file.index.empty());
    paths.push_back(file.path);
  }
  text += content_sample(paths) + "\n";
  for (const TokenDataset* dataset : source.validation) text += dataset->fingerprint() + "\n";
  return sha256_hex(text);
}

uint64_t hash_of(std::span<const int32_t> tokens) { return xxh3(std::as_bytes(tokens)); }

// 8 bytes per document. With 10^9 training documents and 10^7 of validation, one is left out wrongly with a
// probability of 1 in 2,000.
std::unordered_set<uint64_t> hashes_of(const std::vector<const TokenDataset*>& datasets) {
  std::unordered_set<uint64_t> hashes;
  std::vector<int64_t> read;
  std::vector<int32_t> tokens;
  for (const TokenDataset* dataset : datasets) {
    for (int64_t d = 0; d < dataset->documents(); ++d) {
      read.resize(static_cast<size_t>(dataset->length(d)));
      dataset->read(d, 0, read);
      tokens.assign(read.begin(), read.end());
      hashes.insert(hash_of(tokens));
    }
  }
  return hashes;
}

// The shards of one side.
class Side {
 public:
  Side(fs::path folder, ShardIdentity identity) : folder_(std::move(folder)), identity_(std::move(identity)) {
    make_folders(folder_);
    // The remains of an attempt that did not end.
    for (const fs::path& left : list_files(folder_)) fs::remove(left);
  }
  void add(std::span<const int32_t> tokens, int64_t text_bytes) {
    if (!open_) open_.emplace(folder_ / fmt::format("shard-{:05}.tokens", shards_.size()), identity_);
    open_->append(tokens);
    open_->end_document(text_bytes);
    if (open_->tokens() >= kTokensOfShard || open_->documents() >= kDocumentsOfShard) finish();
  }
  void finish() {
    if (!open_) return;
    const ShardHeader header = open_->finish();
    shards_.push_back({fmt::format("shard-{:05}.tokens", shards_.size()), header.documents, header.tokens,
                       header.text_bytes, header.blocks_checksum});
    open_.reset();
  }
  const std::vector<ShardEntry>& shards() const { return shards_; }

 private:
  fs::path folder_;
  ShardIdentity identity_;
  std::optional<ShardWriter> open_;
  std::vector<ShardEntry> shards_;
};

// The index of a Megatron-LM file gives its documents, whether there is a separator between them or not.
void require_documents(const std::vector<TokenFile>& files, int64_t separators_met, const TokenSource& source,
                       const Tokenizer& tokenizer, int32_t separator) {
  if (separators_met > 0 || files.empty() || !files.front().index.empty()) return;
  throw Error(
      {.code = ExitCode::kData,
       .what = "no document begins in these token files",
       .expected = fmt::format("a special token in front of the first document, or {} ({}) between them",
                               tokenizer.token_of(separator).value_or("the end of a document"), separator),
       .found = "neither, in " + counted(static_cast<int64_t>(files.size()), "file"),
       .where = text_of_path(source.path),
       .hint = "data.tokenizer must be the tokenizer.json that made them, and the source must begin with "
               "their first file"});
}

void make(const fs::path& folder, const std::vector<TokenFile>& files, const TokenSource& source,
          const Tokenizer& tokenizer, const ShardIdentity& identity, const std::set<int32_t>& separators) {
  std::array<Side, 2> sides{Side(folder / kFolderOfSide[0], identity),
                            Side(folder / kFolderOfSide[1], identity)};
  const std::unordered_set<uint64_t> never_trained = hashes_of(source.validation);
  int64_t bytes = 0, separators_met = 0;
  for (const TokenFile& file : files) bytes += file.bytes;
  Progress progress("reading " + source.path.filename().string(), bytes, Progress::Unit::kBytes);
  CorpusCounts counts;
  for (const TokenFile& file : files) {
    separators_met +=
        read_token_file(file, identity.vocabulary, separators, [&](std::span<const int32_t> tokens) {
          // it is not stored
          if (identity.begin != identity.separator && tokens.front() == identity.begin)
            tokens = tokens.subspan(1);
          if (tokens.empty()) return;
          const uint64_t hash = hash_of(tokens);
          if (never_trained.contains(hash)) {
            ++counts.copies;
            return;
          }
          const bool held_out = hash % 100 < static_cast<uint64_t>(source.held_out_percent);
          const auto text_bytes = static_cast<int64_t>(tokenizer.decode(tokens).size());
          sides[held_out ? 1 : 0].add(tokens, text_bytes);
          ++counts.documents;
          counts.bytes += text_bytes;
        });
    progress.advance(file.bytes);
  }
  require_documents(files, separators_met, source, tokenizer, identity.separator);
  for (Side& side : sides) side.finish();
  write_checked_json(folder / "dataset.json", {{"format", "longhaul-token-dataset"},
                                               {"version", kDatasetVersion},
                                               {"source", text_of_path(source.path)},
                                               {"preparation", identity.preparation},
                                               {"tokenizer_sha256", identity.tokenizer_sha256},
                                               {"vocabulary", identity.vocabulary},
                                               {"separator", identity.separator},
                                               {"begin", identity.begin},
                                               {"counts", to_json(counts)},
                                               {"not_text", nlohmann::json::array()},
                                               {"train", to_json(sides[0].shards())},
                                               {"held_out", to_json(sides[1].shards())}});
}

}  // namespace

PreparedSource prepare_tokens(const TokenSource& source, const Tokenizer& tokenizer, const fs::path& cache) {
  const Encoder encoder = encoder_of(tokenizer);
  const std::vector<TokenFile> files = token_files(source.path);
  const std::set<int32_t> separators = separators_of(files, tokenizer, encoder);
  const ShardIdentity identity{encoder.sha256, key_of(files, source, separators, encoder), encoder.vocabulary,
                               encoder.separator, encoder.begin_id()};
  const fs::path folder = cache / ("tokens-" + identity.preparation.substr(0, 16));
  const auto lock = lock_preparation(folder);
  const bool there = fs::exists(folder / "dataset.json");
  if (!there) make(folder, files, source, tokenizer, identity, separators);
  PreparedSource prepared = PreparedSource::open(folder, &identity);
  prepared.reused = there;
  mark_used(folder / "dataset.json");
  const int64_t copies = prepared.counts.copies;
  log_info("{} {}: {}, {} for training, {} held out ({}){}",
           there ? "reusing the tokens of" : "took the tokens of", prepared.source,
           counted(prepared.counts.documents, "document"), counted(prepared.train.tokens(), "token"),
           count_text(prepared.held_out.tokens()), counted(prepared.held_out.documents(), "document"),
           copies > 0 ? fmt::format("; left out, in data.validation: {}", counted(copies, "document")) : "");
  if (prepared.train.documents() + prepared.held_out.documents() > 0 &&
      (prepared.train.documents() > 0 || source.held_out_percent == 100))
    return prepared;
  throw Error({.code = ExitCode::kData,
               .what = "the token files leave nothing to train on",
               .expected = "at least one document that is not empty, not held out and not in data.validation",
               .found = fmt::format("{} held out, {} in data.validation",
                                    counted(prepared.held_out.documents(), "document"), copies),
               .where = prepared.source,
               .hint = "name more files, or lower data.held_out_percent"});
}

}  // namespace longhaul::data
