#include "data/tokens/prepare.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "data/tokens/cache.h"

namespace longhaul::data {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::array<const char*, 2> kSideFolder = {"train", "held-out"};  // by Split
constexpr size_t kFilesInLog = 3;
constexpr int64_t kShardDocuments = 4 << 20;  // bounds the tables of an open shard at 64 MiB

struct State {
  CorpusPosition next;
  CorpusCounts counts;
  std::array<std::vector<ShardEntry>, 2> shards;
};

// Takes documents from the corpus, encodes them, and keeps the open shards of both sides.
class Preparation final : public CorpusSink {
 public:
  Preparation(fs::path folder, ShardIdentity identity, const Encoder& encoder, const PrepareOptions& options)
      : folder_(std::move(folder)), identity_(std::move(identity)), encoder_(encoder), options_(options) {}

  const State& state() const { return state_; }

  // Continues an earlier attempt: files that its state file does not list were not committed and are removed.
  void resume() {
    const fs::path path = folder_ / "state.json";
    if (fs::exists(path)) {
      try {
        const json saved = read_checked_json(path);
        if (saved.at("preparation") == identity_.preparation &&
            saved.at("tokenizer_sha256") == identity_.tokenizer_sha256) {
          state_.next = {saved.at("file"), saved.at("line"), saved.at("part")};
          state_.counts = counts_from_json(saved.at("counts"));
          for (size_t side = 0; side < 2; ++side)
            state_.shards[side] = shards_from_json(saved.at(kSideFolder[side]));
          for (size_t side = 0; side < 2; ++side)
            TokenDataset::open(folder_ / kSideFolder[side], state_.shards[side], identity_);
          log_info("going on with the preparation: {} tokenized already",
                   counted(state_.counts.documents, "document"));
        }
      } catch (const std::exception& problem) {
        log_warning("the interrupted preparation in {} cannot be continued and begins anew: {}",
                    folder_.string(), problem.what());
        state_ = {};
      }
    }
    for (size_t side = 0; side < 2; ++side) {
      make_folders(folder_ / kSideFolder[side]);
      for (const fs::path& file : list_files(folder_ / kSideFolder[side])) {
        const bool listed =
            std::any_of(state_.shards[side].begin(), state_.shards[side].end(),
                        [&](const ShardEntry& entry) { return entry.file == file.filename().string(); });
        if (!listed) fs::remove(file);
      }
    }
    written_ = {state_.counts, state_.next};
  }

  void begin(const DocumentInfo&, Split split) override {
    split_ = split;
    text_.clear();
    parts_.clear();
    in_parts_ = false;
    bytes_ = 0;
    long_ = nullptr;
  }

  // Neighbours of one weight are one part.
  void weight(float weight) override {
    in_parts_ = true;
    if (weight != (parts_.empty() ? 1 : parts_.back().weight)) parts_.push_back({text_.size(), weight});
  }

  void text(std::string_view chunk) override {
    bytes_ += static_cast<int64_t>(chunk.size());
    if (!long_) {
      text_ += chunk;
      if (static_cast<int64_t>(text_.size()) <= options_.long_document_bytes || in_parts_) return;
      encode_batch();  // earlier documents must be written before
      long_ = encoder_.piecewise();
      long_piece(text_, false);
      text_ = {};
      return;
    }
    long_piece(chunk, false);
  }

  void end(const CorpusCounts& counts, const CorpusPosition& after) override {
    if (long_) {
      long_piece({}, true);
      long_ = nullptr;
      finish_document(split_, bytes_, {counts, after});
      return;
    }
    batch_bytes_ += bytes_;
    batch_.push_back({split_, std::move(text_), std::move(parts_), {}, {}, {counts, after}});
    parts_ = {};
    text_ = {};
    if (batch_bytes_ >= options_.batch_bytes || batch_.size() >= 65536) encode_batch();
  }

