#include "data/corpus/token_files.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files/file.h"
#include "base/process/signals.h"
#include "data/corpus/corpus_folder.h"

namespace longhaul::data {
namespace fs = std::filesystem;
namespace {

constexpr char kMegatronMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr int64_t kMegatronHeader = 9 + 8 + 1 + 8 + 8, kLlmcHeader = 256 * 4;
constexpr int64_t kTokensAtOnce = 1 << 20;

[[noreturn]] void refuse_file(const fs::path& file, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable token file",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = file.string(),
               .hint = "make or copy it again; docs/formats/foreign-tokens.md says what is read"});
}

template <class Number>
Number number_at(const MappedFile& file, int64_t offset) {
  Number value;
  std::memcpy(&value, file.range(offset, sizeof value).data(), sizeof value);
  return value;
}

// The numbers that a program wrote for a type of token (megatron/core/datasets/indexed_dataset.py).
struct TokenType {
  int64_t bytes = 0;
  bool sign = false;
};

TokenType megatron_type(const fs::path& file, uint8_t code) {
  switch (code) {
    case 1:
      return {1, false};
    case 2:
      return {1, true};
    case 3:
      return {2, true};
    case 4:
      return {4, true};
    case 5:
      return {8, true};
    case 8:
      return {2, false};
    default:
      break;
  }
  refuse_file(file, "tokens of 8, 16, 32 or 64 bits (dtype code 1, 2, 3, 4, 5 or 8)",
              code == 6 || code == 7 ? fmt::format("code {}: floating-point numbers", code)
                                     : fmt::format("code {}", code));
}

int64_t token_at(const std::byte* data, int64_t index, TokenType type) {
  const auto value_as = [&]<class Number>(Number number) {
    std::memcpy(&number, data + index * static_cast<int64_t>(sizeof number), sizeof number);
    return static_cast<int64_t>(number);
  };
  switch (type.bytes) {
    case 1:
      return type.sign ? value_as(int8_t{}) : value_as(uint8_t{});
    case 2:
      return type.sign ? value_as(int16_t{}) : value_as(uint16_t{});
    case 4:
      return type.sign ? value_as(int32_t{}) : value_as(uint32_t{});
    default:
      return value_as(int64_t{});
  }
}

// Cuts a row of tokens at separators, in whatever chunks it comes.
class Cutter {
 public:
  Cutter(const fs::path& file, int64_t vocabulary, const std::set<int32_t>& separators,
         const std::function<void(std::span<const int32_t>)>& document)
      : file_(file),
        vocabulary_(vocabulary),
        is_separator_(static_cast<size_t>(vocabulary)),
        document_(document) {
    for (const int32_t separator : separators) is_separator_.at(static_cast<size_t>(separator)) = true;
  }

  void tokens(std::span<const std::byte> data, TokenType type) {
    const auto count = static_cast<int64_t>(data.size()) / type.bytes;
    for (int64_t i = 0; i < count; ++i, ++read_) {
      const int64_t id = token_at(data.data(), i, type);
      if (id < 0 || id >= vocabulary_) {
        refuse_file(file_, fmt::format("token ids from 0 to {}, as data.tokenizer has", vocabulary_ - 1),
                    fmt::format("{} in place {}", id, read_));
      }
      if (is_separator_[static_cast<size_t>(id)]) {
        ++met_;
        end();
      } else {
        open_.push_back(static_cast<int32_t>(id));
      }
    }
  }
  void end() {
    if (!open_.empty()) document_(open_);
    open_.clear();
  }
  int64_t met() const { return met_; }  // separators

 private:
  const fs::path& file_;
  int64_t vocabulary_;
  std::vector<bool> is_separator_;  // by token
  const std::function<void(std::span<const int32_t>)>& document_;
  std::vector<int32_t> open_;
  int64_t read_ = 0, met_ = 0;
};

void read_range(const MappedFile& file, int64_t first, int64_t count, TokenType type, Cutter& cutter) {
  for (int64_t done = 0; done < count; done += kTokensAtOnce) {
    throw_if_stop_requested("reading token files");
    const int64_t part = std::min(kTokensAtOnce, count - done);
    cutter.tokens(file.range(first + done * type.bytes, part * type.bytes), type);
  }
}

struct LlmcKind {
  int32_t magic, version;
  TokenType type;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, {2, false}}, {20240801, 7, {4, false}}};

const LlmcKind* llmc_kind(int32_t magic) {
  const auto* kind = std::ranges::find(kLlmcKinds, magic, &LlmcKind::magic);
  return kind == std::end(kLlmcKinds) ? nullptr : kind;
}

