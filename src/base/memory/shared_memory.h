// What processes of one machine hand each other in memory (/dev/shm): things that each of them needs and one of them can make.
//
//   const auto folder = shared_memory_folder("run-17");          // the same name in each of them
//   MadeOnce made(folder, /*readers=*/4);
//   const std::string bytes = made.get("step-3", [] { return …; });   // made in one of the four
//
// Of a thing there are, in the folder, KEY.claim (whoever created it makes the thing), KEY (whole from the moment it is there), KEY.read (a byte a
// reader; the last one removes all). Nothing is agreed on beforehand: a process that dies keeps nobody waiting for longer than `patience`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace longhaul {

// Removes folders of names whose processes have all gone. Empty where this machine has no such place.
std::filesystem::path shared_memory_folder(const std::string& name);

uint64_t shared_memory_id();  // the same in processes that see the same memory, and hardly ever elsewhere

class MadeOnce {
 public:
  MadeOnce(std::filesystem::path folder, int64_t readers, double patience_seconds = 20);
  ~MadeOnce();  // the last process that leaves a shared_memory_folder removes it
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  // Each of the readers asks once for a key. What `make` throws where it was called, the others make themselves. Any thread.
  std::string get(const std::string& key, const std::function<std::string()>& make) const;

 private:
  bool wait_for(const std::filesystem::path& path) const;
  void count_reader(const std::filesystem::path& path) const;
  std::filesystem::path folder_;
  int64_t readers_;
  double patience_;
};

}  // namespace longhaul
