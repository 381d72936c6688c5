#include "data/tokens/dataset.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"

namespace longhaul::data {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

[[noreturn]] void refuse_dataset(const fs::path& path, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable prepared dataset",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = path.string(),
               .hint = fmt::format("remove {}; the next start prepares the data again",
                                   path.parent_path().string())});
}

std::string checksum_text(const json& content) { return fmt::format("{:016x}", xxh3(content.dump())); }

uint64_t number_of_hex(const std::string& hex) {
  size_t used = 0;
  const uint64_t value = std::stoull(hex, &used, 16);
  if (used != hex.size()) throw std::invalid_argument("not hexadecimal: " + hex);
  return value;
}

// In the order in which they are written. Those of a manifest that is older than binary files and cuts may be
// absent.
constexpr std::pair<const char*, int64_t CorpusCounts::*> kCounts[] = {
    {"documents", &CorpusCounts::documents},
    {"bytes", &CorpusCounts::bytes},
    {"empty", &CorpusCounts::empty},
    {"copies", &CorpusCounts::copies},
    {"bad_lines", &CorpusCounts::bad_lines},
    {"bad_utf8", &CorpusCounts::bad_utf8},
    {"not_text", &CorpusCounts::not_text},
    {"not_text_bytes", &CorpusCounts::not_text_bytes},
    {"cut", &CorpusCounts::cut}};
constexpr size_t kCountsAlwaysThere = 6;

}  // namespace

json to_json(const CorpusCounts& counts) {
  json result;
  for (const auto& [name, member] : kCounts) result[name] = counts.*member;
  return result;
}

CorpusCounts counts_from_json(const json& j) {
  CorpusCounts counts;
  for (size_t i = 0; i < std::size(kCounts); ++i) {
    const auto& [name, member] = kCounts[i];
    counts.*member = i < kCountsAlwaysThere ? j.at(name).get<int64_t>() : j.value(name, int64_t{0});
  }
  return counts;
}

json to_json(const std::vector<ShardEntry>& shards) {
  json list = json::array();
  for (const ShardEntry& s : shards) {
    list.push_back({{"file", s.file},
                    {"documents", s.documents},
                    {"tokens", s.tokens},
                    {"bytes", s.text_bytes},
                    {"checksum", fmt::format("{:016x}", s.checksum)}});
  }
  return list;
}

std::vector<ShardEntry> shards_from_json(const json& list) {
  std::vector<ShardEntry> shards;
  for (const json& s : list) {
    shards.push_back(
        {s.at("file"), s.at("documents"), s.at("tokens"), s.at("bytes"), number_of_hex(s.at("checksum"))});
  }
  return shards;
}

void write_checked_json(const fs::path& path, json content) {
  content.erase("checksum");
  content["checksum"] = checksum_text(content);
  write_text_atomically(path, content.dump(1) + "\n");
}

json read_checked_json(const fs::path& path) {
  json content = json::parse(read_text(path, ExitCode::kData), nullptr, false);
  if (content.is_discarded() || !content.is_object() || !content.contains("checksum") ||
      !content["checksum"].is_string()) {
    refuse_dataset(path, "JSON with a checksum", "something else: the file is damaged");
  }
  const std::string written = content["checksum"];
  content.erase("checksum");
  if (checksum_text(content) != written)
    refuse_dataset(path, "checksum " + written, checksum_text(content) + ": the file was changed");
  return content;
}

TokenDataset TokenDataset::open(const fs::path& folder, const std::vector<ShardEntry>& shards,
                                const ShardIdentity& identity) {
  TokenDataset dataset;
  dataset.folder_ = folder;
  dataset.identity_ = identity;
  Sha256 hash;
  const auto add = [&](std::string_view text) { hash.update(std::as_bytes(std::span(text))); };
  add(identity.tokenizer_sha256);
  if (identity.whole()) add("whole documents");  // the same tokens are other samples
  for (const ShardEntry& entry : shards) {
    const fs::path path = folder / entry.file;
    TokenShard shard = TokenShard::open(path, &identity);
    const ShardHeader& header = shard.header();
    if (header.blocks_checksum != entry.checksum || header.documents != entry.documents ||
        header.tokens != entry.tokens) {
      refuse_dataset(path, fmt::format("the shard with checksum {:016x}", entry.checksum),
                     fmt::format("{:016x}: another file", header.blocks_checksum));
    }
    dataset.first_document_.push_back(dataset.documents_);
    dataset.documents_ += header.documents;
    dataset.tokens_ += header.tokens;
    dataset.text_bytes_ += header.text_bytes;
    add(fmt::format("{} {} {:016x};", header.documents, header.tokens, header.blocks_checksum));
    dataset.shards_.push_back(std::move(shard));
  }
  dataset.fingerprint_ = hash.hex();
  return dataset;
}

TokenDataset::Place TokenDataset::place(int64_t document) const {
  LONGHAUL_ASSERT(document >= 0 && document < documents_, "document {} of {}", document, documents_);
  const auto after = std::upper_bound(first_document_.begin(), first_document_.end(), document);
  const auto shard = static_cast<size_t>(after - first_document_.begin() - 1);
  return {&shards_[shard], document - first_document_[shard]};
}

int64_t TokenDataset::length(int64_t document) const {
  const Place at = place(document);
  const auto ends = at.shard->ends();
  const auto d = static_cast<size_t>(at.document);
  return ends[d] - (d == 0 ? 0 : ends[d - 1]);
}

int64_t TokenDataset::text_bytes(int64_t document) const {
  const Place at = place(document);
  return at.shard->text_bytes()[static_cast<size_t>(at.document)];
}

