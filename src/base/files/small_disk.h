// SmallDisk: a folder on a file system of its own with room for a given number of bytes, kept in memory, for
// drills and tests of full disks. The file system and its contents are removed with the object. It needs the
// right to mount.
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
