// Limits that the system sets for this process.
#pragma once

namespace longhaul {

// As many open files as this user may have. The usual limit of 1,024 is of the days of select(); a driver of hundreds of ranks and a
// loader of thousands of files need more. Processes that are started from here have it too. A system that refuses leaves it as it is.
void raise_open_file_limit();

}  // namespace longhaul