// One of llm.c's files, its header checked.
class LlmcFile {
 public:
  explicit LlmcFile(const fs::path& path) : file_(MappedFile::open(path)) {
    if (file_.size() < kLlmcHeader)
      refuse_file(path, fmt::format("a header of {} bytes", kLlmcHeader),
                  fmt::format("{} bytes", file_.size()));
    const auto magic = number_at<int32_t>(file_, 0), version = number_at<int32_t>(file_, 4),
               count = number_at<int32_t>(file_, 8);
    const LlmcKind* kind = llmc_kind(magic);
    if (kind == nullptr)
      refuse_file(path, "a file of llm.c's that begins with 20240520 or 20240801, or an .idx beside it",
                  std::to_string(magic));
    if (version != kind->version)
      refuse_file(path, fmt::format("version {}", kind->version), std::to_string(version));
    const int64_t needed = kLlmcHeader + static_cast<int64_t>(count) * kind->type.bytes;
    if (count < 0 || file_.size() != needed) {
      refuse_file(path,
                  fmt::format("{} bytes: {} tokens of {} behind the header", needed, count, kind->type.bytes),
                  fmt::format("{} bytes: it is truncated or was appended to", file_.size()));
    }
    type_ = kind->type;
    tokens_ = count;
  }
  int64_t tokens() const { return tokens_; }
  int64_t first() const { return token_at(file_.range(kLlmcHeader, type_.bytes).data(), 0, type_); }
  void read(Cutter& cutter) const { read_range(file_, kLlmcHeader, tokens_, type_, cutter); }

 private:
  MappedFile file_;
  TokenType type_;
  int64_t tokens_ = 0;
};

// The contents of an .idx, checked against itself and the .bin.
class MegatronIndex {
 public:
  MegatronIndex(const fs::path& path, int64_t bin_bytes) : path_(path), file_(MappedFile::open(path)) {
    if (file_.size() < kMegatronHeader)
      refuse_file(path, fmt::format("a header of {} bytes", kMegatronHeader),
                  fmt::format("{} bytes", file_.size()));
    if (std::memcmp(file_.range(0, 9).data(), kMegatronMagic, 9) != 0)
      refuse_file(path, "a file that begins with MMIDIDX", "other bytes");
    if (const auto version = number_at<uint64_t>(file_, 9); version != 1)
      refuse_file(path, "version 1", std::to_string(version));
    type_ = megatron_type(path, number_at<uint8_t>(file_, 17));
    const auto sequences = number_at<uint64_t>(file_, 18), ends = number_at<uint64_t>(file_, 26);
    constexpr uint64_t kMost = uint64_t{1} << 40;
    if (sequences > kMost || ends > kMost || ends < 1) {
      refuse_file(path, "sensible numbers of sequences and documents",
                  fmt::format("{} and {}", sequences, ends));
    }
    sequences_ = static_cast<int64_t>(sequences);
    documents_ = static_cast<int64_t>(ends) - 1;
    const int64_t needed = kMegatronHeader + 12 * sequences_ + 8 * (documents_ + 1),
                  with_modes = needed + sequences_;
    if (file_.size() != needed && file_.size() != with_modes) {
      refuse_file(path,
                  fmt::format("{} bytes for {} sequences of {} documents", needed, sequences_, documents_),
                  fmt::format("{} bytes: it is truncated or was appended to", file_.size()));
    }
    check_sequences(bin_bytes);
    check_documents();
  }

  TokenType type() const { return type_; }
  int64_t documents() const { return documents_; }
  int64_t first_sequence(int64_t document) const {
    return number_at<int64_t>(file_, kMegatronHeader + 12 * sequences_ + 8 * document);
  }
  int64_t length(int64_t sequence) const { return number_at<int32_t>(file_, kMegatronHeader + 4 * sequence); }
  int64_t offset(int64_t sequence) const {
    return number_at<int64_t>(file_, kMegatronHeader + 4 * sequences_ + 8 * sequence);
  }

 private:
  // Contiguous, without gaps, as its writer writes them: anything else is another file's index, or damaged.
  void check_sequences(int64_t bin_bytes) const {
    int64_t expected = 0;
    for (int64_t s = 0; s < sequences_; ++s) {
      if (length(s) < 0)
        refuse_file(path_, "lengths of at least 0", fmt::format("{} for sequence {}", length(s), s));
      if (offset(s) != expected) {
        refuse_file(path_, fmt::format("sequence {} at byte {}, behind the one before it", s, expected),
                    fmt::format("at byte {}", offset(s)));
      }
      expected += length(s) * type_.bytes;
    }
    if (expected != bin_bytes) {
      refuse_file(path_, fmt::format("a .bin of {} bytes", expected),
                  fmt::format("{} bytes: one of the two files is truncated, or another's", bin_bytes));
    }
  }
  void check_documents() const {
    int64_t before = 0;
    for (int64_t d = 0; d <= documents_; ++d) {
      const int64_t first = first_sequence(d);
      if (first < before || first > sequences_ || (d == 0 && first != 0)) {
        refuse_file(path_, fmt::format("documents in order, from sequence 0 to {}", sequences_),
                    fmt::format("document {} at sequence {}", d, first));
      }
      before = first;
    }
    if (before != sequences_)
      refuse_file(path_, fmt::format("documents that end at sequence {}", sequences_),
                  fmt::format("at {}", before));
  }