  void finish(const CorpusCounts& counts, size_t files) {
    encode_batch();
    written_ = {counts, {files, 0}};
    commit();
  }

 private:
  struct Reached {
    CorpusCounts counts;
    CorpusPosition next;
  };
  struct Part {
    size_t begin;  // in the text
    float weight;
  };
  struct Waiting {
    Split split;
    std::string text;
    std::vector<Part> parts;  // none: all of the text weighs 1
    std::vector<int32_t> ids;
    std::vector<LossSegment> segments;
    Reached reached;
  };

  ShardWriter& writer(Split split) {
    auto& open = open_[static_cast<size_t>(split)];
    if (!open) {
      const auto side = static_cast<size_t>(split);
      open.emplace(
          folder_ / kSideFolder[side] / fmt::format("shard-{:05}.tokens", state_.shards[side].size()),
          identity_);
    }
    return *open;
  }

  void encode_batch() {
    parallel_for(0, static_cast<int64_t>(batch_.size()), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        Waiting& document = batch_[static_cast<size_t>(i)];
        if (document.parts.empty())
          encoder_.encode(document.text, document.ids);
        else
          encode_parts(document);
      }
    });
    for (Waiting& document : batch_) {
      writer(document.split).append(document.ids);
      finish_document(document.split, static_cast<int64_t>(document.text.size()), document.reached,
                      document.segments);
    }
    batch_.clear();
    batch_bytes_ = 0;
  }

  void encode_parts(Waiting& document) const {
    std::vector<Part> parts = document.parts;
    if (parts.front().begin > 0) parts.insert(parts.begin(), {0, 1.0f});
    std::erase_if(parts, [&](const Part& part) { return part.begin == document.text.size(); });
    for (size_t p = 0; p < parts.size(); ++p) {
      const bool last = p + 1 == parts.size();
      const size_t begin = parts[p].begin, end = last ? document.text.size() : parts[p + 1].begin;
      encoder_.encode_part(std::string_view(document.text).substr(begin, end - begin), {p == 0, last},
                           document.ids);
      document.segments.push_back({std::ssize(document.ids), parts[p].weight});
    }
  }

  void long_piece(std::string_view piece, bool last) {
    ids_.clear();
    long_(piece, last, ids_);
    writer(split_).append(ids_);
  }

  void finish_document(Split split, int64_t bytes, const Reached& reached,
                       std::span<const LossSegment> segments = {}) {
    writer(split).end_document(bytes, segments);
    written_ = reached;
    int64_t tokens = 0, documents = 0;
    for (const auto& open : open_) {
      tokens += open ? open->tokens() : 0;
      documents += open ? open->documents() : 0;
    }
    if (tokens >= options_.shard_tokens || documents >= kShardDocuments) commit();
  }

  // Both sides at once, so that the state is one place in the corpus.
  void commit() {
    for (size_t side = 0; side < 2; ++side) {
      if (!open_[side]) continue;
      const ShardHeader header = open_[side]->finish();
      state_.shards[side].push_back({fmt::format("shard-{:05}.tokens", state_.shards[side].size()),
                                     header.documents, header.tokens, header.text_bytes,
                                     header.blocks_checksum});
      open_[side].reset();
    }
    state_.counts = written_.counts;
    state_.next = written_.next;
    write_checked_json(folder_ / "state.json", {{"preparation", identity_.preparation},
                                                {"tokenizer_sha256", identity_.tokenizer_sha256},
                                                {"file", state_.next.file},
                                                {"line", state_.next.line},
                                                {"part", state_.next.part},
                                                {"counts", to_json(state_.counts)},
                                                {kSideFolder[0], to_json(state_.shards[0])},
                                                {kSideFolder[1], to_json(state_.shards[1])}});
    if (options_.after_commit) options_.after_commit();
  }

  fs::path folder_;
  ShardIdentity identity_;
  const Encoder& encoder_;
  const PrepareOptions& options_;
  State state_;
  Reached written_;
  std::array<std::optional<ShardWriter>, 2> open_;
  // The document being read.
  Split split_ = Split::kTrain;
  std::string text_;
  std::vector<Part> parts_;
  bool in_parts_ = false;
  int64_t bytes_ = 0;
  Encoder::Piecewise long_;
  // Whole documents that wait to be encoded together.
  std::vector<Waiting> batch_;
  int64_t batch_bytes_ = 0;
  std::vector<int32_t> ids_;
};

