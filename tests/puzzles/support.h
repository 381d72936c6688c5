// What the tests of files and sets of puzzles share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/files/file.h"

namespace longhaul::puzzles {

// The error that `body` throws; a test without one fails.
template <class Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error({.what = "none"});
}

inline std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& path : list_files(folder)) names.push_back(path.filename().string());
  return names;
}

}  // namespace longhaul::puzzles
