// What MegaScale's decoupling of sends and receives is measured against: a pipeline whose ranks start the receive of a pass together with the send
// of the pass before it, and wait for both, as Megatron-LM's send-and-receive calls do (MegaScale, arXiv 2402.15627 §3.2). For passes that are not
// joined. flaw_of() says whether a schedule goes through so.
#pragma once

#include "layout/schedule/schedule.h"

namespace longhaul::bench {

layout::Schedule with_coupled_transfers(layout::Schedule schedule);  // in the place of its own

}  // namespace longhaul::bench