void TokenDataset::read(int64_t document, int64_t first, std::span<int64_t> into) const {
  const Place at = place(document);
  const auto ends = at.shard->ends();
  const auto d = static_cast<size_t>(at.document);
  const int64_t begin = d == 0 ? 0 : ends[d - 1];
  LONGHAUL_ASSERT(first >= 0 && begin + first + static_cast<int64_t>(into.size()) <= ends[d],
                  "tokens {} + {} of document {}", first, into.size(), document);
  if (!into.empty()) at.shard->read(begin + first, into);
}

bool TokenDataset::weighted() const {
  return std::ranges::any_of(shards_, [](const TokenShard& shard) { return shard.header().segments > 0; });
}

std::vector<LossSegment> TokenDataset::segments(int64_t document) const {
  const Place at = place(document);
  return at.shard->segments(at.document);
}

int64_t TokenDataset::counted_labels() const {
  if (!weighted()) return labels();
  int64_t counted = 0;
  for (int64_t d = 0; d < documents_; ++d) {
    const std::vector<LossSegment> all = segments(d);
    if (all.empty()) counted += labels(d);
    if (all.empty()) continue;
    int64_t begin = identity_.whole() ? 1 : 0;
    for (const LossSegment& segment : all) {
      if (segment.weight > 0 && segment.end > begin) counted += segment.end - begin;
      begin = std::max(begin, segment.end);
    }
    if (!identity_.whole() && all.back().weight > 0) ++counted;
  }
  return counted;
}

void TokenDataset::read_weights(int64_t document, int64_t first, std::span<float> into) const {
  const std::vector<LossSegment> all = segments(document);
  if (all.empty()) {
    std::ranges::fill(into, 1.0f);
    return;
  }
  const int64_t token = first + (identity_.whole() ? 1 : 0);
  auto segment = all.begin();
  for (size_t i = 0; i < into.size(); ++i) {
    while (std::next(segment) != all.end() && segment->end <= token + static_cast<int64_t>(i)) ++segment;
    into[i] = segment->weight;
  }
}

std::vector<int64_t> TokenDataset::lengths() const {
  std::vector<int64_t> lengths;
  lengths.reserve(static_cast<size_t>(documents_));
  for (const TokenShard& shard : shards_) {
    int64_t previous = 0;
    for (int64_t end : shard.ends()) {
      lengths.push_back(end - previous);
      previous = end;
    }
  }
  return lengths;
}

void TokenDataset::verify() const {
  for (const TokenShard& shard : shards_) shard.verify();
}

PreparedSource PreparedSource::open(const fs::path& folder, const ShardIdentity* expected) {
  const fs::path path = folder / "dataset.json";
  const json manifest = read_checked_json(path);
  PreparedSource prepared;
  prepared.folder = folder;
  std::vector<ShardEntry> train, held_out;
  try {
    if (manifest.at("format") != "longhaul-token-dataset")
      refuse_dataset(path, "format longhaul-token-dataset", manifest.at("format").dump());
    if (manifest.at("version") != kDatasetVersion)
      refuse_dataset(path, fmt::format("version {}", kDatasetVersion), manifest.at("version").dump());
    prepared.source = manifest.at("source");
    prepared.identity = {manifest.at("tokenizer_sha256"), manifest.at("preparation"),
                         manifest.at("vocabulary"), manifest.at("separator"),
                         manifest.value("begin", manifest.at("separator").get<int32_t>())};
    prepared.counts = counts_from_json(manifest.at("counts"));
    for (const json& file : manifest.value("not_text", json::array())) {
      prepared.not_text.push_back({file.at("name"), file.at("bytes"), file.at("reason")});
    }
    train = shards_from_json(manifest.at("train"));
    held_out = shards_from_json(manifest.at("held_out"));
  } catch (const json::exception& problem) {
    refuse_dataset(path, "a manifest with all its fields", problem.what());
  } catch (const std::logic_error& problem) {  // a number that is none
    refuse_dataset(path, "a manifest with all its fields", problem.what());
  }
  if (expected != nullptr && prepared.identity.tokenizer_sha256 != expected->tokenizer_sha256) {
    refuse_dataset(path, "tokens of the tokenizer with sha256 " + expected->tokenizer_sha256,
                   prepared.identity.tokenizer_sha256);
  }
  if (expected != nullptr && prepared.identity != *expected) {
    refuse_dataset(path, "preparation " + expected->preparation, prepared.identity.preparation);
  }
  prepared.train = TokenDataset::open(folder / "train", train, prepared.identity);
  prepared.held_out = TokenDataset::open(folder / "held-out", held_out, prepared.identity);
  return prepared;
}

std::vector<DataPart> parts_of(std::span<const PreparedSource> sources) {
  DataPart train{"training"}, held_out{"held out"}, copies{"left out: copies"}, empty{"left out: empty"},
      bad_lines{"left out: bad lines"}, not_text{"left out: not text"};
  int64_t cut = 0;
  for (const PreparedSource& source : sources) {
    for (const auto& [part, side] :
         {std::pair(&train, &source.train), std::pair(&held_out, &source.held_out)}) {
      part->documents += side->documents();
      part->bytes += side->text_bytes();
      part->tokens += side->tokens();
      part->shards += side->shards();
    }
    copies.documents += source.counts.copies;
    empty.documents += source.counts.empty;
    bad_lines.documents += source.counts.bad_lines;
    not_text.documents += source.counts.not_text;
    not_text.bytes += source.counts.not_text_bytes;
    cut += source.counts.cut;
  }
  if (cut > 0)
    held_out.name = cut == held_out.documents ? "held out: the text's end" : "held out, some a text's end";
  std::vector<DataPart> parts{train, held_out};
  for (const DataPart& left_out : {copies, empty, bad_lines, not_text}) {
    if (left_out.documents > 0) parts.push_back(left_out);
  }
  return parts;
}

}  // namespace longhaul::data
