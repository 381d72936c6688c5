#include "data/prepare_tokens.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path_text.h"
#include "base/progress.h"
#include "base/text.h"
#include "data/cache.h"
#include "data/encoder.h"
#include "data/token_files.h"

namespace longhaul::data {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kTokensOfShard = 64 << 20, kDocumentsOfShard = 4 << 20;
constexpr std::array<const char*, 2> kFolderOfSide = {"train", "held-out"};  // by Split

std::string key_of(const std::vector<TokenFile>& files, int64_t held_out_percent, const Encoder& encoder) {
  std::string text = fmt::format("longhaul token files 1 {} {} {} {} {}\n", held_out_percent, encoder.sha256, encoder.vocabulary,
                                 encoder.marks(), kShardVersion);
  for (const TokenFile& file : files)
    text += fmt::format("{} {} {} {} {}\n", file.name.size(), file.name, file.bytes, file.modified_ns, file.index.empty());
  return sha256_hex(text);
}

// The shards of one side.
class Side {
 public:
  Side(fs::path folder, ShardIdentity identity) : folder_(std::move(folder)), identity_(std::move(identity)) {
    make_folders(folder_);
    for (const fs::path& left : list_files(folder_)) fs::remove(left);  // of an attempt that did not end
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
    shards_.push_back(
        {fmt::format("shard-{:05}.tokens", shards_.size()), header.documents, header.tokens, header.text_bytes, header.blocks_checksum});
    open_.reset();
  }
  const std::vector<ShardEntry>& shards() const { return shards_; }

 private:
  fs::path folder_;
  ShardIdentity identity_;
  std::optional<ShardWriter> open_;
  std::vector<ShardEntry> shards_;
};

void make(const fs::path& folder, const std::vector<TokenFile>& files, const TokenSource& source, const Tokenizer& tokenizer,
          const ShardIdentity& identity) {
  std::array<Side, 2> sides{Side(folder / kFolderOfSide[0], identity), Side(folder / kFolderOfSide[1], identity)};
  int64_t bytes = 0;
  for (const TokenFile& file : files) bytes += file.bytes;
  Progress progress("reading " + source.path.filename().string(), bytes, Progress::Unit::kBytes);
  CorpusCounts counts;
  for (const TokenFile& file : files) {
    read_token_file(file, identity.vocabulary, identity.separator, [&](std::span<const int32_t> tokens) {
      if (identity.begin != identity.separator && tokens.front() == identity.begin) tokens = tokens.subspan(1);  // it is not stored
      if (tokens.empty()) return;
      const bool held_out = xxh3(std::as_bytes(tokens)) % 100 < static_cast<uint64_t>(source.held_out_percent);
      const auto text_bytes = static_cast<int64_t>(tokenizer.decode(tokens).size());
      sides[held_out ? 1 : 0].add(tokens, text_bytes);
      ++counts.documents;
      counts.bytes += text_bytes;
    });
    progress.advance(file.bytes);
  }
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
  const ShardIdentity identity{encoder.sha256, key_of(files, source.held_out_percent, encoder), encoder.vocabulary, encoder.separator,
                               encoder.begin_id()};
  const fs::path folder = cache / ("tokens-" + identity.preparation.substr(0, 16));
  const auto lock = lock_preparation(folder);
  const bool there = fs::exists(folder / "dataset.json");
  if (!there) make(folder, files, source, tokenizer, identity);
  PreparedSource prepared = PreparedSource::open(folder, &identity);
  prepared.reused = there;
  mark_used(folder / "dataset.json");
  log_info("{} {}: {}, {} for training, {} held out ({})", there ? "reusing the tokens of" : "took the tokens of", prepared.source,
           counted(prepared.counts.documents, "document"), counted(prepared.train.tokens(), "token"),
           count_text(prepared.held_out.tokens()), counted(prepared.held_out.documents(), "document"));
  if (prepared.train.documents() + prepared.held_out.documents() > 0 && (prepared.train.documents() > 0 || source.held_out_percent == 100))
    return prepared;
  throw Error({.code = ExitCode::kData,
               .what = "the token files leave nothing to train on",
               .expected = "at least one document that is not empty and not held out",
               .found = counted(prepared.held_out.documents(), "document") + " held out",
               .where = prepared.source,
               .hint = "name more files, or lower data.held_out_percent"});
}

}  // namespace longhaul::data
