#include "base/process/diagnostics.h"

#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "base/log_form.h"
#include "base/process/stack_area.h"

namespace longhaul {
namespace {

constexpr int kFrames = 128;
// For a thread to run its handler; a thread that is stopped or blocks signals never does.
constexpr int kAnswer_ms = 500;

char g_file[PATH_MAX];  // empty: standard error
std::atomic<bool> g_busy = false;
std::atomic<StackArea*> g_area = nullptr;

// One stack at a time: the writing thread names a target and sends it the signal; the target stores its
// frames here.
struct Stack {
  std::atomic<pid_t> target = 0;
  std::atomic<int> count = -1;
  void* frames[kFrames];
  void* interrupted = nullptr;  // where the thread was when the signal came: the frames above are handlers
} g_stack;
void* g_interrupted_writer = nullptr;  // of the thread that writes

pid_t thread_id() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// A writer that neither allocates nor locks.
class Output {
 public:
  explicit Output(int descriptor) : descriptor_(descriptor) {}
  ~Output() { flush(); }
  int descriptor() const { return descriptor_; }

  Output& operator<<(std::string_view text) {
    for (const char c : text) {
      if (used_ == sizeof buffer_) flush();
      buffer_[used_++] = c;
    }
    return *this;
  }
  Output& operator<<(int64_t number) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    do digits[--at] = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0) digits[--at] = '-';
    return *this << std::string_view(digits + at, sizeof digits - at);
  }
  void flush() {
    for (size_t done = 0; done < used_;) {
      const ssize_t count = ::write(descriptor_, buffer_ + done, used_ - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;  // nobody can be told
      done += static_cast<size_t>(count);
    }
    used_ = 0;
  }

 private:
  int descriptor_;
  size_t used_ = 0;
  char buffer_[4096];
};

size_t read_small(const char* path, char* buffer, size_t size) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t count = ::read(file, buffer, size);
  ::close(file);
  return count < 0 ? 0 : static_cast<size_t>(count);
}

// A file of /proc about one thread, without its last newline. `path` and `buffer` are the caller's.
std::string_view thread_file(pid_t thread, const char* name, char* buffer, size_t size) {
  char path[96];
  size_t at = 0;
  const auto put = [&](std::string_view text) {
    std::memcpy(path + at, text.data(), text.size());
    at += text.size();
  };
  put("/proc/self/task/");
  char digits[16];
  size_t first = sizeof digits;
  for (pid_t rest = thread; rest > 0; rest /= 10) digits[--first] = static_cast<char>('0' + rest % 10);
  put({digits + first, sizeof digits - first});
  put("/");
  put(name);
  path[at] = '\0';
  std::string_view text(buffer, read_small(path, buffer, size));
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  return text;
}

void write_stack(Output& out, pid_t thread) {
  if (thread == thread_id()) {
    g_stack.interrupted = g_interrupted_writer;
    g_stack.count = ::backtrace(g_stack.frames, kFrames);
  } else {
    g_stack.count = -1;
    g_stack.target = thread;
    ::syscall(SYS_tgkill, ::getpid(), thread, SIGUSR2);
    for (int waited = 0; waited < kAnswer_ms && g_stack.count < 0; ++waited) ::poll(nullptr, 0, 1);
    pid_t expected = thread;
    // The request is not cancelled: the thread has begun to answer, and a handler that has begun ends.
    if (!g_stack.target.compare_exchange_strong(expected, 0)) {
      while (g_stack.count < 0) ::poll(nullptr, 0, 1);
    }
  }
  out.flush();
  if (g_stack.count < 0) {
    out << "  no answer: it is stopped, ends just now or blocks signals\n";
  } else {
    ::backtrace_symbols_fd(g_stack.frames, g_stack.count, out.descriptor());
  }
}

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  const size_t size = text.size() < N ? text.size() : N - 1;
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

// Without the frames of handlers, which are above the point of interruption. count: -1: the thread did not
// answer.
void note_frames(StackArea::Thread& thread, void* const* frames, int count, const void* interrupted) {
  thread.count = count < 0 ? -1 : 0;
  int first = 0;
  while (first < count && frames[first] != interrupted) ++first;
  if (first == count) first = 0;  // the unwinder works differently here: keep all frames
  for (int i = first; i < count && thread.count < StackArea::kFrames; ++i)
    thread.frames[thread.count++] = reinterpret_cast<uint64_t>(frames[i]);
}

