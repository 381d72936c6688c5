// The reference for MegaScale's decoupling of sends and receives: a pipeline whose ranks start the receive
// of a pass together with the send of the previous pass, and wait for both, as Megatron-LM's
// send-and-receive calls do (MegaScale, arXiv 2402.15627 §3.2). For passes that are not joined. flaw_of()
// says whether a schedule can complete in this way.
#pragma once

#include "layout/schedule/schedule.h"

namespace longhaul::bench {

layout::Schedule with_coupled_transfers(layout::Schedule schedule);  // replaces the schedule's own transfers

}  // namespace longhaul::bench
