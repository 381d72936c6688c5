// every_order: runs a few processes over one disk in every order of their file operations, each operation
// atomic, each process free to stop anywhere; after each operation a check looks at the disk.
//
// A process is a function of a FileSystem, and deterministic. To take one step it is run again from its
// beginning: the answers that its earlier operations got are played back, one more is performed, and at the
// next the run is abandoned. So no threads are needed, and a state (disk, what each process has seen) that
// two orders reach is looked at once.
//
// What happens to a folder "….tmp-N" and in it is its owner's alone, and what happens inside ".deleted-…"
// nobody's any more: it is done without a break, and others are not shown unfinished folders, unless
// `open_folders` says that somebody removes them. Nor is a sync a step: nobody sees it. Power cuts are
// crash_test.cpp's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/checksum.h"
#include "storage/checkpoint_name.h"
#include "support/storage/recording_file_system.h"

namespace longhaul::storage {

struct SteppedProcess {
  std::function<std::string(FileSystem&)> body;  // what it returns is its result
  int64_t generation = 0;                        // for the check
};

struct OrderOptions {
  bool open_folders = false;
};

// Looks at a step of `who`: the disk before and after. Empty: all is well.
using StepCheck = std::function<std::string(const RecordingFileSystem& before,
                                            const RecordingFileSystem& after, const SteppedProcess& who)>;

struct Orders {
  size_t states = 0;
  // of the processes, where all ended; "error N" for an Error of exit code N
  std::set<std::vector<std::string>> results;
  std::string violation;  // the first, with the order that leads there
};

namespace stepping {

using Answer = std::variant<std::monostate, bool, double, int64_t, std::vector<FolderEntry>,
                            std::vector<std::byte>, Error>;
struct Paused {};  // not a std::exception: nobody swallows it

inline uint64_t digest_of(const Answer& answer) {
  std::string text = std::to_string(answer.index());
  if (const auto* flag = std::get_if<bool>(&answer)) text += *flag ? "yes" : "no";
  if (const auto* number = std::get_if<double>(&answer)) text += std::to_string(*number);
  if (const auto* number = std::get_if<int64_t>(&answer)) text += std::to_string(*number);
  if (const auto* error = std::get_if<Error>(&answer)) text += error->what();
  if (const auto* entries = std::get_if<std::vector<FolderEntry>>(&answer)) {
    for (const FolderEntry& entry : *entries) text += "/" + entry.name;
  }
  const auto* bytes = std::get_if<std::vector<std::byte>>(&answer);
  return xxh3(text) ^ (bytes == nullptr ? 0 : xxh3(std::span<const std::byte>(*bytes)));
}

class SteppedFileSystem final : public FileSystem {
 public:
  SteppedFileSystem(FileSystem& disk, std::vector<Answer>& answers, OrderOptions options)
      : disk_(disk), answers_(answers), options_(options) {}

  std::unique_ptr<FileWriter> create(const std::filesystem::path& path) override {
    std::unique_ptr<FileWriter> inner;
    perform<std::monostate>(is_step(path), [&] {
      inner = disk_.create(path);
      return std::monostate();
    });
    return std::make_unique<Writer>(*this, std::move(inner));
  }
  std::unique_ptr<FileReader> open(const std::filesystem::path& path, ExitCode missing,
                                   Links links) const override {
    return std::make_unique<Reader>(perform<std::vector<std::byte>>(is_step(path), [&] {
      const auto reader = disk_.open(path, missing, links);
      std::vector<std::byte> bytes(static_cast<size_t>(reader->size()));
      reader->read_exactly(0, bytes);
      return bytes;
    }));
  }
  void make_folders(const std::filesystem::path& folder) override {
    change(folder, [&] { disk_.make_folders(folder); });
  }
  bool make_new_folder(const std::filesystem::path& folder) override {
    return perform<bool>(is_step(folder), [&] { return disk_.make_new_folder(folder); });
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    perform<std::monostate>(is_step(from) || is_step(to), [&] {
      disk_.rename(from, to);
      return std::monostate();
    });
  }
  void remove(const std::filesystem::path& path) override {
    change(path, [&] { disk_.remove(path); });
  }
  void sync_folder(const std::filesystem::path&) override {}
  std::vector<FolderEntry> list(const std::filesystem::path& folder) const override {
    return perform<std::vector<FolderEntry>>(is_step(folder), [&] {
      auto entries = disk_.list(folder);
      if (!options_.open_folders)
        std::erase_if(entries, [](const FolderEntry& entry) { return is_unfinished(entry.name); });
      return entries;
    });
  }
  bool exists(const std::filesystem::path& path) const override {
    return perform<bool>(is_step(path), [&] { return disk_.exists(path); });
  }
  bool is_folder(const std::filesystem::path& path) const override {
    return perform<bool>(is_step(path), [&] { return disk_.is_folder(path); });
  }
  double modified_s(const std::filesystem::path& path) const override {
    return perform<double>(is_step(path), [&] { return disk_.modified_s(path); });
  }
  int64_t free_bytes(const std::filesystem::path& folder) const override {
    return perform<int64_t>(is_step(folder), [&] { return disk_.free_bytes(folder); });
  }

 private:
  class Writer final : public FileWriter {
   public:
    Writer(SteppedFileSystem& owner, std::unique_ptr<FileWriter> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    void write(std::span<const std::byte> data) override {
      owner_.perform<std::monostate>(false, [&] {
        inner_->write(data);  // made in this very run: between create and close there is no step
        return std::monostate();
      });
    }
    void sync() override {}
    void close() override {}

   private:
    SteppedFileSystem& owner_;
    std::unique_ptr<FileWriter> inner_;
  };
  class Reader final : public FileReader {
   public:
    explicit Reader(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
    int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
    void read_exactly(int64_t offset, std::span<std::byte> into) const override {
      std::copy_n(bytes_.begin() + offset, into.size(), into.begin());
    }

   private:
    std::vector<std::byte> bytes_;
  };

