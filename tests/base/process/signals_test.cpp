#include "base/process/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

#include "base/error.h"

namespace longhaul {
namespace {

// Each case in a child, so that the handlers do not outlive it. Returns its exit status, or 128 + signal.
template <class Case>
int in_child(Case run) {
  const pid_t child = fork();
  if (child == 0) {
    install_signal_handlers();
    _exit(run());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Signals, StopRequests) {
  for (const int signal : {SIGTERM, SIGINT, SIGXCPU})
    EXPECT_EQ(in_child([signal] {
                if (stop_signal() != 0) return 1;
                raise(signal);
                return stop_signal() == signal ? 42 : 2;
              }),
              42);
}

TEST(Signals, TheSecondInterruptEndsAtOnce) {
  EXPECT_EQ(in_child([] {
              raise(SIGINT);
              raise(SIGINT);
              return 42;
            }),
            130);
}

// At once, from the handler: the loop that would act on it may be in the middle of a long step. Once only,
// and on no other signal.
TEST(Signals, TheFirstInterruptSaysThatItWasHeard) {
  EXPECT_EQ(in_child([] {
              int ends[2];
              if (pipe(ends) != 0) return 1;
              dup2(ends[1], STDERR_FILENO);
              close(ends[1]);
              install_signal_handlers();
              raise(SIGTERM);
              errno = 77;
              raise(SIGINT);
              if (errno != 77) return 2;
              dup2(STDOUT_FILENO, STDERR_FILENO);  // the pipe has no writer any more: reading ends
              std::string said(1000, '\0');
              size_t length = 0;
              while (const ssize_t got = read(ends[0], said.data() + length, said.size() - length))
                length += static_cast<size_t>(got);
              said.resize(length);
              return said == "stopping as soon as what was done is saved; Ctrl-C again aborts at once\n" ? 42
                                                                                                         : 3;
            }),
            42);
}

TEST(Signals, WorkThatSavesNothingStopsWithAnErrorOfItsOwn) {
  EXPECT_NO_THROW(throw_if_stop_requested("testing"));
  request_stop(SIGTERM);
  try {
    throw_if_stop_requested("testing");
    ADD_FAILURE() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kPreemptedNotSaved);
    EXPECT_EQ(error.fields().what, "stopped while testing");
  }
  clear_signal_requests();
}

TEST(Signals, APauseEndsByItselfOrByTheNextRequest) {
  request_stop(SIGTERM);  // an earlier one does not count
  EXPECT_TRUE(pause_unless_stopped(0.001));
  std::atomic<bool> ended = false;
  std::thread person([&] {
    while (!ended) request_stop(SIGTERM);
  });
  EXPECT_FALSE(pause_unless_stopped(1e6));
  ended = true;
  person.join();
  clear_signal_requests();
}

TEST(Signals, AnInterruptAfterATerminationStillSavesOnce) {
  EXPECT_EQ(in_child([] {
              raise(SIGTERM);
              raise(SIGTERM);
              raise(SIGINT);
              return stop_signal() == SIGINT ? 42 : 1;
            }),
            42);
}

TEST(Signals, SaveRequestsAreTakenOnce) {
  EXPECT_EQ(in_child([] {
              if (take_save_request()) return 1;
              raise(SIGUSR1);
              if (!take_save_request()) return 2;
              if (take_save_request()) return 3;
              return stop_signal() == 0 ? 42 : 4;
            }),
            42);
}

TEST(Signals, AClosedTerminalStopsUnlessThatIsIgnored) {
  signal(SIGHUP, SIG_DFL);  // whoever started the tests may have ignored it
  EXPECT_EQ(in_child([] {
              raise(SIGHUP);
              return stop_signal() == SIGHUP ? 42 : 1;
            }),
            42);
  signal(SIGHUP, SIG_IGN);  // as nohup does
  EXPECT_EQ(in_child([] {
              raise(SIGHUP);
              return stop_signal() == 0 ? 42 : 1;
            }),
            42);
  signal(SIGHUP, SIG_DFL);
}

TEST(Signals, ContinuingIsToldOnce) {
  EXPECT_EQ(in_child([] {
              if (take_continued()) return 1;
              raise(SIGCONT);
              if (!take_continued()) return 2;
              return take_continued() ? 3 : 42;
            }),
            42);
}

TEST(Signals, BrokenPipesAreIgnored) {
  EXPECT_EQ(in_child([] {
              int ends[2];
              if (pipe(ends) != 0) return 1;
              close(ends[0]);
              return write(ends[1], "x", 1) == -1 ? 42 : 2;
            }),
            42);
}

TEST(Signals, RequestAndClear) {
  request_stop(SIGTERM);
  EXPECT_EQ(stop_signal(), SIGTERM);
  clear_signal_requests();
  EXPECT_EQ(stop_signal(), 0);
}

TEST(Signals, ClearAllowsAnotherFirstInterrupt) {
  EXPECT_EQ(in_child([] {
              raise(SIGINT);
              clear_signal_requests();
              raise(SIGINT);
              return stop_signal() == SIGINT ? 42 : 1;
            }),
            42);
}

}  // namespace
}  // namespace longhaul
