// WaitingFiles: small files whose newest text must finally be on disk. If a write fails now, it is repeated
// until it succeeds, and nobody has to wait for it. Only one thread may use the object.
//
//   files.write("blocked.json", [=] { list.write(path); });   // throws nothing
//   // repeats failed writes; call it every second or so
//   files.again();
#pragma once

#include <functional>
#include <map>
#include <string>

namespace longhaul::control {

class WaitingFiles {
 public:
  // Replaces a write that still waits under this name.
  void write(const std::string& name, std::function<void()> writes);
  void again();
  bool waits(const std::string& name) const { return waiting_.contains(name); }

 private:
  bool try_now(const std::string& name, const std::function<void()>& writes);
  std::map<std::string, std::function<void()>> waiting_;
  std::map<std::string, std::string> said_;  // by name: the error that was already logged
};

}  // namespace longhaul::control
