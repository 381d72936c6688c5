#include "cli/secret_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"

namespace longhaul::cli {

void refuse_secret(const std::string& what, std::string expected, std::string found, const std::string& path,
                   std::string hint) {
  throw Error({.code = ExitCode::kUsage,
               .what = what + " is not used",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = path,
               .hint = std::move(hint)});
}

std::string secret_in(const std::string& path, const std::string& what, const std::string& hint) {
  const auto mode = std::filesystem::status(path).permissions();
  using std::filesystem::perms;
  std::string text = read_text(path, ExitCode::kUsage, 4096);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if ((mode & (perms::group_all | perms::others_all)) != perms::none)
    refuse_secret(what, "a file that its owner alone may read", "one that others may read", path, hint);
  return text;
}

std::string token_in(const std::string& path) {
  if (path.empty()) return "";
  const std::string hint =
      fmt::format("chmod 600 {0}; head -c 24 /dev/urandom | base64 > {0}", shell_quoted(path));
  std::string token = secret_in(path, "this token", hint);
  if (token.size() >= 16) return token;
  refuse_secret("this token", "at least 16 characters", fmt::format("{} characters", token.size()), path,
                hint);
}

}  // namespace longhaul::cli
