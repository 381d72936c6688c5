// Writes on request (SIGUSR2) what a running process does, while it goes on: the stack of every thread and
// what it waits for in the kernel, then the process's memory, status and I/O counters
// (docs/sources/reliability.md §5.8, §5.11).
//
//   kill -USR2 PID           # docs/guides/troubleshooting.md#it-hangs says how to read the result
//
// Everything happens inside signal handlers without memory allocation or locks, so it works on a process that
// hangs, whatever it holds. A process that crashes (SIGSEGV and similar signals) writes the stack of the
// crashed thread into the area before it ends as usual, so that crashes at the same place can be
// distinguished from crashes at different places.
//
// The service is process-wide and is installed by the command line only (install_signal_handlers,
// base/process/signals.h).
#pragma once

#include <filesystem>

namespace longhaul {

struct StackArea;

void install_diagnostics();
// Sets the file to which later requests are appended. Until then, and where that file cannot be opened, they
// go to standard error.
void set_diagnostics_file(const std::filesystem::path& path);
// Sets the area into which later requests also write the stacks, for another process
// (base/process/stack_area.h); null: none.
void set_diagnostics_area(StackArea* area);

}  // namespace longhaul
