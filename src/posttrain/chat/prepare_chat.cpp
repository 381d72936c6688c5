#include "posttrain/chat/prepare_chat.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "data/corpus/content_sample.h"
#include "data/tokens/cache.h"
#include "data/tokens/encoder.h"
#include "data/tokens/shard.h"

namespace longhaul::posttrain {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr size_t kSamplesAtOnce = 512;
constexpr int64_t kTokensOfChatShard = 64 << 20, kSamplesOfShard = 4 << 20;
constexpr std::array<const char*, 2> kChatFolders = {"train", "held-out"};

struct EncodedSample {
  std::vector<int32_t> ids;
  std::vector<data::LossSegment> segments;  // none: every token weighs 1
  int64_t text_bytes = 0;
  bool cut = false;
};

struct WaitingSample {
  const ConversationFile* file;
  int64_t line;
  ChatSample sample;
  EncodedSample made{};
  std::optional<BadSample> bad{};
  bool too_long = false;
};

// Runs of equal weights of the tokens; empty where all weigh 1.
std::vector<data::LossSegment> segments_of(const std::vector<bool>& learnt, float weight) {
  std::vector<data::LossSegment> segments;
  for (size_t i = 0; i < learnt.size(); ++i) {
    const float own = learnt[i] ? weight : 0;
    if (segments.empty() || segments.back().weight != own) segments.push_back({0, own});
    segments.back().end = static_cast<int64_t>(i) + 1;
  }
  if (segments.size() == 1 && segments[0].weight == 1) segments.clear();
  return segments;
}

// A text is what it is in pre-training: between the tokens that begin and end a document.
void encode_plain(const ChatSample& sample, const data::Encoder& encoder, std::vector<int32_t>& ids) {
  ids.push_back(encoder.begin_id());
  encoder.encode(sample.text, ids);
  ids.push_back(encoder.separator);
}

// Counts what was left out, and collects what dataset.json and the log say of it.
struct ChatCounts {
  int64_t cut = 0, too_long = 0, no_weight = 0, answers_without_end = 0;
  std::map<std::string, int64_t> bad;  // by reason
  ordered_json json() const {
    return {{"cut", cut},
            {"too_long", too_long},
            {"without_weight", no_weight},
            {"answers_without_end", answers_without_end},
            {"bad", bad}};
  }
};

class ChatWriter {
 public:
  ChatWriter(fs::path folder, data::ShardIdentity identity)
      : folder_(std::move(folder)), identity_(std::move(identity)) {
    data::CorpusCounts none;
    for (const char* side : kChatFolders) {
      make_folders(folder_ / side);
      // the remains of an attempt that did not end
      for (const fs::path& left : list_files(folder_ / side)) fs::remove(left);
    }
  }
  void add(size_t side, const EncodedSample& sample) {
    auto& open = open_[side];
    if (!open) open.emplace(folder_ / kChatFolders[side] / next_name(side), identity_);
    open->append(sample.ids);
    open->end_document(sample.text_bytes, sample.segments);
    if (open->tokens() >= kTokensOfChatShard || open->documents() >= kSamplesOfShard) finish(side);
  }
  void finish(size_t side) {
    if (!open_[side]) return;
    const data::ShardHeader header = open_[side]->finish();
    shards_[side].push_back(
        {next_name(side), header.documents, header.tokens, header.text_bytes, header.blocks_checksum});
    open_[side].reset();
  }
  const std::vector<data::ShardEntry>& shards(size_t side) const { return shards_[side]; }

 private:
  std::string next_name(size_t side) const { return fmt::format("shard-{:05}.tokens", shards_[side].size()); }

