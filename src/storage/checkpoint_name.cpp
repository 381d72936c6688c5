#include "storage/checkpoint_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/number.h"
#include "storage/commit.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step-", kGenerationInfix = ".g", kTemporaryInfix = ".tmp-",
                           kReplacedInfix = ".replaced-";
constexpr const char* kClaims = ".generations";

std::optional<int64_t> whole_number(std::string_view text) {
  const std::optional<int64_t> value = parse_number<int64_t>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

// The part after the step: the kind, and its numbers. False: there is no such ending.
bool read_ending(std::string_view ending, CheckpointName& name) {
  using Kind = CheckpointName::Kind;
  if (ending.empty()) return true;
  const auto number_after = [&](std::string_view infix) { return whole_number(ending.substr(infix.size())); };
  if (ending.starts_with(kReplacedInfix)) {
    name.kind = Kind::kReplaced;  // the number is that of the generation that displaced it
    return number_after(kReplacedInfix).has_value();
  }
  if (ending.starts_with(kTemporaryInfix)) {
    name.kind = Kind::kTemporary;
    name.generation = number_after(kTemporaryInfix);
  } else if (ending.starts_with(kGenerationInfix)) {
    const size_t dash = std::min(ending.find('-'), ending.size());
    const auto attempt =
        dash == ending.size() ? std::optional<int64_t>(1) : whole_number(ending.substr(dash + 1));
    if (!attempt || *attempt < 1) return false;
    name.attempt = *attempt;
    ending = ending.substr(0, dash);
    name.generation = number_after(kGenerationInfix);
  }
  return name.generation.has_value();
}

}  // namespace

std::string CheckpointName::text() const {
  std::string name = fmt::format("{}{:09}", kStepPrefix, step);
  if (!generation || (kind == Kind::kCommitted && generation == 1 && attempt == 1)) return name;
  if (kind == Kind::kTemporary) return fmt::format("{}{}{}", name, kTemporaryInfix, *generation);
  name += fmt::format("{}{}", kGenerationInfix, *generation);
  return attempt == 1 ? name : fmt::format("{}-{}", name, attempt);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  if (!text.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view number = text.substr(kStepPrefix.size(), text.find('.') - kStepPrefix.size());
  const auto step = whole_number(number);
  CheckpointName name;
  if (!step || !read_ending(text.substr(kStepPrefix.size() + number.size()), name)) return std::nullopt;
  name.step = *step;
  // One spelling per name: "g03" in addition to "g3" would be two folders of one checkpoint.
  const bool spelled = name.kind == CheckpointName::Kind::kReplaced ? text.starts_with(name.text() + ".")
                                                                    : text == name.text();
  return spelled ? std::optional(name) : std::nullopt;
}

int64_t newest_committed_generation(const FileSystem& files, const fs::path& checkpoints) {
  int64_t newest = 0;
  for (const FolderEntry& entry : files.list(checkpoints)) {
    const auto name = parse_checkpoint_name(entry.name);
    if (!entry.is_folder || !name || name->kind == CheckpointName::Kind::kTemporary) continue;
    if (name->generation) {
      newest = std::max(newest, *name->generation);
      continue;
    }
    try {
      newest = std::max(newest, read_manifest(files, checkpoints / entry.name).generation);
    } catch (const Error&) {
      continue;  // a broken checkpoint whose name does not say it either proves nothing
    }
  }
  return newest;
}

int64_t claim_generation(FileSystem& files, const fs::path& checkpoints, int64_t above) {
  const fs::path claims = checkpoints / kClaims;
  make_folders_durably(files, claims);
  int64_t generation = std::max(above, newest_committed_generation(files, checkpoints));
  for (const FolderEntry& entry : files.list(claims))
    generation = std::max(generation, whole_number(entry.name).value_or(0));
  do ++generation;
  while (!files.make_new_folder(claims / std::to_string(generation)));
  files.sync_folder(claims);
  return generation;
}

}  // namespace longhaul::storage
