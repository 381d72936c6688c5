// Errors a user can act on. Every failure says what went wrong, what was expected, what was found, where it
// came from and what to type next; its exit code is the process's exit status (specs:
// docs/reference/exit-codes.md).
//
//   throw Error({.code = ExitCode::kData, .what = "cannot read the corpus",
//       .expected = "a folder or a .jsonl file",
//                .found = "no such file", .where = path, .hint = "set data.source to an existing folder"});
//
// Broken invariants of our own code are reported by LONGHAUL_ASSERT: exit code 70, with file and line.
// Libraries throw; only cli/ prints and exits.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>

namespace longhaul {

enum class ExitCode : int {
  kDone = 0,
  kCheckFailed = 1,  // the command worked and its check failed: test, prove, compare, bench
  kUsage = 64,       // command line or recipe
  kData = 65,        // corpus, shards, tokenizer
  kCheckpoint = 66,  // unusable checkpoint
  kNumeric = 67,     // NaN or spike: roll back
  kOutOfMemory = 68,
  kCommunication = 69,
  kInternal = 70,  // a bug of ours
  kDevice = 71,
  kHang = 72,
  kDisk = 73,  // disk full, I/O error, no permission
  kPreemptedSaved = 74,
  kPreemptedNotSaved = 75,
  kFenced = 76,
  kDoNotRestart = 93,
};

struct ErrorFields {
  ExitCode code = ExitCode::kInternal;
  std::string what;      // one line, lower case, no full stop: "cannot read the checkpoint"
  std::string expected;  // empty fields are not printed
  std::string found;
  std::string where;  // file:line, key with its origin, path
  std::string hint;   // what to type
};

class Error : public std::exception {
 public:
  explicit Error(ErrorFields fields);
  const char* what() const noexcept override { return text_.c_str(); }  // all fields, several lines
  ExitCode code() const { return fields_.code; }
  const ErrorFields& fields() const { return fields_; }

 private:
  ErrorFields fields_;
  std::string text_;
};

std::string_view name_of(ExitCode code);  // "data"

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const std::string& message);

}  // namespace longhaul

// LONGHAUL_ASSERT(begin <= end, "begin {} end {}", begin, end): for our own bugs, on in every build.
#define LONGHAUL_ASSERT(condition, ...)                                                            \
  do {                                                                                             \
    if (!(condition)) [[unlikely]]                                                                 \
      ::longhaul::assertion_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