  static bool is_unfinished(const std::string& name) { return name.find(".tmp-") != std::string::npos; }
  bool is_step(const std::filesystem::path& path) const {
    const std::string name = path.filename().string(), folder = path.parent_path().filename().string();
    return options_.open_folders ||
           !(is_unfinished(name) || is_unfinished(folder) || folder.starts_with(kDeletedPrefix));
  }
  template <class Change>
  void change(const std::filesystem::path& path, Change&& make) {
    perform<std::monostate>(is_step(path), [&] {
      make();
      return std::monostate();
    });
  }

  template <class Result, class Operation>
  Result perform(bool step, Operation&& operation) const {
    if (next_ < answers_.size()) {
      const Answer& answer = answers_[next_++];
      if (const auto* error = std::get_if<Error>(&answer)) throw *error;
      return std::get<Result>(answer);
    }
    if (paused_) return Result{};  // destructors of an abandoned run
    // What a destructor does while an error passes by cannot be interrupted: it belongs to the step that
    // failed.
    if (step && std::uncaught_exceptions() == 0) {
      if (stepped_) {
        paused_ = true;
        throw Paused{};
      }
      stepped_ = true;
    }
    ++next_;
    try {
      Result result = operation();
      answers_.emplace_back(result);
      return result;
    } catch (const Error& error) {
      answers_.emplace_back(error);
      throw;
    }
  }

  FileSystem& disk_;
  std::vector<Answer>& answers_;
  OrderOptions options_;
  mutable size_t next_ = 0;
  mutable bool stepped_ = false, paused_ = false;
};

inline void add_tree(const FileSystem& disk, const std::filesystem::path& folder, std::string& text) {
  for (const FolderEntry& entry : disk.list(folder)) {
    const auto path = folder / entry.name;
    text += path.string();
    if (entry.is_folder) {
      add_tree(disk, path, text += '/');
    } else {
      text += " " + std::to_string(xxh3(read_small_file(disk, path, ExitCode::kDisk, 1 << 20))) + "\n";
    }
  }
}

inline std::string tree_of(const FileSystem& disk) {
  std::string text;
  add_tree(disk, "/", text);
  return text;
}

struct Progress {
  std::vector<Answer> answers;
  uint64_t seen = 0;  // digest of the answers
  bool ended = false;
  std::string result;
};

// One step of a process from where it stands.
inline void advance(const SteppedProcess& process, RecordingFileSystem& disk, OrderOptions options,
                    Progress& progress) {
  const size_t before = progress.answers.size();
  SteppedFileSystem files(disk, progress.answers, options);
  try {
    progress.result = process.body(files);
    progress.ended = true;
  } catch (const Paused&) {
  } catch (const Error& error) {
    progress.result = "error " + std::to_string(static_cast<int>(error.code()));
    progress.ended = true;
  }
  for (size_t i = before; i < progress.answers.size(); ++i)
    progress.seen = progress.seen * 1'000'003 + digest_of(progress.answers[i]);
}

// Where a step leads. It depends on the disk and on what its process has seen, not on what others have: of
// the orders that agree in both it is taken once.
struct Step {
  std::shared_ptr<const RecordingFileSystem> disk;
  std::string content;  // of the disk
  std::shared_ptr<const Progress> progress;
  std::string wrong;  // what the check says
};

}  // namespace stepping

inline Orders every_order(const RecordingFileSystem& disk, const std::vector<SteppedProcess>& processes,
                          const StepCheck& check, OrderOptions options = {}) {
  using stepping::Progress, stepping::Step;
  using All = std::vector<std::shared_ptr<const Progress>>;
  Orders found;
  std::set<uint64_t> seen;
  std::map<std::string, Step> steps;
  const auto step_of = [&](size_t who, const RecordingFileSystem& before, const std::string& content,
                           const Progress& progress) -> const Step& {
    const auto [place, fresh] = steps.try_emplace(fmt::format("{} {} {}", who, progress.seen, content));
    Step& step = place->second;
    if (!fresh) return step;
    std::shared_ptr<RecordingFileSystem> after = before.clone();
    const auto next = std::make_shared<Progress>(progress);
    stepping::advance(processes[who], *after, options, *next);
    step = {after, stepping::tree_of(*after), next, ""};
    // a look changes nothing
    if (step.content != content) step.wrong = check(before, *after, processes[who]);
    return step;
  };
  std::string order;  // one letter a step
  const std::function<void(const RecordingFileSystem&, const std::string&, const All&)> go =
      [&](const RecordingFileSystem& before, const std::string& content, const All& all) {
        bool ended = true;
        for (size_t who = 0; who < processes.size() && found.violation.empty(); ++who) {
          if (all[who]->ended) continue;
          ended = false;
          const Step& step = step_of(who, before, content, *all[who]);
          All next = all;
          next[who] = step.progress;
          std::string state = step.content;
          for (const auto& progress : next)
            state += fmt::format("|{} {}", progress->seen, progress->ended ? progress->result : "…");
          if (!seen.insert(xxh3(state)).second) continue;
          order += static_cast<char>('A' + who);
          ++found.states;
          if (!step.wrong.empty()) found.violation = fmt::format("{} (order {})", step.wrong, order);
          go(*step.disk, step.content, next);
          order.pop_back();
        }
        if (!ended) return;
        std::vector<std::string> results;
        for (const auto& progress : all) results.push_back(progress->result);
        found.results.insert(results);
      };
  go(disk, stepping::tree_of(disk), All(processes.size(), std::make_shared<Progress>()));
  return found;
}

}  // namespace longhaul::storage
