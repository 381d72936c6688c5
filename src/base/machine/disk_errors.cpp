#include "base/machine/disk_errors.h"

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <system_error>

namespace longhaul {
namespace {

// For a failed call, base/files/file.h uses the system's text for errno.
bool says_one_of(const Error& error, std::initializer_list<int> numbers) {
  return error.code() == ExitCode::kDisk && std::ranges::any_of(numbers, [&](int number) {
           return error.fields().found == std::generic_category().message(number);
         });
}

}  // namespace

bool says_disk_is_full(const Error& error) { return says_one_of(error, {ENOSPC, EDQUOT}); }
bool says_too_many_open_files(const Error& error) { return says_one_of(error, {EMFILE, ENFILE}); }

}  // namespace longhaul