void write_thread(Output& out, pid_t thread) {
  StackArea::Thread noted{.thread = thread};
  char buffer[512];
  put(noted.name, thread_file(thread, "comm", buffer, sizeof buffer));
  const std::string_view status = thread_file(thread, "stat", buffer, sizeof buffer);
  const size_t after_name = status.rfind(") ");
  if (after_name != std::string_view::npos) put(noted.state, status.substr(after_name + 2, 1));
  const std::string_view waits = thread_file(thread, "wchan", buffer, sizeof buffer);
  if (waits != "0") put(noted.waits, waits);
  out << "\nthread " << thread << " \"" << noted.name << "\"";
  if (noted.state[0] != '\0') out << ", state " << noted.state;
  if (noted.waits[0] != '\0') out << ", waits in " << noted.waits;
  out << "\n";
  write_stack(out, thread);
  StackArea* const area = g_area;
  if (area == nullptr || area->count == StackArea::kThreads) return;
  note_frames(noted, g_stack.frames, g_stack.count, g_stack.interrupted);
  area->threads[area->count++] = noted;
}

// Every entry of /proc/self/task. opendir would allocate, so the system call itself.
void write_threads(Output& out) {
  struct Entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
  };
  const int folder = ::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  alignas(Entry) char buffer[4096];
  for (;;) {
    const long bytes = ::syscall(SYS_getdents64, folder, buffer, sizeof buffer);
    if (bytes <= 0) break;
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const Entry*>(buffer + at);
      pid_t thread = 0;
      for (const char* c = entry->name; *c >= '0' && *c <= '9'; ++c) thread = thread * 10 + (*c - '0');
      if (thread > 0) write_thread(out, thread);
      at += entry->length;
    }
  }
  ::close(folder);
}

void write_file(Output& out, const char* path) {
  char buffer[4096];
  out << "\n" << path << "\n" << std::string_view(buffer, read_small(path, buffer, sizeof buffer));
}

void write_all() {
  StackArea* const area = g_area;
  if (area != nullptr) ++area->begun, area->count = 0;
  const int file = g_file[0] == '\0' ? -1 : ::open(g_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  {
    Output out(file < 0 ? STDERR_FILENO : file);
    out << "diagnostics of process " << ::getpid() << " at Unix time "
        << static_cast<int64_t>(::time(nullptr)) << "\n";
    write_threads(out);
    if (area != nullptr) area->answers = area->begun.load();
    write_file(out, "/proc/self/status");
    write_file(out, "/proc/self/io");
    out << "end of diagnostics\n\n";
  }
  if (file < 0) return;
  ::close(file);
  write_message_in_signal("longhaul: diagnostics are in ", g_file);
}

void* interrupted_place(void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<void*>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(machine.pc);
#endif
}

void on_request(int, siginfo_t*, void* context) {
  const int before = errno;
  pid_t self = thread_id();
  if (g_stack.target.compare_exchange_strong(self, 0)) {
    g_stack.interrupted = interrupted_place(context);
    g_stack.count = ::backtrace(g_stack.frames, kFrames);
  } else if (!g_busy.exchange(true)) {
    g_interrupted_writer = interrupted_place(context);
    write_all();
    g_busy = false;
  }
  errno = before;
}

// Only the first thread that crashes is reported.
void on_crash(int signal, siginfo_t*, void* context) {
  static void* frames[kFrames];
  StackArea* const area = g_area;
  int64_t none = 0;
  if (area != nullptr && area->crashed.compare_exchange_strong(none, signal)) {
    ++area->begun, area->count = 0;
    StackArea::Thread& noted = area->threads[0];
    char buffer[64];
    noted = {.thread = thread_id(), .name = {}, .state = "R", .waits = {}, .count = 0, .frames = {}};
    put(noted.name, thread_file(thread_id(), "comm", buffer, sizeof buffer));
    note_frames(noted, frames, ::backtrace(frames, kFrames), interrupted_place(context));
    area->count = 1;
    area->answers = area->begun.load();
  }
  ::raise(signal);  // as it would have ended without this handler, which is gone (SA_RESETHAND)
}

// Installs the report of a crash, unless the signal has a handler already: a sanitizer brings its own.
void tell_of(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action = {};
  action.sa_sigaction = on_crash;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_NODEFER | SA_ONSTACK;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void install_diagnostics() {
  void* first[1];
  ::backtrace(first, 1);  // the first call loads libgcc, which allocates: not in a handler
  struct sigaction action {};
  action.sa_sigaction = on_request;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaction(SIGUSR2, &action, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) tell_of(signal);
}

void set_diagnostics_file(const std::filesystem::path& path) {
  const std::string text = std::filesystem::absolute(path).string();
  g_file[0] = '\0';
  if (text.size() < sizeof g_file) std::memcpy(g_file, text.c_str(), text.size() + 1);
}

void set_diagnostics_area(StackArea* area) { g_area = area; }

}  // namespace longhaul
