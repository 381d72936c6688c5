#include "base/machine/disk_errors.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <system_error>

namespace longhaul {
namespace {

Error with(int number, ExitCode code = ExitCode::kDisk) {
  return Error({.code = code, .what = "cannot write", .found = std::generic_category().message(number)});
}

TEST(DiskErrors, AreToldApartByWhatTheyFound) {
  EXPECT_TRUE(says_disk_is_full(with(ENOSPC)));
  EXPECT_TRUE(says_disk_is_full(with(EDQUOT)));
  EXPECT_TRUE(says_too_many_open_files(with(EMFILE)));
  EXPECT_TRUE(says_too_many_open_files(with(ENFILE)));
  for (const int other : {EIO, EACCES, EROFS}) {
    EXPECT_FALSE(says_disk_is_full(with(other)));
    EXPECT_FALSE(says_too_many_open_files(with(other)));
  }
  EXPECT_FALSE(says_disk_is_full(with(EMFILE)));
  EXPECT_FALSE(says_disk_is_full(with(ENOSPC, ExitCode::kData)));
}

}  // namespace
}  // namespace longhaul