std::string not_text_hint(const PreparedSource& prepared) {
  return program_command("data show " + shell_quoted(text_of_path(prepared.folder))) +
         " names files that are not text; data.keep_binary=true reads them";
}

void report(const PreparedSource& prepared) {
  const CorpusCounts& c = prepared.counts;
  const auto if_any = [](int64_t count, const std::string& text) { return count > 0 ? text : std::string(); };
  log_info(
      "{} {}: {}, {}, {} for training, {} held out ({}{}); left out: {}, {} empty{}{}{}",
      prepared.reused ? "reusing the prepared" : "prepared", prepared.source,
      counted(c.documents, "document"), bytes_text(c.bytes), counted(prepared.train.tokens(), "token"),
      count_text(prepared.held_out.tokens()), counted(prepared.held_out.documents(), "document"),
      if_any(c.cut, ": the text's end"), counted(c.copies, "copy", "copies"), count_text(c.empty),
      if_any(c.bad_lines, ", " + counted(c.bad_lines, "bad line")),
      if_any(c.not_text,
             fmt::format(", {} not text ({})", counted(c.not_text, "file"), bytes_text(c.not_text_bytes))),
      if_any(c.bad_utf8, fmt::format("; not UTF-8 (bytes are kept): {}", counted(c.bad_utf8, "document"))));
  for (size_t i = 0; i < prepared.not_text.size(); ++i) {
    const LeftOutFile& file = prepared.not_text[i];
    if (i == kFilesInLog) {
      log_info("more of them: {}",
               program_command("data show " + shell_quoted(text_of_path(prepared.folder))));
      break;
    }
    log_info("left out, not text: {} ({}; data.keep_binary=true reads it all the same)", file.name,
             file.reason);
  }
}

[[noreturn]] void refuse_empty(const PreparedSource& prepared) {
  const CorpusCounts& c = prepared.counts;
  std::string hint = "name more text, or lower data.held_out_percent";
  if (c.copies > 0 && c.documents == 0)
    hint = "data.remove_copies=false keeps copies: of a source listed again, to weigh it more";
  if (c.not_text > 0) hint = not_text_hint(prepared);
  throw Error({.code = ExitCode::kData,
               .what = c.documents == 0 ? "the corpus is empty" : "the corpus leaves nothing to train on",
               .expected = "at least one document that is not empty, not a copy and not held out",
               .found = fmt::format("{} held out, {} empty, {}, {}, {}",
                                    counted(prepared.held_out.documents(), "document"), c.empty,
                                    counted(c.copies, "copy", "copies"), counted(c.bad_lines, "bad line"),
                                    counted(c.not_text, "file") + " not text"),
               .where = prepared.source,
               .hint = hint});
}

// Warns of input that is well-formed but probably a mistake.
void warn_of_shares(const PreparedSource& prepared, const CorpusOptions& options) {
  if (prepared.held_out.documents() == 0 && options.held_out_percent > 0 && options.validation.empty())
    log_warning("no document of {} is held out: nothing of it can be evaluated", prepared.source);
  if (prepared.held_out.tokens() > prepared.train.tokens()) {
    log_warning(
        "{} holds out more text than it leaves to train on: {} of {}, against {}. Documents are held out by "
        "their number, and a few long ones may "
        "be most of the text; cut them, set data.held_out_percent=0, or name texts of data.validation",
        prepared.source, counted(prepared.held_out.tokens(), "token"),
        counted(prepared.held_out.documents(), "document"), count_text(prepared.train.tokens()));
  }
  if (prepared.counts.copies > prepared.counts.documents) {
    log_warning(
        "{} of {} are copies of others, here or in a source before it, and are left out; the source has the "
        "share of the {} that are left. "
        "data.remove_copies=false keeps copies, to weigh a source more that is listed again",
        counted(prepared.counts.copies, "document"), prepared.source, count_text(prepared.counts.documents));
  }
}

