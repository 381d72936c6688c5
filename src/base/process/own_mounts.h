// Mounts that are this thread's own, for drills and tests: what is mounted from then on is seen by it, and by
// the processes and threads that it starts, and goes with the last of them, however that ends. Everybody else
// sees the machine as it was.
#pragma once

namespace longhaul {

// From the first call of a thread on; false: this user may not mount.
bool sees_mounts_of_its_own();

}  // namespace longhaul
