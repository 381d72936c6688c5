#include "data/tokens/shard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"

namespace longhaul::data {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token shards are little-endian and mapped as they are");

constexpr char kShardMagic[8] = {'L', 'H', 'T', 'O', 'K', 'E', 'N', 'S'};

constexpr uint32_t kNoBegin = 0xFFFFFFFF;  // programs that do not know it refuse it as an id out of range

struct RawShardHeader {  // as stored in the file
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t token_bytes;
  uint32_t block_bytes;
  int64_t tokens;
  int64_t documents;
  int64_t text_bytes;
  int64_t vocabulary;
  int32_t separator;
  uint32_t begin_and_one;  // id of the token before a document + 1; 0: the separator; kNoBegin: there is none
  uint8_t tokenizer_sha256[32];
  uint8_t preparation[32];
  uint64_t blocks_checksum;
  int64_t file_bytes;
  int64_t segments;  // 0 in version 1
  uint8_t zero[96];
  uint64_t checksum;  // xxh3 of all bytes before it
};
static_assert(sizeof(RawShardHeader) == kShardHeaderBytes);

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

struct Sections {
  int64_t ends, text_bytes, segment_ends, token_ends, weights, checksums, file;  // offsets
  int64_t blocks;
};

Sections sections_of(const ShardHeader& header) {
  Sections s{};
  s.ends = kShardHeaderBytes + round_up(header.tokens * header.token_bytes, 8);
  s.text_bytes = s.ends + 8 * header.documents;
  s.segment_ends = s.text_bytes + 8 * header.documents;
  s.token_ends = s.segment_ends + (header.segments > 0 ? 8 * header.documents : 0);
  s.weights = s.token_ends + 8 * header.segments;
  s.checksums = s.weights + round_up(4 * header.segments, 8);
  s.blocks = round_up(s.checksums - kShardHeaderBytes, kShardBlockBytes) / kShardBlockBytes;
  s.file = s.checksums + 8 * s.blocks;
  return s;
}

void bytes_of_hex(const std::string& hex, uint8_t (&into)[32]) {
  LONGHAUL_ASSERT(hex.size() == 64, "sha256 of {} digits", hex.size());
  for (size_t i = 0; i < 32; ++i)
    into[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
}

std::string hex_of_bytes(const uint8_t (&bytes)[32]) {
  std::string hex;
  for (uint8_t b : bytes) hex += fmt::format("{:02x}", b);
  return hex;
}

[[noreturn]] void refuse(const std::string& where, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable token shard",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = where,
               .hint = "remove the folder that holds it; the next start prepares the data again"});
}

}  // namespace

ShardHeader parse_shard_header(std::span<const std::byte> bytes, int64_t file_bytes,
                               const std::string& where) {
  RawShardHeader raw;
  if (bytes.size() < sizeof raw)
    refuse(where, fmt::format("a header of {} bytes", sizeof raw), fmt::format("{} bytes", bytes.size()));
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (std::memcmp(raw.magic, kShardMagic, sizeof kShardMagic) != 0)
    refuse(where, "a file that begins with LHTOKENS", "other bytes");
  if (raw.version != kShardVersion && raw.version != kWeighedShardVersion) {
    refuse(where, fmt::format("format version {} or {}", kShardVersion, kWeighedShardVersion),
           fmt::format("version {}", raw.version));
  }
  const uint64_t checksum = xxh3(bytes.first(offsetof(RawShardHeader, checksum)));
  if (checksum != raw.checksum) {
    refuse(where, fmt::format("header checksum {:016x}", raw.checksum),
           fmt::format("{:016x}: the header is damaged", checksum));
  }
  // From here on the header has its writer's values; impossible numbers are still refused before they are
  // used.
  constexpr int64_t kMost = int64_t{1} << 48;
  const bool widths = (raw.token_bytes == 2 || raw.token_bytes == 4) && raw.block_bytes == kShardBlockBytes &&
                      raw.header_bytes == kShardHeaderBytes;
  const bool counts = raw.tokens >= 0 && raw.tokens < kMost && raw.documents >= 0 && raw.documents < kMost &&
                      raw.text_bytes >= 0;
  const bool weighed =
      raw.version == kWeighedShardVersion ? raw.segments > 0 && raw.segments < kMost : raw.segments == 0;
  const bool ids = raw.vocabulary > 0 &&
                   raw.vocabulary <= (raw.token_bytes == 2 ? int64_t{1} << 16 : int64_t{1} << 31) &&
                   raw.separator >= 0 && raw.separator < raw.vocabulary &&
                   (raw.begin_and_one <= raw.vocabulary || raw.begin_and_one == kNoBegin);
  if (!widths || !counts || !weighed || !ids)
    refuse(where, "a header with sensible numbers", "numbers out of range");
  ShardHeader header;
  header.identity = {hex_of_bytes(raw.tokenizer_sha256), hex_of_bytes(raw.preparation), raw.vocabulary,
                     raw.separator,
                     raw.begin_and_one == kNoBegin ? kWholeDocuments
                     : raw.begin_and_one > 0       ? static_cast<int32_t>(raw.begin_and_one - 1)
                                                   : raw.separator};
  header.tokens = raw.tokens;
  header.documents = raw.documents;
  header.text_bytes = raw.text_bytes;
  header.segments = raw.segments;
  header.token_bytes = static_cast<int32_t>(raw.token_bytes);
  header.file_bytes = raw.file_bytes;
  header.blocks_checksum = raw.blocks_checksum;
  if (sections_of(header).file != raw.file_bytes)
    refuse(where, "sizes that add up", "a header whose sizes do not");
  if (file_bytes != raw.file_bytes)
    refuse(where, fmt::format("{} bytes", raw.file_bytes),
           fmt::format("{} bytes: the file is truncated or was appended to", file_bytes));
  return header;
}