  fs::path folder_;
  data::ShardIdentity identity_;
  std::array<std::optional<data::ShardWriter>, 2> open_;
  std::array<std::vector<data::ShardEntry>, 2> shards_;
};

std::string content_of(const ChatSample& sample) {
  const ordered_json all = {sample.messages, sample.tools, sample.text, sample.weight};
  return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

uint64_t hash_of_ids(std::span<const int64_t> ids) { return xxh3(std::as_bytes(ids)); }

// 8 bytes for each sample of data.validation.
std::unordered_set<uint64_t> hashes_of_validation(const std::vector<const data::TokenDataset*>& datasets) {
  std::unordered_set<uint64_t> hashes;
  std::vector<int64_t> ids;
  for (const data::TokenDataset* dataset : datasets) {
    for (int64_t d = 0; d < dataset->documents(); ++d) {
      ids.resize(static_cast<size_t>(dataset->length(d)));
      dataset->read(d, 0, ids);
      hashes.insert(hash_of_ids(ids));
    }
  }
  return hashes;
}

class ChatPreparing {
 public:
  ChatPreparing(const ChatSource& source, const ChatPreparation& how, const fs::path& folder,
                const data::ShardIdentity& identity)
      : source_(source),
        how_(how),
        encoder_(data::encoder_of(how.use.tokenizer)),
        writer_(folder, identity),
        never_trained_(hashes_of_validation(source.validation)) {}

  void run() {
    int64_t bytes = 0;
    for (const ConversationFile& file : source_.files) bytes += file.bytes;
    Progress progress("reading conversations of " + source_.path.filename().string(), bytes,
                      Progress::Unit::kBytes);
    const ConversationFile* reading = nullptr;
    read_samples(
        source_.files, how_.options.system,
        [&](const ConversationFile& file, int64_t line, ChatSample sample) {
          if (reading != nullptr && reading != &file) progress.advance(reading->bytes);
          reading = &file;
          waiting_.push_back({&file, line, std::move(sample)});
          if (waiting_.size() >= kSamplesAtOnce) write_waiting();
        },
        [&](const ConversationFile& file, int64_t line, const BadSample& why) {
          write_waiting();  // errors come in the order of the rows
          bad(file, line, why);
        });
    write_waiting();
    for (size_t side = 0; side < 2; ++side) writer_.finish(side);
  }
  const ChatWriter& writer() const { return writer_; }
  const data::CorpusCounts& counts() const { return counts_; }
  const ChatCounts& chat() const { return chat_; }

 private:
  void bad(const ConversationFile& file, int64_t line, const BadSample& why) {
    if (!how_.data.skip_bad_lines) refuse_sample(file, line, why);
    ++counts_.bad_lines;
    ++chat_.bad[why.reason];
  }

  void encode(WaitingSample& waiting) const {
    std::vector<int32_t>& ids = waiting.made.ids;
    std::vector<bool> learnt;
    if (waiting.sample.plain()) {
      encode_plain(waiting.sample, encoder_, ids);
      waiting.made.text_bytes = std::ssize(waiting.sample.text);
      learnt.assign(ids.size(), true);
    } else {
      try {
        const data::chat::RenderedChat chat = render_learnt(waiting.sample, how_.use);
        data::chat::EncodedChat encoded = data::chat::encode_written(chat, how_.use.tokenizer);
        ids = std::move(encoded.ids);
        learnt = std::move(encoded.written);
        waiting.made.text_bytes = std::ssize(chat.text.bytes());
      } catch (const BadSample& why) {
        waiting.bad = why;
        return;
      }
    }
    const auto most = static_cast<size_t>(how_.sequence) + 1;
    waiting.too_long = ids.size() > most;
    if (waiting.too_long && how_.options.cut_too_long) {
      waiting.made.text_bytes = waiting.made.text_bytes * static_cast<int64_t>(most) / std::ssize(ids);
      ids.resize(most);
      learnt.resize(most);
      waiting.made.cut = true;
    }
    waiting.made.segments = segments_of(learnt, static_cast<float>(waiting.sample.weight));
  }

  // No label of the sample counts: a label is every token but the first.
  static bool counts_for_nothing(const EncodedSample& made) {
    if (made.ids.size() < 2) return true;
    if (made.segments.empty()) return false;
    return std::ranges::none_of(made.segments, [](const data::LossSegment& segment) {
      return segment.weight > 0 && segment.end > 1;
    });
  }

  void write_waiting() {
    parallel_for(0, std::ssize(waiting_), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) encode(waiting_[static_cast<size_t>(i)]);
    });
    for (const WaitingSample& each : waiting_) write(each);
    waiting_.clear();
  }

  void write(const WaitingSample& waiting) {
    if (waiting.bad) return bad(*waiting.file, waiting.line, *waiting.bad);
    const EncodedSample& made = waiting.made;
    if (waiting.too_long && !made.cut) {
      ++chat_.too_long;
      return;
    }
    if (counts_for_nothing(made)) {
      ++(made.cut ? chat_.too_long : chat_.no_weight);
      return;
    }
    const std::string text = content_of(waiting.sample);
    const uint64_t content = xxh3(std::as_bytes(std::span(text)));
    const std::vector<int64_t> wide(made.ids.begin(), made.ids.end());
    if ((how_.data.remove_copies && !seen_.insert(content).second) ||
        never_trained_.contains(hash_of_ids(wide))) {
      ++counts_.copies;
      return;
    }
    chat_.cut += made.cut ? 1 : 0;
    if (!waiting.sample.plain() && !made.cut && !ends_learnt(made)) ++chat_.answers_without_end;
    writer_.add(content % 100 < static_cast<uint64_t>(source_.held_out_percent) ? 1 : 0, made);
    ++counts_.documents;
    counts_.bytes += made.text_bytes;
  }

