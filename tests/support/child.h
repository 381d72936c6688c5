// A child program of a test: it can be started, watched, sent signals and waited for. Its output goes to a
// file; whatever the test does, the program does not outlive this object.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files/file.h"

namespace longhaul {

class Child {
 public:
  Child(std::vector<std::string> words, const std::vector<std::string>& environment,
        std::filesystem::path output)
      : output_(std::move(output)) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const std::string& entry : environment) ::putenv(const_cast<char*>(entry.c_str()));
    const int file = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~Child() {
    if (status_ >= 0) return;
    send(SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  std::string output() const { return std::filesystem::exists(output_) ? read_text(output_) : ""; }

  // Waits until `condition` holds; false after timeout_s, or when the program ended before it held.
  template <class Condition>
  bool wait_for(const Condition& condition, double timeout_s = 90) {
    for (const Stopwatch watch; watch.seconds() < timeout_s;) {
      const bool ended = has_ended();
      if (condition()) return true;
      if (ended) return false;
      ::usleep(20'000);
    }
    return false;
  }

  int wait(double timeout_s = 90) {  // returns the exit code, or 128 + signal; -1: it is still running
    wait_for([] { return false; }, timeout_s);
    return status_;
  }

 private:
  bool has_ended() {
    int status = 0;
    if (status_ < 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return status_ >= 0;
  }

  std::filesystem::path output_;
  pid_t pid_ = -1;
  int status_ = -1;
};

}  // namespace longhaul