ShardWriter::ShardWriter(std::filesystem::path path, ShardIdentity identity) : path_(std::move(path)) {
  partial_ = path_;
  partial_ += ".partial";
  header_.token_bytes = identity.vocabulary <= (1 << 16) ? 2 : 4;
  header_.identity = std::move(identity);
  file_ = File::open(partial_, File::Mode::kCreate);
  const std::vector<std::byte> zero(kShardHeaderBytes);  // not a shard until finish() writes the real header
  file_.write(zero);
  block_.reserve(kShardBlockBytes);
}

ShardWriter::~ShardWriter() {
  if (!file_) return;
  std::error_code ignored;  // the next preparation removes the rest
  std::filesystem::remove(partial_, ignored);
}

void ShardWriter::put(std::span<const std::byte> data) {
  while (!data.empty()) {
    const size_t part = std::min(data.size(), static_cast<size_t>(kShardBlockBytes) - block_.size());
    block_.insert(block_.end(), data.begin(), data.begin() + static_cast<ptrdiff_t>(part));
    data = data.subspan(part);
    if (block_.size() == kShardBlockBytes) flush_block();
  }
}

void ShardWriter::flush_block() {
  if (block_.empty()) return;
  checksums_.push_back(xxh3(block_));
  file_.write(block_);
  block_.clear();
}

void ShardWriter::append(std::span<const int32_t> tokens) {
  for (int32_t id : tokens) {
    if (id >= 0 && id < header_.identity.vocabulary) [[likely]]
      continue;
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer gave an id outside its vocabulary",
                 .expected = fmt::format("0 to {}", header_.identity.vocabulary - 1),
                 .found = std::to_string(id)});
  }
  header_.tokens += static_cast<int64_t>(tokens.size());
  if (header_.token_bytes == 4) return put(std::as_bytes(tokens));
  std::vector<uint16_t> narrow(std::min<size_t>(tokens.size(), 1 << 16));
  while (!tokens.empty()) {
    const size_t part = std::min(tokens.size(), narrow.size());
    for (size_t i = 0; i < part; ++i) narrow[i] = static_cast<uint16_t>(tokens[i]);
    put(std::as_bytes(std::span(narrow).first(part)));
    tokens = tokens.subspan(part);
  }
}

void ShardWriter::end_document(int64_t text_bytes, std::span<const LossSegment> segments) {
  const int64_t length = header_.tokens - (ends_.empty() ? 0 : ends_.back());
  int64_t previous = 0;
  for (const LossSegment& segment : segments) {
    LONGHAUL_ASSERT(segment.end >= previous && segment.weight >= 0 && std::isfinite(segment.weight),
                    "a segment up to {} after {} weighs {}", segment.end, previous, segment.weight);
    previous = segment.end;
  }
  LONGHAUL_ASSERT(segments.empty() || previous == length, "segments of {} tokens in a document of {}",
                  previous, length);
  segments_.insert(segments_.end(), segments.begin(), segments.end());
  segment_ends_.push_back(std::ssize(segments_));
  ends_.push_back(header_.tokens);
  text_bytes_.push_back(text_bytes);
  ++header_.documents;
  header_.text_bytes += text_bytes;
}

void ShardWriter::put_segments() {
  header_.segments = std::ssize(segments_);
  if (segments_.empty()) return;
  put(std::as_bytes(std::span(segment_ends_)));
  for (const LossSegment& segment : segments_) put(std::as_bytes(std::span(&segment.end, 1)));
  for (const LossSegment& segment : segments_) put(std::as_bytes(std::span(&segment.weight, 1)));
  if (segments_.size() % 2 == 1) put(std::vector<std::byte>(4));
}

