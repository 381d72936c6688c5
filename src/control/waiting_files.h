// WaitingFiles: small files whose newest text must come to be on disk. What the disk does not take now is written as soon as it does: nobody has to
// stop for it. Plain object of the thread that calls it.
//
//   files.write("blocked.json", [=] { list.write(path); });   // throws nothing
//   files.again();                                            // those that failed, each second or so
#pragma once

#include <functional>
#include <map>
#include <string>

namespace longhaul::control {

class WaitingFiles {
 public:
  void write(const std::string& name, std::function<void()> writes);  // in the place of what still waits under this name
  void again();
  bool waits(const std::string& name) const { return waiting_.contains(name); }

 private:
  bool try_now(const std::string& name, const std::function<void()>& writes);
  std::map<std::string, std::function<void()>> waiting_;
  std::map<std::string, std::string> said_;  // by name: the problem that was told of
};

}  // namespace longhaul::control
