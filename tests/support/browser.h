// A page in Chromium, which shows no window.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/temporary_folder.h"
#include "base/process/process.h"

namespace longhaul::testing {

class Browser {
 public:
  static constexpr const char* kMissing = "chromium is not installed (scripts/packages-test.txt)";
  static bool installed() { return std::system("command -v chromium >/dev/null") == 0; }

  // `words`: "--dump-dom", "--screenshot=FILE". The page's scripts run for so many virtual milliseconds.
  // Widths below 500 are not to be had: an iframe can be narrower.
  ProcessResult open(const std::string& address, int width, int height, int milliseconds,
                     const std::string& words) const {
    return run_process(
        {"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--hide-scrollbars", "--no-first-run", "--user-data-dir=" + (folder_ / "browser").string(),
         "--window-size=" + std::to_string(width) + "," + std::to_string(height),
         "--virtual-time-budget=" + std::to_string(milliseconds), words, address},
        {"HOME=" + folder_.path().string()}, /*timeout_s=*/100);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace longhaul::testing