ShardHeader ShardWriter::finish() {
  const int64_t padding =
      round_up(header_.tokens * header_.token_bytes, 8) - header_.tokens * header_.token_bytes;
  put(std::vector<std::byte>(static_cast<size_t>(padding)));
  put(std::as_bytes(std::span(ends_)));
  put(std::as_bytes(std::span(text_bytes_)));
  put_segments();
  flush_block();
  const auto table = std::as_bytes(std::span(checksums_));
  file_.write(table);
  header_.blocks_checksum = xxh3(table);
  header_.file_bytes = sections_of(header_).file;

  RawShardHeader raw{};
  std::memcpy(raw.magic, kShardMagic, sizeof kShardMagic);
  raw.version = header_.segments > 0 ? kWeighedShardVersion : kShardVersion;
  raw.header_bytes = kShardHeaderBytes;
  raw.token_bytes = static_cast<uint32_t>(header_.token_bytes);
  raw.block_bytes = kShardBlockBytes;
  raw.tokens = header_.tokens;
  raw.documents = header_.documents;
  raw.text_bytes = header_.text_bytes;
  raw.segments = header_.segments;
  raw.vocabulary = header_.identity.vocabulary;
  raw.separator = header_.identity.separator;
  if (header_.identity.whole())
    raw.begin_and_one = kNoBegin;
  else if (header_.identity.begin != raw.separator)
    raw.begin_and_one = static_cast<uint32_t>(header_.identity.begin) + 1;
  bytes_of_hex(header_.identity.tokenizer_sha256, raw.tokenizer_sha256);
  bytes_of_hex(header_.identity.preparation, raw.preparation);
  raw.blocks_checksum = header_.blocks_checksum;
  raw.file_bytes = header_.file_bytes;
  const auto bytes = std::as_bytes(std::span(&raw, 1));
  raw.checksum = xxh3(bytes.first(offsetof(RawShardHeader, checksum)));
  file_.write_at(0, bytes);
  file_.sync();
  file_.close();
  rename_path(partial_, path_);
  sync_folder(path_.parent_path());
  return header_;
}

TokenShard TokenShard::open(const std::filesystem::path& path, const ShardIdentity* expected) {
  TokenShard shard;
  shard.file_ = MappedFile::open(path, ExitCode::kData);
  const std::string where = path.string();
  const int64_t size = shard.file_.size();
  shard.header_ = parse_shard_header(shard.file_.range(0, std::min(size, kShardHeaderBytes)), size, where);
  const ShardHeader& header = shard.header_;
  if (expected != nullptr && header.identity.tokenizer_sha256 != expected->tokenizer_sha256) {
    refuse(where, "tokens of the tokenizer with sha256 " + expected->tokenizer_sha256,
           header.identity.tokenizer_sha256);
  }
  if (expected != nullptr && header.identity != *expected) {
    refuse(where, "a shard of preparation " + expected->preparation, header.identity.preparation);
  }
  const Sections sections = sections_of(header);
  const uint64_t found = xxh3(shard.file_.range(sections.checksums, 8 * sections.blocks));
  if (found != header.blocks_checksum) {
    refuse(where, fmt::format("checksum {:016x} of the table of block checksums", header.blocks_checksum),
           fmt::format("{:016x}", found));
  }
  shard.block_checked_ = std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(sections.blocks));
  // The tables are used by all readers and are small compared with the tokens: they are checked completely
  // now.
  int64_t previous = 0;
  for (int64_t end : shard.ends()) {
    if (end < previous || end > header.tokens)
      refuse(where, "document ends in ascending order", fmt::format("{} after {}", end, previous));
    previous = end;
  }
  if (previous != header.tokens)
    refuse(where, fmt::format("documents of {} tokens", header.tokens), fmt::format("{}", previous));
  int64_t bytes = 0;
  for (int64_t of_document : shard.text_bytes()) {
    if (of_document < 0 || of_document > header.text_bytes - bytes)
      refuse(where, "documents of at least 0 bytes that add up", fmt::format("{}", of_document));
    bytes += of_document;
  }
  if (bytes != header.text_bytes)
    refuse(where, fmt::format("documents of {} bytes", header.text_bytes), fmt::format("{}", bytes));
  if (header.segments > 0) shard.check_segments();
  return shard;
}

void TokenShard::check_block(int64_t block) const {
  if (block_checked_[static_cast<size_t>(block)].load(std::memory_order_relaxed)) return;
  const Sections sections = sections_of(header_);
  const int64_t offset = kShardHeaderBytes + block * kShardBlockBytes;
  const int64_t length = std::min(kShardBlockBytes, sections.checksums - offset);
  uint64_t expected;
  std::memcpy(&expected, file_.range(sections.checksums + 8 * block, 8).data(), 8);
  const uint64_t found = xxh3(file_.range(offset, length));
  if (found != expected) {
    refuse(file_.path().string(),
           fmt::format("checksum {:016x} of block {} (bytes {} to {})", expected, block, offset,
                       offset + length),
           fmt::format("{:016x}: the file was damaged", found));
  }
  block_checked_[static_cast<size_t>(block)].store(true, std::memory_order_relaxed);
}