  // Whether the last answer ends with a special token that is learnt.
  bool ends_learnt(const EncodedSample& made) const {
    if (made.segments.empty()) return true;
    for (auto segment = made.segments.rbegin(); segment != made.segments.rend(); ++segment) {
      if (segment->weight > 0)
        return how_.use.tokenizer.is_special(made.ids[static_cast<size_t>(segment->end) - 1]);
    }
    return false;
  }

  const ChatSource& source_;
  const ChatPreparation& how_;
  data::Encoder encoder_;
  ChatWriter writer_;
  std::unordered_set<uint64_t> never_trained_, seen_;
  std::vector<WaitingSample> waiting_;
  data::CorpusCounts counts_;
  ChatCounts chat_;
};

std::string key_of_chat(const ChatSource& source, const ChatPreparation& how, const data::Encoder& encoder) {
  const ordered_json options = {{"learnt", static_cast<int>(how.use.learnt)},
                                {"cut", how.options.cut_too_long},
                                {"system", how.options.system},
                                {"variables", how.use.variables},
                                {"special_tokens", how.use.format.special_tokens()},
                                {"template", how.use.format.chat_template(false).source()},
                                {"with_tools", how.use.format.chat_template(true).source()},
                                {"sequence", how.sequence},
                                {"held_out", source.held_out_percent},
                                {"copies", how.data.remove_copies},
                                {"skip", how.data.skip_bad_lines}};
  std::string text = fmt::format("longhaul chat 1 {} {} {} {}\n", encoder.sha256, encoder.vocabulary,
                                 encoder.marks(), options.dump());
  std::vector<fs::path> paths;
  for (const ConversationFile& file : source.files) {
    text += fmt::format("{} {} {} {}\n", file.name.size(), file.name, file.bytes, file.modified_ns);
    paths.push_back(file.path);
  }
  text += data::content_sample(paths) + "\n";
  for (const data::TokenDataset* dataset : source.validation) text += dataset->fingerprint() + "\n";
  return sha256_hex(text);
}

void make_chat(const fs::path& folder, const ChatSource& source, const ChatPreparation& how,
               const data::ShardIdentity& identity) {
  ChatPreparing preparing(source, how, folder, identity);
  preparing.run();
  data::write_checked_json(folder / "dataset.json",
                           {{"format", "longhaul-token-dataset"},
                            {"version", data::kDatasetVersion},
                            {"source", text_of_path(source.path)},
                            {"preparation", identity.preparation},
                            {"tokenizer_sha256", identity.tokenizer_sha256},
                            {"vocabulary", identity.vocabulary},
                            {"separator", identity.separator},
                            {"begin", identity.begin},
                            {"counts", data::to_json(preparing.counts())},
                            {"not_text", nlohmann::json::array()},
                            {"chat", preparing.chat().json()},
                            {"train", data::to_json(preparing.writer().shards(0))},
                            {"held_out", data::to_json(preparing.writer().shards(1))}});
}

// The log's sentences about what was prepared, and warnings of what is probably a mistake.
void report_chat(const data::PreparedSource& prepared, const ChatSource& source, const ChatPreparation& how) {
  const nlohmann::json chat = data::read_checked_json(prepared.folder / "dataset.json").at("chat");
  std::string left_out;
  const auto leave_out = [&](int64_t count, const std::string& why) {
    if (count > 0)
      left_out += fmt::format("{}{} {}", left_out.empty() ? "; left out: " : ", ", count_text(count), why);
  };
  leave_out(chat.at("too_long"), fmt::format("longer than train.sequence = {}", how.sequence));
  leave_out(chat.at("without_weight"), "without a token that counts in the loss");
  leave_out(prepared.counts.copies, "copies");
  for (const auto& [reason, count] : chat.at("bad").items())
    leave_out(count, fmt::format("bad ({})", reason));
  const int64_t cut = chat.at("cut");
  log_info("{} {}: {}, {} for training, {} of {} labels learnt; {} held out{}{}",
           prepared.reused ? "reusing the conversations of" : "prepared", prepared.source,
           counted(prepared.counts.documents, "sample"), counted(prepared.train.tokens(), "token"),
           count_text(prepared.train.counted_labels()), count_text(prepared.train.labels()),
           counted(prepared.held_out.documents(), "sample"),
           cut > 0 ? fmt::format("; cut to train.sequence: {}", count_text(cut)) : "", left_out);
  if (const int64_t endless = chat.at("answers_without_end"); endless > 0) {
    log_warning(
        "in {} of {} the last answer does not end with a special token that is learnt: the model does not "
        "learn to end there. Put the token that ends "
        "a turn into the template's {{% generation %}} block, or add it to the tokenizer (chat.new_tokens)",
        count_text(endless), counted(prepared.counts.documents, "sample"));
  }
  if (prepared.held_out.documents() == 0 && source.held_out_percent > 0 && how.data.validation.empty())
    log_warning(
        "no sample of {} is held out: nothing of it can be evaluated (data.held_out_percent, "
        "data.validation)",
        prepared.source);
}

}  // namespace

