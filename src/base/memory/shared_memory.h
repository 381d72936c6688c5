// Data that processes of one machine share in memory (/dev/shm), because each of them needs it and one of
// them can make it.
//
//   const auto folder = shared_memory_folder("run-17");          // the same name in each of them
//   MadeOnce made(folder, /*readers=*/4);
//   const std::string bytes = made.get("step-3", [] { return …; });   // made in one of the four
//
// For each key the folder holds KEY.claim (the process that created it makes the data), KEY (complete from
// the moment it appears), and KEY.read (one byte per reader; the last reader removes all three). Nothing is
// agreed on beforehand: a process that dies delays the others by at most `patience`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace longhaul {

// Removes folders of names whose processes have all ended. Empty where this machine has no /dev/shm.
std::filesystem::path shared_memory_folder(const std::string& name);

uint64_t shared_memory_id();  // equal in processes that see the same memory, and almost never elsewhere

class MadeOnce {
 public:
  MadeOnce(std::filesystem::path folder, int64_t readers, double patience_seconds = 20);
  ~MadeOnce();  // the last process that leaves a shared_memory_folder removes it
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  // Each reader calls this once for a key. If `make` throws in the process that called it, the others make
  // the data themselves. Any thread may call it.
  std::string get(const std::string& key, const std::function<std::string()>& make) const;

 private:
  bool wait_for(const std::filesystem::path& path) const;
  void count_reader(const std::filesystem::path& path) const;
  std::filesystem::path folder_;
  int64_t readers_;
  double patience_;
};

}  // namespace longhaul