json json_of(const std::vector<LeftOutFile>& files) {
  json list = json::array();
  for (const LeftOutFile& file : files) {
    if (list.size() < kNamedFiles)
      list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"reason", file.reason}});
  }
  return list;
}

}  // namespace

PreparedSource prepare(const Corpus& corpus, size_t source, const Encoder& encoder, const fs::path& cache,
                       const PrepareOptions& options) {
  ShardIdentity identity;
  identity.tokenizer_sha256 = encoder.sha256;
  identity.vocabulary = encoder.vocabulary;
  identity.separator = encoder.separator;
  identity.begin = encoder.begin_id();
  identity.preparation = sha256_hex(fmt::format("{} {} {} {} {}", corpus.key(source), encoder.sha256,
                                                encoder.vocabulary, encoder.marks(), kShardVersion));
  const fs::path folder = cache / ("tokens-" + identity.preparation.substr(0, 16));
  const auto reuse = [&]() -> std::optional<PreparedSource> {
    if (!fs::exists(folder / "dataset.json")) return std::nullopt;
    PreparedSource prepared = PreparedSource::open(folder, &identity);
    prepared.reused = true;
    mark_used(folder / "dataset.json");
    return prepared;
  };
  if (auto prepared = reuse()) return std::move(*prepared);
  const auto lock = lock_preparation(folder);
  if (auto prepared = reuse()) return std::move(*prepared);  // another process was faster

  const Source& input = corpus.sources()[source];
  Preparation preparation(folder, identity, encoder, options);
  preparation.resume();
  {
    Progress progress("tokenizing " + input.name(), input.bytes(), Progress::Unit::kBytes);
    const State start = preparation.state();
    const CorpusCounts counts = corpus.read(source, std::nullopt, preparation, start.next, start.counts,
                                            [&](int64_t n) { progress.advance(n); });
    preparation.finish(counts, input.files().size());
  }
  const State& done = preparation.state();
  write_checked_json(folder / "dataset.json", {{"format", "longhaul-token-dataset"},
                                               {"version", kDatasetVersion},
                                               {"source", input.name()},
                                               {"preparation", identity.preparation},
                                               {"tokenizer_sha256", identity.tokenizer_sha256},
                                               {"vocabulary", identity.vocabulary},
                                               {"separator", identity.separator},
                                               {"begin", identity.begin},
                                               {"counts", to_json(done.counts)},
                                               {"not_text", json_of(corpus.survey().not_text(source))},
                                               {"train", to_json(done.shards[0])},
                                               {"held_out", to_json(done.shards[1])}});
  fs::remove(folder / "state.json");
  return PreparedSource::open(folder, &identity);
}

std::vector<PreparedSource> prepare_all(const Corpus& corpus, const Encoder& encoder, const fs::path& cache,
                                        const PrepareOptions& options) {
  std::vector<PreparedSource> prepared;
  for (size_t s = 0; s < corpus.sources().size(); ++s) {
    prepared.push_back(prepare(corpus, s, encoder, cache, options));
    report(prepared.back());
    const PreparedSource& last = prepared.back();
    const bool trains = !corpus.is_validation(s);
    if (last.train.documents() + last.held_out.documents() == 0 || (last.train.documents() == 0 && trains))
      refuse_empty(last);
    if (trains) warn_of_shares(last, corpus.options());
  }
  return prepared;
}

}  // namespace longhaul::data
