// Requests that arrive as signals (specs: reliability.md §5.11): SIGTERM, SIGXCPU and the first SIGINT ask for save-and-stop, a
// second SIGINT ends at once; SIGUSR1 asks for a save. SIGPIPE is ignored. A process-wide service: installed once by the
// command line, read by whoever runs a loop; a library user who never installs it is never affected.
#pragma once

namespace longhaul {

void install_signal_handlers();
int stop_signal();           // 0, or the signal that asked to stop
bool take_save_request();    // true once per SIGUSR1
void request_stop(int signal);  // as if the signal had come (tests, embedding)
void clear_signal_requests();

}  // namespace longhaul
