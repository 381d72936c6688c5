// What an error of the disk was, told by what it found: also of one that has travelled here from another rank.
#pragma once

#include "base/error.h"

namespace longhaul {

bool says_disk_is_full(const Error& error);         // or the quota is used up
bool says_too_many_open_files(const Error& error);  // of the process, or of the machine: no fault of the file

}  // namespace longhaul