std::span<const std::byte> TokenShard::checked(int64_t offset, int64_t length) const {
  if (length == 0) return {};
  const int64_t first = (offset - kShardHeaderBytes) / kShardBlockBytes;
  const int64_t last = (offset + length - 1 - kShardHeaderBytes) / kShardBlockBytes;
  for (int64_t block = first; block <= last; ++block) check_block(block);
  return file_.range(offset, length);
}

template <class Number>
std::span<const Number> TokenShard::table(int64_t offset, int64_t count) const {
  const auto bytes = checked(offset, static_cast<int64_t>(sizeof(Number)) * count);
  return {reinterpret_cast<const Number*>(bytes.data()), static_cast<size_t>(count)};
}

std::span<const int64_t> TokenShard::ends() const {
  return table<int64_t>(sections_of(header_).ends, header_.documents);
}

std::span<const int64_t> TokenShard::text_bytes() const {
  return table<int64_t>(sections_of(header_).text_bytes, header_.documents);
}

std::vector<LossSegment> TokenShard::segments(int64_t document) const {
  if (header_.segments == 0) return {};
  const Sections sections = sections_of(header_);
  const auto last = table<int64_t>(sections.segment_ends, header_.documents),
             ends = table<int64_t>(sections.token_ends, header_.segments);
  const auto weights = table<float>(sections.weights, header_.segments);
  const auto d = static_cast<size_t>(document);
  std::vector<LossSegment> segments;
  for (int64_t s = d == 0 ? 0 : last[d - 1]; s < last[d]; ++s)
    segments.push_back({ends[static_cast<size_t>(s)], weights[static_cast<size_t>(s)]});
  return segments;
}

void TokenShard::check_segments() const {
  const Sections sections = sections_of(header_);
  const std::string where = file_.path().string();
  const auto of_documents = table<int64_t>(sections.segment_ends, header_.documents), document_ends = ends();
  const auto token_ends = table<int64_t>(sections.token_ends, header_.segments);
  for (const float weight : table<float>(sections.weights, header_.segments)) {
    if (!(weight >= 0) || !std::isfinite(weight))
      refuse(where, "weights of 0 or more", std::to_string(weight));
  }
  int64_t segment = 0, begin = 0;
  for (size_t d = 0; d < document_ends.size(); ++d) {
    const int64_t length = document_ends[d] - std::exchange(begin, document_ends[d]), first = segment;
    if (of_documents[d] < segment || of_documents[d] > header_.segments)
      refuse(where, "segments of documents in ascending order",
             fmt::format("{} after {}", of_documents[d], segment));
    int64_t end = 0;
    for (; segment < of_documents[d]; ++segment) {
      const int64_t next = token_ends[static_cast<size_t>(segment)];
      if (next < end)
        refuse(where, "ends of segments in ascending order", fmt::format("{} after {}", next, end));
      end = next;
    }
    if (segment > first && end != length)
      refuse(where, fmt::format("segments of {} tokens", length), std::to_string(end));
  }
  if (segment != header_.segments)
    refuse(where, fmt::format("{} segments of documents", header_.segments), std::to_string(segment));
}

void TokenShard::read(int64_t first, std::span<int64_t> into) const {
  const auto count = static_cast<int64_t>(into.size());
  LONGHAUL_ASSERT(first >= 0 && count <= header_.tokens - first, "tokens {} + {} of {}", first, count,
                  header_.tokens);
  const auto bytes = checked(kShardHeaderBytes + first * header_.token_bytes, count * header_.token_bytes);
  if (header_.token_bytes == 2) {
    const auto* tokens = reinterpret_cast<const uint16_t*>(bytes.data());
    std::copy_n(tokens, into.size(), into.data());
  } else {
    const auto* tokens = reinterpret_cast<const uint32_t*>(bytes.data());
    std::copy_n(tokens, into.size(), into.data());
  }
  for (int64_t id : into) {
    if (id >= header_.identity.vocabulary) {
      refuse(file_.path().string(), fmt::format("ids below {}", header_.identity.vocabulary),
             std::to_string(id));
    }
  }
}

void TokenShard::verify() const {
  const int64_t blocks = sections_of(header_).blocks;
  for (int64_t block = 0; block < blocks; ++block) {
    block_checked_[static_cast<size_t>(block)].store(false, std::memory_order_relaxed);
    check_block(block);
  }
}

}  // namespace longhaul::data