  fs::path path_;
  MappedFile file_;
  TokenType type_;
  int64_t sequences_ = 0, documents_ = 0;
};

void read_megatron(const TokenFile& entry, Cutter& cutter) {
  const MappedFile bin = MappedFile::open(entry.path);
  const MegatronIndex index(entry.index, bin.size());
  for (int64_t d = 0; d < index.documents(); ++d) {
    for (int64_t s = index.first_sequence(d); s < index.first_sequence(d + 1); ++s) {
      read_range(bin, index.offset(s), index.length(s), index.type(), cutter);
    }
    cutter.end();
  }
}

fs::path with_ending(fs::path path, const char* ending) { return path.replace_extension(ending); }

bool begins_as_llmc(const fs::path& path) {
  std::error_code problem;
  if (!fs::is_regular_file(path, problem) || fs::file_size(path, problem) < 12) return false;
  int32_t magic = 0;
  File::open(path, File::Mode::kRead).read_exactly(0, std::as_writable_bytes(std::span(&magic, 1)));
  return llmc_kind(magic) != nullptr;
}

bool is_token_file(const fs::path& path) {
  if (path.extension() == ".idx") return fs::exists(with_ending(path, ".bin"));
  return path.extension() == ".bin" && (fs::exists(with_ending(path, ".idx")) || begins_as_llmc(path));
}

TokenFile token_file_at(const fs::path& named, std::string name) {
  TokenFile file{.path = with_ending(named, ".bin"), .index = {}, .name = std::move(name)};
  if (const fs::path index = with_ending(named, ".idx"); fs::exists(index)) file.index = index;
  std::vector<fs::path> parts{file.path};
  if (!file.index.empty()) parts.push_back(file.index);
  for (const fs::path& part : parts) {
    std::error_code problem;
    file.bytes += static_cast<int64_t>(fs::file_size(part, problem));
    if (problem) refuse_file(part, "a file that can be read", problem.message());
    const auto time = fs::last_write_time(part).time_since_epoch();
    file.modified_ns =
        std::max(file.modified_ns,
                 static_cast<int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()));
  }
  return file;
}

}  // namespace

bool names_token_files(const fs::path& path) {
  std::error_code problem;
  if (fs::is_regular_file(path, problem)) return path.extension() == ".idx" || path.extension() == ".bin";
  if (!fs::is_directory(path, problem)) return false;
  // For a folder of text the search ends at the first file.
  bool any = false, only = true;
  walk_corpus_folder(path, [&](const fs::path& file) {
    only = is_token_file(file);
    any = any || only;
    return only;
  });
  return any && only;
}

std::vector<TokenFile> token_files(const fs::path& path) {
  if (!fs::is_directory(path)) {
    if (path.extension() == ".idx" && !fs::exists(with_ending(path, ".bin")))
      refuse_file(path, "its .bin beside it", "no such file");
    return {token_file_at(path, with_ending(path.filename(), ".bin").generic_string())};
  }
  std::vector<TokenFile> files;
  walk_corpus_folder(path, [&](const fs::path& file) {
    if (file.extension() == ".bin")
      files.push_back(token_file_at(file, file.lexically_relative(path).generic_string()));
    return true;
  });
  std::ranges::sort(files, {}, &TokenFile::name);
  return files;
}

std::optional<int64_t> first_token(const std::vector<TokenFile>& files) {
  if (files.empty() || !files.front().index.empty()) return std::nullopt;
  const LlmcFile file(files.front().path);
  return file.tokens() > 0 ? std::optional(file.first()) : std::nullopt;
}

int64_t read_token_file(const TokenFile& file, int64_t vocabulary, const std::set<int32_t>& separators,
                        const std::function<void(std::span<const int32_t>)>& document) {
  Cutter cutter(file.path, vocabulary, separators, document);
  if (file.index.empty()) {
    LlmcFile(file.path).read(cutter);
    cutter.end();
  } else {
    read_megatron(file, cutter);
  }
  return cutter.met();
}

}  // namespace longhaul::data
