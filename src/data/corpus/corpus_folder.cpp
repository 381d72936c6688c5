#include "data/corpus/corpus_folder.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace longhaul::data {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse_folder(const fs::path& folder, const std::error_code& problem) {
  throw Error({.code = ExitCode::kData,
               .what = "cannot list a folder of the corpus",
               .found = problem.message(),
               .where = folder.string(),
               .hint = "permit reading it, or take it out of the source"});
}

class Walk {
 public:
  explicit Walk(const std::function<bool(const fs::path&)>& file) : file_(file) {}

  // False: no more files are wanted.
  bool folder(const fs::path& path) {
    std::error_code problem;
    const fs::path real = fs::canonical(path, problem);
    if (problem) refuse_folder(path, problem);
    if (std::ranges::find(above_, real) != above_.end()) return true;  // a circle
    above_.push_back(real);
    fs::directory_iterator entry(path, problem);
    if (problem) refuse_folder(path, problem);
    for (; entry != fs::directory_iterator(); entry.increment(problem)) {
      if (!take(*entry)) return false;
    }
    if (problem) refuse_folder(path, problem);
    above_.pop_back();
    return true;
  }
  const DeadLinks& dead() const { return dead_; }

 private:
  bool take(const fs::directory_entry& entry) {
    if (entry.path().filename().native().starts_with('.')) return true;
    std::error_code problem;
    const fs::file_status status = entry.status(problem);
    if (fs::is_directory(status)) return folder(entry.path());
    if (fs::is_regular_file(status)) return file_(entry.path());
    std::error_code vanished;
    if (!fs::exists(status) && entry.is_symlink(vanished)) {
      if (dead_.count++ == 0 || entry.path().native() < dead_.first.native()) dead_.first = entry.path();
    }
    return true;
  }

  const std::function<bool(const fs::path&)>& file_;
  std::vector<fs::path> above_;  // the folders that are being listed, without links
  DeadLinks dead_;
};

}  // namespace

DeadLinks walk_corpus_folder(const fs::path& root, const std::function<bool(const fs::path&)>& file) {
  Walk walk(file);
  walk.folder(root);
  return walk.dead();
}

}  // namespace longhaul::data