void refuse_sample(const ConversationFile& file, int64_t line, const BadSample& why) {
  throw Error({.code = ExitCode::kData,
               .what = "a sample cannot be learnt: " + why.reason,
               .expected = why.expected,
               .found = why.found,
               .where = fmt::format("{}:{}", text_of_path(file.path), line),
               .hint = "mend it, or leave such samples out, counted, with data.skip_bad_lines=true; "
                       "docs/guides/fine-tuning.md has the forms"});
}

void read_samples(const std::vector<ConversationFile>& files, const std::string& system,
                  const std::function<void(const ConversationFile&, int64_t, ChatSample)>& give,
                  const std::function<void(const ConversationFile&, int64_t, const BadSample&)>& bad) {
  for (const ConversationFile& file : files) {
    std::optional<SampleForm> form;
    int64_t rows = 0;
    read_rows(file, [&](ConversationRow row) {
      ++rows;
      if (row.row.is_discarded())
        return bad(file, row.line,
                   {"a line is no JSON", "a JSON object in UTF-8", "a line that cannot be read"});
      if (!form) {
        form = form_of(row.row);
        if (!form) {
          const bool preferences =
              row.row.is_object() && row.row.contains("chosen") && row.row.contains("rejected");
          std::string forms;
          for (const SampleForm each : kSampleForms)
            forms += (forms.empty() ? "" : ", or ") + std::string(fields_of(each));
          return bad(file, row.line,
                     {"a row has no known form",
                      forms + (preferences ? "; pairs of answers are for train.task=preference" : ""),
                      "fields " + fields_text(row.row)});
        }
        log_info("{}: rows of the form {} ({})", text_of_path(file.path), name_of(*form), fields_of(*form));
      }
      std::optional<ChatSample> sample;
      try {
        sample = read_sample(row.row, *form, system);
      } catch (const BadSample& why) {
        return bad(file, row.line, why);
      }
      give(file, row.line, std::move(*sample));
    });
    if (rows == 0) log_warning("{} holds no row", text_of_path(file.path));
  }
}

data::PreparedSource prepare_chat(const ChatSource& source, const ChatPreparation& how,
                                  const fs::path& cache) {
  const data::Encoder encoder = data::encoder_of(how.use.tokenizer);
  const data::ShardIdentity identity{encoder.sha256, key_of_chat(source, how, encoder), encoder.vocabulary,
                                     encoder.separator, data::kWholeDocuments};
  const fs::path folder = cache / ("tokens-" + identity.preparation.substr(0, 16));
  const auto lock = data::lock_preparation(folder);
  const bool there = fs::exists(folder / "dataset.json");
  if (!there) make_chat(folder, source, how, identity);
  data::PreparedSource prepared = data::PreparedSource::open(folder, &identity);
  prepared.reused = there;
  data::mark_used(folder / "dataset.json");
  report_chat(prepared, source, how);
  const int64_t wanted =
      source.held_out_percent >= 100 ? prepared.held_out.documents() : prepared.train.documents();
  if (wanted > 0) return prepared;
  const nlohmann::json chat = data::read_checked_json(folder / "dataset.json").at("chat");
  throw Error({.code = ExitCode::kData,
               .what = "the conversations leave nothing to learn from",
               .expected = "at least one sample that fits into train.sequence and is not held out",
               .found = fmt::format("{} held out, {} too long, {} bad, {}",
                                    counted(prepared.held_out.documents(), "sample"),
                                    chat.at("too_long").get<int64_t>(), prepared.counts.bad_lines,
                                    counted(prepared.counts.copies, "copy", "copies")),
               .where = prepared.source,
               .hint = "name more samples, or raise train.sequence, or lower data.held_out_percent"});
}

}  // namespace longhaul::posttrain
