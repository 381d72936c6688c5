// SmallDisk: a folder on a file system of its own that has room for so many bytes and keeps them in memory,
// for drills and tests of disks that fill. It goes with the object, and with it what was in it. Only who may
// mount has some.
//
// The thread that makes the first one sees mounts of its own from then on, as do the processes and threads
// that it starts: others see an empty folder, and the file system goes with the last of them, however that
// ends.
#pragma once

#include <cstdint>
#include <filesystem>

namespace longhaul {

class SmallDisk {
 public:
  SmallDisk(std::filesystem::path folder, int64_t bytes);  // creates the folder if necessary
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool usable() const { return usable_; }  // false: this user may not mount; the folder is an ordinary one

  void fill() const;   // until nothing more can be written
  void empty() const;  // removes what fill() wrote

 private:
  std::filesystem::path folder_;
  bool usable_ = false;
};

}  // namespace longhaul
