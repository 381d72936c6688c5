#include "base/process/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/process/children.h"
#include "base/process/environment.h"
#include "base/process/limited_process.h"

namespace longhaul {
namespace {

[[noreturn]] void fail(int number, const std::string& program) {
  const bool unknown = number == ENOENT || number == ENOTDIR || number == EACCES;
  throw Error({.code = unknown ? ExitCode::kUsage : ExitCode::kInternal,
               .what = "cannot start " + program,
               .found = std::generic_category().message(number),
               .hint = unknown ? "install it, or put its folder on PATH" : ""});
}

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  void reset(int value = -1) {
    if (value_ >= 0) ::close(value_);
    value_ = value;
  }

 private:
  int value_;
};

struct Pipe {
  Descriptor read, write;
  explicit Pipe(const std::string& program) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail(errno, program);
    read.reset(ends[0]);
    write.reset(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);  // our end only: the child's must wait
  }
};

// input: a descriptor that the child reads; below 0: /dev/null.
pid_t spawn(const std::vector<std::string>& argv, const std::vector<std::string>& environment, int input,
            const Pipe& output, const Pipe& errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (input >= 0)
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.write.get(), STDERR_FILENO);

  // Its own process group, so that a time-out also ends what it started; no signal is left blocked or
  // ignored.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, ignored;
  sigemptyset(&none);
  sigemptyset(&ignored);
  sigaddset(&ignored, SIGPIPE);
  sigaddset(&ignored, SIGXFSZ);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &ignored);

  std::vector<char*> arguments;
  for (const std::string& text : argv) arguments.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  const int number = posix_spawnp(&child, argv[0].c_str(), &actions, &attributes, arguments.data(),
                                  merge_environment(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (number != 0) fail(number, argv[0]);
  return child;
}

// Moves the contents of the pipe into text; false once the other end is closed. The number of reads is
// bounded, at more than a pipe can hold, so that a child that prints without end cannot prevent the check of
// its time-out.
bool drain(int descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  for (int reads = 0; reads < 32; ++reads) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count > 0)
      text.append(buffer.data(), static_cast<size_t>(count));
    else if (count == 0)
      return false;
    else if (errno != EINTR)
      return errno == EAGAIN;
  }
  return true;
}

// false: the child still runs. An end that somebody else has collected counts as no success.
bool ended(pid_t child, int& status, const std::string& program) {
  pid_t result;
  do result = ::waitpid(child, &status, WNOHANG);
  while (result < 0 && errno == EINTR);
  if (result >= 0) return result == child;
  throw Error({.code = ExitCode::kInternal,
               .what = "nobody knows how a process has ended",
               .found = std::generic_category().message(errno),
               .where = program});
}

}  // namespace

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // This is the lowest free descriptor, because those before it are open by now. Without /dev/null nothing
    // could be reported either.
    if (::open("/dev/null", O_RDWR) != stream) ::_exit(static_cast<int>(ExitCode::kDisk));
  }
}

void forbid_core_dumps() {
  const char* wanted = std::getenv("LONGHAUL_CORE_DUMPS");
  if (wanted != nullptr && std::string_view(wanted) == "1") return;
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = 0;  // the hard limit stays: a user who debugs a child may raise it again
  ::setrlimit(RLIMIT_CORE, &limit);
}

namespace {

// A file without a name that holds the text, to be read from its beginning.
int file_of_input(const std::string& text) {
  const int file = ::memfd_create("input", MFD_CLOEXEC);
  size_t written = 0;
  while (file >= 0 && written < text.size()) {
    const ssize_t count = ::write(file, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<size_t>(count);
  }
  if (file >= 0 && written == text.size() && ::lseek(file, 0, SEEK_SET) == 0) return file;
  const int number = errno;
  if (file >= 0) ::close(file);
  throw Error({.code = ExitCode::kOutOfMemory,
               .what = "there is no room for the input of a process",
               .found = std::generic_category().message(number)});
}

// Runs the child to its end or its time-out; its process group is `child` afterwards too.
ProcessResult watched_process(const std::vector<std::string>& argv,
                              const std::vector<std::string>& environment, int input, double timeout_s,
                              pid_t& child) {
  LONGHAUL_ASSERT(!argv.empty(), "no program");
  // How soon the end of a child is noticed whose pipes are still open in a grandchild.
  constexpr int kSlice_ms = 20;
  Pipe output(argv[0]), errors(argv[0]);
  const WaitedChild waited([&] { return spawn(argv, environment, input, output, errors); });
  child = waited.pid();
  output.write.reset();
  errors.write.reset();

  ProcessResult result;
  Stopwatch watch;
  int status = 0;
  std::array<pollfd, 2> pipes = {pollfd{output.read.get(), POLLIN, 0}, pollfd{errors.read.get(), POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&result.output, &result.errors};
  bool running = true;
  while (running) {
    const bool both_closed = pipes[0].fd < 0 && pipes[1].fd < 0;  // usually because it is just ending
    ::poll(pipes.data(), pipes.size(), both_closed ? 1 : kSlice_ms);
    running = !ended(child, status, argv[0]);
    for (size_t i = 0; i < pipes.size(); ++i)  // after the child's end: the rest of the pipes' contents
      if (pipes[i].fd >= 0 && !drain(pipes[i].fd, *texts[i])) pipes[i].fd = -1;
    if (running && !result.timed_out && watch.seconds() > timeout_s) {
      result.timed_out = true;
      ::kill(-child, SIGKILL);
    }
  }
  result.status = status_code(status);
  return result;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                          double timeout_s) {
  pid_t child = 0;
  return watched_process(argv, environment, /*input=*/-1, timeout_s, child);
}

LimitedResult run_limited(const LimitedRun& run) {
  const Descriptor input(file_of_input(run.input));
  pid_t child = 0;
  ProcessResult ended = watched_process(run.argv, {}, input.get(), run.timeout_s, child);
  // The group outlives its leader while any of its processes does.
  const bool left = ::kill(-child, SIGKILL) == 0;
  return {.status = ended.status,
          .output = std::move(ended.output),
          .errors = std::move(ended.errors),
          .timed_out = ended.timed_out,
          .left_behind = left && !ended.timed_out};
}

int status_code(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

int64_t process_id() { return ::getpid(); }
void end_at_once(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

void pause_briefly() { ::usleep(1000); }

}  // namespace longhaul
