// What a running process is doing, written on request (SIGUSR2) while it goes on: the stack of every thread and what it waits for in
// the kernel, then the process's memory, status and I/O counters (docs/sources/reliability.md §5.8, §5.11).
//
//   kill -USR2 PID           # docs/guides/troubleshooting.md#it-hangs says how to read the result
//
// Everything is done inside signal handlers without memory allocation or locks, so it works on a process that hangs, whatever it holds.
// A process that crashes (SIGSEGV and its like) leaves the stack of the thread that did in the area, before it ends as it would without: two
// crashes at the same place are told from two at different ones.
//
// A process-wide service, installed by the command line alone (install_signal_handlers, base/process/signals.h).
#pragma once

#include <filesystem>

namespace longhaul {

struct StackArea;

void install_diagnostics();
// Where later requests are appended; until then, and where that file cannot be opened, they go to standard error.
void set_diagnostics_file(const std::filesystem::path& path);
// Where later requests leave the stacks as well, for another process (base/process/stack_area.h); null: nowhere.
void set_diagnostics_area(StackArea* area);

}  // namespace longhaul
